"""Statistics of times and samples to target: censored log-normal fits, comparisons, and the rules of
benchmarks.

Times are compared on the log scale, where the noise of a run is multiplicative. Nothing here drops a run that
missed the target: it is censored, or infinite in a median.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from batchscout.errors import LawError
from batchscout.laws.observations import Array, Interval, observations, positive
from batchscout.laws.profile import exponential, profile

SEED_NOISE = 0.1
"""Log-scale noise of one run assumed where a batch size has a single one (measured between seeds: 4–11%)."""


@dataclass(frozen=True, slots=True)
class LogNormalFit:
    """median and sigma (standard deviation of logs, maximum likelihood), the median's profile interval."""

    median: float
    median_interval: Interval
    sigma: float
    level: float
    log_likelihood: float


def fit_log_normal(
    values: Sequence[float | None] | ArrayLike,
    *,
    lower: Sequence[float | None] | None = None,
    upper: Sequence[float | None] | None = None,
    censored: Sequence[str | None] | None = None,
    level: float = 0.9,
) -> LogNormalFit:
    """Median of positive values, some of them censored (Tobit on logs; see ``observations`` for the columns).

    Raises LawError where all rows are censored on one side: the likelihood then has no maximum.
    """
    rows = observations("values", values, lower=lower, upper=upper, censored=censored)
    found = profile(rows, lambda shapes: np.zeros((len(shapes), len(rows))), (), level=level)
    return LogNormalFit(
        float(np.exp(found.best.location[0])),
        exponential(found.of(lambda shapes: np.zeros(len(shapes)), level)),
        float(found.best.noise[0]),
        level,
        float(found.best.log_likelihood[0]),
    )


def median_with_misses(values: Sequence[float | None]) -> float | None:
    """Median over runs, those that missed the target counting as infinite; None where the median misses.

    Of an even number with one middle run missing, the median misses too.
    Raises LawError for no runs.
    """
    if not values:
        raise LawError("no runs to take a median of; give at least one")
    middle = float(np.median([math.inf if v is None else v for v in values]))
    return middle if math.isfinite(middle) else None


def welch_log(first: ArrayLike, second: ArrayLike) -> float:
    """Two-sided p-value of Welch's t-test on logs. Raises LawError for fewer than two runs on a side."""
    a, b = np.log(positive("first", first)), np.log(positive("second", second))
    if min(len(a), len(b)) < 2:
        raise LawError(f"Welch's test needs two runs on each side, not {len(a)} and {len(b)}; add seeds")
    if np.ptp(a) == 0 and np.ptp(b) == 0:
        return 1.0 if a[0] == b[0] else 0.0
    return float(stats.ttest_ind(a, b, equal_var=False).pvalue)


def probability_of_least(
    groups: Mapping[int, ArrayLike], *, resamples: int = 20000, seed: int = 0
) -> dict[int, float]:
    """Bootstrap probability that each group has the least mean (runs resampled within their group).

    With few runs this understates the uncertainty: six runs resampled vary less than their mean does.
    """
    rng = np.random.default_rng(seed)
    keys = list(groups)
    means = np.empty((len(keys), resamples))
    for i, key in enumerate(keys):
        values = positive(str(key), groups[key])
        means[i] = values[rng.integers(0, len(values), (resamples, len(values)))].mean(axis=1)
    counts = np.bincount(np.argmin(means, axis=0), minlength=len(keys))
    return {key: float(c / resamples) for key, c in zip(keys, counts, strict=True)}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Measured times per batch size, compared without a law.

    batch_size    least geometric mean time
    near_ties     those that cannot be told from it (one-sided p at least 1 − level), it among them
    p_values      Welch's two-sided p-value against the best, per batch size
    probability   of having the least mean, per batch size
    errors        standard error and degrees of freedom of each log mean
    """

    batch_size: int
    near_ties: tuple[int, ...]
    means: dict[int, float]
    p_values: dict[int, float]
    probability: dict[int, float]
    errors: dict[int, tuple[float, float]]
    level: float

    def interval(self, batch_size: int, level: float = 0.9) -> Interval:
        """Student's interval of the geometric mean time."""
        error, freedom = self.errors[batch_size]
        half = float(stats.t.ppf(0.5 + level / 2, freedom)) * error
        mean = self.means[batch_size]
        return mean * math.exp(-half), mean * math.exp(half)


