"""What the controller writes down and tells: events.jsonl, result.json, listeners."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Any

from batchscout.clock import Clock, RealClock
from batchscout.measure.journal import strict
from batchscout.run.hardware_mix import is_mixed
from batchscout.run.laws_part import NOTHING, laws_of_jobs, level_laws, squared_norms
from batchscout.run.listener import Listener, SweepView
from batchscout.run.result import Progress, build_result
from batchscout.run.settings import ExitCode, SweepSettings
from batchscout.run.sweep_directory import SweepDirectory
from batchscout.run.watch import Watched
from batchscout.search.grounded import grounded
from batchscout.search.protocol import Recommendation, Search

RESULT_SECONDS = 2.0
"""So often at most an evaluation alone rewrites result.json; starts and ends always do."""


class Publisher:
    """Keeps the history of recommendations and the elapsed time, which survive in result.json."""

    def __init__(
        self,
        settings: SweepSettings,
        sweep: SweepDirectory,
        search: Search,
        listeners: Sequence[Listener],
        clock: Clock,
    ) -> None:
        self._settings, self._sweep, self._search, self._clock = settings, sweep, search, clock
        self._listeners = list(listeners)
        self._display = RealClock()  # how often a person is shown something does not follow the virtual clock
        self._shown = self._fitted = -RESULT_SECONDS
        self._began = clock.now()
        self._elapsed_before = 0.0
        self._history: list[dict[str, Any]] = []
        self._answer: Recommendation | None = None
        self._laws: dict[str, Any] = dict(NOTHING)
        self._level_laws: dict[float, Any] = {}
        self._status = "running"

    @property
    def elapsed_seconds(self) -> float:
        """Since the sweep's first start, without the time in which nothing of it ran."""
        return self._elapsed_before + self._clock.now() - self._began

    def begin(self, jobs: Sequence[Watched]) -> None:
        """Take up the history of earlier sessions."""
        before = self._sweep.result()
        if before is not None:
            self._history = list(before["recommendations"])
            self._elapsed_before = self._elapsed(before, jobs)
        self.event("begin", jobs=len(jobs))
        self._answer = self._recommend(jobs) if jobs else None
        ended = sum(w.record.is_final and not w.record.is_skipped for w in jobs)
        self._history += [self._entry(jobs) for _ in range(ended - len(self._history))]
        self._fit_laws(jobs)
        self._tell(lambda listener: listener.on_start(self._view(jobs)))

    def _elapsed(self, before: dict[str, Any], jobs: Sequence[Watched]) -> float:
        """As last written; the time since then counts where jobs ran on without a controller."""
        known = float(before["elapsed_seconds"])
        if self._settings.is_recorded or not any(w.record.is_submitted for w in jobs):
            return known
        written = (self._sweep.path / "result.json").stat().st_mtime
        return known + max(0.0, self._clock.now() - written)

    def event(self, name: str, **keys: Any) -> None:
        """One line of events.jsonl, told to listeners too."""
        content = {"v": 1, "event": name, "time": self._clock.now(), **keys}
        self._sweep.events.write(content)
        self._tell(lambda listener: listener.on_event(content))

    def end_of(self, watched: Watched, jobs: Sequence[Watched]) -> None:
        """A job became final: the event, and what is recommended now."""
        record = watched.record
        self.event(
            "end",
            job=record.job.job_id,
            outcome=record.outcome.value,
            reason=record.reason,
            message=record.message,
            seconds=watched.seconds,
        )
        self._answer = self._recommend(jobs)
        self._history.append(self._entry(jobs))
        if self._display.perf() - self._fitted >= RESULT_SECONDS:  # jobs that end together share a fit
            self._fit_laws(jobs)

    def _fit_laws(self, jobs: Sequence[Watched], *, is_end: bool = False) -> None:
        """Fits take a moment; those of further levels wait for the end."""
        observations, target = [w.observation() for w in jobs], self._settings.context.target
        self._laws = laws_of_jobs(observations, target, squared_norms(jobs))
        if is_end:
            self._level_laws = level_laws(observations, target)
        self._fitted = self._display.perf()

    def _recommend(self, jobs: Sequence[Watched], *, is_end: bool = False) -> Recommendation | None:
        if is_mixed(jobs):
            return None
        observations = [w.observation() for w in jobs]
        answer = self._search.recommend(observations)
        return grounded(answer, observations, self._settings.context.target, is_end=is_end)

    def _entry(self, jobs: Sequence[Watched]) -> dict[str, Any]:
        answer = self._answer
        return {
            "cost_seconds": sum(w.seconds for w in jobs),
            "elapsed_seconds": self.elapsed_seconds,
            "batch_size": None if answer is None else answer.point.batch_size,
            "lr": None if answer is None else answer.point.lr,
        }

    def publish(self, jobs: Sequence[Watched], *, is_change: bool, is_end: bool = False) -> None:
        """Rewrite result.json and tell listeners, if there is anything new and it is time to.

        A replay, whose hours take milliseconds, writes its result when it ends only.
        """
        is_due = self._display.perf() - self._shown >= RESULT_SECONDS
        if self._settings.is_recorded:
            if is_due and self._listeners:
                self._show(jobs)
        elif is_end or (is_change and is_due):
            self._sweep.save_result(self._result(jobs))
            self._show(jobs)

    def _show(self, jobs: Sequence[Watched]) -> None:
        self._shown = self._display.perf()
        view = self._view(jobs)
        self._tell(lambda listener: listener.on_change(view))

    def finish(self, jobs: Sequence[Watched], status: str, code: ExitCode, explanation: str) -> None:
        """The sweep is over, for now or for good."""
        self._status = status
        self._answer = self._recommend(jobs, is_end=True)
        self._fit_laws(jobs, is_end=True)
        self.event("finish", status=status, exit_code=int(code), explanation=explanation)
        self._conclude(jobs)

    def interrupt(self, jobs: Sequence[Watched], running: int) -> None:
        """The controller leaves, jobs run on: say how to go on."""
        self._status = "interrupted"
        command = shlex.join(self._sweep.content["command"]) or f"batchscout resume {self._sweep.path}"
        left = f"{running} job{'s' if running != 1 else ''} left running" if running else "no job was running"
        message = f"interrupted; {left}. Go on with: {command}"
        if running:
            message += f"; end them with: batchscout cancel {self._sweep.path}"
        self.event("interrupt", message=message)
        print(message, file=sys.stderr, flush=True)
        self._conclude(jobs)

    def _conclude(self, jobs: Sequence[Watched]) -> None:
        view = self._view(jobs)
        self._sweep.save_result(view.result)
        self._tell(lambda listener: listener.on_end(view))

    def close(self) -> None:
        """Nothing more is told."""
        self._listeners = []

    def _result(self, jobs: Sequence[Watched]) -> dict[str, Any]:
        progress = Progress(self._sweep.sweep, self._status, self.elapsed_seconds, self._history)
        result = build_result(progress, self._settings, jobs, self._answer, self._laws, self._level_laws)
        content: dict[str, Any] = strict(result, [])  # an open end of an interval is null in strict JSON
        return content

    def _view(self, jobs: Sequence[Watched]) -> SweepView:
        return SweepView(
            directory=self._sweep.path,
            sweep=self._sweep.sweep,
            config=dict(self._settings.config),
            result=self._result(jobs),
            jobs=tuple(w.observation() for w in jobs),
        )

    def _tell(self, say: Callable[[Listener], None]) -> None:
        for listener in list(self._listeners):
            try:
                say(listener)
            except Exception as error:  # noqa: BLE001  # boundary: nothing that only looks may hurt a sweep
                self._listeners.remove(listener)
                print(f"{type(listener).__name__} failed and is not told any more: {error}", file=sys.stderr)
