"""Logs a sweep to MLflow while it runs, without the controller ever waiting for MLflow.

A thread of its own takes the newest view of the sweep and brings the runs up to it. When MLflow does not
answer, nothing is queued up: the next view holds everything, and after the sweep `batchscout sync` does. What
is logged is the same either way (entry.py), so nothing is ever there twice.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from batchscout.errors import TrackingError
from batchscout.run.listener import SweepView
from batchscout.track import joins
from batchscout.track.entry import RunEntry, entries, is_loggable, job_entry, sweep_entry, sweep_start
from batchscout.track.facts import read_facts
from batchscout.track.joins import Joins
from batchscout.track.location import database_path, filesystem_type, is_network_filesystem
from batchscout.track.store import RunStore
from batchscout.track.views import experiment_tags, how_to_look

log = logging.getLogger("batchscout.track")

PATIENCE_SECONDS = 5.0  # a call that takes longer is an outage to the sweep
RETRY_SECONDS = (1.0, 30.0)  # first and longest pause between attempts
LAST_WAIT_SECONDS = 60.0  # at the end, while MLflow keeps answering


class MlflowTracker:
    """A Listener.

    uri            any MLflow tracking URI
    trainer_joins  trainers log to MLflow themselves: jobs that start are told their run (joins.py)
    say            how the user is told about an outage, once
    """

    def __init__(
        self, uri: str, *, trainer_joins: bool = False, say: Callable[[str], None] = log.warning
    ) -> None:
        self.uri = uri
        self._trainer_joins = trainer_joins
        self._joins: Joins | None = None
        self.is_degraded = False
        self._say = say
        self._store: RunStore | None = None
        self._directory = Path()
        self._view: SweepView | None = None  # the newest that is not yet logged
        self._written: dict[str | None, object] = {}  # by job: what its entry depended on when it was logged
        self._busy_since: float | None = None
        self._condition = threading.Condition()
        self._is_closing = False
        self._thread: threading.Thread | None = None

    @property
    def links(self) -> tuple[str, ...]:
        """What to open or type to see the sweep in MLflow; () before anything could be logged."""
        store = self._store
        if store is None or store.experiment_id is None:
            return ()
        return how_to_look(self.uri, store.experiment_id, self._directory)

    def on_start(self, view: SweepView) -> None:
        path = database_path(self.uri)
        if path is not None and is_network_filesystem(path):
            self._degrade(
                f"{path} lies on a network file system ({filesystem_type(path)}), no place for a database"
            )
            return
        self._store = RunStore(self.uri, view.sweep)
        self._directory = view.directory
        Joins.withdraw(view.directory)
        if self._trainer_joins:
            self._joins = Joins(self._store, view.directory)
            self._joins.offer()
        self._thread = threading.Thread(target=self._work, name="mlflow-tracker", daemon=True)
        self._thread.start()
        self.on_change(view)

    def on_change(self, view: SweepView) -> None:
        with self._condition:
            self._view = view
            self._condition.notify_all()
        self._notice_slowness()

    def on_event(self, event: dict[str, Any]) -> None:
        """Decisions are in the sweep's directory; MLflow has no place for them."""

    def on_end(self, view: SweepView) -> None:
        """Log the end, waiting only as long as MLflow keeps answering."""
        self.on_change(view)
        with self._condition:
            self._is_closing = True
            self._condition.notify_all()
        patience = PATIENCE_SECONDS if view.result["status"] == "interrupted" else LAST_WAIT_SECONDS
        deadline = time.monotonic() + patience
        while self._thread is not None and self._thread.is_alive() and time.monotonic() < deadline:
            self._thread.join(0.05)
            if self.is_degraded or self._notice_slowness():
                break
        if self.is_degraded or (self._thread is not None and self._thread.is_alive()):
            self._say(f"MLflow is behind: `batchscout sync {view.directory}` completes it from the journals")

    def _work(self) -> None:
        """The thread: the newest view, again after a pause where MLflow did not take it."""
        pause = RETRY_SECONDS[0]
        while True:
            with self._condition:
                seconds = None if self._joins is None else joins.LOOK_SECONDS
                self._condition.wait_for(lambda: self._view is not None or self._is_closing, timeout=seconds)
                view, self._view = self._view, None
                if view is None and self._is_closing:
                    return
            try:
                if self._joins is not None:
                    self._answer(self._joins)
                if view is not None:
                    self._log(view)
            except Exception as error:  # noqa: BLE001  the boundary: tracking must not hurt a sweep, whatever breaks
                text = str(error) if isinstance(error, TrackingError) else f"{type(error).__name__}: {error}"
                self._degrade(text)
                with self._condition:
                    self._view = self._view or view
                    if self._is_closing:
                        return
                    self._condition.wait_for(lambda: self._is_closing, timeout=pause)
                pause = min(2 * pause, RETRY_SECONDS[1])
            else:
                self._recover()
                pause = RETRY_SECONDS[0]
            finally:
                self._busy_since = None

    def _answer(self, waiting: Joins) -> None:
        """Tell jobs that start which run is theirs."""
        asking = list(waiting.asking())
        if asking and self._store is not None:
            self._store.open()  # unwatched, as in _log
            self._busy_since = time.monotonic()
            for job, started in asking:
                waiting.answer(job, started)

    def _log(self, view: SweepView) -> None:
        """Write what changed since it was last written."""
        store = self._store
        assert store is not None
        store.open()  # unwatched: importing MLflow and making a database take seconds by themselves
        facts = read_facts(view)
        jobs = {job.job_id: job for job in view.jobs}
        answer = (len(view.result["recommendations"]), view.result["status"], sweep_start(view) is not None)
        if self._written.get(None) != answer and sweep_start(view) is not None:
            self._write(sweep_entry(view), answer)
            store.set_experiment_tags(experiment_tags(view))
        for row in view.result["jobs"]:
            state = (row["outcome"], row["start"], row["end"], facts.settled.get(row["id"]))
            if is_loggable(row) and self._written.get(row["id"]) != state:
                self._write(job_entry(view, row, jobs.get(row["id"]), facts=facts), state)
        if view.result["status"] != "running":
            if self._joins is not None:  # trainers ended their runs after we did
                store.write_all(list(entries(view, facts)))
            self._busy_since = time.monotonic()
            store.upload_report(view)

    def _write(self, entry: RunEntry, state: object) -> None:
        assert self._store is not None
        self._busy_since = time.monotonic()
        self._store.write(entry)
        self._written[entry.job] = state

    def _notice_slowness(self) -> bool:
        since = self._busy_since
        is_slow = since is not None and time.monotonic() - since > PATIENCE_SECONDS
        if is_slow:
            self._degrade(f"{self.uri} has not answered for {PATIENCE_SECONDS:g} s")
        return is_slow

    def _degrade(self, reason: str) -> None:
        if not self.is_degraded:
            self.is_degraded = True
            self._say(f"tracking degraded, the sweep goes on and its journals keep everything: {reason}")

    def _recover(self) -> None:
        if self.is_degraded:
            self.is_degraded = False
            self._say("tracking caught up with the sweep")