def compare_batches(
    groups: Mapping[int, ArrayLike], *, level: float = 0.99, draws: int = 20000, seed: int = 0
) -> Comparison:
    """Which batch size is fastest by its measured times alone.

    groups  batch size → (seeds,) times to target; a group of one run gets the noise of the others, or 10%
    level   a batch size is told from the best where the one-sided test reaches this level
    Probabilities: draws of each group's log mean from its Student's distribution.
    """
    logs = {key: np.log(positive(f"batch size {key}", values)) for key, values in groups.items()}
    if not logs:
        raise LawError("no batch size has a time; nothing to compare")
    many = [x - x.mean() for x in logs.values() if len(x) > 1]
    freedom = sum(len(x) - 1 for x in many)
    pooled = math.sqrt(sum(float(x @ x) for x in many) / freedom) if freedom else SEED_NOISE
    error = {k: (float(x.std(ddof=1)) if len(x) > 1 else pooled) / math.sqrt(len(x)) for k, x in logs.items()}
    degrees = {k: float(len(x) - 1 if len(x) > 1 else freedom or 1000) for k, x in logs.items()}
    best = min(logs, key=lambda k: float(logs[k].mean()))
    p_values = {k: _p(logs, error, degrees, k, best) for k in logs}
    rng = np.random.default_rng(seed)
    drawn = np.stack([logs[k].mean() + error[k] * rng.standard_t(degrees[k], draws) for k in logs], axis=1)
    counts = np.bincount(np.argmin(drawn, axis=1), minlength=len(logs)) / draws
    ties = tuple(sorted(k for k in logs if k == best or p_values[k] / 2 >= 1 - level))
    means = {k: float(np.exp(x.mean())) for k, x in logs.items()}
    chances = {k: float(c) for k, c in zip(logs, counts, strict=True)}
    errors = {k: (error[k], degrees[k]) for k in logs}
    return Comparison(best, ties, means, p_values, chances, errors, level)


def _p(
    logs: Mapping[int, Array], error: Mapping[int, float], degrees: Mapping[int, float], k: int, best: int
) -> float:
    """Welch's p-value from means, their errors and degrees of freedom."""
    if k == best:
        return 1.0
    difference = float(logs[k].mean() - logs[best].mean())
    variance = error[k] ** 2 + error[best] ** 2
    if variance == 0:
        return 1.0 if difference == 0 else 0.0
    freedom = variance**2 / (error[k] ** 4 / degrees[k] + error[best] ** 4 / degrees[best])
    return float(2 * stats.t.sf(abs(difference) / math.sqrt(variance), freedom))


def seeds_needed(difference: float, noise: float, *, level: float = 0.95, power: float = 0.8) -> int:
    """Runs per batch size to tell a relative difference in T apart, for a relative noise of one run."""
    for name, value in (("difference", difference), ("noise", noise)):
        if not value > 0:
            raise LawError(f"{name}={value:g}; it must be positive")
    quantiles = stats.norm.ppf(0.5 + level / 2) + stats.norm.ppf(power)
    return math.ceil(round(2 * float(quantiles) ** 2 * (noise / difference) ** 2, 6))


def crossing_by_luck(questions: int, score: float, target: float, *, evaluations: int = 1) -> float:
    """Probability that a model of true score below the target is measured at it at least once.

    questions  graded right or wrong, independent; the measured score is their mean
    """
    if not (questions > 0 and 0 <= score <= 1 and 0 < target <= 1):
        raise LawError(
            f"questions={questions}, score={score:g}, target={target:g}; scores lie between 0 and 1"
        )
    needed = math.ceil(round(target * questions, 9))
    once = float(stats.binom.sf(needed - 1, questions, score))
    return 1 - (1 - once) ** evaluations


def expected_first_crossing(scores: ArrayLike, questions: int, target: float) -> float:
    """Expected index (from 0) of the first evaluation measured at the target, for (n,) true scores.

    Exact: Σ_t Π_{s<t} (1 − q_s). If the last score can still miss, the rest is not counted: let it reach 1.
    """
    survive, expected = 1.0, 0.0
    for score in np.asarray(scores, dtype=np.float64):
        survive *= 1 - crossing_by_luck(questions, float(score), target)
        expected += survive
    return expected
