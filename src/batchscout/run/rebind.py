"""Late binding: what waits in the queue is what the search would submit now, not what it chose hours ago.

Each time a job has ended the search is asked what it would propose if nothing were pending. Where that
differs, the place in the queue is given to the new job (batchscout.run.binding): the submission, its Slurm id
and its age stay, so nothing is cancelled or submitted twice and no priority is lost. The job that had the
place is *withdrawn*: it never ran, is shown to nobody, and takes part again if it is proposed again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from batchscout.measure.outcome import Outcome
from batchscout.run.binding import bound_to, give
from batchscout.run.control import is_cancelled
from batchscout.run.executor import Executor, SchedulerState
from batchscout.run.job import REBOUND, WITHDRAWN
from batchscout.run.publish import Publisher
from batchscout.run.submit import Submitter
from batchscout.run.sweep_directory import SweepDirectory
from batchscout.run.watch import Watched
from batchscout.search.protocol import JobObservation, Proposal, Search


class Rebinder:
    """Shares the controller's list of jobs, and moves jobs between it and the submitter's `withdrawn`."""

    def __init__(
        self,
        sweep: SweepDirectory,
        search: Search,
        executor: Executor,
        submitter: Submitter,
        publisher: Publisher,
        jobs: list[Watched],
    ) -> None:
        self._sweep, self._search, self._executor = sweep, search, executor
        self._submitter, self._publisher, self._jobs = submitter, publisher, jobs
        self._is_possible = getattr(search, "binds_late", False) and getattr(executor, "binds_late", False)

    def complete(self, now: float) -> None:
        """After a restart: write down what a controller that was killed had decided but not yet noted."""
        by_id = {w.record.job.job_id: w for w in (*self._jobs, *self._submitter.withdrawn)}
        for watched in list(self._jobs):
            current = watched.record.current
            if current is None or current.is_shared:
                continue
            job_id = bound_to(watched.directory, current.name)
            if job_id is not None and job_id != watched.record.job.job_id:
                self._note(watched, by_id[job_id], now)

    def rebind(self, now: float) -> None:
        """Give the places of pending jobs to what the search prefers by now."""
        pending = [w for w in self._jobs if _is_pending(w)] if self._is_possible else []
        if not pending:
            return
        wanted = self._wanted(pending)
        cells = {(p.point, p.seed) for p in wanted}
        kept = [w for w in pending if (w.record.job.point, w.record.job.seed) in cells]
        known = {(w.record.job.point, w.record.job.seed) for w in kept}
        free = [w for w in pending if w not in kept]
        fresh = [p for p in wanted if (p.point, p.seed) not in known]
        for watched, proposal in zip(free, fresh, strict=False):
            self._give(watched, proposal, now)

    def _wanted(self, pending: Sequence[Watched]) -> list[Proposal]:
        """What the search would propose for as many places, one after the other."""
        shown = [w.observation() for w in self._jobs if w not in pending]
        wanted: list[Proposal] = []
        for number in range(len(pending)):
            answer = self._search.propose(shown)
            if not isinstance(answer, Proposal) or answer.kind == "probe" or answer.resume is not None:
                break
            wanted.append(answer)
            shown.append(_as_if_queued(answer, f"proposed-{number}"))
        return wanted

    def _give(self, watched: Watched, proposal: Proposal, now: float) -> None:
        """The order matters: whatever is killed in between, `complete` finds what was decided."""
        name = watched.record.submissions[-1].name
        other = self._submitter.spare(proposal, self._jobs)
        if other is None or bound_to(other.directory, name) is not None:
            return  # known already, or it had this very place before and would be sent in a circle
        if other.record.job.snapshot != watched.record.job.snapshot:
            return  # the allocation was made for the code of its first job
        if give(watched.directory, name, other.record.job.job_id):
            self._note(watched, other, now)

    def _note(self, watched: Watched, other: Watched, now: float) -> None:
        record, job_id = watched.record, other.record.job.job_id
        submission = record.submissions[-1]
        if not any(s.name == submission.name for s in other.record.submissions):
            other.record.reopen()
            other.record.submissions.append(submission)
            self._sweep.save_job(other.record)
        self._link_log(watched, other)
        record.update_current(ended=now, outcome=REBOUND, reason=job_id)
        record.finish(Outcome.CANCELLED, WITHDRAWN, f"its place in the queue was given to {job_id}", now)
        self._sweep.save_job(record)
        self._publisher.event(
            "rebind",
            job=job_id,
            instead_of=record.job.job_id,
            submission=submission.name,
            explanation=other.record.job.explanation,
        )
        other.status, other.last_news = watched.status, now
        self._submitter.withdraw(watched, self._jobs)
        self._submitter.take_back(other, self._jobs)

    def _link_log(self, watched: Watched, other: Watched) -> None:
        """Slurm writes the log where the script says, which is in the first job's directory."""
        log_name = getattr(self._executor, "log_name", None)
        if log_name is None:
            return
        name = log_name(watched.record.submissions[-1].handle)
        link = other.directory / "log" / name
        link.parent.mkdir(exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(os.path.relpath(Path(watched.directory, "log", name), link.parent))


def _is_pending(watched: Watched) -> bool:
    """Waits in the queue for its first start, alone, and nobody wants it to end."""
    record, status = watched.record, watched.status
    current = record.current
    if current is None or not current.handle or current.is_shared or record.job.kind == "probe":
        return False
    is_waiting = status is not None and status.state is SchedulerState.PENDING
    is_asked_to_end = record.stop is not None or is_cancelled(watched.directory)
    return is_waiting and not watched.view.attempts and not is_asked_to_end


def _as_if_queued(proposal: Proposal, job_id: str) -> JobObservation:
    return JobObservation(
        job_id=job_id,
        kind=proposal.kind,
        point=proposal.point,
        seed=proposal.seed,
        outcome=Outcome.QUEUED,
        reason="",
        curve=None,
        seconds=0.0,
    )
