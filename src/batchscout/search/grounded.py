"""A search's recommendation, held against what was measured at its point.

A search may rest on a model, and a model may be wrong. What result.json states of the recommended setting
must not contradict the jobs that ran there, whatever search made it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from batchscout.measure.target import Target
from batchscout.search.pooled import best_by_batch_size, best_point, near_ties, pool_points
from batchscout.search.protocol import JobObservation, Recommendation

CREDIBLE_WIDTH = 4.0
"""An interval whose ends are further apart than this factor is no knowledge of a point that was measured."""

SEED_FACTOR = 1.5
"""So far outside of the interval one seed's time may lie: the interval is of the mean over seeds."""

DISAGREES = (
    "the search's model does not describe the jobs at the recommended setting: what they measured is stated"
)


def grounded(
    answer: Recommendation | None, jobs: Sequence[JobObservation], target: Target, *, is_end: bool
) -> Recommendation | None:
    """The recommendation as it may be stated.

    is_end   nothing more will run: a point is then recommended only if some job reached the target (here, or
             in the sweep that its samples are carried over from)
    Returns  the answer itself where it agrees with the jobs at its point, or nothing was measured there; else
             with the measured time, samples, throughput and interval, and a warning.
    """
    if answer is None:
        return None
    points = pool_points(jobs, target)
    if is_end and best_point(points) is None and not answer.is_carried:
        return None
    here = next((p for p in points if p.point == answer.point), None)
    if here is None or here.time_to_target is None or not here.jobs:
        return answer
    measured, interval = here.time_to_target, answer.interval
    if interval is not None:
        is_inside = interval[0] / SEED_FACTOR <= measured <= interval[1] * SEED_FACTOR
        if is_inside and interval[1] <= CREDIBLE_WIDTH * interval[0]:
            return answer
    elif answer.time_to_target == measured:
        return answer
    known = here.interval
    tied = near_ties(best_by_batch_size(points, target).values(), here)
    return replace(
        answer,
        time_to_target=measured,
        interval=(known[0] or 0.0, known[1]) if known and known[1] is not None else None,
        samples_to_target=here.samples_to_target,
        throughput=here.throughput,
        near_ties=tuple(sorted({*tied, *answer.near_ties})),
        probability_best=None,
        expected_regret=None,
        warnings=(*answer.warnings, DISAGREES),
    )
