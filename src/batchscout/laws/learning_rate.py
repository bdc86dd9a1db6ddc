"""Learning-rate law: the best lr at each batch size, and how it grows with the batch size.

    log S = q_B + κ (log lr − log lr_opt(B))²,    lr_opt(B) = lr_reference · (B/B_reference)^α

One curvature κ for all batch sizes, a level q_B for each. A parabola in log lr holds near the best lr only,
so rows whose S exceeds WINDOW times the least of their batch size are left out (too small an lr costs S ∝
1/lr, too large a one a cliff). Given κ > 0 the model is linear in its coefficients, and rows may be censored
(``regression``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats

from batchscout.errors import LawError
from batchscout.laws.lr_rules import FORMS, NEEDS_NOISE_SCALE
from batchscout.laws.observations import Array, Interval, Observations, observations, positive
from batchscout.laws.regression import Regression, regress

WINDOW = 3.0
FAR = 1000.0
"""A parabola's lowest point further than this factor beyond the lrs tried is no optimum but a slope."""


@dataclass(frozen=True, slots=True)
class BatchLearningRate:
    """The best lr of one batch size. lr is the parabola's, None where it has none; best_tried has the least
    S.

    is_at_edge  best_tried is the smallest or largest lr tried there
    """

    batch_size: int
    lr: float | None
    interval: Interval
    best_tried: float
    tried: int
    is_at_edge: bool


@dataclass(frozen=True, slots=True)
class RuleComparison:
    """How well one rule explains the rows: AICc above the best rule's; b_noise where the rule has one."""

    rule: str
    akaike: float
    b_noise: float | None


@dataclass(frozen=True, slots=True)
class LearningRateFit:
    """lr_opt(B) = lr_reference (B/reference_batch_size)^exponent.

    exponent_interval  by profile likelihood, an open end is None; (None, None) for a single batch size
    curvature          κ: an lr wrong by a factor f costs exp(κ ln² f) times the samples
    rules              fixed, sqrt, linear, mccandlish, surge, the best first
    """

    reference_batch_size: float
    lr_reference: float
    exponent: float | None
    exponent_interval: Interval
    curvature: float
    by_batch: tuple[BatchLearningRate, ...]
    rules: tuple[RuleComparison, ...]
    noise: float
    residuals: tuple[float, ...]
    level: float
    warnings: tuple[str, ...]

    def lr(self, batch_size: ArrayLike) -> Array:
        """(n,) best lr at (n,) batch sizes."""
        b = positive("batch_size", batch_size)
        return np.asarray(self.lr_reference * (b / self.reference_batch_size) ** (self.exponent or 0.0))

    def price_of_wrong_lr(self, factor: float) -> float:
        """Samples at `factor` times the best lr, over samples at it."""
        return float(np.exp(self.curvature * np.log(factor) ** 2))


def fit_learning_rate(
    batch_size: ArrayLike,
    lr: ArrayLike,
    samples: Sequence[float | None] | ArrayLike,
    *,
    lower: Sequence[float | None] | None = None,
    upper: Sequence[float | None] | None = None,
    censored: Sequence[str | None] | None = None,
    window: float = WINDOW,
    level: float = 0.9,
) -> LearningRateFit:
    """Fit lr_opt(B) from the samples that each (batch size, lr) needed.

    batch_size, lr, samples  (n,) one row a job; bounds and censoring as in ``observations``
    window                   rows above this many times the least S of their batch size are left out
    Raises  LawError where no batch size has two lrs near its best, or S has no minimum over lr.
    """
    b, rate = positive("batch_size", batch_size), positive("lr", lr)
    rows = observations("samples_to_target", samples, lower=lower, upper=upper, censored=censored)
    if not len(b) == len(rate) == len(rows):
        raise LawError(f"batch_size, lr and samples_to_target have {len(b)}, {len(rate)} and "
                       f"{len(rows)} rows; they must be of one length")  # fmt: skip
    kept = _kept(b, rate, rows, float(np.log(window)))
    if not kept.any():
        raise LawError(
            "no batch size has two learning rates near its best; try at least three per batch size"
        )
    terms = _Terms(b[kept], np.log(rate[kept]), _subset(rows, kept))
    main = terms.fit(*terms.power_law())
    first = len(terms.sizes)
    curvature = float(main.coefficients[first])
    centre = -float(main.coefficients[first + 1]) / (2 * curvature) if curvature > 0 else np.inf
    if not terms.is_near(centre):
        raise LawError("S has no minimum over lr near its best; try smaller and larger learning rates")
    exponent = -float(main.coefficients[first + 2]) / (2 * curvature) if len(terms.sizes) > 1 else None
    by_batch = _by_batch(terms, level, b, rate, rows)
    residual = terms.rows.middle - terms.design(*terms.power_law()) @ main.coefficients
    return LearningRateFit(
        reference_batch_size=terms.reference,
        lr_reference=float(np.exp(centre + terms.middle)),
        exponent=exponent,
        exponent_interval=(None, None)
        if exponent is None
        else _exponent_interval(terms, main, exponent, level),
        curvature=curvature,
        by_batch=by_batch,
        rules=_rules(terms),
        noise=main.noise,
        residuals=tuple(float(x) for x in residual),
        level=level,
        warnings=_warnings(by_batch, terms),
    )


