"""T, S and R against the batch size: what is measured, and the fitted laws with their bands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from batchscout.laws.samples_law import SamplesLaw
from batchscout.laws.update_forms import UpdateSecondsLaw
from batchscout.report.figures.theme import Theme, batch_axis, dress, log_axis, new_figure
from batchscout.report.numbers import time_unit
from batchscout.report.sweep import Sweep

Array = NDArray[np.float64]
Law = Callable[[Array], Array]


def laws(sweep: Sweep, theme: Theme) -> Figure | None:
    """Three panels on one batch axis; None before anything has been measured."""
    rows = [row for row in sweep.result["table"] if row["update_seconds"] or row["throughput"]]
    if not rows:
        return None
    batches = sorted({row["batch_size"] for row in rows})
    unit = time_unit(row["time_to_target"] for row in rows)
    samples_law, band = _samples_law(sweep.result["laws"])
    speed_law = _throughput_law(sweep.result["laws"])
    figure, (time, samples, speed) = new_figure(11.0, 3.7, panels=3)
    grid = np.geomspace(batches[0], batches[-1], 200)
    if samples_law is not None:
        _curve(samples, grid, samples_law, band, 1.0, theme)
        if speed_law is not None:
            time_band = [_over(edge, speed_law) for edge in band]
            _curve(time, grid, _over(samples_law, speed_law), time_band, unit.size, theme)
    if speed_law is not None:
        _curve(speed, grid, speed_law, [], 1.0, theme)
    for axes, key, size in ((time, "time_to_target", unit.size), (samples, "samples_to_target", 1.0)):
        _points(axes, sweep, key, size, theme)
        _censored(axes, sweep, key, size, theme)
    _points(speed, sweep, "throughput", 1.0, theme)
    _unreached_speeds(speed, sweep, theme)
    label = "batch size (rollouts per update)"
    dress(time, theme, x=label, y=f"time to target ({unit.name})", title="time to target  T = S / R")
    dress(samples, theme, x=label, y="samples to target", title="samples to target  S")
    dress(speed, theme, x=label, y="throughput (samples/s)", title="throughput  R")
    for axes, text in ((time, "digits"), (samples, "count"), (speed, "count")):
        log_axis(axes, "y", text)
        batch_axis(axes, batches)
    return figure


def _over(samples: Law, speed: Law) -> Law:
    """T = S / R."""
    return lambda batch: samples(batch) / speed(batch)


def _points(axes: Axes, sweep: Sweep, key: str, size: float, theme: Theme) -> None:
    """Every setting small, each batch size's best large, the recommended one ringed."""
    table = sweep.result["table"]
    batches = [row["batch_size"] for row in table]
    chosen = {(row["batch_size"], row["lr"]) for row in table}
    for row in sweep.result["points"]:
        if row[key] is None or (row["batch_size"], row["lr"]) in chosen:
            continue
        axes.plot(row["batch_size"], row[key] / size, "o", color=theme.muted, markersize=3.5, alpha=0.55)
    for row in table:
        if row[key] is None:
            continue
        colour = theme.step(row["batch_size"], batches)
        if key == "time_to_target" and row["interval"] is not None and None not in row["interval"]:
            low, high = row["interval"]
            axes.plot([row["batch_size"]] * 2, [low / size, high / size], color=colour, linewidth=1.6)
        axes.plot(row["batch_size"], row[key] / size, "o", color=colour, markersize=6.5)
        if row["batch_size"] == sweep.best_batch:
            axes.plot(
                row["batch_size"],
                row[key] / size,
                "o",
                markersize=13,
                markerfacecolor="none",
                markeredgecolor=theme.accent,
                markeredgewidth=1.8,
            )


def _censored(axes: Axes, sweep: Sweep, key: str, size: float, theme: Theme) -> None:
    """Batch sizes that never reached the target: an arrow up from what their best job consumed."""
    spent = {"time_to_target": "seconds", "samples_to_target": "samples"}[key]
    unreached = {row["batch_size"] for row in sweep.result["table"] if row[key] is None}
    for batch in unreached:
        known = [
            j[spent]
            for j in sweep.result["jobs"]
            if j["batch_size"] == batch and j["outcome"] in ("capped", "stopped")
        ]
        if known and max(known) > 0:
            axes.plot(
                batch, max(known) / size, marker="^", color=theme.bad, markersize=7, markerfacecolor="none"
            )


def _unreached_speeds(axes: Axes, sweep: Sweep, theme: Theme) -> None:
    """Batch sizes without a crossing still have a speed, that of their updates: hollow."""
    batches = [row["batch_size"] for row in sweep.result["table"]]
    for row in sweep.result["table"]:
        if row["throughput"] is None and row["update_seconds"]:
            batch = row["batch_size"]
            colour = theme.step(batch, batches)
            axes.plot(
                batch, batch / row["update_seconds"], "o", color=colour, markersize=6, markerfacecolor="none"
            )


def _curve(axes: Axes, grid: Array, law: Law, band: Sequence[Law], size: float, theme: Theme) -> None:
    if band:
        edges = [edge(grid) / size for edge in band]
        axes.fill_between(
            grid, np.min(edges, axis=0), np.max(edges, axis=0), color=theme.ink, alpha=0.12, linewidth=0
        )
    axes.plot(grid, law(grid) / size, color=theme.ink, linewidth=1.2, alpha=0.8)


def _samples_law(fitted: Mapping[str, Any]) -> tuple[Law | None, list[Law]]:
    """S(B), and the corners of its parameters' intervals; none where a parameter is only bounded."""
    law = fitted.get("samples") or {}
    if law.get("s_min") is None or law.get("b_crit") is None:
        return None, []
    gamma = law.get("gamma") or 1.0
    s_range, b_range = law.get("s_min_interval") or (), law.get("b_crit_interval") or ()
    band: list[Law] = [
        SamplesLaw(s, b, gamma).samples for s in s_range for b in b_range if s is not None and b is not None
    ]
    return SamplesLaw(law["s_min"], law["b_crit"], gamma).samples, band


def _throughput_law(fitted: Mapping[str, Any]) -> Law | None:
    """R(B) of the fitted seconds of a whole update."""
    total = (fitted.get("update_seconds") or {}).get("total")
    if total is None:
        return None
    return UpdateSecondsLaw(
        **{key: total[key] for key in ("form", "a", "b", "c", "knee", "power")}
    ).throughput
