"""TimeToTargetSearch: propose, stop and recommend from the belief. A pure function of the jobs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from batchscout.measure.outcome import Outcome
from batchscout.search.belief import Belief, JobRecord, record_of
from batchscout.search.belief.evidence import CONFIRMED, CROSSING_SD, is_confirmed
from batchscout.search.protocol import (
    Finished,
    JobObservation,
    Kind,
    Point,
    Proposal,
    Recommendation,
    SearchContext,
)
from batchscout.search.time_to_target.choice import Choice, choose
from batchscout.search.time_to_target.settings import Settings
from batchscout.search.time_to_target.state import State, make_state, state_key
from batchscout.search.time_to_target.watch import Outlook, is_climbing, is_sheltered, look_at

Array = NDArray[np.float64]

INEXACT = 0.09
"""sd of ln S between the world and any law of the family, where they agree at the points that were run."""
WIDE = 1.645
"""Standard deviations to either side of a 90 % interval."""
TIE = 0.05
"""A batch size that is faster than the recommended one with at least this probability cannot be told from it."""
MISFIT = (
    "the jobs follow no law of the family: recommended is the fastest of the measured settings, those around it were "
    "measured, too"
)
TOGETHER = 3
"""Later probes in one allocation, at most: each makes the others worth less."""


class TimeToTargetSearch:
    """The search of DESIGN §7: laws, partial curves, regret removed per second.

    binds_late  a job in the queue may be given other parameters until it starts
    """

    binds_late = True

    def __init__(self, context: SearchContext, settings: Settings | None = None) -> None:
        self.context, self.settings = context, settings or Settings()
        self.belief = Belief(context.space, context.target, context.seed)
        self._states: OrderedDict[object, State] = OrderedDict()

    # ── the protocol ──────────────────────────────────────────────────────────────────────────────────────────

    def propose(self, jobs: Sequence[JobObservation]) -> Proposal | Finished | None:
        state = self._state(jobs)
        probe = self._probe(state)
        if probe is not None:
            return probe
        if self._is_settled(state):
            return self._confirm(state)
        if state.is_misfit:
            return self._descend(state)
        choice = choose(state, self.settings, self._rng(state), self._may_go_on)
        if choice is None:
            if state.running:
                return None
            words = "every allowed point has been tried"
            return self._confirm(state) if self._can_confirm(state) else Finished(words)
        if state.running_jobs and choice.gain < self.settings.worth * choice.cost:
            return None  # what already runs will tell more than this could
        return self._proposal(state, choice)

    def stop(self, job: JobObservation, jobs: Sequence[JobObservation]) -> str | None:
        if job.kind == "probe":
            return None
        is_alone = self.context.slots == 1
        if not is_alone and self._is_over(self._state(jobs), job):
            return "the recommendation is settled without it"
        if job.curve is None:
            return None
        belief = self._state([j for j in jobs if j.job_id != job.job_id] if is_alone else jobs)
        return self._why_stop(job, jobs, belief)

    def _why_stop(self, job: JobObservation, jobs: Sequence[JobObservation], belief: State) -> str | None:
        """belief: from the other jobs, or from all with this one as it was a little earlier."""
        s = self.settings
        record = record_of(job, self.context.target)
        if record.evaluations < 2:
            return None
        outlook = self._outlook(record, belief)
        if outlook.is_fallen:
            return "its score has fallen: it diverges"
        # a recommendation is refuted by its fall only: its own curve may be what the others are judged by
        if outlook.lost > 0.97 and job.kind != "verify" and not is_climbing(record, outlook):
            return "its curve is not that of a job that gets there"
        ln_seconds = outlook.z + np.log(record.seconds / record.updates) - np.log(job.point.batch_size)
        late = self._late(job.kind, ln_seconds, outlook, belief)
        if late > s.hopeless_sure:
            return f"takes more than {s.hopeless:.1f} times the best with probability {late:.0%}"
        if job.kind == "verify":
            return None
        evidence = belief.posterior.evidence
        is_suspect = outlook.lost > s.suspect or (
            self._contends(ln_seconds, outlook, belief) and not is_sheltered(record, evidence)
        )
        confirmed = CONFIRMED if evidence is None else evidence.confirmed
        if is_suspect and not (record.evaluations >= 3 and outlook.risen > confirmed):
            return None
        if outlook.known_sd < s.known_sd and outlook.risen > s.least_risen:
            if self._is_verifying(job, jobs, belief):
                return None
            return f"its samples-to-target is known to {outlook.known_sd:.1%}"
        return None

    def recommend(self, jobs: Sequence[JobObservation]) -> Recommendation | None:
        state = self._state(jobs)
        if not any(len(r.score) for r in state.records):
            return None
        if state.is_misfit:
            return self._measured(state)
        view, best = state.prospects, state.best
        point = state.points[best]
        ln_t = view.ln_seconds[:, best]
        ln_samples = float(np.median(view.ln_samples[:, best]))
        ln_low, ln_middle, ln_high = np.quantile(ln_t, [0.05, 0.5, 0.95])
        said, sd = self._with_arrivals(state, point, ln_samples, float(ln_high - ln_low) / (2 * WIDE))
        middle, width = float(ln_middle) + said - ln_samples, WIDE * float(np.hypot(sd, INEXACT))
        samples = float(np.exp(said))
        winner = view.batch[np.argmin(view.usable, axis=1)]
        faster = {
            b: float((view.usable[:, view.batch == b].min(1) < ln_t).mean())
            for b in state.batch_sizes
            if b != point.batch_size
        }
        ties = sorted([point.batch_size, *(b for b, p in faster.items() if p >= TIE)])
        return Recommendation(
            point, float(np.exp(middle)), (float(np.exp(middle - width)), float(np.exp(middle + width))),
            samples, samples / float(np.exp(middle)),
            near_ties=tuple(ties), probability_best=float((winner == point.batch_size).mean()),
            expected_regret=float(view.mean_regret[best]),
        )  # fmt: skip

    def _measured(self, state: State) -> Recommendation:
        """The fastest of the measured settings, with what the jobs there say."""
        best = state.best
        point, (ln_t, sd) = state.points[best], state.measured[best]
        slower = {i: (m - ln_t, float(np.hypot(s, sd))) for i, (m, s) in state.measured.items() if i != best}
        tied = {state.points[i].batch_size for i, (off, s) in slower.items() if norm.cdf(-off / s) >= TIE}
        ln_throughput = float(np.log(point.batch_size)) - state.update_time.at(point.batch_size)[0]
        said, sd = self._with_arrivals(state, point, ln_t + ln_throughput, sd)
        width = WIDE * float(np.hypot(sd, INEXACT))
        seconds, throughput = float(np.exp(said - ln_throughput)), float(np.exp(ln_throughput))
        return Recommendation(
            point, seconds, (seconds * float(np.exp(-width)), seconds * float(np.exp(width))), seconds * throughput,
            throughput, near_ties=tuple(sorted(tied | {point.batch_size})), warnings=(MISFIT,),
        )  # fmt: skip

    def _with_arrivals(self, state: State, point: Point, ln_samples: float, sd: float) -> tuple[float, float]:
        """ln S as expected from curves, with its sd, and the jobs that arrived at the point, weighed by precision.

        How far the curves' S is from where jobs arrived counts as its error: a curve that is flat at the target, or
        noisy, arrives before its mean does, and no draw of the law shows that.
        """
        arrived = [r.ln_crossing for r in state.at(point) if r.ln_crossing is not None]
        if not arrived:
            return ln_samples, sd
        seen = float(np.mean(arrived))
        seen_sd = float(np.hypot(np.median(state.posterior.noise), CROSSING_SD)) / len(arrived) ** 0.5
        precision = 1 / (sd**2 + (seen - ln_samples) ** 2), 1 / seen_sd**2
        mean = (precision[0] * ln_samples + precision[1] * seen) / sum(precision)
        return float(mean), float(sum(precision) ** -0.5)

    # ── parts ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _rng(self, state: State) -> np.random.Generator:
        seen = sum(r.evaluations for r in state.records)
        return np.random.default_rng([self.context.seed, len(state.jobs), seen])

    def _proposal(self, state: State, choice: Choice) -> Proposal:
        point = state.points[choice.index]
        words = (
            f"expected to lower the regret by {choice.gain:.1%} for {choice.cost:.2f} best-times"
            if choice.gain == choice.gain
            else f"no job has risen yet: this one may be the first, expected in {choice.cost:.2f} best-times"
        )
        if choice.resume is not None:
            return Proposal("run", point, choice.resume.seed, words, resume=choice.resume.job_id)
        return Proposal("run", point, state.seeds_left(point)[0], words)

    def _descend(self, state: State) -> Proposal | Finished | None:
        """No law describes the jobs: measure around the fastest of them."""
        around = state.unmeasured_around(state.best)
        if not around:
            return (
                None if state.running else Finished("every allowed setting around the fastest has been tried")
            )
        view = state.prospects
        i = min(
            around,
            key=lambda i: (float(np.median(view.ln_seconds[:, i]) + 2 * view.diverges[:, i].mean()), i),
        )
        words = (
            f"the jobs follow no law of the family: beside the fastest of them, {state.points[state.best]}"
        )
        return Proposal("run", state.points[i], state.seeds_left(state.points[i])[0], words)

    def _may_go_on(self, state: State, record: JobRecord, kind: Kind = "run") -> bool:
        """Whether a stopped job would not be stopped again at once, with what it has shown by now."""
        jobs = [
            replace(j, outcome=Outcome.RUNNING, reason="", kind=kind) if j.job_id == record.job_id else j
            for j in state.jobs
        ]
        job = next(j for j in jobs if j.job_id == record.job_id)
        if self.context.slots > 1 or (posterior := state.posterior.without(record.job_id)) is None:
            return self.stop(job, jobs) is None
        others = replace(state, jobs=tuple(j for j in jobs if j is not job), cut=None, given=posterior)
        return self._why_stop(job, jobs, others) is None

    def _stopped(self, job: JobObservation, jobs: Sequence[JobObservation]) -> State:
        """As if the job were stopped now, or at its last milestone."""
        stopped = replace(job, outcome=Outcome.STOPPED, reason="")
        return self._state([stopped if j.job_id == job.job_id else j for j in jobs], job.job_id)

    def _is_verifying(self, job: JobObservation, jobs: Sequence[JobObservation], belief: State) -> bool:
        """Whether the job would be continued at once if it were stopped now; beside others, whether it may be."""
        if self.context.slots > 1:
            return belief.points[belief.best] == job.point
        rank = np.argsort(belief.prospects.mean_regret, kind="stable")[:3]
        if job.point not in [belief.points[i] for i in (*rank, belief.best)]:
            return False
        after = self._stopped(job, jobs)
        if not self._is_settled(after):
            return False
        answer = self._confirm(after)
        return isinstance(answer, Proposal) and answer.resume == job.job_id

    def _late(self, kind: Kind, ln_seconds: Array, outlook: Outlook, belief: State) -> float:
        """Probability that a job takes much longer than the best; ln_seconds (Z,) to the target at each ln S."""
        if belief.posterior.evidence is None:
            return 0.0
        patience = np.log(self.settings.hopeless) + (0.6 if kind == "verify" else 0.0)
        return float(outlook.weight[ln_seconds > self._bar(belief) + patience].sum())

    def _contends(self, ln_seconds: Array, outlook: Outlook, belief: State) -> bool:
        """Whether a job may be about as fast as the best of the others."""
        if belief.posterior.evidence is None:
            return True
        return bool(outlook.weight[ln_seconds < self._bar(belief)].sum() > self.settings.contends)

    def _is_over(self, state: State, job: JobObservation) -> bool:
        best = state.points[state.best]
        return job.point != best and self._is_settled(state) and any(r.is_reached for r in state.at(best))

    def _state(self, jobs: Sequence[JobObservation], cut: str | None = None) -> State:
        is_coarse = self.context.slots > 1
        key = state_key(jobs, cut, is_coarse=is_coarse)
        if key not in self._states:
            self._states[key] = make_state(
                self.context, self.belief, jobs, is_coarse=is_coarse, cut=cut, settings=self.settings
            )
            if len(self._states) > 16:
                self._states.popitem(last=False)
        return self._states[key]

    def _outlook(self, record: JobRecord, others: State) -> Outlook:
        evidence = others.posterior.evidence
        shapes = self.belief.prior_shapes() if evidence is None else evidence.shape.shapes
        fraction = self.belief.is_share
        return look_at(record, others.posterior, shapes, self.belief.target_score, fraction)

    def _bar(self, others: State) -> float:
        """ln seconds of the best, as far as it can be relied on: only jobs seen most of the way up may set
        it."""
        view = others.prospects
        bar = float(np.quantile(view.ln_best, 0.85))
        block = others.posterior.evidence.block  # type: ignore[union-attr]
        reliable = {
            Point(r.batch_size, r.lr)
            for r in others.records
            if len(r.score) and (r.is_reached or is_confirmed(r, block, self.settings.seen))
        }
        # a carried job may lie outside of the space
        places = [others.place[p] for p in reliable if p in others.place]
        seen = [float(np.median(view.ln_seconds[:, i])) for i in places]
        return max(bar, min(seen) if seen else bar + 0.7)

    def _probe(self, state: State) -> Proposal | None:
        """The first few probes, from the middle outward; later ones where the choice hangs on the update
        time."""
        sizes = [b for b in state.batch_sizes if b < state.memory_limit]
        probes: dict[int, int] = {}
        for j in state.jobs:
            if j.kind == "probe":
                probes[j.point.batch_size] = probes.get(j.point.batch_size, 0) + 1
        if not sizes:
            return None
        middle = len(state.batch_sizes) // 2 - 1
        for step in (0, -2, 2, -4):
            i = middle + step
            if 0 <= i < len(state.batch_sizes):
                b = state.batch_sizes[i]
                if (
                    b in sizes
                    and b not in probes
                    and not any(j.point.batch_size == b and j.curve for j in state.jobs)
                ):
                    return self._probe_at(state, b, 2 if b <= 256 else 1)
        if state.posterior.evidence is None:
            return None
        view = state.prospects
        winner = view.batch[np.argmin(np.where(view.diverges < 0.5, view.ln_seconds, np.inf), axis=1)]
        # one after the other, each decided by what the last one showed; where an allocation costs more than a
        # probe, all that may matter at once, for they share one
        going = {j.point.batch_size for j in state.jobs if j.kind == "probe" and not j.is_final}
        if going and (len(going) >= TOGETHER or not self._is_overhead_dear(state)):
            return None
        sd = state.update_time.sd
        worth = [
            float((winner == b).mean() * sd[i]) if b in sizes and b not in going else 0.0
            for i, b in enumerate(state.batch_sizes)
        ]
        i = int(np.argmax(worth))
        b = state.batch_sizes[i]
        if worth[i] < 0.02 or probes.get(b, 0) >= 3:
            return None
        samples = float(np.exp(np.median(view.ln_samples[:, state.batch == b].min(1))))
        return self._probe_at(state, b, int(np.clip(self.settings.probe_share * samples / b, 1, 3)))

    def _is_overhead_dear(self, state: State) -> bool:
        """Whether queueing and starting cost more than a probe itself: as told, or as seen so far."""
        probes = [j for j in state.jobs if j.kind == "probe" and j.is_final]
        overhead = [j.queue_seconds + j.startup_seconds for j in probes]
        seen = float(np.mean(overhead)) if probes else 0.0
        return bool(max(self.context.overhead_seconds, seen) > np.mean([j.seconds for j in probes] or [0.0]))

    def _probe_at(self, state: State, batch_size: int, updates: int) -> Proposal | None:
        """The seconds do not depend on lr and seed: each further probe takes a cell that none had (a job runs
        once)."""
        taken = {(j.point, j.seed) for j in state.jobs if j.kind == "probe"}
        lrs = [p.lr for p in state.points if p.batch_size == batch_size]
        middle = len(lrs) // 2
        cells = [
            (Point(batch_size, lrs[i]), seed)
            for i in sorted(range(len(lrs)), key=lambda i: (abs(i - middle), i))
            for seed in self.context.space.all_seeds()
            if self.context.space.has(Point(batch_size, lrs[i]), seed)
        ]
        free = [cell for cell in cells if cell not in taken]
        if not free:
            return None
        point, seed = free[0]
        words = f"{updates} update{'s' if updates > 1 else ''} for the update time"
        return Proposal("probe", point, seed, words, updates_limit=updates)

    def _is_settled(self, state: State) -> bool:
        """Whether the recommendation is as good as the tolerance asks, and can be verified."""
        return (
            state.posterior.evidence is not None and self._is_good_enough(state) and self._can_confirm(state)
        )

    def _can_confirm(self, state: State) -> bool:
        """Whether the recommendation can run, or has run and may go on or arrived."""
        if not state.allowed[state.best]:
            return False
        point = state.points[state.best]
        tried = [j for j in state.jobs if j.point == point and j.kind != "probe"]
        return bool(state.seeds_left(point)) or any(
            not j.is_final or j.outcome in (Outcome.STOPPED, Outcome.REACHED) for j in tried
        )

    def _is_good_enough(self, state: State) -> bool:
        """Whether the recommendation loses as little as the tolerance asks."""
        return not state.unmeasured_around(state.best) if state.is_misfit else state.is_good_by_law

    def _confirm(self, state: State) -> Proposal | Finished | None:
        """The settled recommendation run to the target, or the end once it was."""
        point = state.points[state.best]
        here = state.at(point)
        if any(r.is_reached for r in here):
            if state.running_jobs:
                return None
            if state.is_misfit:
                return Finished("the fastest of the measured settings; those around it are slower")
            regret = state.prospects.regret[:, state.best]
            bad = float((regret > 2 * self.context.tolerance).mean())
            return Finished(
                f"expected regret {regret.mean():.1%}, P(> {2 * self.context.tolerance:.0%}) {bad:.1%}"
            )
        if any(j.point == point for j in state.running_jobs):
            return None
        stopped = sorted((r for r in here if r.outcome is Outcome.STOPPED), key=lambda r: -r.seconds)
        words = "the recommendation, run to the target"
        seeds = state.seeds_left(point)
        job = next((r for r in stopped if self._may_go_on(state, r, "verify")), None) or (
            None if seeds else stopped[0]
        )
        if job is not None:
            return Proposal("verify", point, job.seed, words, resume=job.job_id)
        return Proposal("verify", point, seeds[0], words)
