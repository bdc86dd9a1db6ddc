"""Where the controller reads what jobs wrote: their files, re-opened at every look, or a replay's memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from batchscout.measure.attempt import JOURNAL, attempt_paths
from batchscout.measure.curve import Curve
from batchscout.measure.journal import JournalTail

Event = dict[str, Any]


@dataclass(frozen=True)  # no slots: what is derived is kept
class JournalView:
    """All attempts of one job as of now, oldest first; attempts[i] is attempt i + 1. added: since the last
    look."""

    attempts: list[list[Event]] = field(default_factory=list)
    added: list[Event] = field(default_factory=list)
    curve_of: Callable[[], Curve | None] | None = None

    def curve(self) -> Curve | None:
        """Built anew at each call; None before the first event."""
        if self.curve_of is not None:
            return self.curve_of()
        written = [events for events in self.attempts if events]
        return Curve.from_attempts(written) if written else None

    def events_since(self, attempts: int) -> list[Event]:
        """Of the newest attempt, if it came after the first so many."""
        return self.attempts[-1] if len(self.attempts) > attempts else []

    def last(self) -> Event | None:
        """The newest event."""
        return next((events[-1] for events in reversed(self.attempts) if events), None)

    @cached_property
    def starts(self) -> tuple[Event, ...]:
        """One start event an attempt."""
        return tuple(e for events in self.attempts for e in events if e["event"] == "start")

    @cached_property
    def longest_gap(self) -> float:
        """Seconds between two events of one attempt, at most; 0 before the second."""
        gaps = (b["time"] - a["time"] for events in self.attempts for a, b in pairwise(events))
        return float(max(gaps, default=0.0))

    @cached_property
    def allocated_seconds(self) -> float:
        """Wall time of all attempts, start-up included."""
        total = 0.0
        for events in self.attempts:
            if events:
                startup = events[0].get("startup_seconds") or 0.0
                total += max(0.0, float(events[-1]["time"] - events[0]["time"] + startup))
        return total


class JournalSource(Protocol):
    """What the controller reads journals through."""

    def refresh(self, job_dir: Path) -> JournalView | None:
        """The job's journals, None where nothing was added since the last call."""

    def read(self, job_dir: Path) -> JournalView:
        """The job's journals as of now."""


class JournalFiles:
    """Journals in attempts/NNN/journal.jsonl."""

    def __init__(self) -> None:
        self._tails: dict[Path, JournalTail] = {}
        self._events: dict[Path, list[list[Event]]] = {}

    def refresh(self, job_dir: Path) -> JournalView | None:
        known = self._events.setdefault(job_dir, [])
        added: list[Event] = []
        for index, attempt in enumerate(attempt_paths(job_dir)):
            path = attempt / JOURNAL
            if path not in self._tails:
                self._tails[path] = JournalTail(path)
                known.append([])
            events = self._tails[path].poll()
            known[index].extend(events)
            added.extend(events)
        return JournalView([list(events) for events in known], added) if added else None

    def read(self, job_dir: Path) -> JournalView:
        found = self.refresh(job_dir)
        return found or JournalView([list(events) for events in self._events.get(job_dir, [])])
