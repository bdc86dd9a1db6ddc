"""report.html and the figures: complete, equal to result.json, escaped, drawn."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.made_sweep import Made, make_sweep

from batchscout.errors import SweepError
from batchscout.measure.curve import Curve
from batchscout.report import write_report
from batchscout.report.figures import FIGURES, page_figures
from batchscout.report.figures.theme import PAGE
from batchscout.report.page import render
from batchscout.report.sweep import Sweep

EVIL = "<script>alert('evil')</script>\"'&\n\u2028🚀" + "long " * 2000


class Page(HTMLParser):
    """Collects elements and texts; void of any error tolerance of ours."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)

    def embedded(self) -> dict[str, str]:
        raw = next(text for text in self.texts if text.startswith('{"result.json"'))
        return json.loads(raw)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Path, dict, str]:
    directory = tmp_path_factory.mktemp("sweep") / "demo"
    result = make_sweep(directory, Made(batch_sizes=(16, 64, 256, 1024)))
    return directory, result, write_report(directory).read_text()


def test_the_page_needs_no_network_and_shows_every_figure(finished):
    directory, _, text = finished
    page = Page(text)
    assert not re.search(r"(src|href)=\"(https?:)?//", text)
    assert "@import" not in text
    figures = [attrs["id"] for tag, attrs in page.tags if tag == "figure"]
    assert figures == [f"figure-{name}" for name in FIGURES]
    assert sorted(path.stem for path in (directory / "figures").iterdir()) == sorted(FIGURES)
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert "#0101" not in text, "a stand-in colour was left"


def test_the_embedded_data_are_the_numbers_of_result_json(finished):
    _, result, text = finished
    files = Page(text).embedded()
    assert json.loads(files["result.json"]) == result
    jobs = list(csv.DictReader(io.StringIO(files["jobs.csv"])))
    assert [float(row["time_to_target"]) for row in jobs] == [row["time_to_target"] for row in result["jobs"]]
    for name in ("table", "points"):
        rows = list(csv.DictReader(io.StringIO(files[f"{name}.csv"])))
        assert [float(row["throughput"]) for row in rows] == [row["throughput"] for row in result[name]]


def test_the_curves_are_those_of_the_journals(finished):
    directory, result, text = finished
    rows = list(csv.DictReader(io.StringIO(Page(text).embedded()["curves.csv"])))
    for job in result["jobs"]:
        path = directory / "jobs" / job["id"] / "attempts" / "001" / "journal.jsonl"
        events = [json.loads(line) for line in path.read_text().splitlines()]
        wanted = [(e["samples"], e["score"]) for e in events if e["event"] == "evaluation"]
        assert [(int(r["samples"]), float(r["score"])) for r in rows if r["job"] == job["id"]] == wanted


def test_the_sorting_values_of_the_jobs_table_are_whole_numbers_not_texts(finished):
    _, result, text = finished
    cells = re.findall(r'data-value="([^"]*)"', text)
    for job in result["jobs"]:
        assert str(job["time_to_target"]) in cells


def test_hostile_names_are_text_everywhere(tmp_path):
    directory = tmp_path / "demo"
    made = Made(name="<img src=x onerror=alert(1)>", task=EVIL, batch_sizes=(16, 256))
    result = make_sweep(directory, made)
    for row in result["jobs"]:
        row |= {"reason": EVIL, "node": EVIL[:60], "gpu": EVIL[:60]}
    (directory / "result.json").write_text(json.dumps(result))
    with (directory / "events.jsonl").open("a") as log:
        log.write(
            json.dumps({"v": 1, "event": "stop", "time": 1.79e9, "job": "x", "explanation": EVIL}) + "\n"
        )
    text = render(Sweep.read(directory))
    page = Page(text)
    assert [tag for tag, _ in page.tags].count("script") == 2
    assert not [attrs for tag, attrs in page.tags if tag == "img" or "onerror" in attrs]
    assert json.loads(page.embedded()["result.json"])["jobs"][0]["reason"] == EVIL
    assert any("<script>alert('evil')</script>" in data for data in page.texts)


def test_the_null_case_has_a_page_too(tmp_path):
    directory = tmp_path / "null"
    make_sweep(directory, Made(reachable=False, batch_sizes=(16, 128)))
    page = Page(render(Sweep.read(directory)))
    assert any(data.startswith("No job reached score 0.7") for data in page.texts)
    figures = [attrs["id"] for tag, attrs in page.tags if tag == "figure"]
    assert "figure-mountain" in figures
    assert "figure-answers" not in figures


def test_a_sweep_without_any_start_is_a_short_page(tmp_path):
    directory = tmp_path / "early"
    result = make_sweep(directory, Made(batch_sizes=(16,), lr_factors=(1.0,)))
    empty = {
        "recommendation": None,
        "recommendations": [],
        "table": [],
        "points": [],
        "levels": [],
        "jobs": [],
    }
    (directory / "result.json").write_text(json.dumps({**result, **empty, "status": "running"}))
    page = Page(render(Sweep.read(directory)))
    assert not [tag for tag, _ in page.tags if tag == "figure"]


def test_a_directory_that_is_no_sweep_is_an_error_of_one_line(tmp_path):
    with pytest.raises(SweepError, match="name the directory of one sweep"):
        write_report(tmp_path)


def test_figures_are_well_formed_and_png_files_are_large_enough_to_read(finished):
    directory, _, text = finished
    drawn = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(drawn) == len(FIGURES)
    for svg in drawn:
        root = ElementTree.fromstring(svg)
        assert "viewBox" in root.attrib
        assert "width" not in root.attrib
    for path in (directory / "figures").iterdir():
        head = path.read_bytes()[:24]
        assert head.startswith(b"\x89PNG")
        assert int.from_bytes(head[16:20], "big") >= 800


def test_the_mountain_draws_one_line_per_job_at_each_batch_sizes_best_lr(finished):
    directory, result, _ = finished
    figure = FIGURES["mountain"](Sweep.read(directory), PAGE)
    target_and_jobs = len(figure.axes[0].get_lines())
    # per job a line and its crossing, the target, and one handle of the legend per batch size
    assert target_and_jobs == 2 * len(result["table"]) + 1 + len(result["table"])


def test_a_recorded_world_with_failures_is_drawn(finished):
    """Curves as a recording has them: no phases, no wall clock."""
    directory, _, _ = finished
    sweep = Sweep.read(directory)
    samples = [256.0 * i for i in range(1, 30)]
    record = {
        "batch_size": 256,
        "learning_rate": 4e-4,
        "seed": 0,
        "status": "reached",
        "samples": samples,
        "seconds": [0.2 * i for i in range(1, 30)],
        "sampling_seconds": [0.1 * i for i in range(1, 30)],
        "score": [min(0.9, 0.03 * i) for i in range(1, 30)],
    }
    jobs = tuple(replace(job, curve=Curve.from_recorded(record)) for job in sweep.view.jobs)
    recorded = Sweep(replace(sweep.view, jobs=jobs))
    assert {name for name, _ in page_figures(recorded)} >= {"mountain", "laws", "timeline"}
