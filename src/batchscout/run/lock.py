"""One controller per sweep directory.

`controller.lock` names host, process and the process's start time, with a heartbeat. A lock of a dead process
of this host is taken over at once, one of another host when its heartbeat has been silent for STALE_SECONDS.
Taking happens under an advisory lock on a file beside it, so that two that see the same dead lock do not both
take it.
"""

from __future__ import annotations

import fcntl
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from batchscout.errors import SweepLocked
from batchscout.run.files import read_json, write_json

NAME = "controller.lock"
BEAT_SECONDS = 15.0
STALE_SECONDS = 180.0


class SweepLock:
    """A context manager. Raises SweepLocked on entry if a live controller holds it."""

    def __init__(self, directory: Path) -> None:
        self._path = Path(directory) / NAME
        self._token = uuid.uuid4().hex
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with _guard(self._path):
            holder = read_json(self._path)
            if holder is not None and is_alive(holder):
                raise SweepLocked(
                    f"{self._path.parent} is worked on by {describe(holder)}; wait for it or end it"
                )
            write_json(self._path, self._content())
        self._thread = threading.Thread(target=self._beat, name="sweep-lock", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()
        with _guard(self._path):
            if self.is_ours():
                self._path.unlink()

    def is_ours(self) -> bool:
        """Nobody has taken it over (which happens to a controller that was suspended for long)."""
        holder = read_json(self._path)
        return holder is not None and holder["token"] == self._token

    def _content(self) -> dict[str, Any]:
        process = psutil.Process()
        return {
            "v": 1,
            "host": socket.gethostname(),
            "pid": process.pid,
            "pid_started": process.create_time(),
            "heartbeat": time.time(),
            "token": self._token,
        }

    def _beat(self) -> None:
        while not self._end.wait(BEAT_SECONDS):
            with _guard(self._path):
                if not self.is_ours():
                    return
                write_json(self._path, self._content())


def holder_of(directory: Path) -> dict[str, Any] | None:
    """The live controller of a sweep, None where there is none."""
    holder = read_json(Path(directory) / NAME)
    return holder if holder is not None and is_alive(holder) else None


def is_alive(holder: dict[str, Any]) -> bool:
    """Whether the lock's process may still work."""
    if holder["host"] != socket.gethostname():
        return time.time() - float(holder["heartbeat"]) < STALE_SECONDS
    try:
        process = psutil.Process(holder["pid"])
        is_same = abs(process.create_time() - float(holder["pid_started"])) < 2
        return is_same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def describe(holder: dict[str, Any]) -> str:
    """For a message."""
    age = max(0.0, time.time() - float(holder["heartbeat"]))
    return f"process {holder['pid']} on {holder['host']} (last sign of life {age:.0f} s ago)"


@contextmanager
def _guard(path: Path) -> Iterator[None]:
    descriptor = os.open(path.with_name(f".{path.name}.guard"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
