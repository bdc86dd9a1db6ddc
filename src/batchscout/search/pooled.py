"""Jobs of one setting put together: what was measured at each (batch size, lr), and the best of it.

No law is fitted here. A point counts once at least one of its jobs reached the target; jobs that a cap or a
collapse ended make it dearer by what a person would lose to them: with a share p of the jobs reaching the
target, the expected training time of trying until one does is T + (1 - p)/p · C, C the mean cost of those
that did not. That sum ranks; T itself is shown. A job that the search stopped counts with the seconds it ran,
where these exceed T. How far T scatters between jobs is told by seeds, else by the batch sizes of a grid
(batchscout.search.spread).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from batchscout.measure.curve import Curve, Measurement
from batchscout.measure.outcome import Outcome
from batchscout.measure.target import Target
from batchscout.search.protocol import JobObservation, Point, Recommendation
from batchscout.search.spread import Spread, probability_of_least, spread

_MISSED = (Outcome.CAPPED, Outcome.DIVERGED)


@dataclass(frozen=True, slots=True)
class PooledPoint:
    """All jobs at one setting. Seconds on the target's clock, counts in samples.

    jobs, reached     whole jobs at this point (probes are not counted), and those that reached the target
    samples_to_target, time_to_target, throughput   means over the reached ones, T = S / R exactly; None where
                                                    none is
    update_seconds, sampling_share   means over every job that has them, probes included
    half_width        of the 90 % interval of log T, None where nothing bounds it
    is_noise_known    whether that counts the noise between jobs, not only the bracket of the evaluations
    interval          of T; its lower end is None where the first evaluation was already beyond the target
    expected_seconds  what ranks: see the module
    best_score        the best evaluation of any job here, None without one
    """

    point: Point
    jobs: int
    reached: int
    samples_to_target: float | None
    time_to_target: float | None
    throughput: float | None
    update_seconds: float | None
    sampling_share: float | None
    half_width: float | None
    is_noise_known: bool
    interval: tuple[float | None, float | None] | None
    expected_seconds: float | None
    best_score: float | None


@dataclass(frozen=True, slots=True)
class _Reached:
    """One job's way to the target."""

    samples: float
    seconds: float
    log_bracket: float  # half the width of the bracket of log S
    is_left_censored: bool


class Measurements:
    """Remembers the measurement of each curve, which is asked for at every decision."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, Target, float | None, bool], tuple[Curve, Measurement]] = {}

    def of(self, curve: Curve, target: Target, level: float | None, ended: bool) -> Measurement:
        key = (id(curve), target, level, ended)
        if key not in self._known:
            if len(self._known) > 20_000:
                self._known.clear()
            self._known[key] = (
                curve,
                curve.measure(target, level=level, ended=ended),
            )  # the curve keeps its id
        return self._known[key][1]


_measurements = Measurements()


def measurement(job: JobObservation, target: Target, level: float | None = None) -> Measurement | None:
    """What the job's own curve says now, None before its first event."""
    if job.curve is None:
        return None
    return _measurements.of(job.curve, target, level, job.is_final)


def time_to_target(job: JobObservation, target: Target, level: float | None = None) -> float | None:
    """Seconds to the target on its clock from this job alone, None where it did not reach it (yet)."""
    found = _way(job, target, level)
    return None if found is None else found.seconds


def pool_points(
    jobs: Iterable[JobObservation], target: Target, level: float | None = None
) -> list[PooledPoint]:
    """Every point that has a job, by batch size, then lr. level: another score than the target's."""
    by_point: dict[Point, list[JobObservation]] = defaultdict(list)
    for job in jobs:
        by_point[job.point].append(job)
    ways = {p: [w for j in js if (w := _way(j, target, level))] for p, js in by_point.items()}
    times, paces = [[w.seconds for w in found] for found in ways.values()], _paces(by_point, target, level)
    noise = spread(times, _least_samples(by_point, ways), paces)
    return [_pool(p, by_point[p], ways[p], noise, target, level) for p in sorted(by_point)]


def _paces(
    by_point: Mapping[Point, Sequence[JobObservation]], target: Target, level: float | None
) -> list[list[float]]:
    """update_seconds of the jobs of each batch size, probes included."""
    found: dict[int, list[float]] = defaultdict(list)
    for point, jobs in by_point.items():
        for job in jobs:
            known = measurement(job, target, level)
            if known is not None and known.update_seconds:
                found[point.batch_size].append(known.update_seconds)
    return list(found.values())


def _least_samples(
    by_point: Mapping[Point, Sequence[JobObservation]], ways: Mapping[Point, Sequence[_Reached]]
) -> dict[int, float]:
    """Batch size → S at its best lr; {} unless as many learning rates were run at each: where a search chose
    them, S scatters with the lr."""
    lrs: dict[int, int] = defaultdict(int)
    least: dict[int, float] = {}
    for point, jobs in by_point.items():
        size = point.batch_size
        lrs[size] += any(job.kind != "probe" for job in jobs)
        if ways[point]:
            samples = math.exp(sum(math.log(w.samples) for w in ways[point]) / len(ways[point]))
            least[size] = min(samples, least.get(size, math.inf))
    return least if len(set(lrs.values())) == 1 else {}


def best_point(points: Iterable[PooledPoint]) -> PooledPoint | None:
    """The one with the least expected seconds, None where none reached the target."""
    ranked = [p for p in points if p.expected_seconds is not None]
    return min(ranked, key=lambda p: (p.expected_seconds, p.point), default=None)


