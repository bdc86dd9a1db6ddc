"""How much log T differs between jobs of one setting, and which setting that leaves as the best.

Seeds show it. Where a grid ran every setting once, its batch sizes do: S is a smooth function of the batch
size, so what is left beside a smooth curve is the noise of a job.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

LEVEL = 0.9
"""Coverage of the intervals."""
ENOUGH = 4
"""Degrees of freedom from seeds that make the batch sizes' scatter dispensable."""
LEAST_SIZES = 5
"""Batch sizes that show a scatter."""
_CRITICAL = np.geomspace(0.1, 100.0, 61)

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Spread:
    """Standard deviation of log T of one job, and its degrees of freedom; 0 of them where nothing shows it."""

    deviation: float = 0.0
    freedom: int = 0

    def half_width(self, jobs: int) -> float:
        """Of the LEVEL interval of a mean over so many jobs; 0 where nothing is known."""
        return quantile(self.freedom) * self.deviation / math.sqrt(jobs) if self.freedom else 0.0


def spread(
    times: Sequence[Sequence[float]],
    samples: Mapping[int, float],
    paces: Sequence[Sequence[float]] = (),
) -> Spread:
    """From repeats, and from scatter where there are few of them.

    times    T of the jobs of each setting
    samples  batch size → S at its best lr; {} where the settings are no grid, so that S need not be smooth
    paces    update_seconds of the jobs of each batch size: what the machine's moods add to the scatter of S
    """
    squares, freedom = _within(times)
    if freedom < ENOUGH and len(samples) >= LEAST_SIZES:
        more, left = _scatter(samples)
        moods, jobs = _within(paces)
        more += left * moods / max(jobs, 1)
        squares, freedom = squares + more, freedom + left
    return Spread(math.sqrt(squares / freedom), freedom) if freedom else Spread()


def _within(groups: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Sum of squares of logs about each group's mean, and its degrees of freedom."""
    squares, freedom = 0.0, 0
    for found in groups:
        if len(found) > 1:
            logs = np.log(found)
            squares += float(((logs - logs.mean()) ** 2).sum())
            freedom += len(found) - 1
    return squares, freedom


def _scatter(samples: Mapping[int, float]) -> tuple[float, int]:
    """Sum of squares of log S beside the better of two smooth curves, and its degrees of freedom.

    The curves: the samples law with γ = 1, which is exact where it holds, and a parabola in log B, which
    follows a cliff better.
    """
    sizes = np.array(sorted(samples), dtype=np.float64)
    logs = np.log([samples[int(b)] for b in sizes])
    law = np.log1p(sizes / (np.sqrt(sizes[0] * sizes[-1]) * _CRITICAL[:, None]))  # (candidates, sizes)
    off = logs - law
    off -= off.mean(axis=1, keepdims=True)
    by_law = float((off**2).sum(axis=1).min()), len(sizes) - 2
    x = np.log(sizes / sizes[0])
    by_parabola = float(((logs - np.polyval(np.polyfit(x, logs, 2), x)) ** 2).sum()), len(sizes) - 3
    return min(by_law, by_parabola, key=lambda found: found[0] / found[1])


def probability_of_least(log_means: Sequence[float], half_widths: Sequence[float]) -> list[float]:
    """(n,) probability that each is the least, if each lies about its mean as a normal number.

    half_widths  of the LEVEL intervals
    """
    means = np.asarray(log_means)
    deviations = np.maximum(np.asarray(half_widths) / stats.norm.ppf(0.5 + LEVEL / 2), 1e-9)
    at = stats.norm.ppf((np.arange(400) + 0.5) / 400)  # each one's quantiles
    x = means[:, None] + deviations[:, None] * at  # (n, quantiles)
    above = stats.norm.logsf(
        (x[:, None, :] - means[:, None]) / deviations[:, None]
    )  # [i, j]: that j is above i
    own = above[np.arange(len(means)), np.arange(len(means))]
    found = np.exp(above.sum(axis=1) - own).mean(axis=1)
    return [float(p) for p in found / found.sum()]


@cache
def quantile(freedom: int) -> float:
    """Of Student's distribution, for an interval of LEVEL."""
    return float(stats.t.ppf(0.5 + LEVEL / 2, freedom))
