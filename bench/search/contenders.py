"""The searches that are compared, each as a function from a context to a search.

What ends a sweep: ours decides itself. The others have no such rule, so each is shown twice: with the product's default
budget of 40 jobs, and with the patience a person would have (no improvement by more than the tolerance over the last
PATIENCE jobs that ended). All but the grid stop jobs that cannot beat the best time any more, successive halving by
its own rule: it compares the scores of jobs at equal training seconds, the resource that the objective is measured in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import optuna

from batchscout.measure.curve import Curve
from batchscout.search.factory import build_search
from batchscout.search.optuna_search import OptunaSearch
from batchscout.search.pooled import time_to_target
from batchscout.search.protocol import (
    Finished,
    JobObservation,
    Proposal,
    Recommendation,
    Search,
    SearchContext,
)

BUDGET_JOBS = 40
PATIENCE = 10

MakeSearch = Callable[[SearchContext], Search]


class Measured:
    """Another search that is shown whole curves (measure.Curve) in place of the columns that `simulate` plays."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._known: dict[tuple[str, int], Curve] = {}

    def propose(self, jobs: Sequence[JobObservation]) -> Proposal | Finished | None:
        return self._search.propose(self._all(jobs))

    def stop(self, job: JobObservation, jobs: Sequence[JobObservation]) -> str | None:
        return self._search.stop(self._one(job), self._all(jobs))

    def recommend(self, jobs: Sequence[JobObservation]) -> Recommendation | None:
        return self._search.recommend(self._all(jobs))

    def _all(self, jobs: Sequence[JobObservation]) -> list[JobObservation]:
        return [self._one(job) for job in jobs]

    def _one(self, job: JobObservation) -> JobObservation:
        if job.curve is None:
            return job
        key = (job.job_id, len(job.curve.samples))
        if key not in self._known:
            columns = ("samples", "seconds", "sampling_seconds", "score")
            record = {name: getattr(job.curve, name).tolist() for name in columns}
            self._known[key] = Curve.from_recorded({"batch_size": job.point.batch_size, **record})
        return replace(job, curve=self._known[key])


class Patient:
    """Another search, ended after PATIENCE ended jobs without a better time."""

    def __init__(self, search: Search, context: SearchContext) -> None:
        self._search, self._context = search, context

    def propose(self, jobs: Sequence[JobObservation]) -> Proposal | Finished | None:
        if self._has_stalled(jobs):
            return Finished(f"no better time in {PATIENCE} jobs")
        return self._search.propose(jobs)

    def _has_stalled(self, jobs: Sequence[JobObservation]) -> bool:
        best, since = None, 0
        for job in jobs:
            if not job.is_final:
                continue
            seconds = time_to_target(job, self._context.target)
            is_better = seconds is not None and (
                best is None or seconds < best * (1 - self._context.tolerance)
            )
            best, since = (seconds, 0) if is_better else (best, since + (best is not None))
        return since >= PATIENCE

    def stop(self, job: JobObservation, jobs: Sequence[JobObservation]) -> str | None:
        return self._search.stop(job, jobs)

    def recommend(self, jobs: Sequence[JobObservation]) -> Recommendation | None:
        return self._search.recommend(jobs)


class SuccessiveHalving(OptunaSearch):
    """Random points, and jobs stopped by Optuna's SuccessiveHalvingPruner.

    It keeps a study of scores over training milliseconds, so it is no pure function of the jobs and only for the bench.
    """

    def __init__(self, context: SearchContext) -> None:
        super().__init__(context)
        pruner = optuna.pruners.SuccessiveHalvingPruner()
        self._study = optuna.create_study(
            direction="maximize" if context.target.direction == "max" else "minimize", pruner=pruner
        )
        self._shown: dict[str, optuna.Trial] = {}

    def stop(self, job: JobObservation, jobs: Sequence[JobObservation]) -> str | None:
        if job.kind == "probe" or job.curve is None or not job.curve.samples.size:
            return None
        for other in jobs:  # the first completed trial tells the pruner how long one takes
            if other.job_id in self._shown and other.is_final and other.outcome != "stopped":
                self._show(other)
                self._study.tell(
                    self._shown[other.job_id], float(other.curve.score[-1]), skip_if_finished=True
                )
        if job.job_id not in self._shown:
            self._shown[job.job_id] = self._study.ask()
        self._show(job)
        if not self._shown[job.job_id].should_prune():
            return None
        self._study.tell(self._shown[job.job_id], state=optuna.trial.TrialState.PRUNED)
        return "not among the best quarter at this rung"

    def _show(self, job: JobObservation) -> None:
        trial = self._shown[job.job_id]
        if self._study.trials[trial.number].state.is_finished():
            return
        step = max(1, round(1000 * float(job.curve.seconds[-1])))
        trial.report(float(job.curve.score[-1]), step)


@dataclass(frozen=True)
class Contender:
    """max_jobs: its budget; words: for the table."""

    make: MakeSearch
    words: str
    max_jobs: int = BUDGET_JOBS


def _named(name: str) -> MakeSearch:
    return lambda context: Measured(build_search(name, context))


def _halving(context: SearchContext) -> Search:
    return Measured(SuccessiveHalving(context))


def _patient(make: Callable[[SearchContext], Search]) -> MakeSearch:
    return lambda context: Measured(Patient(make(context), context))


def _grid(context: SearchContext) -> Search:
    """Every point once: further seeds would only make it dearer."""
    return Measured(build_search("grid", replace(context, space=replace(context.space, seeds=1))))


CONTENDERS = {
    "time_to_target": Contender(
        lambda context: build_search("time_to_target", context), "batchscout's own", max_jobs=120
    ),
    "tpe": Contender(_named("tpe"), "TPE, 40 jobs"),
    "tpe_patient": Contender(_patient(lambda context: build_search("tpe", context)), "TPE, patience 10"),
    "gp": Contender(_named("gp"), "GP, 40 jobs"),
    "gp_patient": Contender(_patient(lambda context: build_search("gp", context)), "GP, patience 10"),
    "random": Contender(_named("random"), "random, 40 jobs"),
    "random_patient": Contender(
        _patient(lambda context: build_search("random", context)), "random, patience 10"
    ),
    "halving": Contender(_halving, "successive halving, 40 jobs"),
    "halving_patient": Contender(_patient(SuccessiveHalving), "successive halving, patience 10"),
    "grid": Contender(_grid, "full grid, one seed", max_jobs=1000),
}