def fit_lr_exponent(batch_size: ArrayLike, lr: ArrayLike, *, level: float = 0.9) -> tuple[float, Interval]:
    """Exponent of best lr against batch size, and its interval, by least squares on logs.

    For tables that name only the best lr of each batch size. Raises LawError for fewer than three rows.
    """
    b, rate = np.log(positive("batch_size", batch_size)), np.log(positive("lr", lr))
    if len(b) < 3 or len(b) != len(rate):
        raise LawError(f"{len(b)} batch sizes and {len(rate)} lrs; give three or more of each")
    found = stats.linregress(b, rate)
    half = float(stats.t.ppf(0.5 + level / 2, len(b) - 2) * found.stderr)
    return float(found.slope), (float(found.slope) - half, float(found.slope) + half)


class _Terms:
    """Columns of the linear model: a level per batch size, then those of the parabola.

    x is the centred log lr, t the log batch size about the reference; both (n,).
    """

    def __init__(self, b: Array, log_lr: Array, rows: Observations) -> None:
        self.b, self.rows = b, rows
        self.sizes = np.unique(b)
        self.reference = float(np.exp(np.log(self.sizes).mean()))
        self.middle = float(log_lr.mean())
        self.x, self.t = log_lr - self.middle, np.log(b / self.reference)
        self.levels = (b[:, None] == self.sizes).astype(np.float64)

    def is_near(self, x: float) -> bool:
        """Whether a centred log lr lies within a factor of FAR of those tried."""
        return bool(self.x.min() - np.log(FAR) <= x <= self.x.max() + np.log(FAR))

    def design(self, *columns: Array) -> Array:
        return np.column_stack([self.levels, *columns])

    def fit(self, *columns: Array) -> Regression:
        return regress(self.rows, self.design(*columns))

    def power_law(self) -> tuple[Array, ...]:
        """κ, −2κ·log lr_reference and, for several batch sizes, −2κα."""
        columns = (self.x**2, self.x)
        return (*columns, self.x * self.t) if len(self.sizes) > 1 else columns

    def along(self, log_lr: Array) -> tuple[Array, Array]:
        """κ and −2κ·constant for a given shape of log lr_opt over the rows."""
        return self.x**2 - 2 * self.x * log_lr, self.x

    def each(self) -> tuple[Array, ...]:
        """κ, and −2κ·log lr_opt for every batch size apart."""
        return (self.x**2, *(self.x[:, None] * self.levels).T)


def _subset(rows: Observations, kept: NDArray[np.bool_]) -> Observations:
    return Observations(rows.lower[kept], rows.upper[kept], rows.middle[kept], rows.weight[kept])


def _kept(b: Array, rate: Array, rows: Observations, window: float) -> NDArray[np.bool_]:
    """Rows near the best of their batch size, where two lrs are and the target was reached."""
    kept = np.zeros(len(b), dtype=bool)
    hit = np.isfinite(rows.upper)
    for size in np.unique(b):
        here = b == size
        if not (here & hit).any():
            continue
        best = rows.middle[here & hit].min()
        near = here & (rows.middle <= best + window)
        if len(np.unique(rate[near])) > 1:
            kept |= near
    return kept


def _exponent_interval(terms: _Terms, main: Regression, exponent: float, level: float) -> Interval:
    n, freedom = max(main.effective_rows, main.degrees_of_freedom), main.degrees_of_freedom
    drop = 0.5 * n * float(np.log1p(stats.t.ppf(0.5 + level / 2, freedom) ** 2 / freedom))

    def fall(alpha: float) -> float:
        return main.log_likelihood - terms.fit(*terms.along(alpha * terms.t)).log_likelihood - drop

    ends: list[float | None] = []
    for sign in (-1.0, 1.0):
        reach = next((r for r in (0.02, 0.1, 0.5, 2.0, 8.0) if fall(exponent + sign * r) > 0), None)
        ends.append(
            None
            if reach is None
            else float(optimize.brentq(fall, exponent, exponent + sign * reach, xtol=1e-5))
        )
    return ends[0], ends[1]


