"""Seconds of an update on n GPUs, t(B, n): fitted from a few n, carried to many.

    learning   a + b·B/n + c·k(n)      each rank learns B/n rollouts; k is what the all-reduce costs more with
               n:
                                       (n−1)/n (a ring), log2 n (a tree), n−1 (a congested link), or nothing
    sampling   a + b·B/n + d·ln B      a floor (latency of a token), concurrency B/n, the longest of B
               responses

and, for either, max(a, b·B/n) in place of a + b·B/n where the hardware has a knee. Nobody knows which form
holds
beyond the measured n, so none is chosen: every form is fitted (least squares of relative errors, no negative
coefficient), weighted by its corrected Akaike criterion, and all of them together make estimate and interval.
Each
doubling beyond the measured n, and beyond the measured rollouts per GPU, widens the interval further.

t is the time of a synchronous update whose phases follow each other; rollouts come in groups, so at most
B/group_size
ranks have work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize

from batchscout.errors import LawError
from batchscout.laws.observations import Array, Interval, positive

Part = Literal["update_seconds", "sampling_seconds", "learning_seconds"]
COMMUNICATION = ("none", "ring", "tree", "linear")
PRIOR = {"none": 1.0, "ring": 1.0, "tree": 1.0, "linear": 0.35}
"""Weight of a form of the communication before any row is seen: links that congest are the exception."""
LEAST_SPREAD = 0.01
ASSUMED_SPREAD = 0.05
"""Relative spread of a row where the rows are as few as the parameters."""
PER_DOUBLING_GPUS, PER_DOUBLING_ROLLOUTS = 0.03, 0.03
"""Relative standard deviation added for each doubling beyond the measured n and rollouts per GPU."""
DRAWS = 400


@dataclass(frozen=True, slots=True)
class ScaleOutForm:
    """One form of one part. knee: max(a, b·B/n); tail: the longest of B responses counts."""

    communication: str = "none"
    tail: bool = False
    knee: bool = False

    @property
    def parameters(self) -> int:
        return 2 + (self.communication != "none") + self.tail

    def columns(self, batch_size: Array, gpus: Array) -> Array:
        """(m, parameters) of the linear part: 1, B/n, k(n), ln B."""
        out = [np.ones_like(batch_size), batch_size / gpus]
        if self.communication != "none":
            out.append(communication(self.communication, gpus))
        if self.tail:
            out.append(np.log(batch_size))
        return np.stack(out, axis=1)

    def seconds(self, batch_size: Array, gpus: Array, coefficients: Array) -> Array:
        """(m,) seconds for (parameters,) coefficients."""
        columns = self.columns(batch_size, gpus)
        if not self.knee:
            return np.asarray(columns @ coefficients)
        base = np.maximum(coefficients[0], columns[:, 1] * coefficients[1])
        return np.asarray(base + columns[:, 2:] @ coefficients[2:])


def communication(name: str, gpus: Array) -> Array:
    """k(n), 0 at one GPU."""
    if name == "ring":
        return np.asarray((gpus - 1) / gpus)
    return np.asarray(np.log2(gpus) if name == "tree" else gpus - 1)


@dataclass(frozen=True, slots=True)
class ScaleOutPart:
    """One part of an update, as draws from all its forms; forms[i] has weights[i], draws name a form and its
    coefficients.

    best     the form with the largest weight and its coefficients
    spread   relative standard deviation of the rows about it
    """

    forms: tuple[ScaleOutForm, ...]
    weights: tuple[float, ...]
    best: ScaleOutForm
    coefficients: Array
    spread: float
    draws: tuple[tuple[ScaleOutForm, Array], ...] = field(repr=False, compare=False)

    def seconds(self, batch_size: Array, gpus: Array) -> Array:
        """(draws, m)."""
        return np.stack([form.seconds(batch_size, gpus, c) for form, c in self.draws])


@dataclass(frozen=True, slots=True)
class ScaleOutFit:
    """t(B, n). parts: sampling and the rest where sampling was given, else the whole update.

    measured_gpus       the n of the rows, sorted
    measured_rollouts   least and most rollouts per GPU among the rows
    """

    parts: tuple[ScaleOutPart, ...]
    measured_gpus: tuple[int, ...]
    measured_rollouts: tuple[float, float]
    group_size: int
    level: float
    warnings: tuple[str, ...]
    noise: Array = field(repr=False, compare=False)

    def working(self, batch_size: ArrayLike, gpus: ArrayLike) -> Array:
        """(m,) ranks that have rollouts, at most one per group."""
        b, n = np.broadcast_arrays(np.asarray(batch_size, float), np.asarray(gpus, float))
        return np.asarray(np.clip(np.floor(b / self.group_size), 1.0, n))

    def draw(self, batch_size: ArrayLike, gpus: ArrayLike) -> Array:
        """(DRAWS, m) joint draws of t at m pairs."""
        b, n = np.broadcast_arrays(
            np.atleast_1d(positive("batch_size", batch_size)), np.atleast_1d(positive("gpus", gpus))
        )
        ranks = self.working(b, n)
        total = np.sum([part.seconds(b, ranks) for part in self.parts], axis=0)
        each = b / ranks
        low, high = self.measured_rollouts
        beyond = PER_DOUBLING_GPUS * np.log2(np.maximum(ranks / max(self.measured_gpus), 1.0))
        outside = PER_DOUBLING_ROLLOUTS * np.log2(np.maximum(np.maximum(each / high, low / each), 1.0))
        return np.asarray(
            np.maximum(total, 1e-12) * np.exp(self.noise[:, :1] * beyond + self.noise[:, 1:] * outside)
        )

    def seconds(self, batch_size: ArrayLike, gpus: ArrayLike) -> Array:
        """(m,) median of the draws."""
        return np.asarray(np.median(self.draw(batch_size, gpus), axis=0))

    def interval(self, batch_size: float, gpus: int, *, level: float | None = None) -> Interval:
        """Of t at one pair."""
        tail = (1 - (level or self.level)) / 2
        low, high = np.quantile(self.draw([batch_size], [gpus])[:, 0], [tail, 1 - tail])
        return float(low), float(high)


def fit_scale_out(
    batch_size: ArrayLike,
    gpus: ArrayLike,
    seconds: ArrayLike,
    *,
    sampling: ArrayLike | None = None,
    group_size: int = 1,
    level: float = 0.9,
    seed: int = 0,
) -> ScaleOutFit:
    """Fit t(B, n) to rows of (batch size, GPUs, mean seconds of one update).

    sampling    (m,) the part of it spent sampling, fitted apart where given; the rest is learning
    group_size  rollouts that stay on one rank
    Returns  ScaleOutFit; rows of one n only, or of few batch sizes, give warnings and wide intervals.
    Raises   LawError for values that are not positive, lengths that differ, or fewer than two rows.
    """
    b, n, t = positive("batch_size", batch_size), positive("gpus", gpus), positive("update_seconds", seconds)
    if not len(b) == len(n) == len(t):
        raise LawError(
            f"batch_size, gpus and seconds have {len(b)}, {len(n)} and {len(t)} rows; give one of each a row"
        )
    if len(b) < 2:
        raise LawError("one row cannot tell what more GPUs shorten; measure at least two batch sizes")
    ranks = np.clip(np.floor(b / group_size), 1.0, n)
    rng = np.random.default_rng(seed)
    measured = tuple(sorted({int(x) for x in n}))
    if sampling is None:
        columns = [(t, True, True)]
    else:
        part = np.atleast_1d(np.asarray(sampling, float))
        if len(part) != len(b) or not np.all((part >= 0) & (part < t)):
            raise LawError("sampling_seconds must lie between 0 and update_seconds, one a row")
        columns = [(t - part, True, False)] + ([(part, False, True)] if np.all(part > 0) else [])
    parts = tuple(
        _fit_part(b, ranks, y, has_communication=talks and len(measured) > 1, has_tail=tails, rng=rng)
        for y, talks, tails in columns
    )
    return ScaleOutFit(
        parts, measured, (float((b / ranks).min()), float((b / ranks).max())), group_size, level,
        _warnings(b, n), rng.standard_normal((DRAWS, 2)),
    )  # fmt: skip


def exact_scale_out(
    a: float, b: float, *, communication_seconds: float = 0.0, form: str = "none", group_size: int = 1
) -> ScaleOutFit:
    """t(B, n) = a + b·B/n + communication_seconds·k(n) as known, without uncertainty."""
    shape = ScaleOutForm(form)
    coefficients = np.array([a, b, communication_seconds][: shape.parameters])
    part = ScaleOutPart((shape,), (1.0,), shape, coefficients, 0.0, ((shape, coefficients),))
    return ScaleOutFit((part,), (1,), (1e-9, 1e18), group_size, 0.9, (), np.zeros((1, 2)))


def _fit_part(
    b: Array, n: Array, seconds: Array, *, has_communication: bool, has_tail: bool, rng: np.random.Generator
) -> ScaleOutPart:
    forms = [
        ScaleOutForm(c, tail, knee)
        for c, tail, knee in product(
            COMMUNICATION if has_communication else ("none",),
            (False, True) if has_tail and len(np.unique(b)) > 2 else (False,),
            (False, True) if len(np.unique(b / n)) > 3 else (False,),
        )
    ]
    fitted = [(form, _solve(form, b, n, seconds)) for form in forms]
    scores = np.array([_akaike(form, b, n, seconds, c) for form, c in fitted])
    weight = np.exp(-0.5 * (scores - scores.min())) * [PRIOR[form.communication] for form in forms]
    weight /= weight.sum()
    best, coefficients = fitted[int(np.argmax(weight))]
    picks = rng.choice(len(forms), DRAWS, p=weight)
    draws = tuple(_draw(fitted[i], b, n, seconds, rng) for i in picks)
    return ScaleOutPart(
        tuple(forms), tuple(float(w) for w in weight), best, coefficients,
        _spread(best, b, n, seconds, coefficients)[0], draws,
    )  # fmt: skip


def _draw(
    fitted: tuple[ScaleOutForm, Array], b: Array, n: Array, seconds: Array, rng: np.random.Generator
) -> tuple[ScaleOutForm, Array]:
    """Refitted to rows made anew from the fit (parametric bootstrap): keeps coefficients at their bound
    one-sided."""
    form, coefficients = fitted
    spread, freedom = _spread(form, b, n, seconds, coefficients)
    spread *= np.sqrt(freedom / rng.chisquare(freedom)) if freedom else 1.0
    made = form.seconds(b, n, coefficients) * np.exp(min(spread, 1.0) * rng.standard_normal(len(b)))
    return form, _solve(form, b, n, made)


def _solve(form: ScaleOutForm, b: Array, n: Array, seconds: Array) -> Array:
    """Coefficients ≥ 0 with the least squares of relative errors."""
    columns = form.columns(b, n) / seconds[:, None]
    if not form.knee:
        return _nonnegative(columns)
    each = b / n
    best: tuple[float, Array] | None = None
    for split in np.unique(each)[:-1]:
        flat = each <= split
        sides = np.concatenate(
            [columns[:, :1] * flat[:, None], columns[:, 1:2] * ~flat[:, None], columns[:, 2:]], 1
        )
        found = _nonnegative(sides)
        loss = float(((form.seconds(b, n, found) / seconds - 1) ** 2).sum())
        if best is None or loss < best[0]:
            best = (loss, found)
    assert best is not None
    return best[1]


def _nonnegative(columns: Array) -> Array:
    scale = np.maximum(np.sqrt((columns**2).sum(0)), 1e-300)
    solved, _ = optimize.nnls(columns / scale, np.ones(len(columns)))
    return np.asarray(solved / scale)


def _spread(form: ScaleOutForm, b: Array, n: Array, seconds: Array, coefficients: Array) -> tuple[float, int]:
    """Relative spread of the rows about a fit, and its degrees of freedom (0: assumed)."""
    freedom = len(b) - form.parameters
    if freedom <= 0:
        return ASSUMED_SPREAD, 0
    off = form.seconds(b, n, coefficients) / seconds - 1
    return max(float(np.sqrt((off @ off) / freedom)), LEAST_SPREAD), freedom


def _akaike(form: ScaleOutForm, b: Array, n: Array, seconds: Array, coefficients: Array) -> float:
    off = form.seconds(b, n, coefficients) / seconds - 1
    rows, k = len(b), form.parameters + 1
    # rows are never better than their own noise: differences far below it say nothing about the form
    square = float(off @ off) / rows + (0.5 * LEAST_SPREAD) ** 2
    return rows * float(np.log(square)) + 2 * k * rows / max(rows - k - 1, 0.5)


def _warnings(b: Array, n: Array) -> tuple[str, ...]:
    out: list[str] = []
    numbers = sorted({int(x) for x in n})
    if len(numbers) == 1:
        out.append(
            f"measured on {numbers[0]} GPU{'s' if numbers[0] > 1 else ''} only: communication is unknown and "
            "left out, so times on more GPUs are lower bounds; measure a few n (sweep=scale_out)"
        )
    elif len(numbers) == 2:
        out.append(
            f"measured on n={numbers[0]} and {numbers[1]} only: how communication grows beyond is a guess"
        )
    if len(np.unique(b)) < 3:
        out.append(
            "fewer than three batch sizes: fixed cost, cost per rollout and long tail cannot be told apart"
        )
    return tuple(out)


def gpu_numbers(text: Sequence[int]) -> tuple[int, ...]:
    """Sorted, positive and whole. Raises LawError."""
    for n in text:
        if n != int(n) or n < 1:
            raise LawError(f"gpus={n}; it must be a positive whole number")
    if not text:
        raise LawError("gpus is empty; list numbers, as in 8,64,512")
    return tuple(sorted({int(n) for n in text}))
