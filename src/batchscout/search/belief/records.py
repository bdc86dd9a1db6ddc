"""One job as the belief sees it: its score curve, binned, and its seconds per update. Nothing else may inform.

The spacing of the evaluations, their number and the value of a cap carry no information about the law and are not
used: a curve enters through its scores at its samples only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from batchscout.measure.outcome import Outcome
from batchscout.measure.target import Target
from batchscout.search.protocol import JobObservation

Array = NDArray[np.float64]
MAX_BINS = 14


@dataclass(frozen=True, eq=False)
class JobRecord:
    """What one job tells.

    key         equal keys mean equal content
    ln_samples  (b,) natural log of the samples at the centre of each bin of evaluations
    score       (b,) mean score, oriented so that higher is better
    count       (b,) evaluations in the bin
    top, last   highest pair mean and last pair mean of the unbinned scores (one value if there is but one)
    ln_crossing ln of the samples at which a reached job first passed the target, else None
    is_done     the job cannot be continued
    flicker     sd of one evaluation as its neighbours show it: median of |differences|, 0 from fewer than four
    jitter      sd of one evaluation as second differences show it, a steady rise left out; 0 from fewer than five
    untrained   score of the model before the first update, None where the job did not evaluate it
    weight      of its evidence on the law: less than 1 where it may come from another world
    """

    key: tuple[object, ...]
    job_id: str
    batch_size: int
    lr: float
    seed: int
    outcome: Outcome
    ln_samples: Array
    score: Array
    count: Array
    top: float
    last: float
    ln_crossing: float | None
    is_done: bool
    updates: int
    seconds: float
    flicker: float = 0.0
    jitter: float = 0.0
    untrained: float | None = None
    weight: float = 1.0

    @property
    def evaluations(self) -> int:
        return int(self.count.sum())

    @property
    def ln_last(self) -> float:
        return float(self.ln_samples[-1])

    @property
    def is_reached(self) -> bool:
        return self.ln_crossing is not None


def milestone(evaluations: int) -> int:
    """The largest of 0, 2, 3, 4, 6, 8, 12, 16, 24, … that is not above: how often a growing curve is weighed anew."""
    at, step = 2, 1
    while at + step <= evaluations:
        at += step
        if at in (4, 8) or (at > 8 and at & (at - 1) == 0):
            step *= 2
    return at if evaluations >= 2 else 0


def record_of(job: JobObservation, target: Target, evaluations: int | None = None) -> JobRecord:
    """The record of one job; one without any evaluation has empty curves.

    evaluations  no more than the first so many, None for all
    """
    sign = 1.0 if target.direction == "max" else -1.0
    curve = job.curve
    if curve is None:
        n = y = np.empty(0)
        updates, seconds, untrained = 0, 0.0, None
    else:
        n = np.asarray(curve.samples[:evaluations], float)
        y = sign * np.asarray(curve.score[:evaluations], float)
        updates, seconds = spent(job, evaluations)
        before = y[np.isfinite(y) & (n == 0)]
        untrained = float(before[0]) if len(before) else None
        usable = np.isfinite(y) & (n > 0)
        n, y = n[usable], y[usable]
    ln_n, score, count = binned(n, y)
    top, last = (_highest_pair(y), float(np.mean(y[-2:]))) if len(y) else (0.0, 0.0)
    crossing = _crossing(n, y, sign * target.score) if job.outcome is Outcome.REACHED else None
    key = (
        job.job_id,
        job.point,
        job.seed,
        str(job.outcome),
        len(y),
        float(n[-1]) if len(n) else 0.0,
        updates,
        seconds,
    )
    return JobRecord(
        key, job.job_id, job.point.batch_size, job.point.lr, job.seed, job.outcome, ln_n, score, count, top, last,
        crossing, job.is_final and job.outcome is not Outcome.STOPPED, updates, seconds, _flicker(y), _jitter(y),
        untrained,
    )  # fmt: skip


def spent(job: JobObservation, evaluations: int | None = None) -> tuple[int, float]:
    """Updates of a job and training seconds they took: all, or up to so many evaluations."""
    if job.curve is None or evaluations == 0:
        return 0, 0.0
    if evaluations is None:
        return int(job.curve.total_updates), float(job.curve.total_seconds)
    last = min(evaluations, len(job.curve.samples)) - 1
    return round(job.curve.samples[last] / job.point.batch_size), float(job.curve.seconds[last])


def binned(samples: Array, score: Array) -> tuple[Array, Array, Array]:
    """Mean ln samples, mean score and count over at most MAX_BINS bins, finest where the curve is youngest."""
    if len(samples) <= MAX_BINS:
        return np.log(np.maximum(samples, 1.0)), score, np.ones(len(samples))
    edges = np.unique(np.searchsorted(samples, np.geomspace(samples[0], samples[-1], MAX_BINS + 1)[1:-1]))
    groups = [g for g in np.split(np.arange(len(samples)), edges) if len(g)]
    ln_n = np.log(samples)
    return (
        np.array([ln_n[g].mean() for g in groups]),
        np.array([score[g].mean() for g in groups]),
        np.array([float(len(g)) for g in groups]),
    )


def _flicker(score: Array) -> float:
    if len(score) < 4:
        return 0.0
    return float(np.median(np.abs(np.diff(score))) / (0.6745 * np.sqrt(2.0)))


def _jitter(score: Array) -> float:
    if len(score) < 5:
        return 0.0
    return float(np.median(np.abs(np.diff(score, 2))) / (0.6745 * np.sqrt(6.0)))


def _highest_pair(score: Array) -> float:
    return float(np.max((score[1:] + score[:-1]) / 2)) if len(score) > 1 else float(score[0])


def _crossing(samples: Array, score: Array, target: float) -> float | None:
    """ln samples at the (isotonic) first passage of a job that reached the target; None if it cannot be bracketed."""
    if len(score) < 2:
        return float(np.log(samples[-1])) if len(samples) else None
    fit = _isotonic(score)
    above = np.flatnonzero(fit >= min(target, fit[-1]))
    i = int(above[0])
    if i == 0:
        return float(np.log(samples[0]))
    share = (min(target, fit[-1]) - fit[i - 1]) / max(fit[i] - fit[i - 1], 1e-9)
    return float(np.log(samples[i - 1] + share * (samples[i] - samples[i - 1])))


def _isotonic(y: Array) -> Array:
    blocks: list[list[float]] = []
    for value in y:
        blocks.append([float(value), 1.0])
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            v, w = blocks.pop()
            u, x = blocks.pop()
            blocks.append([(v * w + u * x) / (w + x), w + x])
    return np.concatenate([np.full(int(w), v) for v, w in blocks])


def start_score(records: Sequence[JobRecord]) -> float | None:
    """Score of the untrained model: as measured, else a low quantile of the first scores (a diverging job may start
    high)."""
    measured = [r.untrained for r in records if r.untrained is not None and len(r.score)]
    if measured:
        return float(np.median(measured))
    first = [r.score[0] for r in records if len(r.score)]
    return float(np.quantile(first, 0.25)) if first else None
