"""The search of batchscout's own as a sampler of a plain Optuna study: no Hydra, no Slurm, no sweep directory.

All that it knows is read from the study's trials at each call, so several processes may share a storage, and a study
that was interrupted goes on with the answers that it would have had. docs/search.md has an example.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from batchscout.errors import SearchError
from batchscout.measure.outcome import Outcome
from batchscout.measure.target import Direction, Target
from batchscout.search import optuna_trials as told
from batchscout.search.factory import build_search
from batchscout.search.optuna_space import candidates, from_the_middle, make_space, nearest
from batchscout.search.optuna_trials import Names, observations
from batchscout.search.protocol import (
    Finished,
    JobObservation,
    Point,
    Proposal,
    Recommendation,
    Search,
    SearchContext,
)


class TimeToTargetSampler(BaseSampler):
    """Asks for the batch size and learning rate whose trial tells most about the fastest one per second that it costs.

    target          score that counts as reached; the objective returns the training seconds until then, to be minimised
    direction       of the score, "max" or "min"; patience: evaluations in a row that must be there
    batch_size, lr  what the objective calls these two parameters; every other one is drawn at random
    search_space    name → distribution of the two; None: as the first trial suggests them
    seed            equal trials and an equal seed give equal answers
    tolerance       the study is stopped when the recommendation is expected to lose less than this share
    runs            trials at one point at the most; the user attribute `seed` counts them
    slots           trials that run at once
    overhead_seconds   start-up of a trial, on the same clock as its seconds
    """

    def __init__(
        self,
        target: float,
        *,
        direction: Direction = "max",
        patience: int = 2,
        batch_size: str = "batch_size",
        lr: str = "lr",
        search_space: Mapping[str, BaseDistribution] | None = None,
        seed: int = 0,
        tolerance: float = 0.05,
        runs: int = 2,
        slots: int = 1,
        overhead_seconds: float = 0.0,
    ) -> None:
        self.target = _checked_target(target, direction, patience)
        for name, value in (("runs", runs), ("slots", slots)):
            _require(name, value, isinstance(value, int) and value >= 1, "a whole number of at least 1")
        _require(
            "tolerance", tolerance, _is_number(tolerance) and 0 < tolerance < 1, "a share between 0 and 1"
        )
        is_span = _is_number(overhead_seconds) and overhead_seconds >= 0
        _require("overhead_seconds", overhead_seconds, is_span, "a number of seconds, 0 or more")
        self.names = Names(batch_size, lr)
        self._given = None if search_space is None else dict(search_space)
        if self._given is not None and set(self._given) != {batch_size, lr}:
            raise SearchError(f"search_space={sorted(self._given)} must hold {batch_size} and {lr}")
        self._seed, self._tolerance, self._runs = seed, tolerance, runs
        self._slots, self._overhead = slots, overhead_seconds
        self._lock = threading.RLock()  # n_jobs > 1 calls one sampler from several threads
        self._search: tuple[SearchContext, Search] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lock": None, "_search": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()

    # What Optuna calls

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The two parameters, once their ranges are known."""
        if study.directions != [StudyDirection.MINIMIZE]:
            raise SearchError(
                "the study must minimise one value, the time-to-target; create it with direction='minimize'"
            )
        return self._distributions(study.get_trials(deepcopy=False)) or {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The point to run next; why, which run and, for a probe, how many updates are the trial's user attributes."""
        if not search_space:
            return {}
        trials = study.get_trials(deepcopy=False)
        jobs = observations([t for t in trials if t.number != trial.number], self.names, self.target)
        with self._lock:
            for other in self._pending(trials, trial):
                jobs.append(self._imagined(other, self._propose(jobs, search_space)[0]))
            proposal, is_spare = self._propose(jobs, search_space)
        said = {told.KIND: proposal.kind, told.SEED: proposal.seed, told.EXPLANATION: proposal.explanation}
        if is_spare:
            said[told.SPARE] = True
        if proposal.updates_limit is not None:
            said[told.UPDATES] = proposal.updates_limit
        if proposal.resume is not None:
            said[told.CONTINUES] = int(proposal.resume.rpartition("-")[2])
        set_attributes(study, trial, said)
        values = {
            self.names.batch_size: float(proposal.point.batch_size),
            self.names.lr: proposal.point.lr,
        }
        return {name: nearest(values[name], candidates(name, search_space[name])) for name in values}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """The first trials' points from the middle outward; parameters of another name at random."""
        if param_name in (self.names.batch_size, self.names.lr):
            return from_the_middle(candidates(param_name, param_distribution), trial.number)
        words = [self._seed, trial.number, zlib.crc32(param_name.encode())]
        drawn = RandomSampler(seed=int(np.random.SeedSequence(words).generate_state(1)[0]))
        return drawn.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Write down what the trial showed, and stop the study once nothing more is worth its cost."""
        trials = [t for t in study.get_trials(deepcopy=False) if t.number != trial.number]
        now = next((t for t in study.get_trials(deepcopy=False) if t.number == trial.number), trial)
        told.check_told(now, state, self.names)
        jobs = observations([*trials, told.with_state(now, state, values)], self.names, self.target)
        own = next((j for j in jobs if j.job_id == told.job_of(now)), None)
        if own is None:
            return
        set_attributes(study, trial, told.attributes(own, self.target))
        space = self._distributions([*trials, now])
        if space is None:
            return
        answer = self._end([*trials, told.with_state(now, state, values)], space)
        if answer is not None:
            study.set_user_attr("finished", answer.explanation)
            try:
                study.stop()
            except RuntimeError:  # asked and told by hand: there is no loop to stop
                return

    # For people, and for the pruner

    def recommendation(self, study: Study) -> Recommendation | None:
        """The fastest point as believed now, None before any score."""
        trials = study.get_trials(deepcopy=False)
        jobs, space = observations(trials, self.names, self.target), self._distributions(trials)
        if space is None:
            return None
        with self._lock:
            return self._search_for(jobs, space).recommend(jobs)

    def why_stop(self, study: Study, trial: FrozenTrial) -> str | None:
        """Why a running trial should end now, in words, or None."""
        others = [t for t in study.get_trials(deepcopy=False) if t.number != trial.number]
        jobs = observations([*others, trial], self.names, self.target)
        own = next((j for j in jobs if j.job_id == told.job_of(trial)), None)
        space = self._distributions([*others, trial])
        if own is None or own.curve is None or space is None:
            return None
        if trial.user_attrs.get(told.KIND) == "probe":
            return "its seconds are known, which was all that it was to tell"
        if told.is_spare(trial) and self._end([*others, trial], space) is not None:
            return "the study has its answer"
        with self._lock:
            return self._search_for(jobs, space).stop(own, jobs)

    # Parts

    def _end(self, trials: Sequence[FrozenTrial], space: Mapping[str, BaseDistribution]) -> Finished | None:
        """Why nothing more is worth its cost, None while something is. Nothing waits for trials that only had to get a
        point."""
        jobs = observations([t for t in trials if not told.is_spare(t)], self.names, self.target)
        with self._lock:
            answer = self._search_for(jobs, space).propose(jobs)
        return answer if isinstance(answer, Finished) else None

    def _distributions(self, trials: Sequence[FrozenTrial]) -> dict[str, BaseDistribution] | None:
        if self._given is not None:
            return dict(self._given)
        for trial in sorted(trials, key=lambda t: -t.number):
            if told.has_point(trial, self.names):
                return {name: trial.distributions[name] for name in (self.names.batch_size, self.names.lr)}
        return None

    def _search_for(self, jobs: Sequence[JobObservation], space: Mapping[str, BaseDistribution]) -> Search:
        """One search a space; what it remembers only saves time."""
        lists = [candidates(name, space[name]) for name in (self.names.batch_size, self.names.lr)]
        context = SearchContext(
            space=make_space(lists[0], lists[1], jobs, self._runs),
            target=self.target,
            seed=self._seed,
            tolerance=self._tolerance,
            slots=self._slots,
            overhead_seconds=self._overhead,
        )
        if self._search is None or self._search[0] != context:
            self._search = (context, build_search("time_to_target", context))
        return self._search[1]

    def _propose(
        self, jobs: Sequence[JobObservation], space: Mapping[str, BaseDistribution]
    ) -> tuple[Proposal, bool]:
        """A trial must get a point even where a search would wait or end: the recommended one, once more (True)."""
        search = self._search_for(jobs, space)
        answer = search.propose(jobs)
        if isinstance(answer, Proposal):
            return answer, False
        why = answer.explanation if answer is not None else "waiting for what the running trials tell"
        best = search.recommend(jobs)
        point = self._middle(space) if best is None else best.point
        seed = len({j.seed for j in jobs if j.point == point and j.kind != "probe"})
        return Proposal("verify", point, seed, f"the recommendation once more: {why}"), True

    def _middle(self, space: Mapping[str, BaseDistribution]) -> Point:
        batch_size, lr = (
            from_the_middle(candidates(n, space[n]), 0) for n in (self.names.batch_size, self.names.lr)
        )
        return Point(int(batch_size), float(lr))

    def _pending(self, trials: Sequence[FrozenTrial], trial: FrozenTrial) -> list[FrozenTrial]:
        """Trials of other processes that are being given their points now: later numbers take these for running."""
        known = max((t.number for t in trials if told.has_point(t, self.names)), default=-1)
        return [
            t
            for t in sorted(trials, key=lambda t: t.number)
            if known < t.number < trial.number and t.state is TrialState.RUNNING
        ]

    def _imagined(self, trial: FrozenTrial, proposal: Proposal) -> JobObservation:
        return JobObservation(
            told.job_id(trial.number),
            proposal.kind,
            proposal.point,
            proposal.seed,
            Outcome.QUEUED,
            "",
            None,
            0.0,
            updates_limit=proposal.updates_limit,
        )


def _checked_target(score: float, direction: Direction, patience: int) -> Target:
    _require("target", score, _is_number(score), "the score that counts as reached, a finite number")
    _require(
        "direction", direction, direction in ("max", "min"), "max where a higher score is better, else min"
    )
    _require(
        "patience", patience, isinstance(patience, int) and patience >= 1, "a whole number of at least 1"
    )
    return Target(float(score), direction, patience)


def _require(name: str, value: object, is_right: bool, right: str) -> None:
    if not is_right:
        raise SearchError(f"TimeToTargetSampler({name}={value!r}): {name} must be {right}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(value))


def set_attributes(study: Study, trial: FrozenTrial, values: Mapping[str, Any]) -> None:
    """User attributes of a trial that Optuna shows as a FrozenTrial, which has no public way to set them.

    They are set in its own dictionary, too: the objective's Trial looks there.
    """
    for name, value in values.items():
        study._storage.set_trial_user_attr(trial._trial_id, name, value)
        trial.user_attrs[name] = value
