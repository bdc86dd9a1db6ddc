"""Colours and shapes of all figures: colour-blind safe, one drawing for PNG files and for the themed page.

Batch sizes lie on one sequential scale (viridis: ordered in lightness too, for those who see no hue). On the
page every colour is a CSS variable, so that light and dark need no second drawing: figures are drawn in
stand-in colours, which `to_svg` replaces.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from batchscout.report.numbers import count, digits

STEPS = 16  # of the sequential scale


@dataclass(frozen=True, slots=True)
class Theme:
    """A set of colours. steps: the sequential scale by batch size; on: what is readable on each of them."""

    ink: str
    muted: str
    grid: str
    accent: str
    bad: str
    paper: str
    steps: tuple[str, ...]
    on: tuple[str, ...]

    def step(self, value: float, values: Sequence[float]) -> str:
        """The colour of a batch size among all of them, by logarithm."""
        return self.steps[_index(value, values)]

    def on_step(self, value: float, values: Sequence[float]) -> str:
        """The colour of text on `step`."""
        return self.on[_index(value, values)]


def _index(value: float, values: Sequence[float]) -> int:
    low, high = math.log(min(values)), math.log(max(values))
    share = 0.5 if high == low else (math.log(value) - low) / (high - low)
    return round(share * (STEPS - 1))


def _scale(first: float, last: float) -> dict[str, tuple[str, ...]]:
    """STEPS colours of viridis between two of its positions, and black or white to write on each."""
    colours = [colormaps["viridis"](first + (last - first) * i / (STEPS - 1)) for i in range(STEPS)]
    is_light = [0.299 * red + 0.587 * green + 0.114 * blue > 0.5 for red, green, blue, _ in colours]
    readable = tuple("#101418" if light else "#ffffff" for light in is_light)
    return {"steps": tuple(to_hex(colour) for colour in colours), "on": readable}


LIGHT = Theme(
    ink="#1d2430",
    muted="#667085",
    grid="#e4e7ec",
    accent="#c2410c",
    bad="#b42318",
    paper="#ffffff",
    **_scale(0.0, 0.87),
)
DARK = Theme(
    ink="#e6e9ef",
    muted="#98a2b3",
    grid="#2d3442",
    accent="#fb923c",
    bad="#f97066",
    paper="#12161e",
    **_scale(0.26, 1.0),
)
#: Stand-ins that occur nowhere else; `to_svg` turns each into var(--NAME).
PAGE = Theme(
    ink="#010101",
    muted="#010102",
    grid="#010103",
    accent="#010104",
    bad="#010105",
    paper="#010106",
    steps=tuple(f"#0200{i:02x}" for i in range(STEPS)),
    on=tuple(f"#0300{i:02x}" for i in range(STEPS)),
)
NAMES = ("ink", "muted", "grid", "accent", "bad", "paper")


def css_variables(theme: Theme) -> dict[str, str]:
    """Variable name → colour, for the page's style sheet."""
    named = {f"--{name}": getattr(theme, name) for name in NAMES}
    named |= {f"--step{i}": colour for i, colour in enumerate(theme.steps)}
    return named | {f"--on{i}": colour for i, colour in enumerate(theme.on)}


def new_figure(width: float, height: float, panels: int = 1, **grid: object) -> tuple[Figure, list[Axes]]:
    """An empty figure (inches) with its panels side by side. Not pyplot: any thread may draw."""
    with rc_context({"font.family": "sans-serif", "font.size": 9}):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(1, panels, squeeze=False, gridspec_kw=grid or None)[0]
    return figure, list(axes)


def dress(axes: Axes, theme: Theme, *, x: str, y: str, title: str = "") -> None:
    """Labels with units, a quiet grid, no box."""
    axes.set_facecolor("none")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(theme.muted)
    axes.tick_params(colors=theme.muted, which="both", labelcolor=theme.ink, length=3)
    axes.tick_params(which="minor", length=0)
    axes.grid(True, which="major", color=theme.grid, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel(x, color=theme.ink)
    axes.set_ylabel(y, color=theme.ink)
    axes.set_title(title, color=theme.ink, loc="left", fontsize=10, fontweight="bold")


def batch_axis(axes: Axes, batches: Iterable[int]) -> None:
    """A logarithmic x axis with the batch sizes themselves as its marks."""
    marks = sorted(set(batches))
    axes.set_xscale("log")
    shown = marks if len(marks) <= 9 else marks[:: math.ceil(len(marks) / 9)]
    axes.xaxis.set_major_locator(FixedLocator(shown))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
    for label in axes.get_xticklabels():
        label.set_rotation(45 if max(marks) >= 1000 and len(shown) > 5 else 0)
    if len(marks) > 1:
        axes.set_xlim(marks[0] / 1.3, marks[-1] * 1.3)


def log_axis(axes: Axes, which: str, text: str = "digits") -> None:
    """A logarithmic axis with plain numbers at 1, 2 and 5. text: digits or count."""
    write = partial(count, is_short=True) if text == "count" else digits
    getattr(axes, f"set_{which}scale")("log")
    axis = getattr(axes, f"{which}axis")
    low, high = sorted(getattr(axes, f"get_{which}lim")())
    decades = math.log10(high / low) if low > 0 else 9.0
    choices = ((0.9, (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)), (2.2, (1.0, 2.0, 5.0)), (3.5, (1.0, 3.0)))
    subs = next((marks for limit, marks in choices if decades < limit), (1.0,))
    axis.set_major_locator(LogLocator(subs=subs, numticks=12))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: write(value)))


def to_png(figure: Figure) -> bytes:
    """On white, at a resolution for slides."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=160, facecolor=LIGHT.paper)
    return out.getvalue()


def to_svg(figure: Figure, name: str) -> str:
    """The figure as an element of the page: CSS colours, real text, ids of its own."""
    out = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    for number, variable in enumerate(NAMES, start=1):
        svg = svg.replace(f"#0101{number:02x}", f"var(--{variable})")
    svg = re.sub(r"#0200([0-9a-f]{2})", lambda match: f"var(--step{int(match[1], 16)})", svg)
    svg = re.sub(r"#0300([0-9a-f]{2})", lambda match: f"var(--on{int(match[1], 16)})", svg)
    svg = re.sub(r'(id="|href="#|url\(#)', rf"\1{name}-", svg)
    svg = re.sub(r"font: ([^;\"]*?)'[^;\"]*", r"font: \1var(--font)", svg)  # the page's own font
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    head, rest = svg.split(">", 1)
    return re.sub(r' (width|height)="[^"]*"', "", head) + ">" + rest  # the page decides the size
