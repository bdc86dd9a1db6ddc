"""Everything the search derives from the jobs before it decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
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
from batchscout.search.belief.misfit import NOTICED
from batchscout.search.belief.records import milestone, spent
from batchscout.search.protocol import JobObservation, Point, SearchContext
from batchscout.search.time_to_target.settings import Settings

Array = NDArray[np.float64]

STEPS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1))
"""From a setting to its neighbours: steps in batch size and in lr."""


@dataclass(frozen=True, eq=False)
class State:
    """The jobs as of now and what is believed because of them; parts are computed when asked for.

    points, batch, log2_lr  the n allowed settings
    is_coarse               running jobs count with their curves up to the last milestone, so that the belief is
                            formed anew now and then, not at every evaluation of each
    cut                     job whose curve counts so, too
    given                   the posterior, where it is known without being formed from the records
    """

    context: SearchContext
    belief: Belief
    jobs: tuple[JobObservation, ...]
    points: tuple[Point, ...]
    is_coarse: bool = False
    cut: str | None = None
    given: Posterior | None = None
    settings: Settings = field(default_factory=Settings)

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

    def spent(self, job: JobObservation) -> tuple[int, float]:
        """Updates of a job and training seconds they took, as far as it counts."""
        return spent(job, self._seen(job))

    @cached_property
    def place(self) -> dict[Point, int]:
        """Index of each point."""
        return {p: i for i, p in enumerate(self.points)}

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
        seen = [(j.point.batch_size, *self.spent(j)) for j in self.jobs]
        return fit_update_time([s for s in seen if s[1] and s[2] > 0], self.batch_sizes)

    @cached_property
    def posterior(self) -> Posterior:
        return self.belief.posterior(self.records) if self.given is None else self.given

    @cached_property
    def prospects(self) -> Prospects:
        return prospects(self.posterior, self.update_time, self.batch, self.log2_lr, self.allowed)

    @cached_property
    def best_by_law(self) -> int:
        """Index of the point with the least expected regret."""
        return int(np.argmin(self.prospects.mean_regret))

    @cached_property
    def is_good_by_law(self) -> bool:
        """Whether the best by the law loses as little as the tolerance asks, given that it does not diverge."""
        view, best, tolerance = self.prospects, self.best_by_law, self.context.tolerance
        kept = view.diverges[:, best] < 0.5
        regret = view.regret[kept if kept.mean() >= 0.3 else slice(None), best]
        bad = float((regret > 2 * tolerance).mean())
        return bad <= self.settings.end_bad or float(regret.mean()) <= self.settings.end_regret * tolerance

    @cached_property
    def is_misfit(self) -> bool:
        """Whether the law is sure of its answer while the jobs do not follow it: then what was measured decides, point
        by point. Before, jobs that seem to follow none may be no more than too few."""
        if self.posterior.evidence is None or not self.is_good_by_law:
            return False
        return self.posterior.misfit > NOTICED and bool(self.measured)

    @cached_property
    def measured(self) -> dict[int, tuple[float, float]]:
        """Index of each point whose jobs say their S → ln seconds there by these jobs alone, and its sd."""
        found: dict[int, list[tuple[float, float]]] = {}
        noise = float(np.median(self.posterior.noise))
        for record, ln_samples, sd in self.posterior.told:
            point = Point(record.batch_size, record.lr)
            if point in self.place and self.allowed[i := self.place[point]]:
                found.setdefault(i, []).append((ln_samples, sd**2 + noise**2))
        out = {}
        for i, each in found.items():
            precision = np.array([1 / v for _, v in each])
            mean = float(np.average([m for m, _ in each], weights=precision))
            ln_update, update_sd = self.update_time.at(self.batch[i])
            sd = float(np.hypot(1 / np.sqrt(precision.sum()), update_sd))
            out[i] = (mean + ln_update - float(np.log(self.batch[i])), sd)
        return out

    @cached_property
    def best(self) -> int:
        """Index of what is to be recommended: the best by the law, where no law fits the fastest one measured."""
        if self.is_misfit:
            return min(self.measured, key=lambda i: (self.measured[i][0], i))
        return self.best_by_law

    def unmeasured_around(self, i: int) -> list[int]:
        """Settings one step from point i in batch size, lr or both (the best lr rises with the batch size), and the one
        that the law takes for the best, where no job has run."""
        lrs, here = sorted({p.lr for p in self.points}), self.points[i]
        b, lr = self.batch_sizes.index(here.batch_size), lrs.index(here.lr)
        around = {(b + db, lr + dlr) for db, dlr in STEPS}
        ran = {j.point for j in self.jobs if j.kind != "probe"}
        return [
            k
            for k, p in enumerate(self.points)
            if (k == self.best_by_law or (self.batch_sizes.index(p.batch_size), lrs.index(p.lr)) in around)
            and p not in ran and self.allowed[k] and self.seeds_left(p)
        ]  # fmt: skip

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
    settings: Settings,
) -> State:
    points = context.space.all_points()
    return State(context, belief, tuple(jobs), points, is_coarse, cut, settings=settings)


def state_key(jobs: Sequence[JobObservation], cut: str | None, *, is_coarse: bool) -> tuple[object, ...]:
    """Equal for equal states; see State for cut and is_coarse."""

    def size(job: JobObservation) -> tuple[float, int]:
        evaluations = 0 if job.curve is None else len(job.curve.samples)
        if job.job_id == cut or (is_coarse and not job.is_final):
            return 0.0, milestone(evaluations)
        return job.seconds, evaluations

    return tuple((j.job_id, str(j.outcome), j.reason, j.job_id == cut, *size(j)) for j in jobs)
