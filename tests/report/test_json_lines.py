"""The lines that a script reads while a sweep runs."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.made_sweep import Made, make_sweep

from batchscout.clock import VirtualClock
from batchscout.report.json_lines import JsonLines, final_line
from batchscout.run.listener import SweepView
from batchscout.run.record import read_sweep


@pytest.fixture
def end(tmp_path: Path) -> SweepView:
    directory = tmp_path / "runs" / "demo" / "now"
    make_sweep(directory, Made(batch_sizes=(32, 256), lr_factors=(1.0,)))
    return read_sweep(directory)


def at(end: SweepView, *outcomes: str) -> SweepView:
    rows = [{**row, "outcome": outcome} for row, outcome in zip(end.result["jobs"], outcomes, strict=True)]
    return replace(end, result={**end.result, "jobs": rows, "status": "running"})


def test_each_change_of_a_job_is_one_line_and_each_end_is_followed_by_how_things_stand(end):
    lines: list[tuple[str, Any]] = []
    view = JsonLines(lambda line, content: lines.append((line, content)), VirtualClock())
    view.on_start(at(end, "running", "queued"))
    view.on_change(at(end, "running", "queued"))
    view.on_event({"v": 1, "event": "start", "time": 0.0, "job": end.result["jobs"][1]["id"]})
    view.on_change(at(end, "reached", "running"))
    view.on_end(end)
    assert [line for line, _ in lines] == [
        *("sweep", "decision", "job", "job", "progress", "job", "progress")
    ]
    assert lines[0][1]["sweep"] == end.sweep
    assert lines[2][1] == end.result["jobs"][0]
    assert lines[4][1]["outcomes"] == {"reached": 1, "running": 1}
    assert lines[-1][1]["outcomes"] == {"reached": 2}


def test_a_quiet_minute_has_a_line(end):
    lines: list[str] = []
    clock = VirtualClock()
    view = JsonLines(lambda line, content: lines.append(line), clock)
    view.on_start(at(end, "running", "queued"))
    for _ in range(4):
        clock.sleep(31)
        view.on_change(at(end, "running", "queued"))
    assert lines == ["sweep", "progress", "progress"]


def test_the_last_line_holds_the_numbers_of_the_result(end):
    line = final_line(end.result, end.directory, ["http://127.0.0.1:5000/#/experiments/1"])
    assert json.loads(json.dumps(line, allow_nan=False)) == line
    for key in ("sweep", "status", "recommendation", "cost", "table"):
        assert line[key] == end.result[key]
    assert line["report"] is None
    assert line["mlflow"] == ["http://127.0.0.1:5000/#/experiments/1"]


def test_standard_output_holds_nothing_but_objects(tmp_path):
    """A real sweep: its own words, and what is said beside them."""
    from batchscout.cli.project import write_project

    write_project(tmp_path / "project")
    words = ("-m", "trainer=synthetic", "trainer.time_scale=0.0005", "hardware=debug", "tracking=none")
    more = ("batch_size=64,256", "lr=4e-4", "output=json")
    done = subprocess.run(
        [sys.executable, tmp_path / "project" / "sweep.py", *words, *more],
        cwd=tmp_path / "project", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["line"] for line in lines if line["line"] in ("sweep", "result")] == ["sweep", "result"]
    last = lines[-1]
    result = json.loads((Path(last["directory"]) / "result.json").read_text())
    assert (last["line"], last["recommendation"]) == ("result", result["recommendation"])
    ended = {line["id"]: line["outcome"] for line in lines if line["line"] == "job"}
    assert ended == {row["id"]: row["outcome"] for row in result["jobs"]}
    assert Path(last["report"]).is_file()
