"""The laws of anyone's table: what ``batchscout fit FILE.csv --json`` prints."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from batchscout.errors import LawError
from batchscout.laws.points import PointRow, laws_of_points

REQUIRED = ("batch_size", "samples_to_target")
NUMBERS = ("lr", "lower", "upper", "update_seconds", "sampling_seconds", "learning_seconds", "tokens")
OPTIONAL = ("lr", "seed", "lower", "upper", "censored", *NUMBERS[3:])
_EXACT = ("", "no", "none", "exact", "false", "0")
SMALLEST, LARGEST = 1e-15, 1e18
"""No samples, seconds or batch size lie outside; the squares and ratios of a fit would leave the range of a float."""
_BOUNDS = ("lower", "upper", "sampling_seconds", "learning_seconds")
_RECOMMENDATION = (
    "batch_size", "lr", "time_to_target", "interval", "samples_to_target", "throughput", "near_ties",
    "probability_best",
)  # fmt: skip


def fit_table(
    path_or_text: str | Path,
    *,
    gamma: float | Literal["free"] = 1.0,
    target: float | None = None,
    round_updates: bool = False,
) -> dict[str, Any]:
    """Fit the laws to a CSV table.

    path_or_text   a file, or the table itself (text with a line break); lines that start with # are comments
    columns        batch_size, samples_to_target; optional lr, seed, lower, upper, censored (left, right,
                   interval), update_seconds, sampling_seconds, learning_seconds, tokens; others are named in
                   a warning
    round_updates  count whole updates in the recommendation's times
    Returns  result.json's `laws` (samples, update_seconds, learning_rate, warnings) and, with seconds given,
             its `recommendation`; strict JSON.
    Raises   LawError, one line, for a table that cannot be read or fitted.
    """
    rows, unknown = read_table(path_or_text)
    if len({r.batch_size for r in rows}) < 2:
        raise LawError(f"batch_size={rows[0].batch_size} in every row; a law needs at least two batch sizes")
    if all(r.is_miss for r in rows):
        raise LawError("every row is right-censored: no batch size reached the target; nothing can be fitted")
    found = laws_of_points(rows, target=target, gamma=gamma, round_updates=round_updates)
    out: dict[str, Any] = dict(found["laws"])
    if unknown:
        out["warnings"] = [*out["warnings"], f"columns ignored: {', '.join(unknown)}"]
    if any(r.update_seconds is not None for r in rows):
        best = found["best"]
        out["recommendation"] = None if best is None else {key: best[key] for key in _RECOMMENDATION}
    return out


def read_table(path_or_text: str | Path) -> tuple[list[PointRow], list[str]]:
    """Rows of a CSV table, and the columns that are not known. Raises LawError naming row and column."""
    lines = [
        line
        for line in _text(path_or_text).splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not lines:
        raise LawError(f"the table is empty; its first line must name the columns {', '.join(REQUIRED)}")
    reader = csv.DictReader(lines, skipinitialspace=True, strict=True)
    try:
        cells = list(reader)
    except csv.Error as error:
        raise LawError(f"the table is not CSV (line {reader.line_num}: {error})") from error
    names = [(name or "").strip() for name in reader.fieldnames or ()]
    for name in REQUIRED:
        if name not in names:
            raise LawError(f"column {name} is missing; the table has {_listed(names)}")
    repeated = sorted({n for n in names if names.count(n) > 1})
    if repeated:
        raise LawError(
            f"column {repeated[0]} appears {names.count(repeated[0])} times; name each column once"
        )
    if not cells:
        raise LawError("the table has column names but no rows; add at least two batch sizes")
    rows = []
    for i, cell in enumerate(cells, start=1):
        if None in cell:
            raise LawError(f"row {i} has more cells than there are columns ({len(names)})")
        rows.append(_row(i, {(k or "").strip(): (v or "").strip() for k, v in cell.items()}))
    return rows, [n for n in names if n and n not in REQUIRED and n not in OPTIONAL]


def _text(source: str | Path) -> str:
    if not str(source).strip() or str(source) == ".":
        raise LawError("the table is empty; its first line must name the columns " + ", ".join(REQUIRED))
    if isinstance(source, str) and "\n" in source:
        return source
    try:
        return Path(source).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise LawError(f"{source} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise LawError(f"{source} is not UTF-8 text; save it as a CSV table in UTF-8") from error


def _listed(names: Sequence[str]) -> str:
    """What a header holds, cut short; a single name with another separator in it says so."""
    text = ", ".join(names)
    listed = text if len(text) <= 200 else f"{text[:200]}…"
    other = next(
        (n for mark, n in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")) if mark in names[0]), None
    )
    return (
        f"one column, {listed!r}: separate cells by commas, not {other}"
        if other and len(names) == 1
        else listed
    )


def _row(i: int, cell: dict[str, str]) -> PointRow:
    size = _number(i, "batch_size", cell["batch_size"])
    if size is None or size != int(size):
        raise LawError(
            f"batch_size={cell['batch_size'] or 'empty'} in row {i}; it must be a positive whole number"
        )
    samples = _number(i, "samples_to_target", cell["samples_to_target"])
    values = {name: _number(i, name, cell.get(name, ""), zero=name in _BOUNDS) for name in NUMBERS}
    kind = cell.get("censored", "").lower()
    censored = None if kind in _EXACT else kind
    if censored not in (None, "left", "right", "interval"):
        raise LawError(f"censored={kind} in row {i}; use left, right, interval, or leave it empty")
    if samples is None and censored is None:
        raise LawError(f"samples_to_target is empty in row {i}; give it, or say in censored what is known")
    lower, upper = values.pop("lower"), values.pop("upper")
    if lower is not None and upper is not None and lower > upper:
        raise LawError(f"lower={lower:g} is above upper={upper:g} in row {i}; swap them")
    if censored == "right":
        samples, lower = None, lower or samples
    elif censored == "left":
        samples, upper = None, upper or samples
    if (censored == "right" and not lower) or (censored in ("left", "interval") and not upper):
        side = "lower" if censored == "right" else "upper"
        raise LawError(f"row {i} is censored={censored} without {side} or samples_to_target; give it")
    if values["update_seconds"] is None and values["sampling_seconds"] and values["learning_seconds"]:
        values["update_seconds"] = values["sampling_seconds"] + values["learning_seconds"]
    seed = _number(i, "seed", cell.get("seed", ""), zero=True)
    return PointRow(
        batch_size=int(size), seed=None if seed is None else int(seed), samples=samples, lower=lower,
        upper=upper, censored=censored, **values,
    )  # fmt: skip


def _number(i: int, name: str, text: str, *, zero: bool = False) -> float | None:
    """A positive number that something measured can have (or zero where allowed), None for an empty cell."""
    if not text:
        return None
    try:
        value = float(text)
    except ValueError as error:
        raise LawError(f"{name}={text} in row {i} is not a number") from error
    if not math.isfinite(value):
        hint = (
            "; a run that missed the target is censored=right with lower=its samples"
            if name in REQUIRED
            else ""
        )
        raise LawError(f"{name}={text} in row {i}; it must be finite{hint}")
    if value < 0 or (value == 0 and not zero):
        raise LawError(f"{name}={value:g} in row {i}; it must be {'zero or more' if zero else 'positive'}")
    if value and not SMALLEST <= value <= LARGEST:
        raise LawError(f"{name}={value:g} in row {i}; it must lie between {SMALLEST:g} and {LARGEST:g}")
    return value


def column_names() -> Sequence[str]:
    """Every column that is read, for help texts."""
    return (*REQUIRED, *dict.fromkeys(OPTIONAL))
