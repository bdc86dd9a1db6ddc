"""A sweep's progress for scripts (`output=json`): one JSON object a line on standard output.

Each has `line`: its kind. `sweep` comes first, `job` whenever a job's outcome changes (its row of result.json),
`progress` after each ended job and each minute, `decision` for each line of events.jsonl, `result` last. A sweep that
is interrupted ends without `result`. Warnings and errors go to standard error.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from batchscout.clock import Clock, RealClock
from batchscout.measure.outcome import Outcome
from batchscout.report.doubts import doubts
from batchscout.run.listener import SweepView

HEARTBEAT_SECONDS = 60.0  # between `progress` lines when nothing ends


def write_line(line: str, content: Mapping[str, Any]) -> None:
    """One object on standard output, at once; nothing more where nobody reads on (`… | head`)."""
    try:
        sys.stdout.write(json.dumps({"line": line, **content}, allow_nan=False) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  it stands in for as long as the process lives


class JsonLines:
    """A Listener. write: (kind, content) → where it goes."""

    def __init__(
        self, write: Callable[[str, Mapping[str, Any]], None] = write_line, clock: Clock | None = None
    ) -> None:
        self._write = write
        self._clock = clock or RealClock()
        self._outcomes: dict[str, str] = {}
        self._said = 0.0

    def on_start(self, view: SweepView) -> None:
        self._outcomes = {row["id"]: row["outcome"] for row in view.result["jobs"]}
        place = str(view.directory.absolute())
        self._write("sweep", {"sweep": view.sweep, "directory": place, **standing(view.result)})
        self._said = self._clock.perf()
        self.on_change(view)

    def on_change(self, view: SweepView) -> None:
        has_ended = False
        for row in view.result["jobs"]:
            if self._outcomes.get(row["id"]) != row["outcome"]:
                self._outcomes[row["id"]] = row["outcome"]
                self._write("job", row)
                has_ended = has_ended or Outcome(row["outcome"]).is_final
        now = self._clock.perf()
        if has_ended or now - self._said >= HEARTBEAT_SECONDS:
            self._write("progress", standing(view.result))
            self._said = now

    def on_event(self, event: dict[str, Any]) -> None:
        self._write("decision", event)

    def on_end(self, view: SweepView) -> None:
        self.on_change(view)


def standing(result: Mapping[str, Any]) -> dict[str, Any]:
    """How things stand: status, number of jobs by outcome, cost, recommendation."""
    outcomes = Counter(row["outcome"] for row in result["jobs"])
    return {
        "status": result["status"],
        "outcomes": dict(sorted(outcomes.items())),
        "cost": result["cost"],
        "recommendation": result["recommendation"],
    }


def final_line(result: Mapping[str, Any], directory: Path, links: Sequence[str]) -> dict[str, Any]:
    """The `result` line: how it ended, the answer, its table and warnings, and where everything lies."""
    report = directory / "report.html"
    return {
        "sweep": result["sweep"],
        **standing(result),
        "table": result["table"],
        "warnings": doubts(result),
        "directory": str(directory.absolute()),
        "report": str(report.absolute()) if report.is_file() else None,
        "mlflow": list(links),
    }
