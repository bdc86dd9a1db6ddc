"""What each job is doing: the scheduler's answers and the journals put together, and what became of jobs that
ended.

The journal decides (`classify`); the scheduler only says whether a job still lives. An empty or failed answer
of the scheduler means nothing: a job is gone only when two successful queries GONE_SECONDS apart lack it and
its journal has been silent for the watchdog's time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from batchscout.clock import Clock
from batchscout.errors import CurveError, JournalError
from batchscout.measure.curve import Curve
from batchscout.measure.outcome import Outcome
from batchscout.run.classify import Classification, classify
from batchscout.run.executor import Executor, SchedulerState, Status, Submission
from batchscout.run.job import JobRecord
from batchscout.run.journals import Event, JournalSource, JournalView
from batchscout.run.log import newest_log
from batchscout.run.settings import SweepSettings
from batchscout.search.protocol import JobObservation

GONE_SECONDS = 30.0
LINGER_SECONDS = 20.0
"""So long a job may take to leave its slot after its last word; then it is ended by force."""
SILENT_WATCHDOGS, SILENT_GAPS = 3.0, 10.0
"""A running job is stuck when it is silent for so many times the watchdog and its own longest pause so
far."""


@dataclass(slots=True, eq=False)
class Watched:
    """One job as seen now. Times are the controller's own."""

    record: JobRecord
    directory: Path
    view: JournalView = field(default_factory=JournalView)
    curve: Curve | None = None
    status: Status | None = None
    last_news: float = 0.0
    ended_since: float | None = None
    absent_since: float | None = None
    lingers_until: float | None = None
    running_since: float | None = None
    stop_asked: float | None = None
    fault: str | None = None  # why no curve can be built from its journals
    _shown: JobObservation | None = None
    _shown_of: tuple[Any, JournalView | None, Curve | None] = (None, None, None)

    def rebuild_curve(self) -> None:
        """From the journals as read last. Journals that contradict each other leave the curve as it was."""
        try:
            self.curve, self.fault = self.view.curve(), None
        except CurveError as error:
            self.fault = str(error)

    @property
    def holds_slot(self) -> bool:
        return self.record.is_submitted or self.lingers_until is not None

    @property
    def submission(self) -> Submission | None:
        """What is out now, as far as the scheduler can be asked about it."""
        current = self.record.current
        return None if current is None else current.submission(self.record.job.job_id)

    @property
    def events(self) -> Sequence[Event]:
        """Of the attempt that belongs to the newest submission."""
        submissions = self.record.submissions
        return self.view.events_since(submissions[-1].attempts_before) if submissions else ()

    @property
    def outcome(self) -> Outcome:
        """The final outcome, or what the job is doing."""
        record = self.record
        if record.is_final:
            return record.outcome
        if not record.is_submitted:
            is_lost = bool(record.submissions) and record.submissions[-1].outcome == Outcome.PREEMPTED
            return Outcome.PREEMPTED if is_lost else Outcome.QUEUED
        if self.status is not None and self.status.state is SchedulerState.REQUEUED:
            return Outcome.PREEMPTED
        events = self.events
        if events and events[-1]["event"] == "end" and not Outcome(events[-1]["outcome"]).is_final:
            return Outcome.PREEMPTED
        return Outcome.RUNNING if events else Outcome.QUEUED

    @property
    def seconds(self) -> float:
        """Training seconds so far, lost work included; raw while it runs."""
        last = self.view.last()
        if self.curve is not None and (self.record.is_final or last is None):
            return float(self.curve.total_seconds + self.curve.lost_seconds)
        lost = float(self.curve.lost_seconds) if self.curve is not None else 0.0
        return float(last["seconds"]) + lost if last is not None else 0.0

    @property
    def startup_seconds(self) -> float:
        """Of all attempts. A trainer's set-up after its start event is told with the first update."""
        told = (
            [e["startup_seconds"] for e in events if "startup_seconds" in e] for events in self.view.attempts
        )
        return float(sum(seconds[-1] or 0.0 for seconds in told if seconds))

    @property
    def queue_seconds(self) -> float:
        """From each submission to its first attempt's allocation; jobs that share one share the wait
        equally."""
        total, starts = 0.0, self.view.starts
        for submission in self.record.own_submissions:
            if submission.attempts_before < len(starts) and submission.submitted is not None:
                start = starts[submission.attempts_before]
                began = start.get("allocation_started") or start["time"] - (
                    start.get("startup_seconds") or 0.0
                )
                total += max(0.0, began - submission.submitted) / (start.get("sharers") or 1)
        return total

    def observation(self) -> JobObservation:
        """What a search is shown."""
        record, job = self.record, self.record.job
        state = (self.outcome, record.reason, len(record.submissions))
        seen, shown_view, shown_curve = self._shown_of  # kept, so that their identity stays theirs
        if (
            self._shown is None
            or seen != state
            or shown_view is not self.view
            or shown_curve is not self.curve
        ):
            shown = JobObservation(
                job_id=job.job_id,
                kind=job.kind,
                point=job.point,
                seed=job.seed,
                outcome=self.outcome,
                reason=record.reason,
                curve=self.curve,
                seconds=self.seconds,
                queue_seconds=self.queue_seconds,
                startup_seconds=self.startup_seconds,
                updates_limit=job.updates_limit,
            )
            self._shown, self._shown_of = shown, (state, self.view, self.curve)
        return self._shown


