"""Jobs over time and slots: waiting, running, lost and stopped; and how the answer changed meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from batchscout.report.figures.theme import Theme, dress, new_figure
from batchscout.report.numbers import time_unit
from batchscout.report.sweep import Sweep

Row = Mapping[str, Any]
LABELS = 60  # at most so many jobs are labelled


def timeline(sweep: Sweep, theme: Theme) -> Figure | None:
    """One bar per job on the lowest free lane; None before the first start."""
    rows = sorted(
        (row for row in sweep.result["jobs"] if row["start"] is not None), key=lambda row: row["start"]
    )
    if not rows:
        return None
    origin = min(row["submitted"] if row["submitted"] is not None else row["start"] for row in rows)
    now = origin + (sweep.result["elapsed_seconds"] or 0.0)
    ends = [row["end"] if row["end"] is not None else max(now, row["start"]) for row in rows]
    lanes = _lanes(rows, ends)
    unit = time_unit([max(max(ends) - origin, 2.0)])
    batches = [row["batch_size"] for row in rows]
    count = max(lanes) + 1
    figure, (axes,) = new_figure(9.6, min(8.0, 1.3 + 0.34 * count))
    dress(axes, theme, x=f"time since the first submission ({unit.name})", y="slot", title="jobs over time")
    axes.grid(False, axis="y")
    for row, end, lane in zip(rows, ends, lanes, strict=True):
        left, right = (row["start"] - origin) / unit.size, (end - origin) / unit.size
        queued = (row["queue_seconds"] or 0.0) / unit.size
        if queued > 0:
            axes.barh(lane, queued, left=left - queued, height=0.12, color=theme.muted, alpha=0.6)
        colour = theme.step(row["batch_size"], batches)
        broken = row["outcome"] in ("failed", "diverged", "infeasible", "cancelled")
        axes.barh(
            lane,
            right - left,
            left=left,
            height=0.7,
            color=colour,
            alpha=0.25 if broken else 1.0,
            hatch="////" if row["outcome"] in ("stopped", "capped") else None,
            edgecolor=theme.bad if broken else theme.paper,
            linewidth=1.2 if broken else 0.5,
        )
        if len(rows) <= LABELS and (right - left) > 0.035 * (max(ends) - origin) / unit.size:
            axes.text(
                (left + right) / 2,
                lane,
                str(row["batch_size"]),
                ha="center",
                va="center",
                fontsize=7,
                color=theme.ink if broken else theme.on_step(row["batch_size"], batches),
            )
    axes.set_yticks(range(count), [str(lane + 1) for lane in range(count)] if count <= 20 else [""] * count)
    axes.set_ylim(count - 0.4, -0.6)
    return figure


def answers(sweep: Sweep, theme: Theme) -> Figure | None:
    """The recommended batch size after each job, against what had been spent; None with fewer than two."""
    growing = [item for item in sweep.result["recommendations"] if item["batch_size"] is not None]
    if len(growing) < 2:
        return None
    unit = time_unit([max(item["cost_seconds"] for item in growing)])
    figure, (axes,) = new_figure(9.6, 2.6)
    dress(
        axes,
        theme,
        x=f"training time spent by all jobs ({unit.name})",
        y="batch size",
        title="how the answer came about",
    )
    x = [item["cost_seconds"] / unit.size for item in growing]
    y = [item["batch_size"] for item in growing]
    axes.step(x, y, where="post", color=theme.ink, linewidth=1.4)
    axes.plot(x, y, "o", color=theme.ink, markersize=3.5)
    axes.plot(
        x[-1],
        y[-1],
        "o",
        markersize=12,
        markerfacecolor="none",
        markeredgecolor=theme.accent,
        markeredgewidth=1.8,
    )
    axes.set_yscale("log")
    marks = sorted({row["batch_size"] for row in sweep.result["points"]} | set(y))
    axes.set_yticks(marks, [str(mark) for mark in marks], minor=False)
    axes.minorticks_off()
    axes.set_xlim(left=0)
    return figure


def _lanes(rows: Sequence[Row], ends: Sequence[float]) -> list[int]:
    """The lowest lane that is free at each job's start: the slots, as far as they can be told from times."""
    free: list[float] = []
    lanes = []
    for row, end in zip(rows, ends, strict=True):
        lane = next((i for i, until in enumerate(free) if until <= row["start"] + 1e-3), len(free))
        free[lane : lane + 1] = [end]
        lanes.append(lane)
    return lanes
