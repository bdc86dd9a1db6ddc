"""Statistics rules of MLPerf and AlgoPerf, so that their published tables can be read and compared.

Sources: mlcommons/logging rcp_checker.py and mlcommons/training_policies #552 (reference convergence points,
RCP); mlcommons/algorithmic-efficiency docs/DOCUMENTATION.md (AlgoPerf).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from batchscout.errors import LawError
from batchscout.laws.observations import positive


def olympic_mean(values: ArrayLike, *, rejected: int = 1) -> float:
    """Mean without the `rejected` lowest and as many highest values (1 in MLPerf; 4 for unet3d).

    Raises LawError where nothing would be left.
    """
    array = np.sort(positive("values", values))
    if len(array) <= 2 * rejected:
        raise LawError(f"{len(array)} values; an olympic mean without {rejected} on each side needs more")
    return float(array[rejected : len(array) - rejected].mean())


def minimum_acceptable_mean(reference: ArrayLike, *, submitted_runs: int, rejected: int = 1) -> float:
    """Least mean of a submission that a one-sided pooled t-test (5%) does not call faster than the reference.

    reference       (n,) samples to target of the reference runs
    submitted_runs  runs of the submission before its lowest and highest are dropped
    The mean is olympic, the deviation is of all runs (ddof 0) and taken as common to both, as in
    rcp_checker.py.
    """
    array = positive("reference", reference)
    return minimum_mean(
        olympic_mean(array, rejected=rejected),
        float(array.std()),
        reference_runs=len(array) - 2 * rejected,
        submitted_runs=submitted_runs - 2,
    )


def minimum_mean(mean: float, deviation: float, *, reference_runs: int, submitted_runs: int) -> float:
    """The same from summary statistics; both numbers of runs are those left after dropping."""
    if deviation == 0:
        return mean
    if min(reference_runs, submitted_runs) < 1:
        raise LawError(
            f"{reference_runs} and {submitted_runs} runs are left after dropping; one of each is needed"
        )
    error = deviation * math.sqrt(1 / reference_runs + 1 / submitted_runs)
    return mean - float(stats.t.ppf(0.95, reference_runs + submitted_runs - 2)) * error


def prune_reference_points(points: Mapping[int, float]) -> dict[int, float]:
    """Reference points that MLPerf keeps: batch size → mean samples (or epochs) to target.

    Batch sizes below the one that converges in the fewest samples go; then every point above the straight
    line between its neighbours, stepping back one after each removal. Samples are affine in the batch size
    under the law with γ = 1, so that line is exact for it.
    """
    if not points:
        return {}
    start = min(points, key=lambda b: (points[b], b))
    kept = sorted(b for b in points if b >= start)
    i = 1
    while i < len(kept) - 1:
        low, middle, high = kept[i - 1], kept[i], kept[i + 1]
        share = (middle - low) / (high - low)
        if points[middle] > points[low] + share * (points[high] - points[low]):
            kept.pop(i)
            i = max(1, i - 1)
        else:
            i += 1
    return {b: points[b] for b in kept}


def algoperf_time(studies: Sequence[Sequence[float | None]]) -> float | None:
    """Median over studies of the least time over a study's trials; misses (None) are infinite and take
    part."""
    least = [min((t for t in trials if t is not None), default=math.inf) for trials in studies]
    if not least:
        raise LawError("no studies to score; give at least one")
    middle = float(np.median(least))
    return middle if math.isfinite(middle) else None


def algoperf_score(ratios: Sequence[float | None], *, largest_ratio: float = 4.0) -> float:
    """Area under the performance profile from 1 to `largest_ratio`, divided by its width.

    ratios  per workload, time over the least time of any submission; None where the target was missed
    Equals the mean over workloads of max(0, (largest_ratio − ratio)/(largest_ratio − 1)).
    """
    if not ratios:
        raise LawError("no workloads to score; give at least one ratio")
    gains = [0.0 if r is None else max(0.0, (largest_ratio - r) / (largest_ratio - 1)) for r in ratios]
    return float(np.mean(gains))


def performance_profile(ratios: Sequence[float | None], at: ArrayLike) -> tuple[float, ...]:
    """Share of workloads whose ratio is at most each of the given ones."""
    reached = np.array([math.inf if r is None else r for r in ratios])
    return tuple(float(np.mean(reached <= tau)) for tau in np.asarray(at, dtype=np.float64))
