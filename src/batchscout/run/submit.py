"""Planning and submitting jobs so that nothing is ever submitted twice, wherever the controller is killed.

A job is written down before anything else; each submission is written down as an intent (its unique name)
before the executor is asked, and completed with the handle afterwards. After a restart an intent without a
handle is looked up by that name; if nothing of it is found, neither in the scheduler nor as an attempt in the
job's directory, it never happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from batchscout.clock import Clock
from batchscout.errors import LaunchError, SchedulerBusy
from batchscout.measure.attempt import attempt_paths
from batchscout.measure.outcome import Outcome
from batchscout.run.control import clear_stop
from batchscout.run.executor import Executor
from batchscout.run.job import Attempted, Job, JobRecord, free_id, job_id, signature
from batchscout.run.settings import SweepSettings
from batchscout.run.sweep_directory import SweepDirectory
from batchscout.run.watch import Watched
from batchscout.search.protocol import Proposal

MAX_BUSY_SECONDS = 60.0


class Submitter:
    """Turns proposals into jobs, and jobs into submissions. snapshot: number of the code that new jobs
    run."""

    def __init__(
        self,
        settings: SweepSettings,
        sweep: SweepDirectory,
        executor: Executor,
        clock: Clock,
        *,
        snapshot: int | None = None,
    ) -> None:
        self._settings, self._sweep, self._executor, self._clock = settings, sweep, executor, clock
        self._snapshot = snapshot
        self._busy_until, self._busy_seconds = 0.0, 0.0

    def plan(self, proposals: Iterable[Proposal], known: list[Watched]) -> list[Watched]:
        """Write new jobs down; a proposal whose signature is known is passed over. Returns the new ones."""
        signatures = {w.record.job.signature for w in known}
        ids = {w.record.job.job_id for w in known}
        planned: list[Watched] = []
        for proposal in proposals:
            job = self._job(proposal, index=len(known) + len(planned), taken=ids)
            if job.signature in signatures:
                continue
            signatures.add(job.signature)
            ids.add(job.job_id)
            record = JobRecord(job)
            planned.append(Watched(record, self._sweep.save_job(record)))
        return planned

    def _job(self, proposal: Proposal, *, index: int, taken: set[str]) -> Job:
        return Job(
            job_id=free_id(job_id(proposal.kind, proposal.point, proposal.seed), taken),
            index=index,
            kind=proposal.kind,
            point=proposal.point,
            seed=proposal.seed,
            signature=signature(self._settings.measured, proposal),
            config=self._settings.job_config(proposal.point, proposal.seed),
            created=self._clock.now(),
            explanation=proposal.explanation,
            updates_limit=proposal.updates_limit,
            snapshot=self._snapshot,
        )

    @property
    def is_busy(self) -> bool:
        """The scheduler asked to be left alone for a while."""
        return self._clock.now() < self._busy_until

    def submit(self, watched: Watched) -> str | None:
        """Submit a planned job. Returns why it could not be (now final: failed), None if it was, or will be
        later."""
        record, job = watched.record, watched.record.job
        if not watched.view.attempts and self._snapshot is not None and job.snapshot != self._snapshot:
            record.job = replace(job, snapshot=self._snapshot)  # it has measured nothing yet: the newest code
        self._intend(watched, self._sweep.submission_name(job.job_id, len(record.submissions) + 1))
        return self._ask(watched)

    def submit_together(self, group: Sequence[Watched]) -> str | None:
        """Probes in one allocation, one after the other, so that they wait in the queue only once.

        Returns  why they could not be submitted, as `submit`
        """
        first = group[0].record
        name = self._sweep.submission_name(f"probes-{first.job.job_id}", len(first.submissions) + 1)
        for watched in group:
            self._intend(watched, name, is_shared=True)
        return self._ask(*group)

    @property
    def can_submit_together(self) -> bool:
        """Whether the executor runs several jobs in one allocation."""
        return hasattr(self._executor, "submit_group")

    def _intend(self, watched: Watched, name: str, *, is_shared: bool = False) -> None:
        clear_stop(watched.directory)
        attempts = len(attempt_paths(watched.directory))
        watched.record.submissions.append(
            Attempted(name, intended=self._clock.now(), attempts_before=attempts, is_shared=is_shared)
        )
        self._sweep.save_job(watched.record)

    def _ask(self, *group: Watched) -> str | None:
        name = group[0].record.submissions[-1].name
        try:
            if len(group) > 1:
                answer = self._executor.submit_group([w.directory for w in group], name=name)[0]  # type: ignore[attr-defined]
            else:
                answer = self._executor.submit(group[0].directory, name=name)
        except SchedulerBusy:
            self._leave_alone()
            return None  # the intent stands; `reconcile` finds out what became of it
        except LaunchError as error:
            for watched in group:
                watched.record.finish(Outcome.FAILED, "launch", str(error), self._clock.now())
                self._sweep.save_job(watched.record)
            return str(error)
        self._busy_seconds = 0.0
        for watched in group:
            watched.record.update_current(handle=answer.handle, submitted=answer.submitted)
            self._sweep.save_job(watched.record)
            watched.status, watched.ended_since, watched.absent_since = None, None, None
            watched.last_news = self._clock.now()
        return None

    def _leave_alone(self) -> None:
        """Ask the scheduler less and less often while it is busy."""
        self._busy_seconds = min(MAX_BUSY_SECONDS, max(1.0, 2 * self._busy_seconds))
        self._busy_until = self._clock.now() + self._busy_seconds

    def reconcile(self, watched: Watched) -> str | None:
        """An intent whose answer is not known: adopt what runs under its name, or take it back, or submit it
        again.

        Returns  why the job failed, None otherwise.
        """
        record = watched.record
        current = record.submissions[-1]
        try:
            found = self._executor.find(current.name)
        except SchedulerBusy:  # no answer says nothing about whether it was submitted
            self._leave_alone()
            return None
        if found is not None:
            record.update_current(handle=found.handle, submitted=found.submitted)
        elif len(attempt_paths(watched.directory)) > current.attempts_before:
            # it started and is gone from the scheduler: the journal says how it ended, or the watchdog finds
            # it lost
            record.update_current(handle="", submitted=current.intended)
        elif self.is_busy:
            return None
        elif current.is_shared:
            record.submissions.pop()  # taken back: alone it would be another submission than was meant
        else:
            return self._ask(watched)
        watched.last_news = self._clock.now()
        self._sweep.save_job(record)
        return None
