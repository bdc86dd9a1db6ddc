"""Learning rate against batch size: time to target in every cell, and the ridge of the best rates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from batchscout.report.figures.theme import Theme, dress, new_figure
from batchscout.report.numbers import rate, time_unit
from batchscout.report.sweep import Sweep

MARKS = {
    "diverged": "div",
    "infeasible": "oom",
    "failed": "fail",
    "cancelled": "–",
    "capped": ">",
    "stopped": ">",
}


def learning_rate(sweep: Sweep, theme: Theme) -> Figure | None:
    """A cell per setting that was tried; None with fewer than two learning rates or two batch sizes."""
    points = sweep.result["points"]
    batches = sorted({row["batch_size"] for row in points})
    rates = sorted({row["lr"] for row in points})
    if len(batches) < 2 or len(rates) < 2:
        return None
    times = [row["time_to_target"] for row in points if row["time_to_target"] is not None]
    unit = time_unit(times)
    figure, (axes,) = new_figure(max(5.0, 0.75 * len(batches) + 1.6), max(2.8, 0.36 * len(rates) + 1.3))
    dress(
        axes,
        theme,
        x="batch size (rollouts per update)",
        y="lr",
        title=f"time to target ({unit.name}) by batch size and lr",
    )
    axes.grid(False)
    best = {
        row["batch_size"]: row["lr"] for row in sweep.result["table"] if row["time_to_target"] is not None
    }
    for row in points:
        x, y = batches.index(row["batch_size"]), rates.index(row["lr"])
        time = row["time_to_target"]
        text = _failure(sweep, row) if time is None else unit.text(time)
        shade = 0.0 if time is None or not times else _shade(time, min(times), max(times))
        axes.add_patch(
            Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, facecolor=theme.accent, alpha=shade, linewidth=0)
        )
        if time is None:
            axes.add_patch(Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, fill=False, edgecolor=theme.grid))
        axes.text(
            x,
            y,
            text,
            ha="center",
            va="center",
            fontsize=8,
            color=theme.bad if time is None else theme.ink,
            fontweight="bold" if best.get(row["batch_size"]) == row["lr"] else "normal",
        )
    ridge = [(batches.index(batch), rates.index(lr)) for batch, lr in sorted(best.items())]
    for x, y in ridge:
        axes.add_patch(
            Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, fill=False, edgecolor=theme.ink, linewidth=1.4)
        )
    axes.set_xlim(-0.6, len(batches) - 0.4)
    axes.set_ylim(-0.6, len(rates) - 0.4)
    axes.set_xticks(range(len(batches)), [str(batch) for batch in batches])
    axes.set_yticks(range(len(rates)), [rate(lr) for lr in rates])
    return figure


def _shade(time: float, best: float, worst: float) -> float:
    """Opacity: the faster, the stronger, by logarithm."""
    spread = max(math.log(worst / best), math.log(2))
    return 0.08 + 0.72 * math.pow(1 - math.log(time / best) / spread, 1.5)


def _failure(sweep: Sweep, row: Mapping[str, Any]) -> str:
    """In a word, why a cell has no time."""
    jobs = [j for j in sweep.result["jobs"] if (j["batch_size"], j["lr"]) == (row["batch_size"], row["lr"])]
    outcomes = [job["outcome"] for job in jobs if job["kind"] != "probe"] or [job["outcome"] for job in jobs]
    return next((MARKS[outcome] for outcome in outcomes if outcome in MARKS), "…")
