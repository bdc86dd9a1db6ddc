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

from batchscout.errors import JournalError

CHECKPOINTS = "checkpoint"
STATE = "reporter.json"
KEPT = 2
"""Newest checkpoints that stay: should the newest be unreadable, a person still has the one before."""


def published(job_dir: Path) -> list[Path]:
    """Published checkpoints, by updates."""
    try:
        found = [path for path in (Path(job_dir) / CHECKPOINTS).iterdir() if path.name.isdigit()]
    except FileNotFoundError:
        return []
    return sorted(found, key=lambda path: int(path.name))


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


def begin(job_dir: Path, attempt: int, updates: int) -> Path:
    """A new empty directory to save into; leftovers of this attempt are removed."""
    path = Path(job_dir) / CHECKPOINTS / f".{updates}-{attempt:03d}.tmp"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def publish(saved: Path, state: Mapping[str, Any], updates: int) -> Path:
    """Make it visible under its number of updates, with everything in it on the disk before."""
    (saved / STATE).write_text(json.dumps(state, allow_nan=False), encoding="utf-8")
    for path in saved.rglob("*"):
        _flush(path)
    _flush(saved)
    final = saved.parent / str(updates)
    if final.exists():  # of an earlier attempt, which a restart from an older state made obsolete
        obsolete = saved.parent / f".{updates}-obsolete.tmp"
        shutil.rmtree(obsolete, ignore_errors=True)
        final.rename(obsolete)
        shutil.rmtree(obsolete, ignore_errors=True)
    saved.rename(final)
    _flush(saved.parent)
    return final


def prune(job_dir: Path, kept: set[str]) -> None:
    """Remove all published checkpoints but these (by name)."""
    for path in published(job_dir):
        if path.name not in kept:
            shutil.rmtree(path, ignore_errors=True)


def _flush(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