def _by_batch(
    terms: _Terms, level: float, b: Array, rate: Array, rows: Observations
) -> tuple[BatchLearningRate, ...]:
    """Best lr of every batch size by itself (the curvature shared), and of the lrs tried."""
    apart: Regression | None
    try:
        apart = terms.fit(*terms.each())
    except LawError:
        apart = None
    first = len(terms.sizes)
    out = []
    for size in np.unique(b):
        here = b == size
        tried = np.unique(rate[here])
        medians = [_median(rows, here & (rate == r)) for r in tried]
        i = int(np.argmin(medians))
        lr: float | None = None
        interval: Interval = (None, None)
        k = np.flatnonzero(terms.sizes == size)
        if apart is not None and apart.coefficients[first] > 0 and len(k):
            lr, interval = _vertex(terms, apart, first, first + 1 + int(k[0]), level)
        out.append(
            BatchLearningRate(int(size), lr, interval, float(tried[i]), len(tried), i in (0, len(tried) - 1))
        )
    return tuple(out)


def _median(rows: Observations, here: NDArray[np.bool_]) -> float:
    return float(np.median(np.where(np.isfinite(rows.upper[here]), rows.middle[here], np.inf)))


def _vertex(terms: _Terms, fit: Regression, k: int, c: int, level: float) -> tuple[float | None, Interval]:
    """exp(−c/2κ) and its interval by propagation of errors; None for what lies far beyond the lrs tried."""
    kappa, slope = fit.coefficients[k], fit.coefficients[c]
    gradient = np.array([slope / (2 * kappa**2), -1 / (2 * kappa)])
    error = float(np.sqrt(gradient @ fit.covariance[np.ix_([k, c], [k, c])] @ gradient))
    half = float(stats.t.ppf(0.5 + level / 2, fit.degrees_of_freedom)) * error
    centre = float(-slope / (2 * kappa))
    lr, low, high = (
        float(np.exp(x + terms.middle)) if terms.is_near(x) else None
        for x in (centre, centre - half, centre + half)
    )
    return lr, (low, high)


def _rules(terms: _Terms) -> tuple[RuleComparison, ...]:
    """Every rule fitted with its own constants; noise scales on a grid over and beyond the batch sizes."""
    if len(terms.sizes) < 2:
        return ()
    found = []
    for rule in FORMS:
        has_noise = rule in NEEDS_NOISE_SCALE
        value, scale = _best_scale(terms, rule) if has_noise else (_rule_likelihood(terms, rule, 1.0), None)
        k, n = len(terms.sizes) + 3 + has_noise, len(terms.rows)
        found.append((-2 * value + 2 * k * n / max(n - k - 1, 1), rule, scale))
    least = min(a for a, _, _ in found)
    return tuple(RuleComparison(rule, a - least, noise) for a, rule, noise in sorted(found))


def _rule_likelihood(terms: _Terms, rule: str, noise: float) -> float:
    return terms.fit(*terms.along(_log_form(rule, terms.b, noise))).log_likelihood


def _best_scale(terms: _Terms, rule: str) -> tuple[float, float]:
    """Log-likelihood and noise scale: a coarse grid over and beyond the batch sizes, then a fine one."""
    grid = np.geomspace(terms.sizes[0] / 32, terms.sizes[-1] * 32, 11)
    coarse = [_rule_likelihood(terms, rule, float(s)) for s in grid]
    i = int(np.argmax(coarse))
    fine = np.geomspace(grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)], 9)[1:-1]
    values = [_rule_likelihood(terms, rule, float(s)) for s in fine]
    return max(zip([*coarse, *values], [*map(float, grid), *map(float, fine)], strict=True))


def _log_form(rule: str, b: Array, noise: float) -> Array:
    return np.log([FORMS[rule](float(size), float(noise)) for size in b])


def _warnings(by_batch: Sequence[BatchLearningRate], terms: _Terms) -> tuple[str, ...]:
    out = []
    edge = [x.batch_size for x in by_batch if x.is_at_edge and x.tried > 1]
    if edge:
        out.append(edge_warning(edge))
    if len(terms.sizes) < 2:
        out.append(
            "learning rates near the best at one batch size only: how the lr grows with the batch size is "
            "unknown"
        )
    return tuple(out)


def edge_warning(batch_sizes: Sequence[int]) -> str:
    """That the best of several lrs was the least or the greatest tried."""
    sizes = ", ".join(map(str, batch_sizes))
    return (
        f"best lr at the edge of its grid at batch size {sizes}; S there may be too large, "
        "add learning rates beyond"
    )


def learning_rate_to_json(fit: LearningRateFit) -> dict[str, Any]:
    """Plain values for result.json; an open interval's end is None."""
    return {
        "reference_batch_size": fit.reference_batch_size,
        "lr_reference": fit.lr_reference,
        "exponent": fit.exponent,
        "exponent_interval": list(fit.exponent_interval),
        "curvature": fit.curvature,
        "level": fit.level,
        "by_batch": [
            {
                "batch_size": x.batch_size,
                "lr": x.lr,
                "interval": list(x.interval),
                "best_tried": x.best_tried,
                "tried": x.tried,
                "is_at_edge": x.is_at_edge,
            }
            for x in fit.by_batch
        ],
        "rules": [{"rule": r.rule, "aicc_above_best": r.akaike, "b_noise": r.b_noise} for r in fit.rules],
    }
