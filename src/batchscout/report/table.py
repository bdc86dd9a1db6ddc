"""The final table, one row per batch size at its best lr, for terminal, text, Markdown, page and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from batchscout.report.numbers import NOTHING, count, digits, percent, rate, time_unit, times

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: key, title, unit, how values are written; a higher rank is left out sooner."""

    key: str
    title: str
    unit: str
    text: Callable[[Any], str]
    rank: int = 0


def columns(rows: Sequence[Row]) -> list[Column]:
    """The columns that at least one row has something to say in; times share one unit."""
    unit = time_unit(row["time_to_target"] for row in rows)
    update = time_unit(row["update_seconds"] for row in rows)
    is_complete = all(row["time_to_target"] is not None for row in rows)
    every = [
        Column("batch_size", "batch size", "rollouts", str),
        Column("lr", "lr", "", rate),
        Column("time_to_target", "time to target", unit.name, unit.text),
        Column("interval", "90% interval", unit.name, lambda pair: _interval(pair, unit.text), 2),
        Column("relative_time", "time", "÷ best", times, 1),
        Column("samples_to_target", "samples", "to target", count),
        Column("relative_samples", "samples", "÷ least", times, 5),
        Column("updates_to_target", "updates", "to target", count, 4),
        Column("update_seconds", "update", update.name, update.text, 3),
        Column("sampling_share", "sampling", "share", percent, 6),
        Column("throughput", "throughput", "samples/s", digits, 1),
        Column("jobs", "jobs", "reached", str, 2),
        *([] if is_complete else [Column("best_score", "best score", "", digits)]),
    ]
    needed = {"batch_size", "lr", "time_to_target"}
    return [c for c in every if c.key in needed or any(row.get(c.key) is not None for row in rows)]


def cells(
    rows: Sequence[Row], width: int | None = None, *, gap: int = 2
) -> tuple[list[Column], list[list[str]]]:
    """Columns and the text of every cell; the least needed go where they exceed ``width`` characters.

    gap  characters between columns
    """
    chosen = columns(rows)
    while True:
        texts = [[_cell(column, row) for column in chosen] for row in rows]
        total = sum(size + gap for size in _widths(chosen, texts)) + 1
        last = max(chosen, key=lambda column: column.rank)
        if width is None or total <= width or last.rank == 0:
            return chosen, texts
        chosen = [column for column in chosen if column is not last]


@dataclass(frozen=True, slots=True)
class FinalTable:
    """A rich renderable that fits its columns to the console it is printed on."""

    result: Mapping[str, Any]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _rich_table(self.result, options.max_width)


def render(result: Mapping[str, Any]) -> FinalTable:
    """The table for a terminal, the recommended row and its near ties marked.

    result  the object of result.json
    """
    return FinalTable(result)


def _rich_table(result: Mapping[str, Any], width: int) -> Table:
    chosen, texts = cells(result["table"], width, gap=3)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("")
    for column in chosen:
        title = Text(f"{column.title}\n{column.unit}".rstrip(), justify="right")
        table.add_column(title, justify="right", no_wrap=True)
    for row, line in zip(result["table"], texts, strict=True):
        best = is_recommended(row, result)
        style = "bold" if best else "dim" if row["time_to_target"] is None else ""
        marker = Text("▶" if best else "≈" if is_near_tie(row, result) else "", style="bold green")
        table.add_row(marker, *(Text(text) for text in line), style=style)
    return table


def plain(result: Mapping[str, Any], width: int | None = None) -> str:
    """The table as aligned text, for logs and files; `>` marks the recommended row, `~` its near ties."""
    chosen, texts = cells(result["table"], width)
    lines = [[" ", *(column.title for column in chosen)], [" ", *(column.unit for column in chosen)]]
    for row, line in zip(result["table"], texts, strict=True):
        lines.append(
            [">" if is_recommended(row, result) else "~" if is_near_tie(row, result) else " ", *line]
        )
    widths = [1, *_widths(chosen, texts)]
    return "\n".join(
        "  ".join(text.rjust(size) for text, size in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _widths(chosen: Sequence[Column], texts: Sequence[Sequence[str]]) -> list[int]:
    heads = [max(len(column.title), len(column.unit)) for column in chosen]
    return [max([head, *(len(line[i]) for line in texts)]) for i, head in enumerate(heads)]


def markdown(result: Mapping[str, Any]) -> str:
    """The table for MLflow's description, the recommended row in bold."""
    chosen, texts = cells(result["table"])
    titles = [f"{column.title} ({column.unit})" if column.unit else column.title for column in chosen]
    lines = ["| " + " | ".join(titles) + " |", "|" + " ---: |" * len(titles)]
    for row, line in zip(result["table"], texts, strict=True):
        marked = [f"**{text}**" for text in line] if is_recommended(row, result) else line
        lines.append("| " + " | ".join(marked) + " |")
    return "\n".join(lines)


def to_csv(rows: Sequence[Row]) -> str:
    """Rows of result.json (table, points, jobs) with all digits; lists become ``key_low``, ``key_high``.

    A text that a spreadsheet would take for a formula is quoted with an apostrophe.
    """
    flat = [_flat(row) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return out.getvalue()


def is_recommended(row: Row, result: Mapping[str, Any]) -> bool:
    answer = result["recommendation"]
    return answer is not None and (row["batch_size"], row["lr"]) == (answer["batch_size"], answer["lr"])


def is_near_tie(row: Row, result: Mapping[str, Any]) -> bool:
    answer = result["recommendation"]
    return answer is not None and row["batch_size"] in answer["near_ties"]


def _cell(column: Column, row: Row) -> str:
    value = row.get(column.key)
    if column.key == "jobs":
        return f"{row['reached']}/{row['jobs']}"
    return NOTHING if value is None else column.text(value)


def _interval(pair: Sequence[float | None], text: Callable[[float | None], str]) -> str:
    low, high = pair
    if high is None:
        return f"≥ {text(low)}"
    if low is None:
        return f"≤ {text(high)}"
    return f"{text(low)} – {text(high)}"


def _flat(row: Row) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, list | tuple) or key == "interval":
            low, high = value or (None, None)
            flat |= {f"{key}_low": low, f"{key}_high": high}
        elif isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
            flat[key] = f"'{value}"
        else:
            flat[key] = value
    return flat
