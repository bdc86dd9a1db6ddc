"""The search on a new GPU type: S(B, lr) is carried over from a finished sweep, update_seconds is measured anew.

Samples do not depend on the hardware. The jobs of the finished sweep stay evidence of the samples law, without their
seconds; probes and jobs here say how long an update takes. The recommendation is run once, whole or until its samples
are known, and that run also tests the transfer: is its S where the carried jobs say? Where it could not tell, a
partial run at another batch size is bought for the test alone. If the transfer fails, the carried jobs keep a small
weight, as a hint of where to look, and the search goes on as an ordinary one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from batchscout.measure.outcome import Outcome
from batchscout.search.belief import JobRecord, record_of
from batchscout.search.protocol import (
    Finished,
    JobObservation,
    Point,
    Proposal,
    Recommendation,
    SearchContext,
)
from batchscout.search.time_to_target import TimeToTargetSearch
from batchscout.search.time_to_target.choice import choose, is_grounded, partial_share
from batchscout.search.time_to_target.settings import Settings
from batchscout.search.time_to_target.state import State, state_key
from batchscout.search.transfer import CHECK_RISEN, SAFE, Transfer, check_transfer, power

Array = NDArray[np.float64]

HINT = 0.1
"""Weight of a carried job once the transfer has failed."""
RISEN, VERIFIED_SD = 0.33, 0.08
"""A verifying run at a point that hardly diverges (SAFE) may stop this far up, once ln S is known this well: seeds
differ by as much. Elsewhere it is watched as any suspect job is."""
NEAR = 1.0
"""Octaves, in batch size and in lr, within which a verified run also speaks for the recommendation: the law there is
nearly the same, and so is what would be lost. Only where the recommendation itself hardly diverges (SAFE)."""
WORTH = 0.04
"""Expected regret that a further job must remove per best-time that it costs."""
END_BAD, END_REGRET = 0.04, 0.3
"""As in Settings, but stricter: a job costs little here beside what the source sweep has cost."""
UNPROBED_SD = 0.25
"""sd of ln seconds of an update at a batch size where none was seen, whatever a curve through the others says."""
PROBE_SHARE, PROBE_WORTH, PROBE_COST, PROBE_LEAST = 0.03, 0.03, 0.3, 0.02
"""Share of a job that a probe may cost. Least chance that the batch size is best, times the sd of ln T there, that is
worth a probe; and the same per best-time that the probe costs. The one of the most worth for its cost comes first, so
that the largest batch sizes, whose updates are dear, are left out where others say enough; below the last no probe is
cheaper than another."""
TELLING, LEAST_TOLD, TEST_SD = 16.0, 4.0, 0.12
"""Squared standard deviations between "the same S" and "S changed" that the jobs are to offer, and the least that one
job for the test alone must add; ln S of such a job is measured to this sd."""
TEST_COST, TEST_UNTIL = 0.8, 2.0
"""Best-times that such a job may cost, and that the sweep has cost with it."""


@dataclass(frozen=True, eq=False)
class CarriedState(State):
    """State whose belief also rests on carried records; what asks what was done here sees own jobs only."""

    carried: tuple[JobRecord, ...] = ()
    weight: float = 1.0

    @cached_property
    def records(self) -> tuple[JobRecord, ...]:
        carried = self.carried
        if self.weight < 1:
            carried = tuple(replace(r, weight=self.weight, key=(*r.key, self.weight)) for r in carried)
        return (*carried, *self.own)

    @property
    def is_misfit(self) -> bool:
        """Here the check of the transfer says whether the jobs can be trusted."""
        return False


class NewGpuSearch(TimeToTargetSearch):
    """TimeToTargetSearch that begins with the jobs of a finished sweep.

    carried  its jobs; their points may lie outside of this space
    """

    def __init__(
        self, context: SearchContext, carried: Sequence[JobObservation] = (), settings: Settings | None = None
    ) -> None:
        super().__init__(context, settings or Settings(end_bad=END_BAD, end_regret=END_REGRET))
        self.carried = tuple(
            replace(
                record,
                key=("carried", *record.key),
                job_id=f"carried {record.job_id}",
                seconds=0.0,
                updates=0,
            )
            for job in carried
            if job.kind != "probe"
            and job.outcome not in (Outcome.FAILED, Outcome.CANCELLED, Outcome.INFEASIBLE)
            for record in [record_of(job, context.target)]
            if len(record.score)
        )

    def propose(self, jobs: Sequence[JobObservation]) -> Proposal | Finished | None:
        """Probes, then the recommendation's own run, then what lowers the regret by enough for its cost."""
        state = self._state(jobs)
        if not self.carried or not is_grounded(state) or self.transfer(jobs).is_failed:
            return super().propose(jobs)
        probe = self._probe(state)
        if probe is not None:
            return probe
        if state.running:  # few jobs, each decided by what the last one said: not by how many slots there are
            return None
        is_first = not any(j.kind != "probe" for j in state.jobs)
        if is_first or self._is_settled(state):
            return self._verify(state)
        choice = choose(state, self.settings, self._rng(state), self._may_go_on)
        if choice is None or choice.gain < WORTH * choice.cost:
            return self._verify(state)
        return self._proposal(state, choice)

    def _is_settled(self, state: State) -> bool:
        """How it is verified is for `_verify` to say: a run need not reach the target here."""
        return self._is_good_enough(state)

    def _verify(self, state: State) -> Proposal | Finished | None:
        """Run the recommendation, unless that was done: there or next to it, whole or until its samples were known."""
        point = state.points[state.best]
        regret = float(state.prospects.mean_regret[state.best])
        here = [j for j in state.jobs if j.point == point and j.kind != "probe"]
        if any(not j.is_final for j in here):
            return None
        verified_by = self._verified_by(state)
        if verified_by is not None:
            test = self._test(state)
            if test is not None:
                words = "tells whether S changed: a larger or smaller critical batch size would show there"
                return Proposal("run", test, state.seeds_left(test)[0], words)
            agreement = self.transfer(state.jobs).agreement()
            beside = f" by the run next to it, batch_size={verified_by.batch_size} lr={verified_by.lr:g}"
            by = "" if verified_by == point else beside
            words = f"the recommendation is verified{by}, expected regret {regret:.1%}{agreement}"
            return None if state.running else Finished(words)
        stopped = [j for j in here if j.outcome is Outcome.STOPPED]
        if stopped:
            job = max(stopped, key=lambda j: j.seconds)
            return Proposal("verify", point, job.seed, "the recommendation, continued", resume=job.job_id)
        left = state.seeds_left(point)
        if not left:
            return None if state.running else Finished("no run is left that could verify the recommendation")
        words = "the best by the samples carried over and the update seconds measured here"
        return Proposal("verify", point, left[0], words)

    def _test(self, state: State) -> Point | None:
        """What says most, for its cost, of a change of the law that the jobs so far could not have shown."""
        if state.running or any(not j.is_final for j in state.jobs):
            return None
        view = state.prospects
        seen = {j.point.batch_size for j in state.jobs if j.curve and j.kind != "probe"}
        median = np.median(view.ln_seconds, axis=0)
        usable = state.allowed & (view.diverges.mean(0) < SAFE)
        at = []
        for b in state.batch_sizes:
            here = np.flatnonzero((state.batch == b) & usable)
            if b not in seen and len(here):
                i = int(here[np.argmin(median[here])])
                if state.seeds_left(state.points[i]):
                    at.append(i)
        if not at:
            return None
        now, then = power(
            self.belief, self.carried, self._ended(state.jobs), state.batch[at], state.log2_lr[at], TEST_SD
        )
        open_ = now < TELLING
        if not open_.any():
            return None
        best = float(np.median(view.ln_best))
        cost = partial_share(state) * np.exp(median[at] - best)
        spent = sum(j.seconds for j in state.jobs) / np.exp(best)
        gain = (np.minimum(then, TELLING) - np.minimum(now, TELLING)[:, None])[open_].max(0)
        worth = np.where(
            (gain > LEAST_TOLD) & (cost < TEST_COST) & (spent + cost < TEST_UNTIL), gain / cost, 0.0
        )
        return state.points[at[int(np.argmax(worth))]] if worth.any() else None

    def _verified_by(self, state: State) -> Point | None:
        """The recommended setting if a run there verifies it, else one next to it whose run does, else None."""
        if any(self._is_verified(state, r) for r in state.at(state.points[state.best])):
            return state.points[state.best]
        if not self._is_settled(state) or state.prospects.diverges[:, state.best].mean() >= SAFE:
            return None
        for record in state.own:
            i = state.place[Point(record.batch_size, record.lr)]
            octaves = abs(np.log2(state.batch[i] / state.batch[state.best]))
            octaves = max(octaves, abs(state.log2_lr[i] - state.log2_lr[state.best]))
            if octaves < NEAR + 1e-6 and self._is_verified(state, record):
                return state.points[i]
        return None

    def _is_verified(self, state: State, record: JobRecord) -> bool:
        """Reached, or ended far enough up to say its samples."""
        if record.is_reached or record.outcome is Outcome.CAPPED:
            return True
        evidence = state.posterior.evidence
        assert evidence is not None, "asked only where something is carried"
        return record.outcome is Outcome.STOPPED and evidence.block.risen(record.top) > RISEN

    def stop(self, job: JobObservation, jobs: Sequence[JobObservation]) -> str | None:
        """A verifying run ends once its samples are known: as early as the risk that it diverges allows."""
        if job.kind == "probe" or job.curve is None or not self.carried or self.transfer(jobs).is_failed:
            return super().stop(job, jobs)
        others = self._state([j for j in jobs if j.job_id != job.job_id])
        if job.kind == "run" and self._is_settled(others) and self._test(others) == job.point:
            return self._stop_test(job, others)
        reason = super().stop(job, jobs)
        if reason is not None or job.kind != "verify":
            return reason
        record = record_of(job, self.context.target)
        if record.evaluations < 3:
            return None
        outlook = self._outlook(record, others)
        evidence = others.posterior.evidence
        assert evidence is not None, "asked only where something is carried"
        is_safe = others.prospects.diverges[:, others.place[job.point]].mean() < SAFE
        if outlook.risen > (RISEN if is_safe else evidence.confirmed) and outlook.known_sd < VERIFIED_SD:
            return f"verified: its samples-to-target is known to {outlook.known_sd:.1%}"
        return None

    def _stop_test(self, job: JobObservation, others: State) -> str | None:
        """A job that runs for the test alone ends once it says its S, or that it never will."""
        record = record_of(job, self.context.target)
        if record.evaluations < 2:
            return None
        outlook = self._outlook(record, others)
        if outlook.is_fallen:
            return "its score has fallen: it diverges"
        if outlook.risen > CHECK_RISEN and outlook.known_sd < TEST_SD:
            return f"its samples-to-target is known to {outlook.known_sd:.1%}: enough for the test of the transfer"
        if record.seconds > 2 * TEST_COST * np.exp(np.median(others.prospects.ln_best)):
            return "too dear for the test of the transfer"
        return None

    def _probe(self, state: State) -> Proposal | None:
        """Where the choice hangs on the update time; what is carried says where that is from the first one on.

        One after the other, each decided by what the last one showed; where a job costs a start-up, all that may
        matter at once, for they share one allocation.
        """
        if state.posterior.evidence is None or not self.carried:
            return super()._probe(state)
        is_shared = self.context.overhead_seconds > 0
        if not is_shared and any(j.kind == "probe" and not j.is_final for j in state.jobs):
            return None
        seen = {j.point.batch_size for j in state.jobs if j.kind == "probe" or j.curve is not None}
        view = state.prospects
        usable = np.where(view.diverges < 0.5, view.ln_seconds, np.inf)
        best: tuple[float, int, int] | None = None  # of the most worth for its cost
        for b in state.batch_sizes:
            if b >= state.memory_limit or b in seen:
                continue
            behind = usable[:, state.batch == b].min(1) - view.ln_best
            behind = behind[np.isfinite(behind)]
            if not len(behind):
                continue
            spread = float(np.hypot(behind.std(), UNPROBED_SD))
            worth = float(stats.norm.cdf(-np.median(behind) / spread)) * spread
            samples = float(np.exp(np.median(view.ln_samples[:, state.batch == b].min(1))))
            share = max(b / samples, self._share_if_saturated(state, b, max(seen, default=0)))
            updates = int(np.clip(PROBE_SHARE / share, 1, 4))
            # of a job at this batch size, unless what was seen of others says that it is far from the best
            cost = updates * b / samples * float(np.exp(max(np.quantile(behind, 0.3), 0.0)))
            if worth < max(PROBE_WORTH, PROBE_COST * cost):
                continue
            if not seen:  # the first one only sets the scale, and is cheapest at the smallest
                return self._probe_at(state, b, 1)
            rate = worth / (cost + PROBE_LEAST)
            if best is None or rate > best[0]:
                best = rate, b, updates
        return None if best is None else self._probe_at(state, best[1], best[2])

    def _share_if_saturated(self, state: State, b: int, largest: int) -> float:
        """Best-times that an update at batch size b takes if throughput rises no further than at the largest seen.

        By its samples alone an update of a large batch is a small share of a long job, and the probe may cost more than
        the best run. 0 where the largest seen is above b, or none was seen.
        """
        there = state.batch == largest
        if b <= largest or not there.any():
            return 0.0
        view = state.prospects
        ln_sample_seconds = np.median(view.ln_seconds[:, there] - view.ln_samples[:, there])
        return b * float(np.exp(ln_sample_seconds - np.median(view.ln_best)))

    def recommend(self, jobs: Sequence[JobObservation]) -> Recommendation | None:
        answer = super().recommend(jobs)
        if answer is None:
            return None
        found = self.transfer(jobs)
        return replace(
            answer,
            warnings=(*answer.warnings, *found.warnings()),
            is_carried=bool(found.checks) and not found.is_failed,
        )

    def transfer(self, jobs: Sequence[JobObservation]) -> Transfer:
        """Of the jobs that have ended and whose own curve says S."""
        if not self.carried:
            return Transfer()
        return check_transfer(self.belief, self.carried, self._ended(jobs))

    def _ended(self, jobs: Sequence[JobObservation]) -> list[JobRecord]:
        records = [record_of(j, self.context.target) for j in jobs if j.is_final and j.kind != "probe"]
        return [r for r in records if len(r.score) >= 2]

    def _state(self, jobs: Sequence[JobObservation], cut: str | None = None) -> State:
        key = state_key(jobs, cut, is_coarse=False)
        if key not in self._states:
            weight = HINT if self.transfer(jobs).is_failed else 1.0
            points = self.context.space.all_points()
            self._states[key] = CarriedState(
                self.context,
                self.belief,
                tuple(jobs),
                points,
                cut=cut,
                settings=self.settings,
                carried=self.carried,
                weight=weight,
            )
            if len(self._states) > 16:
                self._states.popitem(last=False)
        return self._states[key]
