"""A sweep read from its directory, by anything that only looks: report, tracking, export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from batchscout.errors import SweepError
from batchscout.measure.curve import Curve
from batchscout.measure.journal import read_journal
from batchscout.measure.outcome import Outcome
from batchscout.run.files import read_json
from batchscout.run.listener import SweepView
from batchscout.search.protocol import JobObservation, Point


def read_sweep(directory: Path) -> SweepView:
    """The view that a controller had when it last wrote result.json, curves included.

    Raises  SweepError if there is no result.json to read.
    """
    directory = Path(directory)
    result = _object(directory / "result.json")
    if result is None:
        raise SweepError(f"{directory} holds no result.json; name the directory of one sweep, runs/NAME/TIME")
    sweep = _object(directory / "sweep.json") or {}
    return SweepView(
        directory=directory,
        sweep=result["sweep"],
        config=sweep.get("config") or {},
        result=result,
        jobs=tuple(_observation(directory, row) for row in result["jobs"]),
    )


def read_provenance(directory: Path) -> dict[str, Any]:
    """sweep.json as it is (versions, commit, command); {} where there is none."""
    return _object(Path(directory) / "sweep.json") or {}


def read_decisions(directory: Path) -> list[dict[str, Any]]:
    """The lines of events.jsonl, oldest first."""
    path = Path(directory) / "events.jsonl"
    return read_journal(path) if path.is_file() else []


def _observation(directory: Path, row: dict[str, Any]) -> JobObservation:
    return JobObservation(
        job_id=row["id"],
        kind=row["kind"],
        point=Point(row["batch_size"], row["lr"]),
        seed=row["seed"],
        outcome=Outcome(row["outcome"]),
        reason=row["reason"] or "",
        curve=_curve(directory / "jobs" / row["id"]),
        seconds=(row["seconds"] or 0.0) + (row["lost_seconds"] or 0.0),
        queue_seconds=row["queue_seconds"] or 0.0,
        startup_seconds=row["startup_seconds"] or 0.0,
    )


def _curve(job: Path) -> Curve | None:
    """The job's curve, None before its first event."""
    attempts = [
        events for path in sorted(job.glob("attempts/*/journal.jsonl")) if (events := read_journal(path))
    ]
    return Curve.from_attempts(attempts) if attempts else None


def _object(path: Path) -> dict[str, Any] | None:
    content: dict[str, Any] | None = read_json(path)
    return content
