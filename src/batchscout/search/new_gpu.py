"""The search on a new GPU type: S(B, lr) is carried over from a finished sweep, update_seconds is measured
anew.

Samples do not depend on the hardware. The jobs of the finished sweep stay evidence of the samples law,
without their
seconds; probes and jobs here say how long an update takes. The recommendation is run once, whole or until its
samples
are known, and that run also tests the transfer: is its S where the carried jobs say? Where it is not, they
keep a
small weight, as a hint of where to look, and the search goes on as an ordinary one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from batchscout.measure.outcome import Outcome
from batchscout.search.belief import Belief, JobRecord, law, record_of
from batchscout.search.belief.curve_shape import CurveBlock, lattice, ln_likelihood
from batchscout.search.belief.posterior import Posterior, curve_block
from batchscout.search.protocol import (
    Finished,
    JobObservation,
    Point,
    Proposal,
    Recommendation,
    SearchContext,
)
from batchscout.search.time_to_target import TimeToTargetSearch
from batchscout.search.time_to_target.choice import choose
from batchscout.search.time_to_target.settings import Settings
from batchscout.search.time_to_target.state import State

Array = NDArray[np.float64]

HINT = 0.1
"""Weight of a carried job once the transfer has failed."""
CHANCE, CHECKED = 0.015, 3
"""The transfer fails when what the first jobs say (at most CHECKED of them) had less than this chance."""
KNOWN = 0.2
"""A job takes part in the check once its own curve says ln S to this standard deviation."""
CHECK_RISEN = 0.35
"""… and it has come so far up: below, a diverging job still looks like a fast one."""
LAW_ERROR = 0.05
"""sd of ln S of the law itself at one setting, on top of what its posterior says."""
CROSSING_SD = 0.04
SAFE, RISEN, VERIFIED_SD = 0.05, 0.4, 0.05
"""A verifying run at a point that diverges with less than this probability may stop this far up, once ln S is
known
this well; elsewhere it is watched as any suspect job is."""
WORTH = 0.01
"""Expected regret that a further job must remove per best-time that it costs."""
UNPROBED_SD = 0.25
"""sd of ln seconds of an update at a batch size where none was seen, whatever a curve through the others
says."""
PROBE_SHARE, PROBE_WORTH, PROBE_COST = 0.03, 0.03, 0.4
"""Share of a job that a probe may cost. Least chance that the batch size is best, times the sd of ln T there,
that is
worth a probe; and the same per best-time that the probe costs."""


@dataclass(frozen=True, slots=True)
class TransferCheck:
    """S of one job's own curve against what is carried over.

    samples, expected   medians;  interval  90% of what is expected
    deviations          between the two, in standard deviations of both together
    """

    job_id: str
    samples: float
    expected: float
    interval: tuple[float, float]
    deviations: float

    def words(self) -> str:
        low, high = self.interval
        said = "agrees with" if low <= self.samples <= high else "is outside of"
        return (
            f"samples to target of {self.job_id} ({self.samples:,.0f}) {said} the source sweep's "
            f"({self.expected:,.0f}, 90% interval {low:,.0f} to {high:,.0f})"
        )


@dataclass(frozen=True, slots=True)
class Transfer:
    """All checks, in order of the jobs. chance: of deviations as large, the least over the first jobs."""

    checks: tuple[TransferCheck, ...] = ()
    chance: float = 1.0

    @property
    def is_failed(self) -> bool:
        return self.chance < CHANCE

    def words(self) -> list[str]:
        """Sentences for the recommendation."""
        out = [check.words() for check in self.checks[:CHECKED]]
        if self.is_failed:
            out.append(
                f"the transfer failed (chance {self.chance:.1g}): samples differ here, so the search went on as "
                "an ordinary one with the source sweep as a hint"
            )
        return out


@dataclass(frozen=True, eq=False)
class CarriedState(State):
    """State whose belief also rests on carried records; everything that asks what was done here sees own jobs
    only."""

    carried: tuple[JobRecord, ...] = ()
    weight: float = 1.0

    @cached_property
    def own(self) -> tuple[JobRecord, ...]:
        """Records of the jobs here."""
        return tuple(
            record_of(j, self.context.target)
            for j in self.jobs
            if j.kind != "probe" and j.outcome not in (Outcome.FAILED, Outcome.CANCELLED, Outcome.INFEASIBLE)
        )

    @cached_property
    def records(self) -> tuple[JobRecord, ...]:
        carried = self.carried
        if self.weight < 1:
            carried = tuple(replace(r, weight=self.weight, key=(*r.key, self.weight)) for r in carried)
        return (*carried, *self.own)

    def at(self, point: Point) -> list[JobRecord]:
        return [r for r in self.own if r.batch_size == point.batch_size and r.lr == point.lr]


class NewGpuSearch(TimeToTargetSearch):
    """TimeToTargetSearch that begins with the jobs of a finished sweep.

    carried  its jobs; their points may lie outside of this space
    """

    def __init__(
        self, context: SearchContext, carried: Sequence[JobObservation] = (), settings: Settings | None = None
    ) -> None:
        super().__init__(context, settings)
        self.carried = tuple(
            replace(record, key=("carried", *record.key), seconds=0.0, updates=0)
            for job in carried
            if job.kind != "probe"
            and job.outcome not in (Outcome.FAILED, Outcome.CANCELLED, Outcome.INFEASIBLE)
            for record in [record_of(job, context.target)]
            if len(record.score)
        )

    def propose(self, jobs: Sequence[JobObservation]) -> Proposal | Finished | None:
        """Probes, then the recommendation's own run, then what lowers the regret by enough for its cost."""
        state = self._state(jobs)
        if state.posterior.evidence is None or not self.carried or self.transfer(jobs).is_failed:
            return super().propose(jobs)
        probe = self._probe(state)
        if probe is not None:
            return probe
        if state.running:  # few jobs, each decided by what the last one said: not by how many slots there are
            return None
        is_first = not any(j.kind != "probe" for j in state.jobs)
        if is_first or self._is_settled(state):
            return self._verify(state)
        rng = np.random.default_rng([self.context.seed, len(jobs), sum(r.evaluations for r in state.records)])
        choice = choose(state, self.settings, rng)
        if choice is None or choice.gain < WORTH * choice.cost:
            return self._verify(state)
        point = state.points[choice.index]
        words = f"expected to lower the regret by {choice.gain:.1%} for {choice.cost:.2f} best-times"
        return Proposal("run", point, state.seeds_left(point)[0], words)

    def _is_settled(self, state: State) -> bool:
        """The recommendation is as good as the tolerance asks, given that it does not diverge."""
        view, best, s = state.prospects, state.best, self.settings
        kept = view.diverges[:, best] < 0.5
        regret = view.regret[kept if kept.mean() > 0.3 else slice(None), best]
        bad = float((regret > 2 * self.context.tolerance).mean())
        return bad <= s.end_bad or float(regret.mean()) <= s.end_regret * self.context.tolerance

    def _verify(self, state: State) -> Proposal | Finished | None:
        """Run the recommendation, unless that was done: a run here, whole or until its samples were known."""
        point = state.points[state.best]
        regret = float(state.prospects.mean_regret[state.best])
        here = [j for j in state.jobs if j.point == point and j.kind != "probe"]
        if any(not j.is_final for j in here):
            return None
        if any(self._is_verified(state, r) for r in state.at(point)):
            words = f"the recommendation is verified, expected regret {regret:.1%}"
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

    def _is_verified(self, state: State, record: JobRecord) -> bool:
        """Reached, or ended far enough up to say its samples."""
        if record.is_reached or record.outcome is Outcome.CAPPED:
            return True
        evidence = state.posterior.evidence
        assert evidence is not None, "asked only where something is carried"
        risen = (record.top - evidence.block.start) / evidence.block.scale
        return record.outcome is Outcome.STOPPED and risen > RISEN

    def stop(self, job: JobObservation, jobs: Sequence[JobObservation]) -> str | None:
        """A verifying run ends once its samples are known: as early as the risk that it diverges allows."""
        reason = super().stop(job, jobs)
        if reason is not None or job.kind != "verify" or job.curve is None or not self.carried:
            return reason
        if self.transfer(jobs).is_failed:
            return None
        record = record_of(job, self.context.target)
        if record.evaluations < 3:
            return None
        others = self._state([j for j in jobs if j.job_id != job.job_id])
        outlook = self._outlook(record, others)
        is_safe = others.prospects.diverges[:, others.points.index(job.point)].mean() < SAFE
        if outlook.risen > (RISEN if is_safe else self.settings.confirmed) and outlook.known_sd < VERIFIED_SD:
            return f"verified: its samples-to-target is known to {outlook.known_sd:.1%}"
        return None

    def _probe(self, state: State) -> Proposal | None:
        """Where the choice hangs on the update time; what is carried says where that is from the first one
        on.

        One after the other, each decided by what the last one showed; where a job costs a start-up, all that
        may
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
        best: tuple[float, int, int] | None = None
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
            updates = int(np.clip(PROBE_SHARE * samples / b, 1, 4))
            # of a job at this batch size, which is about the best where the probe is worth anything
            if worth < max(PROBE_WORTH, PROBE_COST * updates * b / samples):
                continue
            if best is None or worth > best[0]:
                best = worth, b, updates
        return None if best is None else self._probe_at(state, best[1], best[2])

    def recommend(self, jobs: Sequence[JobObservation]) -> Recommendation | None:
        answer = super().recommend(jobs)
        if answer is None:
            return None
        found = self.transfer(jobs)
        return replace(
            answer,
            warnings=(*answer.warnings, *found.words()),
            is_carried=bool(found.checks) and not found.is_failed,
        )

    def transfer(self, jobs: Sequence[JobObservation]) -> Transfer:
        """Of the jobs that have ended and whose own curve says S."""
        if not self.carried:
            return Transfer()
        records = [record_of(j, self.context.target) for j in jobs if j.is_final and j.kind != "probe"]
        return check_transfer(self.belief, self.carried, [r for r in records if len(r.score) >= 2])

    def _state(self, jobs: Sequence[JobObservation]) -> State:
        key = tuple(
            (j.job_id, str(j.outcome), j.reason, j.seconds, 0 if j.curve is None else len(j.curve.samples))
            for j in jobs
        )
        if key not in self._states:
            weight = HINT if self.transfer(jobs).is_failed else 1.0
            points = self.context.space.all_points()
            self._states[key] = CarriedState(
                self.context, self.belief, tuple(jobs), points, self.carried, weight
            )
            if len(self._states) > 16:
                self._states.popitem(last=False)
        return self._states[key]


def check_transfer(belief: Belief, carried: Sequence[JobRecord], records: Sequence[JobRecord]) -> Transfer:
    """Ended jobs against the carried records alone; those whose own curve does not say S are left out."""
    posterior = belief.posterior(carried)
    if posterior.evidence is None or not records:
        return Transfer()
    told = [
        (r, own)
        for r, risk in zip(records, _divergence(posterior, records), strict=True)
        if (r.is_reached or risk < SAFE) and (own := _own_samples(belief, carried, r)) is not None
    ]
    if not told:
        return Transfer()
    batch = np.array([float(r.batch_size) for r, _ in told])
    log2_lr = np.log2([r.lr for r, _ in told])
    level, _ = posterior.prior.ln_samples(posterior.x[:, : law.SIZE], batch, log2_lr)
    mean, sd = np.array([own for _, own in told]).T
    expected = np.median(level, axis=0)
    own_variance = float(np.median(posterior.noise)) ** 2 + LAW_ERROR**2
    cov = np.atleast_2d(np.cov(level.T)) + own_variance * np.eye(len(told))
    off, total = mean - expected, cov + np.diag(sd**2)
    chance = 1.0
    for k in range(1, min(len(told), CHECKED) + 1):
        square = float(off[:k] @ np.linalg.solve(total[:k, :k], off[:k]))
        chance = min(chance, float(stats.chi2.sf(square, k)))
    spread = np.sqrt(np.diag(cov))
    checks = tuple(
        TransferCheck(
            r.job_id, float(np.exp(mean[i])), float(np.exp(expected[i])),
            (float(np.exp(expected[i] - 1.645 * spread[i])), float(np.exp(expected[i] + 1.645 * spread[i]))),
            float(off[i] / np.sqrt(total[i, i])),
        )
        for i, (r, _) in enumerate(told)
    )  # fmt: skip
    return Transfer(checks, chance)


def _divergence(posterior: Posterior, records: Sequence[JobRecord]) -> Array:
    """(n,) probability that a job at each record's point diverges: its curve then says nothing of S."""
    batch, log2_lr = np.array([float(r.batch_size) for r in records]), np.log2([r.lr for r in records])
    return np.asarray(posterior.ln_samples(batch, log2_lr)[1].mean(0))


def _own_samples(
    belief: Belief, carried: Sequence[JobRecord], record: JobRecord
) -> tuple[float, float] | None:
    """Mean and sd of ln S by the job's own curve, with the carried curves' shapes."""
    if record.ln_crossing is not None:
        return record.ln_crossing, CROSSING_SD
    evidence = belief.posterior(carried).evidence
    if evidence is None or record.outcome is Outcome.DIVERGED:
        return None
    block = curve_block([*carried, record], belief.target_score, evidence.block.is_fraction)
    if (record.top - block.start) / block.scale < CHECK_RISEN:
        return None
    alone = CurveBlock(
        block.ln_n[-1:], block.y[-1:], block.count[-1:], block.ln_wandering[-1:], block.ln_last[-1:],
        block.scale, block.start, block.is_fraction,
    )  # fmt: skip
    z = lattice(alone)
    like = ln_likelihood(alone, evidence.shape.shapes, z)[0]
    weight = np.exp(like - like.max()).sum(0)
    weight /= weight.sum()
    mean = float(weight @ z)
    sd = float(np.sqrt(max(float(weight @ z**2) - mean**2, 0.0)))
    return (mean, sd) if sd < KNOWN else None
