"""The figures of a sweep, each drawn once for PNG files and for the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from matplotlib.figure import Figure

from batchscout.report.figures.laws import laws
from batchscout.report.figures.learning_rate import learning_rate
from batchscout.report.figures.mountain import mountain
from batchscout.report.figures.phases import phases
from batchscout.report.figures.theme import LIGHT, PAGE, Theme, to_png, to_svg
from batchscout.report.figures.timeline import answers, timeline
from batchscout.report.sweep import Sweep

#: Name of the file → how it is drawn; None where the sweep has nothing for it yet.
FIGURES: dict[str, Callable[[Sweep, Theme], Figure | None]] = {
    "mountain": mountain,
    "laws": laws,
    "learning_rate": learning_rate,
    "phases": phases,
    "timeline": timeline,
    "answers": answers,
}


def write_figures(sweep: Sweep, directory: Path) -> list[Path]:
    """``directory/NAME.png`` for each figure that has something to show."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, draw in FIGURES.items():
        figure = draw(sweep, LIGHT)
        if figure is not None:
            path = directory / f"{name}.png"
            path.write_bytes(to_png(figure))
            paths.append(path)
    return paths


def page_figures(sweep: Sweep) -> Iterator[tuple[str, str]]:
    """(name, SVG element) for the page."""
    for name, draw in FIGURES.items():
        figure = draw(sweep, PAGE)
        if figure is not None:
            yield name, to_svg(figure, name)
