"""Everything the search derives from the jobs before it decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from batchscout.measure.outcome import Outcome
from batchscout.search.belief import (
    Belief,
    JobRecord,
    Posterior,
    Prospects,
    UpdateTime,
    fit_update_time,
    prospects,
    record_of,
)
from batchscout.search.belief.records import milestone
from batchscout.search.protocol import JobObservation, Point, SearchContext

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class State:
    """The jobs as of now and what is believed because of them; parts are computed when asked for.

    points, batch, log2_lr  the n allowed settings
    is_coarse               running jobs count with their curves up to the last milestone, so that the belief is
                            formed anew now and then, not at every evaluation of each
    cut                     job whose curve counts so, too
    """

    context: SearchContext
    belief: Belief
    jobs: tuple[JobObservation, ...]
    points: tuple[Point, ...]
    is_coarse: bool = False
    cut: str | None = None

    @cached_property
    def own(self) -> tuple[JobRecord, ...]:
        """Records of all jobs here that are neither probes nor failures."""
        return tuple(
            record_of(j, self.context.target, self._seen(j))
            for j in self.jobs
            if j.kind != "probe" and j.outcome not in (Outcome.FAILED, Outcome.CANCELLED, Outcome.INFEASIBLE)
        )

    @cached_property
    def records(self) -> tuple[JobRecord, ...]:
        """What the belief rests on."""
        return self.own

    def _seen(self, job: JobObservation) -> int | None:
        is_cut = job.job_id == self.cut or (self.is_coarse and not job.is_final)
        if job.curve is None or not is_cut:
            return None
        return milestone(len(job.curve.samples))

    @cached_property
    def batch(self) -> Array:
        return np.array([p.batch_size for p in self.points], float)

    @cached_property
    def log2_lr(self) -> Array:
        return np.log2([p.lr for p in self.points])

    @cached_property
    def batch_sizes(self) -> tuple[int, ...]:
        return tuple(sorted({p.batch_size for p in self.points}))

    @cached_property
    def memory_limit(self) -> float:
        """The smallest batch size that did not fit; infinite where none was seen."""
        too_big = [
            j.point.batch_size for j in self.jobs if j.outcome is Outcome.INFEASIBLE and j.reason == "oom_gpu"
        ]
        return float(min(too_big, default=np.inf))

    @cached_property
    def allowed(self) -> NDArray[np.bool_]:
        """(n,) settings that can run: memory, and no other reason seen against the batch size."""
        never = {j.point.batch_size for j in self.jobs if j.outcome is Outcome.INFEASIBLE}
        return np.array([p.batch_size < self.memory_limit and p.batch_size not in never for p in self.points])

    @cached_property
    def update_time(self) -> UpdateTime:
        seen = []
        for j in self.jobs:
            c = j.curve
            if c is not None and c.total_updates and c.total_seconds > 0:
                seen.append((j.point.batch_size, int(c.total_updates), float(c.total_seconds)))
        return fit_update_time(seen, self.batch_sizes)

    @cached_property
    def posterior(self) -> Posterior:
        return self.belief.posterior(self.records)

    @cached_property
    def prospects(self) -> Prospects:
        return prospects(self.posterior, self.update_time, self.batch, self.log2_lr, self.allowed)

    @cached_property
    def best(self) -> int:
        """Index of the point with the least expected regret."""
        return int(np.argmin(self.prospects.mean_regret))

    def seeds_left(self, point: Point) -> list[int]:
        """Seeds not yet used at a point and allowed there."""
        used = {j.seed for j in self.jobs if j.point == point and j.kind != "probe"}
        return [
            s for s in self.context.space.all_seeds() if s not in used and self.context.space.has(point, s)
        ]

    def at(self, point: Point) -> list[JobRecord]:
        return [r for r in self.own if r.batch_size == point.batch_size and r.lr == point.lr]

    @cached_property
    def running_jobs(self) -> list[JobObservation]:
        """Those that will tell S: no probes."""
        return [j for j in self.running if j.kind != "probe"]

    @property
    def running(self) -> list[JobObservation]:
        return [j for j in self.jobs if not j.is_final]


def make_state(
    context: SearchContext,
    belief: Belief,
    jobs: Sequence[JobObservation],
    *,
    is_coarse: bool = False,
    cut: str | None = None,
) -> State:
    return State(context, belief, tuple(jobs), context.space.all_points(), is_coarse, cut)


def state_key(jobs: Sequence[JobObservation], cut: str | None, *, is_coarse: bool) -> tuple[object, ...]:
    """Equal for equal states; see State for cut and is_coarse."""

    def size(job: JobObservation) -> tuple[float, int]:
        evaluations = 0 if job.curve is None else len(job.curve.samples)
        if job.job_id == cut or (is_coarse and not job.is_final):
            return 0.0, milestone(evaluations)
        return job.seconds, evaluations

    return tuple((j.job_id, str(j.outcome), j.reason, j.job_id == cut, *size(j)) for j in jobs)
