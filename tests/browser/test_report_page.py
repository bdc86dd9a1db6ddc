"""report.html as a person sees it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.browser


@pytest.fixture
def page(chromium: Any, made: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The opened report; any error on the console or any request beyond the file fails the test."""
    directory, _ = made
    context = chromium.new_context(**getattr(request, "param", {}))
    page = context.new_page()
    errors: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda asked: requests.append(asked.url))
    page.goto((directory / "report.html").as_uri())
    yield page
    assert errors == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
    context.close()


SIZES = [
    {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    {"viewport": {"width": 390, "height": 840}, "color_scheme": "light"},
    {"viewport": {"width": 390, "height": 840}, "color_scheme": "dark"},
]


@pytest.mark.parametrize("page", SIZES, indirect=True, ids=["light", "dark", "narrow", "narrow-dark"])
def test_every_figure_is_drawn_and_nothing_overflows(page):
    figures = page.locator("figure svg")
    assert figures.count() == 6
    for i in range(figures.count()):
        box = figures.nth(i).bounding_box()
        assert box["width"] > 250
        assert box["height"] > 80
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert (
        page.locator(".sentence").inner_text().startswith("batch_size=256 lr=4e-4 reaches score 0.7 soonest")
    )


@pytest.mark.parametrize("page", SIZES[:2], indirect=True, ids=["light", "dark"])
def test_text_and_lines_stand_out_from_the_paper(page):
    """Contrast by WCAG: 4.5 for texts, 3 for the lines of the figures' axes and the recommended mark."""
    luminance = """colour => {
        const c = document.createElement("canvas").getContext("2d");
        c.fillStyle = colour; c.fillRect(0, 0, 1, 1);
        const [r, g, b] = [...c.getImageData(0, 0, 1, 1).data].slice(0, 3).map(v => v / 255)
            .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    }"""
    variable = "name => getComputedStyle(document.documentElement).getPropertyValue(name).trim()"
    paper = page.evaluate(luminance, page.evaluate(variable, "--card"))
    for name, least in (("--ink", 7), ("--muted", 4.5), ("--bad", 4.5), ("--accent", 3)):
        value = page.evaluate(luminance, page.evaluate(variable, name))
        contrast = (max(value, paper) + 0.05) / (min(value, paper) + 0.05)
        assert contrast >= least, (name, contrast)


def test_the_jobs_table_sorts_by_number_and_keeps_unknown_last(page, made):
    _, result = made
    column = page.locator("#jobs th", has_text="time to target")
    index = column.evaluate("head => head.cellIndex")
    values = f"rows => rows.map(row => row.cells[{index}].dataset.value)"
    for order in ("ascending", "descending"):
        column.locator("button").click()
        assert column.get_attribute("aria-sort") == order
        found = page.locator("#jobs tbody tr").evaluate_all(values)
        known = [row["time_to_target"] for row in result["jobs"] if row["time_to_target"] is not None]
        assert [float(v) for v in found if v] == sorted(known, reverse=order == "descending")
        assert found[-1] == ""


def test_the_data_are_downloaded_as_they_are(page, made):
    _, result = made
    with page.expect_download() as waiting:
        page.locator("button[data-file='jobs.csv']").click()
    assert waiting.value.suggested_filename == "jobs.csv"
    rows = list(csv.DictReader(io.StringIO(Path(waiting.value.path()).read_text())))
    found = [float(row["time_to_target"]) if row["time_to_target"] else None for row in rows]
    assert found == [row["time_to_target"] for row in result["jobs"]]


def test_the_theme_can_be_switched_and_print_is_on_white(page):
    paper = "getComputedStyle(document.querySelector('section')).backgroundColor"
    light = page.evaluate(paper)
    page.locator("#theme").click()
    assert page.evaluate(paper) != light
    page.emulate_media(media="print")
    assert page.evaluate(paper) == "rgb(255, 255, 255)"
    assert not page.locator("#theme").is_visible()
