"""The journal of one attempt: one JSON object a line, only ever appended to, one writer for ever.

A line counts once its newline is on the disk. A process or a machine that dies while it writes leaves a torn
last line: readers pass over it, and a writer that opens the file again cuts it off.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from batchscout.clock import Clock
from batchscout.errors import JournalError

Event = dict[str, Any]

FLUSH_SECONDS = 1.0
"""Updates go to the disk at least this often: a flush takes milliseconds of the training clock, as much as a
small update. Only a machine's crash, not a process's death, can take younger ones."""


class JournalWriter:
    """Appends events to one file, handed to the system before ``write`` returns, and flushed to the disk too
    unless it is an update within ``FLUSH_SECONDS`` of the last flush.

    Raises   JournalError where the file cannot be opened or written (full disk); what was written before
             stays whole.
    """

    def __init__(self, path: Path, *, clock: Clock) -> None:
        self.path, self._clock = Path(path), clock
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise JournalError(f"{self.path} cannot be opened for writing: {error.strerror}") from error
        self._end = self._repair()
        self._is_open = True
        self._flushed = -FLUSH_SECONDS + clock.perf()

    def write(self, event: str, **keys: Any) -> Event:
        """Append one event. ``v``, ``event``, ``time`` and, where needed, ``nonfinite`` are added. Returns
        the line."""
        if not self._is_open:
            raise JournalError(f"{self.path} is closed; event {event!r} came too late")
        missing: list[str] = []
        content = strict({"v": 1, "event": event, "time": self._clock.now(), **keys}, missing)
        if missing:
            content["nonfinite"] = missing
        is_due = event != "update" or self._clock.perf() - self._flushed >= FLUSH_SECONDS
        self._append((json.dumps(content, allow_nan=False, separators=(",", ":")) + "\n").encode(), is_due)
        return dict(content)

    def close(self) -> None:
        """Idempotent."""
        if self._is_open:
            self._is_open = False
            os.close(self._file)

    def __enter__(self) -> JournalWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _append(self, line: bytes, is_flushed: bool) -> None:
        try:
            if os.fstat(self._file).st_size != self._end:
                os.ftruncate(self._file, self._end)  # what an earlier failure could not take back
            rest = line
            while rest:
                rest = rest[os.write(self._file, rest) :]
            if is_flushed:
                os.fsync(self._file)
                self._flushed = self._clock.perf()
        except OSError as error:
            self._take_back()
            raise JournalError(
                f"{self.path} cannot be written: {error.strerror}; free space and resume"
            ) from error
        self._end += len(line)

    def _take_back(self) -> None:
        with contextlib.suppress(OSError):  # then the torn line stays last and the next write tries again
            os.ftruncate(self._file, self._end)

    def _repair(self) -> int:
        """Cut a torn last line off; the length that stays."""
        content = self.path.read_bytes()
        end = _whole(content)
        if end < len(content):
            os.ftruncate(self._file, end)
            os.fsync(self._file)
        return end


def read_journal(path: Path) -> list[Event]:
    """All whole lines, oldest first; a torn last line is passed over, no file is an empty journal.

    Raises   JournalError if a line before the last is no event, or the file cannot be read.
    """
    return JournalTail(path).poll()


class JournalTail:
    """Reads what is new. The file is opened anew at each poll, since a network file system caches an open
    one."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._offset = 0
        self._lines = 0

    def poll(self) -> list[Event]:
        """Events whose lines were completed since the last poll; [] where there is no file yet."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                content = file.read()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise JournalError(f"{self.path} cannot be read: {error.strerror}") from error
        whole = content[: _whole(content)]
        events = [self._parse(line) for line in whole.split(b"\n")[:-1]]
        self._offset += len(whole)
        return events

    def _parse(self, line: bytes) -> Event:
        self._lines += 1
        event = parse(line)
        if event is None:
            raise JournalError(
                f"{self.path}:{self._lines} is no event: {line[:60]!r}; remove the line to go on without"
            )
        return event


def parse(line: bytes) -> Event | None:
    """The event of one line, None where it is no JSON object with a name."""
    try:
        event = json.loads(line)
    except ValueError:  # JSON and UTF-8 errors alike
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None


def _whole(content: bytes) -> int:
    """Length without a torn last line: one that has no newline, or that a crash of the machine left as
    rubbish."""
    end = content.rfind(b"\n") + 1
    if end and parse(content[content.rfind(b"\n", 0, end - 1) + 1 : end]) is None:
        return content.rfind(b"\n", 0, end - 1) + 1
    return end


def strict(value: Any, missing: list[str], name: str = "") -> Any:
    """``value`` in strict JSON's types; numbers that are not finite become None and their dotted names are
    listed."""
    if isinstance(value, Mapping):
        return {
            str(key): strict(part, missing, f"{name}.{key}" if name else str(key))
            for key, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [strict(part, missing, f"{name}.{index}") for index, part in enumerate(value)]
    if value is None or isinstance(value, bool | str | int):
        return value
    if hasattr(value, "item"):  # scalars of numpy and torch
        return strict(value.item(), missing, name)
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        missing.append(name)
        return None
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise JournalError(
        f"{name}={value!r} is a {type(value).__name__}, which a journal cannot hold; give numbers or text"
    )
