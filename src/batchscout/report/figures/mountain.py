"""The mountain: the same progress per sample, at different speed. Score against samples and against time."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batchscout.report.figures.theme import Theme, dress, log_axis, new_figure
from batchscout.report.numbers import digits, time_unit
from batchscout.report.sweep import Sweep, Trace


def mountain(sweep: Sweep, theme: Theme) -> Figure | None:
    """One line per job at each batch size's best learning rate; None where nothing was evaluated yet."""
    traces = sweep.traces()
    if not traces:
        return None
    batches = sorted({trace.batch_size for trace in traces})
    unit = time_unit([max(trace.seconds) for trace in traces])
    figure, (left, right) = new_figure(9.6, 4.4, panels=2)
    best = sweep.best_batch
    for trace in traces:
        colour = theme.step(trace.batch_size, batches)
        _line(left, trace, trace.samples, 1.0, colour, trace.batch_size == best, trace.samples_to_target)
        _line(right, trace, trace.seconds, unit.size, colour, trace.batch_size == best, trace.time_to_target)
    dress(left, theme, x="samples (rollouts trained on)", y="score", title="what a sample is worth")
    dress(right, theme, x=f"{sweep.clock_words} ({unit.name})", y="", title="what a second is worth")
    for axes, text in ((left, "count"), (right, "digits")):
        axes.axhline(sweep.target, color=theme.ink, linewidth=1.0, linestyle=(0, (4, 3)))
        log_axis(axes, "x", text)
    left.annotate(
        f"target {digits(sweep.target)}",
        (0.01, sweep.target),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3),
        textcoords="offset points",
        color=theme.ink,
        fontsize=8,
    )
    _legend(figure, left, batches, best, theme)
    return figure


def _line(
    axes: Axes, trace: Trace, x: list[float], size: float, colour: str, is_best: bool, crossing: float | None
) -> None:
    """Evaluations after the start (0 has no place on a logarithmic axis), a dot at the crossing."""
    pairs = [(value / size, score) for value, score in zip(x, trace.score, strict=True) if value > 0]
    if not pairs:
        return
    width, alpha = (2.6, 1.0) if is_best else (1.4, 0.95)
    style = "-" if trace.is_reached else (0, (1, 1.2))
    axes.plot(
        *zip(*pairs, strict=True),
        color=colour,
        linewidth=width,
        alpha=alpha,
        linestyle=style,
        solid_capstyle="round",
    )
    if crossing is not None:
        axes.plot(
            [crossing / size], [trace.target], "o", color=colour, markersize=7 if is_best else 4.5, zorder=5
        )


def _legend(figure: Figure, axes: Axes, batches: list[int], best: int | None, theme: Theme) -> None:
    """Batch sizes in order, above both panels."""
    handles = [
        axes.plot(
            [],
            [],
            color=theme.step(batch, batches),
            linewidth=3,
            label=f"{batch}{' (best)' if batch == best else ''}",
        )[0]
        for batch in batches
    ]
    legend = figure.legend(
        handles=handles,
        title="batch size (rollouts per update)",
        loc="outside upper center",
        ncols=min(len(batches), 10),
        frameon=False,
        handlelength=1.2,
        columnspacing=1.2,
        labelcolor=theme.ink,
    )
    legend.get_title().set_color(theme.ink)
    for text in legend.get_texts():
        if text.get_text().endswith("(best)"):
            text.set_fontweight("bold")
