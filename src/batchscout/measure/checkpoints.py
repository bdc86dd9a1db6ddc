"""Checkpoints of a job: ``checkpoint/UPDATES/``, published whole by a rename or not at all.

Beside what the trainer saves each holds ``reporter.json``: the counters and the evaluations up to there, so
that a resumed attempt counts on as if it had never been interrupted.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from batchscout.clock import Clock
from batchscout.errors import JournalError

CHECKPOINTS = "checkpoint"
STATE = "reporter.json"
KEPT = 2
"""Newest checkpoints that stay: should the newest be unreadable, a person still has the one before."""


def published(job_dir: Path) -> list[Path]:
    """Published checkpoints, by updates. One without its state is what a death left of a removal."""
    try:
        folders = [path for path in (Path(job_dir) / CHECKPOINTS).iterdir() if path.name.isdigit()]
    except FileNotFoundError:
        return []
    return sorted((p for p in folders if (p / STATE).exists()), key=lambda path: int(path.name))


def newest(job_dir: Path) -> Path | None:
    """The one to resume from: of the newest attempt that published any, the one with the most updates."""
    found = published(job_dir)
    if not found:
        return None
    return max(found, key=lambda path: (int(read_state(path)["attempt"]), int(path.name)))


def read_state(checkpoint: Path) -> dict[str, Any]:
    """The reporter's own state in a checkpoint. Raises JournalError where it cannot be read."""
    try:
        state: dict[str, Any] = json.loads((checkpoint / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise JournalError(
            f"{checkpoint / STATE} cannot be read ({error}); remove {checkpoint} to go on"
        ) from error
    return state


class Checkpoints:
    """The checkpoints that one attempt writes.

    every_seconds  between two; None: only on demand
    updates        of the newest on this attempt's trajectory, 0 before the first
    """

    def __init__(self, job_dir: Path, attempt: int, *, every_seconds: float | None, clock: Clock) -> None:
        self._directory, self._attempt = Path(job_dir) / CHECKPOINTS, attempt
        self._every, self._clock = every_seconds, clock
        self._lineage: list[str] = []  # names on this attempt's trajectory, oldest first
        self._written = clock.perf()
        self.updates = 0

    def adopt(self, updates: int) -> None:
        """The attempt goes on from the checkpoint of this update; what lies beyond is no longer its own."""
        names = [path.name for path in published(self._directory.parent)]
        self._lineage = [name for name in names if int(name) <= updates]
        self.updates, self._written = updates, self._clock.perf()

    def is_due(self) -> bool:
        """``every_seconds`` have passed since the last one."""
        return self._every is not None and self._clock.perf() - self._written >= self._every

    def begin(self, updates: int) -> Path:
        """A new empty directory to save into; a leftover of the same name is removed."""
        path = self._directory / f".{updates}-{self._attempt:03d}.tmp"
        discard(path)
        path.mkdir(parents=True)
        return path

    def publish(self, saved: Path, state: Mapping[str, Any], updates: int) -> Path:
        """Make it visible under its number of updates, all of it on the disk before; keep the newest two."""
        content = json.dumps({"v": 1, "attempt": self._attempt, **state}, allow_nan=False)
        (saved / STATE).write_text(content, encoding="utf-8")
        for path in saved.rglob("*"):
            _flush(path)
        _flush(saved)
        final = self._directory / str(updates)
        if final.exists():  # written before at this update; a directory cannot be renamed onto it
            self._retire(final)
        saved.rename(final)
        _flush(self._directory)
        self._lineage = [*(name for name in self._lineage if name != final.name), final.name][-KEPT:]
        leftovers = self._directory.glob(".*.tmp")  # of attempts that died while they saved
        for path in leftovers:
            discard(path)
        for path in self._directory.glob("[0-9]*"):
            if path.name not in self._lineage:
                self._retire(path)
        self.updates, self._written = updates, self._clock.perf()
        return final

    def _retire(self, path: Path) -> None:
        """Remove a published one: out of sight at once, since a death may leave any part of a removal."""
        gone = self._directory / f".{path.name}-{self._attempt:03d}-obsolete.tmp"
        discard(gone)
        path.rename(gone)
        discard(gone)


def discard(path: Path) -> None:
    """Remove a directory, or what can be removed of it."""
    shutil.rmtree(path, ignore_errors=True)


def _flush(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
