"""What runs next: planned jobs first, then what the search proposes, as far as budget and memory allow."""

from __future__ import annotations

from dataclasses import replace

from batchscout.clock import Clock
from batchscout.measure.outcome import Outcome
from batchscout.run.publish import Publisher
from batchscout.run.settings import SweepSettings
from batchscout.run.spending import spent
from batchscout.run.submit import Submitter
from batchscout.run.sweep_directory import SweepDirectory
from batchscout.run.verdict import larger_is_infeasible
from batchscout.run.watch import Watched
from batchscout.search.protocol import Finished, JobObservation, Proposal, Search


class Chooser:
    """Shares the controller's list of jobs, and appends to it.

    finished      the search's last word, None while it may still propose
    is_exhausted  a budget kept something from being done
    may_ask       something happened since the search last had nothing to propose
    """

    def __init__(
        self,
        settings: SweepSettings,
        sweep: SweepDirectory,
        search: Search,
        submitter: Submitter,
        publisher: Publisher,
        clock: Clock,
        jobs: list[Watched],
    ) -> None:
        self._settings, self._sweep, self._search, self._clock = settings, sweep, search, clock
        self._submitter, self._publisher, self._jobs = submitter, publisher, jobs
        self.finished: Finished | None = None
        self.is_exhausted = False
        self.may_ask = True

    def next(self) -> Watched | None:
        """What to submit next, None for nothing now."""
        waiting = [w for w in self._jobs if not w.record.is_final and not w.record.is_submitted]
        if waiting:
            found = min(waiting, key=lambda w: (not w.record.submissions, w.record.job.index))
            if self.has_budget_for(found):
                return found
            self.exhaust()
            return None
        if not self.may_ask:
            return None
        answer = self._search.propose(self.observations())
        if isinstance(answer, Proposal):
            if self.over_budget() is None and (answer.resume is not None or not self._has_no_job_left()):
                return self._accept(answer)
            self.exhaust()
            self.may_ask = False
            return None
        self.may_ask = False
        if answer is None and not any(w.holds_slot for w in self._jobs):
            answer = Finished("the search proposes nothing although nothing runs", complete=False)
        self.finished = answer
        return None

    def with_probes(self, first: Watched) -> list[Watched]:
        """`first` and, if it is a probe, all others that are planned or proposed now."""
        if first.record.job.kind != "probe":
            return [first]
        while self.may_ask and self.over_budget() is None and not self._has_no_job_left():
            answer = self._search.propose(self.observations())
            if not isinstance(answer, Proposal) or answer.kind != "probe" or answer.resume is not None:
                break
            if self._accept(answer) is None:
                break
        waiting = [w for w in self._jobs if not w.record.is_final and not w.record.is_submitted]
        others = [w for w in waiting if w.record.job.kind == "probe" and w is not first]
        return [first, *(w for w in others if not self.skip_if_too_large(w))]

    def _accept(self, proposal: Proposal) -> Watched | None:
        """A new job, or a stopped one to be continued. One that exists already ends the search: it would ask
        for ever."""
        if proposal.resume is not None:
            stopped = [w for w in self._jobs if w.record.outcome is Outcome.STOPPED]
            found = next((w for w in stopped if w.record.job.job_id == proposal.resume), None)
            if found is None:
                self._give_up(f"the search would go on with {proposal.resume}, which was not stopped")
                return None
            record = found.record
            record.reopen()
            # what it is now for decides when it is stopped again
            record.job = replace(record.job, kind=proposal.kind, explanation=proposal.explanation)
            self._sweep.save_job(record)
            self._publisher.event("continue", job=proposal.resume, explanation=proposal.explanation)
            return found
        planned = self._submitter.plan([proposal], self._jobs)
        self._jobs += planned
        if not planned:
            self._give_up(f"the search proposed {proposal.point} seed {proposal.seed} again")
            return None
        return planned[0]

    def _give_up(self, explanation: str) -> None:
        self.may_ask = False
        self.finished = Finished(explanation, complete=False)

    def skip_if_too_large(self, watched: Watched) -> bool:
        """Larger than a batch size that is known not to fit: infeasible without running."""
        known = [
            w.record
            for w in self._jobs
            if larger_is_infeasible(w.record, oom_host_counts=self._settings.oom_host_skips_larger)
        ]
        smallest = min(known, key=lambda r: r.job.point, default=None)
        record = watched.record
        if smallest is None or record.job.point.batch_size < smallest.job.point.batch_size:
            return False
        message = f"skipped: known OOM at {smallest.job.point.batch_size}"
        record.finish(Outcome.INFEASIBLE, smallest.reason, message, self._clock.now())
        record.is_skipped = True
        self._sweep.save_job(record)
        self._publisher.event("skip", job=record.job.job_id, message=message)
        self.may_ask = True
        return True

    def has_budget_for(self, watched: Watched) -> bool:
        """A job that was submitted before counts already."""
        is_new = not watched.record.own_submissions
        return self.over_budget() is None and not (is_new and self._has_no_job_left())

    def exhaust(self, limit: str | None = None) -> None:
        """A budget keeps something from being done."""
        if not self.is_exhausted:
            limit = limit or self.over_budget() or f"budget.jobs={self._settings.budget.jobs} is used up"
            self._publisher.event("budget", explanation=limit)
        self.is_exhausted = True

    def over_budget(self) -> str | None:
        """The limit that is used up, the number of jobs apart."""
        elapsed = self._publisher.elapsed_seconds
        return spent(self._jobs, self._settings, elapsed).exceeded(self._settings.budget)

    def _has_no_job_left(self) -> bool:
        return spent(self._jobs, self._settings, 0.0).has_no_job_left(self._settings.budget)

    def observations(self) -> list[JobObservation]:
        """What the search is shown: all jobs, in order of creation."""
        return [w.observation() for w in self._jobs]
