"""Keeps an Optuna study in an SQL database (PostgreSQL) up to date, without the controller waiting for it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from batchscout.errors import TrackingError
from batchscout.run.listener import SweepView
from batchscout.track.optuna_study import StudyWriter

log = logging.getLogger("batchscout.track")

RETRY_SECONDS = (1.0, 30.0)  # first and longest pause between attempts
LAST_WAIT_SECONDS = 20.0  # at the end; then `batchscout sync` completes the study


class StudyServer:
    """A Listener. storage: an SQL address that Optuna takes; say: how the user is told about an outage, once."""

    def __init__(self, storage: str, *, say: Callable[[str], None] = log.warning) -> None:
        self.is_degraded = False
        self._writer = StudyWriter(storage)
        self._say = say
        self._view: SweepView | None = None  # the newest that is not yet written
        self._condition = threading.Condition()
        self._is_closing = False
        self._thread = threading.Thread(target=self._work, name="optuna-study", daemon=True)

    def on_start(self, view: SweepView) -> None:
        self._thread.start()
        self.on_change(view)

    def on_change(self, view: SweepView) -> None:
        with self._condition:
            self._view = view
            self._condition.notify_all()

    def on_event(self, event: dict[str, Any]) -> None:
        """Decisions are in the sweep's directory."""

    def on_end(self, view: SweepView) -> None:
        """Write the end, waiting only as long as the database may still answer."""
        self.on_change(view)
        with self._condition:
            self._is_closing = True
            self._condition.notify_all()
        deadline = time.monotonic() + LAST_WAIT_SECONDS
        while self._thread.is_alive() and not self.is_degraded and time.monotonic() < deadline:
            self._thread.join(0.05)
        if self.is_degraded or self._thread.is_alive():
            self._say(f"the Optuna study is behind: `batchscout sync {Path(view.directory)}` completes it")

    def _work(self) -> None:
        """The thread: the newest view, again after a pause where the database did not take it."""
        pause = RETRY_SECONDS[0]
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._view is not None or self._is_closing)
                view, self._view = self._view, None
            if view is None:
                return
            try:
                self._writer.write(view)
            except Exception as error:  # noqa: BLE001  the boundary: a study must not hurt a sweep, whatever breaks
                text = str(error) if isinstance(error, TrackingError) else f"{type(error).__name__}: {error}"
                self._degrade(text.splitlines()[0])
                with self._condition:
                    self._view = self._view or view
                    if self._is_closing:
                        return
                    self._condition.wait_for(lambda: self._is_closing, timeout=pause)
                pause = min(2 * pause, RETRY_SECONDS[1])
            else:
                self._recover()
                pause = RETRY_SECONDS[0]

    def _degrade(self, reason: str) -> None:
        if not self.is_degraded:
            self.is_degraded = True
            self._say(f"the Optuna study is not written, the sweep goes on: {reason}")

    def _recover(self) -> None:
        if self.is_degraded:
            self.is_degraded = False
            self._say("the Optuna study caught up with the sweep")
