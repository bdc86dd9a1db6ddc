"""Gradient noise scale from gradients of two batch sizes: B_noise = tr Σ/|G|², in rollouts.

McCandlish et al. 2018 (arXiv 1812.06162, appendix A.1). A gradient g over B rollouts has E|g|² = |G|² + tr
Σ/B, so two batch sizes give both parts without bias; their *averages* over updates are divided, since an
average of ratios is biased and |G|² of one update may come out negative. Rollouts of one prompt share its
noise: the independent unit is the group, so the small batch is one group or several, never part of one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from batchscout.errors import LawError
from batchscout.laws.observations import Array, Interval


@dataclass(frozen=True, slots=True)
class NoiseScale:
    """b_noise in rollouts; None where |G|² cannot be told from zero or less ("unresolved").

    interval         Fieller's, at `level`; an end is None where it is open or a single pair was given
    gradient_square  estimate of |G|²
    trace            estimate of tr Σ per rollout
    pairs            updates averaged over
    residuals        (pairs,) tr Σ − b_noise·|G|² of each update; empty where unresolved
    """

    b_noise: float | None
    interval: Interval
    gradient_square: float
    trace: float
    pairs: int
    level: float
    residuals: tuple[float, ...]
    warnings: tuple[str, ...]


def noise_scale(
    small_batch: ArrayLike,
    big_batch: ArrayLike,
    small_square: ArrayLike,
    big_square: ArrayLike,
    *,
    level: float = 0.9,
) -> NoiseScale:
    """Noise scale from squared gradient norms at two batch sizes.

    small_batch, big_batch    rollouts (whole groups), small < big; the same for all updates, or (n,) of each.
                              Updates then count in proportion to their big batch: what they tell grows with it
    small_square, big_square  (n,) |g|² over each, one pair an update (a mean over several small batches is
                              one value)
    Raises  LawError for batch sizes that are not 0 < small < big, lengths that differ, values not finite.
    """
    small, big = (np.atleast_1d(np.asarray(x, dtype=np.float64)) for x in (small_square, big_square))
    if small.shape != big.shape or small.ndim != 1 or not len(small):
        raise LawError(
            f"small_square has {small.size} values, big_square has {big.size}; one of each per "
            "update is needed"
        )
    if not (np.isfinite(small).all() and np.isfinite(big).all() and (small >= 0).all() and (big >= 0).all()):
        raise LawError("a squared norm is negative, NaN or infinite; leave such updates out")
    few, many = _sizes(small_batch, big_batch, len(small))
    square = (many * big - few * small) / (many - few)
    trace = (small - big) / (1 / few - 1 / many)
    weights = many / many.sum()
    mean_square, mean_trace = float(weights @ square), float(weights @ trace)
    warnings = []
    if mean_square <= 0:
        warnings.append("noise scale unresolved: |G|² is estimated at zero or less; average more updates")
        return NoiseScale(
            None, (None, None), mean_square, mean_trace, len(square), level, (), tuple(warnings)
        )
    if mean_trace < 0:
        warnings.append(
            "tr Σ is estimated below zero: the noise scale is below what these batch sizes resolve"
        )
    ratio = max(mean_trace, 0.0) / mean_square
    interval = _fieller(trace, square, weights, level)
    if len(square) > 1 and interval[1] is None:
        warnings.append(
            "|G|² cannot be told from zero: the noise scale has no upper bound; average more updates"
        )
    residuals = tuple(float(x) for x in trace - ratio * square)
    return NoiseScale(
        ratio, interval, mean_square, mean_trace, len(square), level, residuals, tuple(warnings)
    )


def _sizes(small_batch: ArrayLike, big_batch: ArrayLike, count: int) -> tuple[Array, Array]:
    """(count,) each."""
    small, big = (np.asarray(x, dtype=np.float64) for x in (small_batch, big_batch))
    if any(x.ndim and x.shape != (count,) for x in (small, big)):
        raise LawError(
            f"{small.size} and {big.size} batch sizes for {count} updates; give one, or one an update"
        )
    small, big = np.broadcast_to(small, count), np.broadcast_to(big, count)
    wrong = ~((small > 0) & (small < big) & np.isfinite(big))
    if wrong.any():
        raise LawError(
            f"small_batch={small[wrong][0]:g}, big_batch={big[wrong][0]:g}; two sizes with 0 < small < big "
            "are needed"
        )
    return small, big


def gradient_squares(gradients: ArrayLike) -> tuple[float, float]:
    """(|g_small|², |g_big|²) of one update: of a single group on average, and of all its groups together.

    gradients  (groups, parameters) mean gradient of each group; the two then belong to batch sizes group_size
               and groups · group_size.
    Raises     LawError for fewer than two groups.
    """
    array = np.asarray(gradients, dtype=np.float64)
    if array.ndim != 2 or len(array) < 2:
        raise LawError(
            f"gradients has shape {array.shape}; (groups, parameters) with two groups or more is needed"
        )
    return float((array**2).sum(axis=1).mean()), float((array.mean(axis=0) ** 2).sum())


def _fieller(numerator: Array, denominator: Array, weights: Array, level: float) -> Interval:
    """Interval of a ratio of means: all r for which mean(numerator − r·denominator) is within its t-interval
    of 0. weights: (n,), they sum to 1; n counts as 1/Σ weights²."""
    if len(numerator) < 2:
        return None, None
    a, b = float(weights @ numerator), float(weights @ denominator)
    off = np.stack([numerator - a, denominator - b])
    shares = float((weights**2).sum())
    (v11, v12), (_, v22) = (off * weights**2) @ off.T / (1 - shares)
    t2 = float(stats.t.ppf(0.5 + level / 2, max(1 / shares - 1, 1.0))) ** 2
    top, middle, bottom = b * b - t2 * v22, a * b - t2 * v12, a * a - t2 * v11
    inside = middle * middle - top * bottom
    if inside < 0 or top == 0:
        return None, None
    low, high = sorted((float(middle) + sign * float(np.sqrt(inside))) / float(top) for sign in (-1.0, 1.0))
    # top < 0: the denominator may be zero, and the plausible ratios are those outside (low, high).
    if top < 0:
        return (high if low <= 0 < high else None), None
    return (low if low > 0 else None), high
