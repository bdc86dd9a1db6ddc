"""Batch-size invariance: do curves of score over samples coincide between batch sizes?

The distance of two batch sizes is a shift in samples: the mean over the scores that both pass of
log(samples needed / samples the reference needed). 0.1 means that 10% more samples are needed for the same
score. Curves are made monotone first (isotonic regression over all seeds together); the interval is a
bootstrap over seeds where a batch size has three or more, over the evaluations' residuals otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize

from batchscout.errors import LawError
from batchscout.laws.observations import Array

LEVELS = 25
START, END = 0.2, 0.95
"""Share of the common rise in score that is compared: at its start a curve is flat, and its samples mean
nothing."""
Curve = tuple[ArrayLike, ArrayLike]
"""(samples (n,), score (n,)) of one run."""


@dataclass(frozen=True, slots=True)
class Distance:
    """One batch size against the reference.

    shift            mean log ratio of samples at equal score
    interval         bootstrap interval of it
    score_distance   root mean square difference in score over the samples that both cover
    is_invariant     True where the interval lies within the tolerance, False where it lies outside, else None
    """

    batch_size: int
    shift: float
    interval: tuple[float, float]
    score_distance: float
    is_invariant: bool | None


@dataclass(frozen=True, slots=True)
class Invariance:
    """Distances to the reference, smallest batch size first; `invariant` lists the batch sizes that are (it
    too)."""

    reference: int
    distances: tuple[Distance, ...]
    invariant: tuple[int, ...]
    tolerance: float
    level: float
    warnings: tuple[str, ...]


def invariance(
    curves: Mapping[int, Sequence[Curve]],
    *,
    reference: int | None = None,
    tolerance: float = 0.1,
    level: float = 0.9,
    resamples: int = 400,
    seed: int = 0,
) -> Invariance:
    """Which batch sizes learn as much from a sample as the reference does.

    curves     batch size → one (samples, score) per seed, score growing; NaN scores are ignored
    reference  default the smallest batch size
    tolerance  shift in log samples that still counts as the same
    Raises     LawError for fewer than two batch sizes, or curves of fewer than three evaluations.
    """
    if len(curves) < 2:
        raise LawError(f"{len(curves)} batch sizes have curves; invariance compares two or more")
    base = min(curves) if reference is None else reference
    if base not in curves:
        raise LawError(f"reference={base} has no curve; use one of {', '.join(map(str, sorted(curves)))}")
    cleaned = {size: [_cleaned(size, c) for c in runs] for size, runs in curves.items()}
    rng = np.random.default_rng(seed)
    warnings: list[str] = []
    distances = []
    for size in sorted(cleaned):
        if size == base:
            continue
        shift = _shift(cleaned[base], cleaned[size])
        if shift is None:
            warnings.append(f"batch sizes {base} and {size} share no scores; their distance is unknown")
            continue
        drawn = [
            _shift(_resampled(cleaned[base], rng), _resampled(cleaned[size], rng)) for _ in range(resamples)
        ]
        known = np.array([d for d in drawn if d is not None])
        low, high = (float(x) for x in np.quantile(known, [(1 - level) / 2, (1 + level) / 2]))
        inside, outside = -tolerance <= low and high <= tolerance, low > tolerance or high < -tolerance
        distances.append(
            Distance(size, shift, (low, high), _score_distance(cleaned[base], cleaned[size]),
                     True if inside else False if outside else None)
        )  # fmt: skip
    same = tuple(sorted([base, *(d.batch_size for d in distances if d.is_invariant)]))
    return Invariance(base, tuple(distances), same, tolerance, level, tuple(warnings))


def _cleaned(size: int, curve: Curve) -> tuple[Array, Array]:
    samples, score = (np.asarray(x, dtype=np.float64) for x in curve)
    if samples.shape != score.shape or samples.ndim != 1:
        raise LawError(
            f"a curve at batch size {size} has {samples.size} samples and {score.size} scores; equal lengths"
        )
    kept = np.isfinite(score) & (samples > 0)
    if kept.sum() < 3:
        raise LawError(
            f"a curve at batch size {size} has {int(kept.sum())} evaluations beyond 0 samples; 3 are needed"
        )
    return samples[kept], score[kept]


def _monotone(runs: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """(log samples, isotonic score) of all runs together, at distinct samples."""
    x, y = (np.concatenate([run[i] for run in runs]) for i in (0, 1))
    distinct, where, counts = np.unique(x, return_inverse=True, return_counts=True)
    means = np.bincount(where, weights=y) / counts
    return np.log(distinct), np.asarray(optimize.isotonic_regression(means, weights=counts).x)


def _at_scores(curve: tuple[Array, Array], scores: Array) -> Array:
    """Log samples where the monotone curve passes each score: the middle of a flat stretch is taken."""
    log_samples, score = curve
    left = np.searchsorted(score, scores, side="left")
    i = np.clip(left, 1, len(score) - 1)
    rise = score[i] - score[i - 1]
    share = np.where(rise > 0, (scores - score[i - 1]) / np.where(rise > 0, rise, 1.0), 0.0)
    return np.asarray(log_samples[i - 1] + np.clip(share, 0.0, 1.0) * (log_samples[i] - log_samples[i - 1]))


def _shift(base: Sequence[tuple[Array, Array]], other: Sequence[tuple[Array, Array]]) -> float | None:
    a, b = _monotone(base), _monotone(other)
    low, high = max(a[1][0], b[1][0]), min(a[1][-1], b[1][-1])
    if high <= low:
        return None
    scores = np.linspace(low + START * (high - low), low + END * (high - low), LEVELS)
    return float(np.mean(_at_scores(b, scores) - _at_scores(a, scores)))


def _score_distance(base: Sequence[tuple[Array, Array]], other: Sequence[tuple[Array, Array]]) -> float:
    a, b = _monotone(base), _monotone(other)
    low, high = max(a[0][0], b[0][0]), min(a[0][-1], b[0][-1])
    grid = np.linspace(low, max(high, low), 50)
    return float(np.sqrt(np.mean((np.interp(grid, *a) - np.interp(grid, *b)) ** 2)))


def _resampled(runs: Sequence[tuple[Array, Array]], rng: np.random.Generator) -> list[tuple[Array, Array]]:
    if len(runs) >= 3:
        return [runs[i] for i in rng.integers(0, len(runs), len(runs))]
    log_samples, smooth = _monotone(runs)
    out = []
    for samples, score in runs:
        fitted = np.interp(np.log(samples), log_samples, smooth)
        residual = score - fitted
        # Fitted values use up part of the residuals' freedom.
        scale = np.sqrt(len(score) / max(len(score) - len(np.unique(fitted)) / 2, 1.0))
        out.append((samples, fitted + scale * rng.choice(residual - residual.mean(), len(score))))
    return out
