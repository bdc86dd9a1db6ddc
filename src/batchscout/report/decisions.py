"""The controller's decisions (events.jsonl) in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from batchscout.report.numbers import duration

WORDS = ("explanation", "reason", "message")
QUIET = {"v", "event", "time", "job", "nonfinite", *WORDS}
SHOWN = 5000  # decisions; the file has them all


def decisions(events: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """When (since the first event) and what, oldest first; the latest SHOWN of very many."""
    if not events:
        return []
    origin = next((event["time"] for event in events if event.get("time") is not None), 0.0)
    return [
        {"when": "+" + duration(max(0.0, (event.get("time") or origin) - origin)), "words": words(event)}
        for event in events[-SHOWN:]
    ]


def words(event: Mapping[str, Any]) -> str:
    """One event as a line: what, which job, why, and whatever else it says."""
    name = str(event.get("event", "event")).replace("_", " ")
    head = f"{name} {event['job']}" if event.get("job") else name
    why = next((str(event[key]) for key in WORDS if event.get(key)), "")
    rest = ", ".join(
        f"{key} {_text(value)}" for key, value in event.items() if key not in QUIET and value is not None
    )
    line = f"{head}: {why}" if why else head
    return f"{line} ({rest})" if rest else line


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)[:500]
