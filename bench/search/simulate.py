"""A recorded world played to a search, in this process and on virtual time.

The same calls in the same order as the controller makes: propose for each free slot, stop after each evaluation.
Costs are the training clock of all jobs, probes included; elapsed is the virtual wall clock, start-up included.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from worlds import World

from batchscout.measure.outcome import Outcome
from batchscout.measure.target import Target
from batchscout.search.protocol import Finished, JobObservation, Point, Proposal, Search, SearchContext, Space


@dataclass(frozen=True)
class PlayedCurve:
    """The fields of measure.Curve that a search reads, of the first evaluations of a record."""

    samples: np.ndarray
    score: np.ndarray
    seconds: np.ndarray
    sampling_seconds: np.ndarray
    total_updates: int
    total_samples: int
    total_seconds: float
    score_n: np.ndarray | None = None


@dataclass
class PlayedJob:
    """One job as it runs: `done` evaluations of its record have been seen.

    asked  why it is to stop, said while another job ended; obeyed at its next evaluation, as in a replay
    """

    job_id: str
    proposal: Proposal
    record: dict[str, Any]
    done: int = 0
    outcome: Outcome = Outcome.RUNNING
    reason: str = ""
    asked: str | None = None
    _seen: tuple[Any, JobObservation] | None = None

    def observation(self) -> JobObservation:
        key = (self.done, self.outcome, self.reason)
        if self._seen is None or self._seen[0] != key:
            self._seen = (key, self._observe())
        return self._seen[1]

    def _observe(self) -> JobObservation:
        r, p = self.record, self.proposal
        if p.updates_limit is not None:
            seconds = self.probe_seconds() if self.done else 0.0
            curve = (
                PlayedCurve(
                    np.empty(0), np.empty(0), np.empty(0), np.empty(0), p.updates_limit,
                    p.updates_limit * p.point.batch_size, seconds,
                ) if self.done else None
            )  # fmt: skip
        else:
            k = self.done
            seconds = r["seconds"][k - 1] if k else 0.0
            n = np.array(r["samples"][:k], float)
            curve = PlayedCurve(
                n, np.array(r["score"][:k], float), np.array(r["seconds"][:k], float),
                np.array(r["sampling_seconds"][:k], float),
                round(n[-1] / p.point.batch_size) if k else 0, int(n[-1]) if k else 0, seconds,
            )  # fmt: skip
        return JobObservation(
            self.job_id, p.kind, p.point, p.seed, self.outcome, self.reason, curve, seconds,
            updates_limit=p.updates_limit,
        )  # fmt: skip

    def probe_seconds(self) -> float:
        r, p = self.record, self.proposal
        first = next(i for i, n in enumerate(r["samples"]) if n > 0)
        return r["seconds"][first] / (r["samples"][first] / p.point.batch_size) * (p.updates_limit or 0)

    def next_seconds(self) -> float:
        """Training seconds until the next thing seen of this job."""
        if self.proposal.updates_limit is not None:
            return self.probe_seconds()
        s = self.record["seconds"]
        return s[self.done] - (s[self.done - 1] if self.done else 0.0)


@dataclass
class Played:
    """What one search did on one world; cost and elapsed in the world's best expected time.

    off     true over stated time-to-target at the recommendation;  tied  the best batch size is among its near ties
    """

    world: str
    family: str
    total: float
    elapsed: float
    regret: float
    jobs: int
    probe: float
    good_since: float | None
    decision_seconds: float
    decisions: int
    stated: tuple[float, float] | None
    covered: bool | None
    finished: str
    off: float | None = None
    tied: bool = False
    history: list[str] = field(default_factory=list)


def play(
    world: World,
    make_search: Callable[[SearchContext], Search],
    *,
    slots: int = 1,
    seed: int = 0,
    startup: float = 0.0,
    max_jobs: int = 120,
    trace: Callable[[str], None] | None = None,
    interrupt: Callable[[int], bool] | None = None,
) -> Played:
    """Plays `world` to the search. interrupt(k) true: a fresh instance takes over before the k-th proposal."""
    points = sorted({Point(b, lr) for b, lr, _ in world.rows})
    context = SearchContext(
        space=Space(
            tuple(world.header["batch_sizes"]), tuple(world.header["learning_rates"]),
            seeds=len(world.header["seeds"]), points=tuple(points),
            available=frozenset((Point(b, lr), s) for b, lr, s in world.rows),
        ),
        target=Target(score=world.header["target"]), seed=seed, slots=slots,
        overhead_seconds=startup * world.best,
    )  # fmt: skip
    search = make_search(context)
    jobs: list[PlayedJob] = []
    events: list[tuple[float, int, PlayedJob]] = []
    now, spent, decisions, wall, count, ended = 0.0, 0.0, 0, 0.0, 0, ""
    probe_cost, recommendations = 0.0, []
    while True:
        while len(events) < slots and not ended:
            if interrupt is not None and interrupt(decisions):
                search = make_search(context)
            start = time.perf_counter()
            answer = search.propose([j.observation() for j in jobs])
            wall += time.perf_counter() - start
            decisions += 1
            if isinstance(answer, Finished):
                ended = answer.explanation
            if answer is None or isinstance(answer, Finished):
                break
            if answer.resume is not None:
                job = next(j for j in jobs if j.job_id == answer.resume)
                assert job.outcome is Outcome.STOPPED, "only stopped jobs can be continued"
                job.outcome, job.reason = Outcome.RUNNING, ""
                job.proposal = replace(job.proposal, kind=answer.kind)
            else:
                if len(jobs) >= max_jobs:
                    ended = "too many jobs"
                    break
                record = world.rows[answer.point.batch_size, answer.point.lr, answer.seed]
                job = PlayedJob(f"{len(jobs):03d}", answer, record)
                jobs.append(job)
                if not record["seconds"]:
                    job.outcome, job.reason = Outcome.INFEASIBLE, "oom_gpu"
                    continue
            if trace:
                trace(
                    f"{spent / world.best:6.2f}  {answer.kind} {answer.point} s{answer.seed}: {answer.explanation}"
                )
            count += 1
            heapq.heappush(events, (now + startup * world.best + job.next_seconds(), count, job))
        if not events:
            break
        now, _, job = heapq.heappop(events)
        step = job.next_seconds()
        spent += step
        job.done += 1
        if job.proposal.updates_limit is not None:
            probe_cost += step
            job.outcome = Outcome.CAPPED
            continue
        if job.done == len(job.record["seconds"]):
            job.outcome = Outcome(job.record["status"])
        else:
            start = time.perf_counter()
            reason = job.asked or search.stop(job.observation(), [j.observation() for j in jobs])
            wall += time.perf_counter() - start
            if reason is not None:
                job.outcome, job.reason, job.asked = Outcome.STOPPED, reason, None
            else:
                count += 1
                heapq.heappush(events, (now + job.next_seconds(), count, job))
        if job.outcome is not Outcome.RUNNING:
            if trace:
                trace(
                    f"{spent / world.best:6.2f}    {job.job_id} {job.outcome} "
                    f"at {job.observation().seconds / world.best:.2f}"
                    f" score {job.record['score'][job.done - 1]:.2f}: {job.reason}"
                )
            for other in jobs:
                if other.outcome is Outcome.RUNNING and other.asked is None:
                    other.asked = search.stop(other.observation(), [j.observation() for j in jobs])
            said = search.recommend([j.observation() for j in jobs])
            recommendations.append((spent, said.point if said else None))
    said = search.recommend([j.observation() for j in jobs])
    regret = world.regret(said.point.batch_size, said.point.lr) if said else 9.0
    good = None
    for cost, point in reversed(recommendations):
        if point is None or world.regret(point.batch_size, point.lr) > 0.1:
            break
        good = cost / world.best
    stated = said.interval if said else None
    true = world.truth.get((said.point.batch_size, said.point.lr)) if said else None
    covered = bool(stated[0] <= true <= stated[1]) if stated and true else None
    return Played(
        world.name, world.family, spent / world.best, now / world.best, regret, len(jobs), probe_cost / world.best,
        good, wall, decisions, stated, covered, ended,
        true / said.time_to_target if said and true and said.time_to_target else None,
        bool(said and min(world.truth, key=lambda p: world.truth[p])[0] in said.near_ties),
        [
            f"{j.proposal.kind} B={j.proposal.point.batch_size} lr={j.proposal.point.lr:g} s{j.proposal.seed} "
            f"{j.observation().seconds / world.best:.2f} {j.outcome} {j.reason}" for j in jobs
        ],
    )  # fmt: skip
