"""Planning and submitting jobs so that nothing is ever submitted twice, wherever the controller is killed.

A job is written down before anything else; each submission is written down as an intent (its unique name)
before the executor is asked, and completed with the handle afterwards. After a restart an intent without a
handle is looked up by that name; if nothing of it is found, neither in the scheduler nor as an attempt in the
job's directory, and nothing of an unanswered call can turn up any more, it never happened.
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
from batchscout.run.job import WITHDRAWN, Attempted, Job, JobRecord, free_id, job_id, signature
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
        self._asked: set[str] = set()  # names that this process asked for; the executor remembers those
        self.withdrawn: list[Watched] = []

    def plan(self, proposals: Iterable[Proposal], known: list[Watched]) -> list[Watched]:
        """Write new jobs down; a proposal whose signature is known is passed over. Returns the new ones, and
        withdrawn ones that are wanted again."""
        signatures = {w.record.job.signature for w in known}
        planned: list[Watched] = []
        for proposal in proposals:
            found = self._find_or_make(proposal, [*known, *planned, *self.withdrawn])
            if found.record.job.signature in signatures:
                continue
            signatures.add(found.record.job.signature)
            found.record.reopen()
            self._sweep.save_job(found.record)
            if found in self.withdrawn:
                self.withdrawn.remove(found)
            planned.append(found)
        return planned

    def spare(self, proposal: Proposal, known: list[Watched]) -> Watched | None:
        """A withdrawn job for `proposal`, written down; None where an active one has its signature."""
        found = self._find_or_make(proposal, [*known, *self.withdrawn])
        if found in self.withdrawn:
            return found
        if any(found.record.job.signature == w.record.job.signature for w in known):
            return None
        found.record.finish(Outcome.CANCELLED, WITHDRAWN, "has no place in the queue yet", self._clock.now())
        self._sweep.save_job(found.record)
        self.withdrawn.append(found)
        return found

    def _find_or_make(self, proposal: Proposal, known: Sequence[Watched]) -> Watched:
        """The job of that signature, else a new one, which is not written down yet."""
        wanted = signature(self._settings.measured, proposal)
        same = next((w for w in known if w.record.job.signature == wanted), None)
        if same is not None:
            return same
        job = self._job(proposal, index=len(known), taken={w.record.job.job_id for w in known})
        return Watched(JobRecord(job), self._sweep.jobs_path / job.job_id)

    def withdraw(self, watched: Watched, jobs: list[Watched]) -> None:
        """Out of the sweep's jobs until it is proposed again."""
        jobs.remove(watched)
        self.withdrawn.append(watched)

    def take_back(self, watched: Watched, jobs: list[Watched]) -> None:
        """A withdrawn job is one of the sweep's again."""
        if watched in self.withdrawn:
            self.withdrawn.remove(watched)
        if watched not in jobs:
            jobs.append(watched)

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
            Attempted(name, self._clock.now(), attempts, is_shared=is_shared, asked=self._clock.now())
        )
        self._sweep.save_job(watched.record)

    def _ask(self, *group: Watched) -> str | None:
        name = group[0].record.submissions[-1].name
        self._asked.add(name)
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
            watched.record.update_current(handle=answer.handle, submitted=answer.submitted, asked=None)
            self._sweep.save_job(watched.record)
            watched.status, watched.ended_since, watched.absent_since = None, None, None
            watched.last_news = self._clock.now()
        return None

    def _leave_alone(self) -> None:
        """Ask the scheduler less and less often while it is busy."""
        self._busy_seconds = min(MAX_BUSY_SECONDS, max(1.0, 2 * self._busy_seconds))
        self._busy_until = self._clock.now() + self._busy_seconds

    def _may_turn_up(self, intent: Attempted) -> bool:
        """The call of a controller that was killed meanwhile may still be on its way.

        What this process asked for the executor remembers by its name; a group may be another one next time.
        """
        if intent.asked is None or (intent.name in self._asked and not intent.is_shared):
            return False
        return self._clock.now() - intent.asked < getattr(self._executor, "unanswered_seconds", 0.0)

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
            record.update_current(handle=found.handle, submitted=found.submitted, asked=None)
        elif len(attempt_paths(watched.directory)) > current.attempts_before:
            # it started and is gone from the scheduler: the journal says how it ended, or the watchdog finds
            # it lost
            record.update_current(handle="", submitted=current.intended, asked=None)
        elif self.is_busy or self._may_turn_up(current):
            return None
        elif current.is_shared:
            record.submissions.pop()  # taken back: alone it would be another submission than was meant
        else:
            record.update_current(asked=self._clock.now())
            self._sweep.save_job(record)
            return self._ask(watched)
        watched.last_news = self._clock.now()
        self._sweep.save_job(record)
        return None
