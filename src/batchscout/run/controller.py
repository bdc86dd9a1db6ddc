"""The loop that runs a sweep: look, stop, refill, write down; one free slot is refilled at once.

It keeps nothing that is not also in the sweep's directory: killed at any instant and started again it
re-attaches to what runs, imports what ended meanwhile, and submits nothing twice. The same code runs on the
real clock and on the virtual one of a replay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from batchscout.clock import Clock
from batchscout.measure.outcome import Outcome
from batchscout.run import failures
from batchscout.run.choice import Chooser
from batchscout.run.classify import Classification
from batchscout.run.control import is_cancelled, request_stop
from batchscout.run.executor import Executor
from batchscout.run.journals import JournalFiles, JournalSource
from batchscout.run.listener import Listener
from batchscout.run.publish import Publisher
from batchscout.run.rebind import Rebinder
from batchscout.run.settings import ExitCode, SweepSettings
from batchscout.run.signals import raised_as_interrupts
from batchscout.run.submit import Submitter
from batchscout.run.sweep_directory import SweepDirectory
from batchscout.run.verdict import judge
from batchscout.run.watch import News, Watch, Watched
from batchscout.search.protocol import Finished, JobObservation, Search

BUDGET = "budget"
REFILL_SECONDS = 2.0
"""So long at most jobs are submitted before the next look at those that run."""


class Controller:
    """One run of one sweep. snapshot: number of the code that new jobs run, None without one."""

    def __init__(
        self,
        settings: SweepSettings,
        sweep: SweepDirectory,
        *,
        executor: Executor,
        search: Search,
        clock: Clock,
        listeners: Sequence[Listener] = (),
        snapshot: int | None = None,
    ) -> None:
        journals: JournalSource = getattr(executor, "journals", None) or JournalFiles()
        self._settings, self._sweep, self._executor, self._clock = settings, sweep, executor, clock
        self._search = search
        self._watch = Watch(settings, executor, journals, clock)
        self._watch.watches_curves = getattr(search, "watches_curves", True)
        self._submitter = Submitter(settings, sweep, executor, clock, snapshot=snapshot)
        self._publisher = Publisher(settings, sweep, search, listeners, clock)
        self._jobs: list[Watched] = []
        self._choice = Chooser(settings, sweep, search, self._submitter, self._publisher, clock, self._jobs)
        self._rebinder = Rebinder(sweep, search, executor, self._submitter, self._publisher, self._jobs)
        self._is_restored = False
        self._stopped_by_failures = False
        self._pause = settings.poll_seconds[0]

    def run(self) -> ExitCode:
        """Until the sweep is complete, exhausted, failed or interrupted. Jobs are never ended by an
        interrupt."""
        with raised_as_interrupts():
            try:
                self._restore()
                while self._step():
                    self._wait()
                return self._end()
            except KeyboardInterrupt:
                return self._interrupted()
            finally:
                self._publisher.close()
                self._executor.close()

    # Starting, or going on

    def _restore(self) -> None:
        """Rebuild everything from the directory, then write the plan down before anything is submitted."""
        past = self._sweep.events.read()
        for record in self._sweep.records():
            watched = Watched(record, self._sweep.jobs_path / record.job.job_id)
            self._watch.load(watched)
            (self._submitter.withdrawn if record.is_withdrawn else self._jobs).append(watched)
        self._catch_up_clock(past)
        self._publisher.begin(self._jobs)
        self._rebinder.complete(self._clock.now())
        self._reopen(was_stopped=_was_stopped_by_failures(past))
        self._reconcile()
        plan = getattr(self._search, "plan", None)
        if plan is not None:
            self._jobs += self._submitter.plan(plan(), self._jobs)
        self._is_restored = True
        self._publisher.publish(self._jobs, is_change=True)

    def _catch_up_clock(self, past: Sequence[Mapping[str, Any]]) -> None:
        """A replay that goes on does so from where its virtual clock stood."""
        if self._settings.is_recorded:
            last = [event["time"] for event in past]
            last += [event["time"] for w in self._jobs if (event := w.view.last()) is not None]
            last += [s.submitted for w in self._jobs for s in w.record.submissions if s.submitted is not None]
            self._clock.sleep(max(0.0, max(last, default=0.0) - self._clock.now()))

    def _reopen(self, *, was_stopped: bool) -> None:
        """Jobs that a policy or a smaller budget ended run (again) on resume."""
        records = [w.record for w in self._jobs]
        again = failures.to_run_again(records, was_stopped=was_stopped)
        is_planned = hasattr(self._search, "plan")
        if is_planned and self._choice.over_budget() is None:
            again += [r for r in records if r.outcome is Outcome.STOPPED and r.reason == BUDGET]
        for record in again:
            record.reopen()
            self._sweep.save_job(record)
            self._publisher.event("reopen", job=record.job.job_id, reason="resumed")

    # One round

    def _step(self) -> bool:
        """False when there is nothing left to wait for."""
        news = self._watch.look(self._jobs)
        for watched in news.started:
            self._publisher.event("start", job=watched.record.job.job_id)
        for watched, ending in news.ended:
            self._conclude(watched, ending)
        if news.evaluated or news.ended:
            self._choice.may_ask = True
            self._pause = self._settings.poll_seconds[0]
        self._cancel_on_request()
        self._stop_hopeless(news)
        self._enforce_limits()
        if news.ended and not self._stopped_by_failures:
            self._rebinder.rebind(self._clock.now())
        self._refill()
        is_change = bool(news.evaluated or news.ended or news.started)
        self._publisher.publish(self._jobs, is_change=is_change, is_end=bool(news.ended))
        return self._submitter.is_busy or any(w.holds_slot or self._is_waiting(w) for w in self._jobs)

    def _wait(self) -> None:
        self._executor.wait(self._pause)
        self._pause = min(self._settings.poll_seconds[1], 1.5 * self._pause)

    def _is_waiting(self, watched: Watched) -> bool:
        """Planned and still to be submitted."""
        is_planned = not watched.record.is_final and not watched.record.is_submitted
        return is_planned and not self._stopped_by_failures and self._choice.has_budget_for(watched)

    def _conclude(self, watched: Watched, ending: Classification) -> None:
        record, job_id = watched.record, watched.record.job.job_id
        now = self._ended_at(watched)
        verdict = judge(record, ending, max_requeues=self._settings.max_requeues)
        if verdict.outcome is Outcome.STOPPED and is_cancelled(watched.directory):
            record.finish(Outcome.CANCELLED, "user", "cancelled on request", now)
        elif verdict.is_final:
            record.finish(verdict.outcome, verdict.reason, verdict.message, now)
        else:
            record.update_current(ended=now, outcome=verdict.outcome.value, reason=verdict.reason)
            record.micro_batch_size = verdict.micro_batch_size or record.micro_batch_size
        self._sweep.save_job(record)
        if not record.is_final:
            self._publisher.event("retry", job=job_id, reason=verdict.reason, message=verdict.message)
            return
        watched.rebuild_curve()
        if watched.fault is not None:
            record.finish(Outcome.FAILED, "journal", watched.fault, now)
            self._sweep.save_job(record)
        self._ended(watched)

    def _ended(self, watched: Watched) -> None:
        """A job became final: say so, and write down what is recommended now."""
        self._publisher.end_of(watched, self._jobs)

    def _ended_at(self, watched: Watched) -> float:
        events = watched.events
        return float(events[-1]["time"]) if events and events[-1]["event"] == "end" else self._clock.now()

    def _note_failure(self, watched: Watched, reason: str | None) -> None:
        if reason is not None:
            self._ended(watched)

    # Stopping

    def _stop_hopeless(self, news: News) -> None:
        """Ask the search about jobs with a new evaluation; when a job ended, about all that run."""
        if not self._watch.watches_curves:
            return
        asked = self._jobs if news.ended else news.evaluated
        observations: list[JobObservation] | None = None
        for watched in asked:
            if not watched.record.is_submitted or watched.record.stop is not None:
                continue
            observations = observations or self._choice.observations()
            reason = self._search.stop(watched.observation(), observations)
            if reason is not None:
                self._stop(watched, reason)

    def _stop(self, watched: Watched, reason: str) -> None:
        """Ask a job to end at its next update boundary; by force when it does not."""
        watched.record.stop = reason
        watched.stop_asked = self._clock.now()
        self._sweep.save_job(watched.record)
        request_stop(watched.directory, reason, time=watched.stop_asked)
        self._publisher.event("stop", job=watched.record.job.job_id, explanation=reason)
        self._pause = self._settings.poll_seconds[0]

    def _cancel_on_request(self) -> None:
        for watched in self._jobs:
            record = watched.record
            if record.is_final or self._settings.is_recorded or not is_cancelled(watched.directory):
                continue
            if not record.is_submitted:
                record.finish(Outcome.CANCELLED, "user", "cancelled before it ran", self._clock.now())
                self._sweep.save_job(record)
                self._ended(watched)
            elif record.stop is None:
                self._stop(watched, "cancelled")

    def _enforce_limits(self) -> None:
        self._cancel_disobedient()
        limit = self._choice.over_budget()
        if limit is not None:
            for watched in self._jobs:
                if watched.record.is_submitted and watched.record.stop is None:
                    self._choice.exhaust(limit)
                    self._stop(watched, BUDGET)
        common = failures.common_failure(self._jobs, self._settings.max_failures)
        if common is not None and not self._stopped_by_failures:
            self._give_up(common)

    def _cancel_disobedient(self) -> None:
        """A queued job cannot obey, and one that is stuck does not."""
        for watched in self._jobs:
            submission = watched.submission
            if watched.record.stop is None or submission is None:
                continue
            watched.stop_asked = watched.stop_asked or self._clock.now()
            waited = self._clock.now() - watched.stop_asked
            if not watched.events or waited >= self._settings.stop_grace_seconds:
                self._executor.cancel(submission)

    def _give_up(self, failure: str) -> None:
        """max_failures: end what runs, and cancel what does not run yet, so that a resume can take it up."""
        waiting = [w for w in self._jobs if not w.record.is_final]
        if not waiting and self._has_nothing_to_propose():
            return
        self._stopped_by_failures = True
        count = self._settings.max_failures
        self._publisher.event(
            "max_failures", explanation=f"the first {count} jobs all failed with: {failure}"
        )
        for watched in waiting:
            if watched.submission is not None:
                self._executor.cancel(watched.submission)
            watched.record.finish(
                Outcome.CANCELLED, failures.POLICY, f"max_failures={count}: {failure}", self._clock.now()
            )
            self._sweep.save_job(watched.record)

    def _has_nothing_to_propose(self) -> bool:
        return isinstance(self._search.propose(self._choice.observations()), Finished)

    # Refilling

    def _refill(self) -> None:
        """Fill free slots: planned jobs first, then what the search proposes. Those that many submissions
        leave free are filled after the next look."""
        self._reconcile()
        began = self._clock.now()
        while (
            self._has_free_slot()
            and not self._stopped_by_failures
            and self._clock.now() - began < REFILL_SECONDS
        ):
            found = self._choice.next()
            if found is None:
                return
            if not self._choice.skip_if_too_large(found):
                self._submit(found)

    def _reconcile(self) -> None:
        """Find out about submissions whose answer was lost."""
        for watched in self._jobs:
            current = watched.record.current
            if current is not None and current.handle is None and not self._submitter.is_busy:
                self._note_failure(watched, self._submitter.reconcile(watched))

    def _has_free_slot(self) -> bool:
        held = {w.record.submissions[-1].name for w in self._jobs if w.holds_slot}
        return len(held) < self._executor.slots and not self._submitter.is_busy

    def _submit(self, watched: Watched) -> None:
        group = self._choice.with_probes(watched) if self._submitter.can_submit_together else [watched]
        for one in group:
            job, number = one.record.job, len(one.record.submissions) + 1
            self._publisher.event("submit", job=job.job_id, submission=number, explanation=job.explanation)
        is_together = len(group) > 1
        reason = self._submitter.submit_together(group) if is_together else self._submitter.submit(watched)
        for one in group:
            self._note_failure(one, reason)
        self._choice.may_ask = True
        self._pause = self._settings.poll_seconds[0]

    # Ending

    def _end(self) -> ExitCode:
        run = [w.record for w in self._jobs if not w.record.is_skipped]
        if self._stopped_by_failures:
            status, code = "interrupted", ExitCode.FAILED
        else:
            status = "exhausted" if self._choice.is_exhausted or not self._is_complete() else "complete"
            all_failed = bool(run) and all(r.outcome is Outcome.FAILED for r in run)
            code = ExitCode.FAILED if all_failed else ExitCode.OK
        self._publisher.finish(self._jobs, status, code, self._why_ended())
        return code

    def _why_ended(self) -> str:
        if self._stopped_by_failures:
            return "stopped by max_failures; mend the cause, and the same command goes on"
        if self._choice.finished is not None:
            return self._choice.finished.explanation
        return "a budget ended; the same command with a larger one goes on"

    def _is_complete(self) -> bool:
        return self._choice.finished is not None and self._choice.finished.complete

    def _interrupted(self) -> ExitCode:
        if self._is_restored:  # else the files say more than is known here
            self._publisher.interrupt(self._jobs, sum(w.record.is_submitted for w in self._jobs))
        return ExitCode.INTERRUPTED


def _was_stopped_by_failures(events: Sequence[dict[str, object]]) -> bool:
    """In the last session of this sweep."""
    last = [e["event"] for e in events if e["event"] in ("begin", "max_failures")]
    return bool(last) and last[-1] == "max_failures"
