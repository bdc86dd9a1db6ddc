"""What was measured of one positive quantity, some of it only bounded: the rows that every law is fitted
to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from batchscout.errors import LawError

Array = NDArray[np.float64]
Interval = tuple[float | None, float | None]
"""Lower and upper end; an end that the data leave open is None."""

CENSORINGS = (None, "left", "right", "interval")


@dataclass(frozen=True, slots=True)
class Observations:
    """Natural logs of n positive values; exact where lower == upper, open ends are infinite.

    lower, upper  (n,) log of the bounds
    middle        (n,) log of the value as given, of the finite bound where there is none (for residuals and
                  starts)
    weight        (n,) relative precision: the noise variance of a row is noise²/weight
    """

    lower: Array
    upper: Array
    middle: Array
    weight: Array

    @property
    def is_exact(self) -> NDArray[np.bool_]:
        return np.equal(self.lower, self.upper)

    @property
    def all_exact(self) -> bool:
        return bool(np.all(self.is_exact))

    def __len__(self) -> int:
        return len(self.middle)


def positive(name: str, values: ArrayLike) -> Array:
    """(n,) finite positive floats, or LawError naming the first that is not."""
    array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if array.ndim != 1:
        raise LawError(f"{name} has {array.ndim} dimensions; one value per row is needed")
    wrong = np.flatnonzero(~np.isfinite(array) | (array <= 0))
    if len(wrong):
        raise LawError(
            f"{name}={array[wrong[0]]:g} in row {wrong[0] + 1}; it must be a positive finite number"
        )
    return array


def observations(
    name: str,
    values: Sequence[float | None] | ArrayLike,
    *,
    lower: Sequence[float | None] | None = None,
    upper: Sequence[float | None] | None = None,
    censored: Sequence[str | None] | None = None,
    weights: ArrayLike | None = None,
) -> Observations:
    """Rows for a fit.

    values    (n,) value, or the known bound of a censored row; None where only lower/upper say something
    lower     (n,) known lower bound, None where open; used by rows censored "right" or "interval"
    upper     (n,) known upper bound, None where open; used by rows censored "left" or "interval"
    censored  (n,) None exact (bounds are ignored), "right" at least, "left" at most, "interval" between lower
              and upper
    weights   (n,) relative precision, 1 by default (a mean over m seeds has weight m)
    Raises    LawError naming the row that is wrong.
    """
    given = _optional(name, values)
    n = len(given)
    low, high = _column("lower", lower, n), _column("upper", upper, n)
    kinds = list(censored) if censored is not None else [None] * n
    if len(kinds) != n:
        raise LawError(f"censored has {len(kinds)} rows, {name} has {n}; they must be of one length")
    weight = np.ones(n) if weights is None else positive("weights", weights)
    if len(weight) != n:
        raise LawError(f"weights has {len(weight)} rows, {name} has {n}; they must be of one length")
    ends = [_bounds(name, i, given[i], low[i], high[i], kinds[i]) for i in range(n)]
    bottom = np.array([a for a, _ in ends])
    top = np.array([b for _, b in ends])
    middle = np.where(np.isfinite(bottom), np.where(np.isfinite(top), (bottom + top) / 2, bottom), top)
    known = np.array([np.log(v) if v is not None else np.nan for v in given])
    inside = ~np.isnan(known) & (known >= bottom) & (known <= top)
    return Observations(bottom, top, np.where(inside, known, middle), weight)


def _optional(name: str, values: Sequence[float | None] | ArrayLike) -> list[float | None]:
    """Positive floats with None kept; NaN counts as None only in bounds, never in values."""
    array = np.atleast_1d(np.asarray(values, dtype=object))
    out: list[float | None] = []
    for i, value in enumerate(array):
        if value is None:
            out.append(None)
        elif not np.isfinite(float(value)) or float(value) <= 0:
            raise LawError(f"{name}={float(value):g} in row {i + 1}; it must be a positive finite number")
        else:
            out.append(float(value))
    return out


def _column(name: str, values: Sequence[float | None] | None, n: int) -> list[float | None]:
    if values is None:
        return [None] * n
    if len(values) != n:
        raise LawError(f"{name} has {len(values)} rows; {n} are needed")
    out: list[float | None] = []
    for i, value in enumerate(values):
        if value is not None and (np.isnan(value) or value < 0):
            raise LawError(f"{name}={value:g} in row {i + 1}; it must be zero or more, empty where open")
        out.append(None if value is None or value == 0 or np.isinf(value) else float(value))
    return out


def _bounds(
    name: str, row: int, value: float | None, low: float | None, high: float | None, kind: str | None
) -> tuple[float, float]:
    """Log bounds of one row."""
    if kind not in CENSORINGS:
        raise LawError(f"censored={kind} in row {row + 1}; use left, right, interval or nothing")
    if kind is None:
        if value is None:
            raise LawError(f"{name} is missing in row {row + 1}; give it, or say how the row is censored")
        return float(np.log(value)), float(np.log(value))
    if kind == "right":
        return _log_of(name, row, low if low is not None else value, kind), np.inf
    if kind == "left":
        return -np.inf, _log_of(name, row, high if high is not None else value, kind)
    if high is None:
        raise LawError(
            f"upper is missing in row {row + 1} (censored=interval); give it, or use censored=right"
        )
    bottom = -np.inf if low is None else float(np.log(low))
    if bottom > np.log(high):
        raise LawError(f"lower={low:g} is above upper={high:g} in row {row + 1}; swap them")
    return bottom, float(np.log(high))


def _log_of(name: str, row: int, bound: float | None, kind: str) -> float:
    if bound is None:
        raise LawError(f"{name} is missing in row {row + 1} (censored={kind}); give the bound")
    return float(np.log(bound))
