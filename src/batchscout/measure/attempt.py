"""Attempts of a job: ``attempts/NNN/``, claimed by mkdir, one writer each for ever."""

from __future__ import annotations

from pathlib import Path

ATTEMPTS = "attempts"
JOURNAL = "journal.jsonl"


def attempt_paths(job_dir: Path) -> list[Path]:
    """The attempts' directories, oldest first; [] before the first."""
    try:
        found = [path for path in (Path(job_dir) / ATTEMPTS).iterdir() if path.name.isdigit()]
    except FileNotFoundError:
        return []
    return sorted(found, key=attempt_number)


def attempt_number(attempt_dir: Path) -> int:
    """001 → 1."""
    return int(attempt_dir.name)


def newest_attempt(job_dir: Path) -> Path | None:
    """The directory of the attempt that counts now, None before the first."""
    paths = attempt_paths(job_dir)
    return paths[-1] if paths else None


def attempt_dir(job_dir: Path, number: int) -> Path:
    """Where attempt ``number`` is or would be."""
    return Path(job_dir) / ATTEMPTS / f"{number:03d}"


def claim_attempt(job_dir: Path) -> Path:
    """Make the next attempt's directory and return it. Of processes that claim at once each gets its own."""
    newest = newest_attempt(job_dir)
    number = 1 if newest is None else attempt_number(newest) + 1
    while True:
        path = attempt_dir(job_dir, number)
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            number += 1
            continue
        return path
