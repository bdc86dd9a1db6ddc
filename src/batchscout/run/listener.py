"""Who is told what the controller sees (tracking, terminal). Listeners only look: they cannot change a
decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from batchscout.search.protocol import JobObservation


@dataclass(frozen=True, slots=True)
class SweepView:
    """One sweep as of now. result is the object written to result.json; config the resolved configuration."""

    directory: Path
    sweep: str
    config: dict[str, Any]
    result: dict[str, Any]
    jobs: Sequence[JobObservation] = field(default=())


class Listener(Protocol):
    """Told after each change. Implementations bound their own time and never raise into the controller."""

    def on_start(self, view: SweepView) -> None: ...

    def on_change(self, view: SweepView) -> None: ...

    def on_event(self, event: dict[str, Any]) -> None:
        """One line of events.jsonl (decisions in words)."""

    def on_end(self, view: SweepView) -> None: ...