@dataclass(frozen=True, slots=True)
class News:
    """What one look brought: jobs with a new evaluation or a start, and jobs whose attempt ended and how."""

    evaluated: list[Watched]
    started: list[Watched]
    ended: list[tuple[Watched, Classification]]


class Watch:
    """Looks at all submitted jobs at once."""

    def __init__(
        self, settings: SweepSettings, executor: Executor, journals: JournalSource, clock: Clock
    ) -> None:
        self._settings, self._executor, self._journals, self._clock = settings, executor, journals, clock
        self.watches_curves = True

    def load(self, watched: Watched) -> None:
        """Read all of a job's journals, as after a restart."""
        watched.view = self._journals.read(watched.directory)
        watched.rebuild_curve()
        watched.last_news = self._clock.now()

    def look(self, jobs: Iterable[Watched]) -> News:
        """One status query for all jobs that hold a slot, then their journals."""
        held = [w for w in jobs if w.holds_slot]
        statuses = self._poll(held)
        news = News([], [], [])
        for watched in held:
            if watched.record.submissions[-1].handle is None:
                continue  # whether it exists is still to be found out
            self._read(watched, news)
            if statuses is not None:
                self._note(watched, statuses)
            ending = self._ending(watched, is_answered=statuses is not None)
            if ending is not None:
                news.ended.append((watched, ending))
        return news

    def _end_by_force(self, watched: Watched) -> None:
        """Free what the newest submission holds, whether its job has ended (an allocation that stays) or
        hangs."""
        submission = watched.record.submissions[-1].submission(watched.record.job.job_id)
        if submission is not None:
            self._executor.cancel(submission)

    def _poll(self, held: Sequence[Watched]) -> Mapping[str, Status] | None:
        submissions = [s.submission(w.record.job.job_id) for w in held for s in w.record.submissions[-1:]]
        known = [s for s in submissions if s is not None]
        return self._executor.poll(known) if known else {}

    def _read(self, watched: Watched, news: News) -> None:
        try:
            view = self._journals.refresh(watched.directory)
        except JournalError:
            return  # unreadable now; the watchdog and the scheduler decide if it stays so
        if view is None:
            return
        watched.view, watched.last_news = view, self._clock.now()
        names = {event["event"] for event in view.added}
        if "start" in names:
            news.started.append(watched)
        if names & {"end", "resume"} or (self.watches_curves and "evaluation" in names):
            watched.rebuild_curve()
        if "evaluation" in names:
            news.evaluated.append(watched)

    def _note(self, watched: Watched, statuses: Mapping[str, Status]) -> None:
        status = statuses.get(watched.record.job.job_id, Status(SchedulerState.ABSENT))
        now = self._clock.now()
        watched.status = status
        is_ended, is_absent = status.state is SchedulerState.ENDED, status.state is SchedulerState.ABSENT
        watched.ended_since = (watched.ended_since or now) if is_ended else None
        watched.absent_since = (watched.absent_since or now) if is_absent else None
        is_running = status.state is SchedulerState.RUNNING
        watched.running_since = (watched.running_since or now) if is_running else None
        if watched.lingers_until is not None and (is_ended or is_absent or now >= watched.lingers_until):
            if not is_ended and not is_absent:
                self._end_by_force(watched)
            watched.lingers_until = None

    def _ending(self, watched: Watched, *, is_answered: bool) -> Classification | None:
        """How the newest submission ended, None while it lives or nobody can tell."""
        record, now = watched.record, self._clock.now()
        if not record.is_submitted:
            return None
        end = next((e for e in reversed(watched.events) if e["event"] == "end"), None)
        if end is not None and Outcome(end["outcome"]).is_final:
            is_gone = watched.ended_since is not None or watched.absent_since is not None
            watched.lingers_until = None if is_gone else now + LINGER_SECONDS
            return classify(watched.status, watched.events)
        if not is_answered or watched.status is None:
            return None
        if watched.ended_since is not None:
            if now - watched.ended_since < self._settings.grace_seconds:
                return None  # its last words may still be on their way through the file system
            return classify(watched.status, watched.events, newest_log(watched.directory))
        if watched.running_since is not None and self._is_stuck(watched, now):
            self._end_by_force(watched)
            silence = f"no word for {now - watched.last_news:.0f} s although the scheduler says that it runs"
            return Classification(Outcome.FAILED, "silent", silence, retryable=True)
        is_silent = now - watched.last_news >= self._settings.watchdog_seconds
        if watched.absent_since is not None and now - watched.absent_since >= GONE_SECONDS and is_silent:
            return classify(watched.status, watched.events, newest_log(watched.directory))
        return None

    def _is_stuck(self, watched: Watched, now: float) -> bool:
        assert watched.running_since is not None
        if watched.record.submissions[-1].is_shared and not watched.events:
            return False  # its turn in the allocation has not come
        limit = max(
            SILENT_WATCHDOGS * self._settings.watchdog_seconds, SILENT_GAPS * watched.view.longest_gap
        )
        return now - max(watched.last_news, watched.running_since) >= limit
