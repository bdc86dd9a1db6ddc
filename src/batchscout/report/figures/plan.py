"""Time against cost over the number of GPUs: the front of what is worth buying, and today's batch size beside
it."""

from __future__ import annotations

from matplotlib.figure import Figure

from batchscout.report.figures.theme import Theme, dress, log_axis, new_figure
from batchscout.report.numbers import time_unit
from batchscout.report.plan import GpuPlan

NEAR = 30.0
"""A deadline or budget is drawn where it lies within this factor of the rows."""


def gpu_plan(plan: GpuPlan, theme: Theme) -> Figure:
    """Two panels: T over n with its interval and the ideal line; T against GPU-hours (or money), the front
    bold."""
    rows = plan.rows
    unit = time_unit(row.time_to_target for row in rows)
    gpus = [row.gpus for row in rows]
    times = [row.time_to_target / unit.size for row in rows]
    figure, (over_gpus, front) = new_figure(9.6, 4.0, panels=2)
    low = [(row.interval[0] or row.time_to_target) / unit.size for row in rows]
    high = [(row.interval[1] or row.time_to_target) / unit.size for row in rows]
    over_gpus.fill_between(gpus, low, high, color=theme.accent, alpha=0.15, linewidth=0)
    over_gpus.plot(gpus, times, "o-", color=theme.accent, linewidth=1.6, label="best batch size for each n")
    ideal = [times[0] * gpus[0] / n for n in gpus]
    over_gpus.plot(gpus, ideal, ":", color=theme.muted, linewidth=1.2, label="twice the GPUs, half the time")
    worth = [row.gpu_hours if row.money is None else row.money for row in rows]
    front.plot(worth, times, "-", color=theme.muted, linewidth=0.8)
    on = [i for i, row in enumerate(rows) if row.is_front]
    front.plot(
        [worth[i] for i in on], [times[i] for i in on], "o-", color=theme.accent, linewidth=1.8, label="front"
    )
    if plan.today and rows[0].kept_time is not None:
        kept = [(row.kept_time or row.time_to_target) / unit.size for row in rows]
        words = f"with today's batch size {plan.today}"
        over_gpus.plot(gpus, kept, "s--", color=theme.ink, linewidth=1.2, markersize=4, label=words)
        ratio = [k / t for k, t in zip(kept, times, strict=True)]
        dear = [w * r for w, r in zip(worth, ratio, strict=True)]
        front.plot(dear, kept, "s--", color=theme.ink, linewidth=1.2, markersize=4, label=words)
    for i, row in enumerate(rows):
        front.annotate(f"{row.gpus:,}", (worth[i], times[i]), textcoords="offset points", xytext=(5, 5),
                       color=theme.ink, fontsize=8)  # fmt: skip
    if plan.deadline_seconds is not None and plan.deadline_seconds < NEAR * max(times) * unit.size:
        for axes in (over_gpus, front):
            axes.axhline(plan.deadline_seconds / unit.size, color=theme.muted, linewidth=0.9, linestyle="-.")
    if plan.budget is not None and plan.budget < NEAR * max(worth):
        front.axvline(plan.budget, color=theme.muted, linewidth=0.9, linestyle="-.")
    title = f"target {plan.sweep.target.score:g}, {plan.sweep.name}"
    dress(over_gpus, theme, x="GPUs", y=f"time to target ({unit.name})", title=title)
    dress(
        front,
        theme,
        x="money" if plan.price else "GPU-hours",
        y=f"time to target ({unit.name})",
        title="what it costs",
    )
    for axes in (over_gpus, front):
        log_axis(axes, "x", "count" if axes is over_gpus or min(worth) >= 1 else "digits")
        log_axis(axes, "y")
        axes.legend(frameon=False, fontsize=8, labelcolor=theme.ink)
    return figure