def best_by_batch_size(points: Iterable[PooledPoint], target: Target) -> dict[int, PooledPoint]:
    """For each batch size its best lr: the fastest that reached the target, else the one with the best
    score."""
    grouped: dict[int, list[PooledPoint]] = defaultdict(list)
    for point in points:
        grouped[point.point.batch_size].append(point)

    def rank(p: PooledPoint) -> tuple[bool, float, bool, float]:
        missed = p.expected_seconds is None
        score = -math.inf if p.best_score is None else target.sign * p.best_score
        return (missed, p.expected_seconds or 0.0, p.jobs == 0, -score)

    return {batch: min(found, key=rank) for batch, found in sorted(grouped.items())}


def recommend_measured(
    jobs: Sequence[JobObservation], target: Target, level: float | None = None
) -> Recommendation | None:
    """The fastest measured point; censored ones are never chosen."""
    points = pool_points(jobs, target, level)
    best = best_point(points)
    if best is None:
        return None
    interval, rows = best.interval, list(best_by_batch_size(points, target).values())
    return Recommendation(
        point=best.point,
        time_to_target=best.time_to_target,
        interval=(interval[0] or 0.0, interval[1]) if interval and interval[1] is not None else None,
        samples_to_target=best.samples_to_target,
        throughput=best.throughput,
        near_ties=near_ties(rows, best),
        probability_best=probability_best(rows, best),
    )


def probability_best(rows: Iterable[PooledPoint], best: PooledPoint) -> float | None:
    """That no other batch size's T is less; None where the noise between jobs is not known.

    rows  one a batch size, best among them
    """
    known = [r for r in rows if r.time_to_target is not None and r.half_width is not None]
    if not best.is_noise_known or best not in known:
        return None
    found = probability_of_least(
        [math.log(r.time_to_target or 1.0) for r in known], [r.half_width or 0.0 for r in known]
    )
    return found[known.index(best)]


def near_ties(rows: Iterable[PooledPoint], best: PooledPoint) -> tuple[int, ...]:
    """Batch sizes whose T cannot be told from the best one's, itself among them, sorted."""
    tied = {best.point.batch_size}
    for row in rows:
        if row.time_to_target and best.time_to_target and row.half_width is not None:
            difference = abs(math.log(row.time_to_target / best.time_to_target))
            if difference <= math.hypot(row.half_width, best.half_width or 0.0):
                tied.add(row.point.batch_size)
    return tuple(sorted(tied))


def _way(job: JobObservation, target: Target, level: float | None) -> _Reached | None:
    if job.kind == "probe":
        return None
    found = measurement(job, target, level)
    if found is None or found.censored == "right" or job.curve is None:
        return None
    samples = found.samples_to_target if found.samples_to_target is not None else found.samples_upper
    if not samples:
        return None  # the start model was there already: nothing to rank
    seconds = found.time_to_target
    if seconds is None:
        seconds = job.curve.seconds_at(samples, target.clock)
    low, high = found.samples_lower, found.samples_upper
    bracket = 0.5 * math.log(high / low) if low and high else 0.0
    return _Reached(samples, seconds, bracket, is_left_censored=found.censored == "left")


def _half_width(ways: Sequence[_Reached], noise: Spread) -> float | None:
    """Of log T: the bracket's and, where it is known, the noise's."""
    bracket = sum(w.log_bracket for w in ways) / len(ways)
    return math.hypot(bracket, noise.half_width(len(ways))) or None


def _pool(
    point: Point,
    jobs: Sequence[JobObservation],
    ways: Sequence[_Reached],
    noise: Spread,
    target: Target,
    level: float | None,
) -> PooledPoint:
    found = [m for j in jobs if (m := measurement(j, target, level))]
    whole = [j for j in jobs if j.kind != "probe"]
    samples = _mean([w.samples for w in ways])
    seconds = _mean([w.seconds for w in ways])
    half = _half_width(ways, noise) if ways else None
    return PooledPoint(
        point=point,
        jobs=len(whole),
        reached=len(ways),
        samples_to_target=samples,
        time_to_target=seconds,
        throughput=samples / seconds if samples and seconds else None,
        update_seconds=_mean([m.update_seconds for m in found]),
        sampling_share=_mean([m.sampling_share for m in found]),
        half_width=half,
        is_noise_known=noise.freedom > 0,
        interval=_interval(seconds, half, ways),
        expected_seconds=_expected_seconds(seconds, whole, ways, target, level),
        best_score=_best_score(jobs, target),
    )


def _interval(
    seconds: float | None, half: float | None, ways: Sequence[_Reached]
) -> tuple[float | None, float | None] | None:
    if seconds is None:
        return None
    if any(w.is_left_censored for w in ways):
        return (None, seconds * math.exp(half or 0.0))
    return None if half is None else (seconds * math.exp(-half), seconds * math.exp(half))


def _expected_seconds(
    seconds: float | None,
    whole: Sequence[JobObservation],
    ways: Sequence[_Reached],
    target: Target,
    level: float | None,
) -> float | None:
    if seconds is None:
        return None
    without = [j for j in whole if _way(j, target, level) is None]
    slower = [j.seconds for j in without if j.outcome is Outcome.STOPPED and j.seconds > seconds]
    mean = (seconds * len(ways) + sum(slower)) / (len(ways) + len(slower))
    missed = sum(j.seconds for j in without if j.outcome in _MISSED)
    return mean + missed / len(ways)  # (1 - p)/p · C with p = reached / (reached + missed)


def _best_score(jobs: Iterable[JobObservation], target: Target) -> float | None:
    scores = [best for j in jobs if j.curve is not None and (best := _best_of(j.curve, target)) is not None]
    return max(scores, key=lambda score: target.sign * score, default=None)


def _best_of(curve: Curve, target: Target) -> float | None:
    known = curve.score[np.isfinite(curve.score)]
    return float(target.sign * (target.sign * known).max()) if known.size else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None
