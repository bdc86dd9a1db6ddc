"""Small files that other processes read while they are written."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from batchscout.errors import SweepError


def write_json(path: Path, content: Any, *, is_durable: bool = True) -> None:
    """Replace `path` atomically: a reader sees the old text or the new one. Strict JSON (no NaN, no
    infinity).

    is_durable  also survives a crash of the machine; costs a disk flush
    """
    text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        if is_durable:
            file.flush()
            os.fsync(file.fileno())
    beside.replace(path)


def read_json(path: Path) -> Any:
    """The content, None where there is no such file. Raises SweepError if it is no JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise SweepError(f"{path} is no JSON ({error}); put back what it was, or take it away") from error


class EventLog:
    """events.jsonl: what the controller decided and why, one line each; only ever appended to."""

    def __init__(self, path: Path, *, is_durable: bool = True) -> None:
        self._path, self._is_durable = path, is_durable
        self._repair()

    def _repair(self) -> None:
        """What a kill left of a last line is cut off; one that only lacks its newline is whole."""
        if not self._path.is_file() or not (text := self._path.read_bytes()) or text.endswith(b"\n"):
            return
        whole, _, last = text.rpartition(b"\n")
        with self._path.open("r+b") as file:
            if _is_json(last):
                file.seek(0, os.SEEK_END)
                file.write(b"\n")
            else:
                file.truncate(len(whole) + 1 if whole else 0)

    def write(self, event: dict[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(event, allow_nan=False, ensure_ascii=False) + "\n")
            if self._is_durable:
                file.flush()
                os.fsync(file.fileno())

    def read(self) -> list[dict[str, Any]]:
        """All whole lines."""
        if not self._path.is_file():
            return []
        text = self._path.read_bytes()
        return [json.loads(line) for line in text.split(b"\n") if _is_json(line)]


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
