"""Any Optuna sampler over (batch size, lr), with ask and tell.

The study is rebuilt from the jobs at each proposal, so that nothing has to be kept, and a killed controller
goes on with the same answers. The sampler sees both parameters on a log scale; what it asks for is moved to
the nearest cell that is allowed and not yet used, and told as that cell. So no setting is run twice, and a
small space ends as "space exhausted". What a sampler is told of a job that did not reach the target is a
penalty, for it alone: it appears in no file as a time.

Departures from Optuna's own loop: stopping does not use its pruners, which compare scores at equal steps; a
job is stopped when its *time* cannot beat the best one any more (see `stop`).
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.trial import FrozenTrial, TrialState, create_trial

from batchscout.errors import SearchError
from batchscout.measure.detect import isotonic
from batchscout.measure.outcome import Outcome
from batchscout.search.pooled import best_point, pool_points, recommend_measured, time_to_target
from batchscout.search.protocol import (
    Finished,
    JobObservation,
    Point,
    Proposal,
    Recommendation,
    SearchContext,
)

STARTUP_JOBS = 8
"""Jobs at random before a model is trusted."""
HOPELESS = 1.25
"""A job is stopped when it cannot be faster than this multiple of the best: seeds differ by about a tenth."""
LOOK_FROM = 0.6
"""Share of the best time from which a projection is tried; before that a slow start says little."""

_UNKNOWN = (Outcome.FAILED, Outcome.CANCELLED)

optuna.logging.set_verbosity(optuna.logging.WARNING)


class OptunaSearch:
    """A Search around one Optuna sampler.

    sampler          "module:Class" of it
    sampler_options  its keyword arguments beyond `seed`
    stops_jobs       whether jobs that cannot beat the best are stopped
    """

    def __init__(
        self,
        context: SearchContext,
        *,
        sampler: str = "optuna.samplers:RandomSampler",
        sampler_options: Mapping[str, Any] | None = None,
        stops_jobs: bool = True,
    ) -> None:
        self._context, self._stops_jobs = context, stops_jobs
        self._sampler, self._options = sampler, dict(sampler_options or {})
        space = context.space
        self._cells = [(p, s) for s in space.all_seeds() for p in space.all_points() if space.has(p, s)]
        if not self._cells:
            raise SearchError("the search space is empty; list at least one batch size and one lr")
        points = [p for p, _ in self._cells]
        self._distributions = {
            name: FloatDistribution(min(values), max(values), log=True)
            for name, values in (
                ("batch_size", [p.batch_size for p in points]),
                ("lr", [p.lr for p in points]),
            )
            if min(values) < max(values)
        }

    def propose(self, jobs: Sequence[JobObservation]) -> Proposal | Finished | None:
        used = {(j.point, j.seed) for j in jobs if j.kind != "probe"}
        free = [cell for cell in self._cells if cell not in used]
        if not free:
            return Finished(f"space exhausted after {len(used)} jobs")
        asked = self._ask(jobs)
        point, seed = min(free, key=lambda cell: (self._distance(cell[0], asked), cell[1], cell[0]))
        words = " ".join(f"{name}={value:.4g}" for name, value in asked.items())
        return Proposal("run", point, seed, f"the sampler asked for {words}" if words else "the only setting")

    def _ask(self, jobs: Sequence[JobObservation]) -> dict[str, float]:
        """What the sampler wants next, by parameter; {} where there is nothing to choose."""
        if not self._distributions:
            return {}
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", ExperimentalWarning
            )  # GPSampler and TPE's multivariate mode say so
            study = optuna.create_study(sampler=self._make_sampler(len(jobs)))
            for trial in self.trials(jobs):
                study.add_trial(trial)
            return dict(study.ask(dict(self._distributions)).params)

    def _make_sampler(self, number: int) -> optuna.samplers.BaseSampler:
        module, _, name = self._sampler.partition(":")
        seed = np.random.SeedSequence([self._context.seed, number]).generate_state(1)[0]
        found: optuna.samplers.BaseSampler = getattr(importlib.import_module(module), name)(
            seed=int(seed), **self._options
        )
        return found

    def trials(self, jobs: Sequence[JobObservation]) -> list[FrozenTrial]:
        """What the sampler is told: one trial a job, running ones included, all minimised in log seconds."""
        runs = [j for j in jobs if j.kind != "probe"]
        times = {j.job_id: time_to_target(j, self._context.target) for j in runs}
        slowest = max([*(t for t in times.values() if t), *(j.seconds for j in runs)], default=0.0) or 1.0
        return [self._trial(j, times[j.job_id], slowest) for j in runs]

    def _trial(self, job: JobObservation, time: float | None, slowest: float) -> FrozenTrial:
        values = {"batch_size": float(job.point.batch_size), "lr": job.point.lr}
        distributions: dict[str, BaseDistribution] = dict(self._distributions)
        params = {name: values[name] for name in distributions}
        if not job.is_final:
            return create_trial(state=TrialState.RUNNING, params=params, distributions=distributions)
        if time is None and job.outcome in _UNKNOWN:
            return create_trial(state=TrialState.FAIL, params=params, distributions=distributions)
        value = math.log(time) if time else self._penalty(job, slowest)
        return create_trial(
            state=TrialState.COMPLETE, value=value, params=params, distributions=distributions
        )

    def _penalty(self, job: JobObservation, slowest: float) -> float:
        """Beyond the slowest of all, and the further from the target a job stayed the more."""
        target = self._context.target
        scores = [] if job.curve is None else [target.sign * s for s in job.curve.score if math.isfinite(s)]
        gap = 1.0
        if scores:
            span = abs(target.sign * target.score - scores[0]) or 1.0
            gap = min(1.0, max(0.0, (target.sign * target.score - max(scores)) / span))
        return math.log(2.0 * slowest) + gap

    def _distance(self, point: Point, asked: Mapping[str, float]) -> float:
        """In the unit square of log batch size and log lr."""
        values = {"batch_size": float(point.batch_size), "lr": point.lr}
        return math.hypot(
            *(
                math.log(values[name] / wanted) / math.log(range_.high / range_.low)
                for name, wanted in asked.items()
                for range_ in (self._distributions[name],)
            )
        )

    def stop(self, job: JobObservation, jobs: Sequence[JobObservation]) -> str | None:
        """Stop a job that cannot beat the best measured time, even if it goes on as fast as it ever rose."""
        if not self._stops_jobs or job.kind == "probe" or job.curve is None or not job.curve.samples.size:
            return None
        best = best_point(pool_points(jobs, self._context.target))
        if best is None or best.time_to_target is None:
            return None
        limit = HOPELESS * best.time_to_target
        clock = self._context.target.clock
        now = job.curve.seconds_at(float(job.curve.samples[-1]), clock)
        if now > limit:
            return f"after {now:.4g} s it is beyond {HOPELESS:g} times the best, {best.time_to_target:.4g} s"
        if now < LOOK_FROM * best.time_to_target:
            return None
        projected = self._projected(job, clock)
        if projected is None or projected <= limit:
            return None
        return (
            f"its projected time-to-target of {projected:.4g} s exceeds the best, {best.time_to_target:.4g} s"
        )

    def _projected(self, job: JobObservation, clock: Any) -> float | None:
        """When it gets there at the steepest rise seen so far between evaluations that are three apart."""
        curve, target = job.curve, self._context.target
        assert curve is not None
        known = np.isfinite(curve.score)
        samples, score = curve.samples[known], target.sign * curve.score[known]
        if score.size < 4:
            return None
        fit = isotonic(score)
        seconds = np.array([curve.seconds_at(float(s), clock) for s in samples])
        gap = target.sign * target.score - float(fit[-1])
        rises = (fit[3:] - fit[:-3]) / np.maximum(seconds[3:] - seconds[:-3], 1e-9)
        steepest = float(rises.max())
        if gap <= 0:
            return None  # about to be there
        return math.inf if steepest <= 0 else float(seconds[-1]) + gap / steepest

    def recommend(self, jobs: Sequence[JobObservation]) -> Recommendation | None:
        return recommend_measured(jobs, self._context.target)


class RandomSearch(OptunaSearch):
    """Log-uniform over the ranges, moved to the nearest free cell."""


class TpeSearch(OptunaSearch):
    """Optuna's TPE, both parameters together, running jobs taken for bad ones so that they are not asked for
    again."""

    def __init__(self, context: SearchContext, *, stops_jobs: bool = True, **options: Any) -> None:
        chosen = {"n_startup_trials": STARTUP_JOBS, "multivariate": True, "constant_liar": True, **options}
        super().__init__(
            context, sampler="optuna.samplers:TPESampler", sampler_options=chosen, stops_jobs=stops_jobs
        )


class GpSearch(OptunaSearch):
    """Optuna's Gaussian process."""

    def __init__(self, context: SearchContext, *, stops_jobs: bool = True, **options: Any) -> None:
        chosen = {"n_startup_trials": STARTUP_JOBS, **options}
        super().__init__(
            context, sampler="optuna.samplers:GPSampler", sampler_options=chosen, stops_jobs=stops_jobs
        )
