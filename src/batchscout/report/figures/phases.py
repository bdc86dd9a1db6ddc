"""Where the time of an update goes: sampling, reward, learning, weight sync and the rest, by batch size."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from batchscout.report.figures.theme import Theme, dress, new_figure
from batchscout.report.numbers import time_unit
from batchscout.report.sweep import Sweep

PHASES = ("sampling", "reward", "learning", "sync", "other")
SHADES = (1, 10, 4, 13, 7)  # of the sequential scale: neighbours in the stack differ in lightness


def phases(sweep: Sweep, theme: Theme) -> Figure | None:
    """Stacked seconds per 1,000 samples (the inverse of throughput): both split and speed."""
    split = _split(sweep)
    if not split:
        return None
    batches = sorted(split)
    unit = time_unit([sum(split[batch].values()) for batch in batches])
    figure, (axes,) = new_figure(max(5.0, 0.62 * len(batches) + 2.4), 3.4)
    dress(
        axes,
        theme,
        x="batch size (rollouts per update)",
        y=f"{unit.name} per 1,000 samples",
        title="where the time goes",
    )
    axes.grid(False, axis="x")
    bottom = np.zeros(len(batches))
    for index, phase in enumerate(PHASES):
        height = np.array([split[batch].get(phase, 0.0) for batch in batches]) / unit.size
        if not height.any():
            continue
        axes.bar(
            range(len(batches)),
            height,
            bottom=bottom,
            width=0.72,
            color=theme.steps[SHADES[index]],
            edgecolor=theme.paper,
            linewidth=0.8,
            label=phase,
        )
        bottom += height
    axes.set_xticks(range(len(batches)), [str(batch) for batch in batches])
    legend = figure.legend(loc="outside right center", frameon=False, labelcolor=theme.ink, reverse=True)
    legend.set_in_layout(True)
    return figure


def _split(sweep: Sweep) -> dict[int, dict[str, float]]:
    """batch_size → phase → seconds per 1,000 samples, over all jobs that reported phases, without warm-up."""
    seconds: dict[int, dict[str, float]] = {}
    samples: dict[int, float] = {}
    for job in sweep.view.jobs:
        curve = job.curve
        if curve is None or not len(curve.update_samples):
            continue
        batch = job.point.batch_size
        kept = ~np.asarray(curve.warmup, dtype=bool)
        parts = {
            name: float(np.nansum(curve.parts[name][kept]))
            for name in PHASES
            if curve.parts.get(name) is not None
        }
        if not sum(parts.values()):
            continue
        samples[batch] = samples.get(batch, 0.0) + batch * int(kept.sum())
        mine = seconds.setdefault(batch, {})
        for name, value in parts.items():
            mine[name] = mine.get(name, 0.0) + value
    return {
        batch: {name: 1000 * value / samples[batch] for name, value in parts.items()}
        for batch, parts in seconds.items()
    }
