"""The table of all jobs, for the page: every job with how it ended and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from batchscout.report.numbers import NOTHING, count, rate, time_unit

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JobColumn:
    """key in result.json's jobs; text: how a value is written; style: CSS class of its cells."""

    key: str
    title: str
    unit: str
    text: Callable[[Any], str]
    is_text: bool = False
    style: str = ""


def job_columns(rows: Sequence[Row]) -> list[JobColumn]:
    """Columns that at least one job has something to say in."""
    unit = time_unit(row["seconds"] for row in rows)

    def seconds(key: str, title: str) -> JobColumn:
        return JobColumn(key, title, unit.name, unit.text)

    every = [
        JobColumn("id", "job", "", str, is_text=True, style="text"),
        JobColumn("kind", "kind", "", str, is_text=True, style="text"),
        JobColumn("batch_size", "batch size", "", str),
        JobColumn("lr", "lr", "", rate),
        JobColumn("seed", "seed", "", str),
        JobColumn("outcome", "outcome", "", str, is_text=True, style="text"),
        seconds("time_to_target", "time to target"),
        JobColumn("samples_to_target", "samples to target", "", count),
        JobColumn("updates", "updates", "", count),
        JobColumn("samples", "samples", "", count),
        seconds("seconds", "training"),
        seconds("queue_seconds", "queue"),
        seconds("startup_seconds", "start-up"),
        seconds("evaluation_seconds", "evaluation"),
        seconds("lost_seconds", "lost"),
        JobColumn("attempts", "attempts", "", str),
        JobColumn("node", "node", "", str, is_text=True, style="text"),
        JobColumn("reason", "reason", "", str, is_text=True, style="words"),
    ]
    always = {"id", "batch_size", "lr", "outcome", "time_to_target"}
    return [
        c for c in every if c.key in always or any(row.get(c.key) not in (None, "", 0, 0.0) for row in rows)
    ]


def job_cells(rows: Sequence[Row]) -> list[list[dict[str, str]]]:
    """Per job its cells: shown text, value to sort by ("" for none), style."""
    chosen = job_columns(rows)
    return [[_cell(column, row) for column in chosen] for row in rows]


def _cell(column: JobColumn, row: Row) -> dict[str, str]:
    value = row.get(column.key)
    is_nothing = value is None or value == ""
    return {
        "text": ("" if column.is_text else NOTHING) if is_nothing else column.text(value),
        "value": "" if is_nothing else str(value)[:200],
        "style": column.style,
        "outcome": str(value) if column.key == "outcome" else "",
    }
