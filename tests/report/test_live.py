"""Progress on a terminal and in a log."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from tests.made_sweep import Made, make_sweep

from batchscout.clock import VirtualClock
from batchscout.report.console import one_line
from batchscout.report.live import LiveView, ended_line, summary
from batchscout.run.listener import SweepView
from batchscout.run.record import read_sweep

BROKEN = "b256-lr0.0004-s0"
MADE = Made(
    batch_sizes=(32, 256, 1024),
    lr_factors=(1.0,),
    outcomes={BROKEN: ("failed", "RuntimeError: \x1b[31mCUDA\nout of luck [bold]not markup[/bold]")},
)


@pytest.fixture
def end(tmp_path) -> SweepView:
    make_sweep(tmp_path / "demo", MADE)
    return read_sweep(tmp_path / "demo")


def after(end: SweepView, done: int) -> SweepView:
    """As it was when `done` jobs had ended and the next one ran."""
    rows = [dict(row) for row in end.result["jobs"][: done + 1]]
    for row in rows[done:]:
        row |= {"outcome": "running", "end": None, "time_to_target": None, "samples_to_target": None}
    status = {"jobs": rows, "status": "running" if done < 3 else "complete"}
    return replace(end, result={**end.result, **status, "recommendation": None})


def follow(view: LiveView, end: SweepView) -> None:
    view.on_start(after(end, 0))
    for done in range(4):
        view.on_change(after(end, done))
        view.on_event({"v": 1, "event": "end", "time": 0.0, "job": "x"})
    view.on_event({"v": 1, "event": "budget", "time": 0.0, "explanation": "budget.jobs=3 is used up"})
    view.on_end(end)


def test_a_log_gets_one_line_per_ended_job_and_failures_with_their_reason(end):
    out = io.StringIO()
    follow(LiveView(Console(file=out, width=100)), end)
    text = out.getvalue()
    assert "\x1b" not in text
    lines = text.splitlines()
    assert sum("reached in" in line for line in lines) == 2
    broken = [line for line in lines if BROKEN in line]
    assert len(broken) == 1
    assert "failed after" in broken[0]
    assert "CUDA out of luck [bold]not markup[/bold]" in broken[0]
    assert "budget: budget.jobs=3 is used up" in lines


def test_a_log_gets_a_heartbeat_when_nothing_ends(end):
    out, clock = io.StringIO(), VirtualClock()
    view = LiveView(Console(file=out, width=200), clock)
    view.on_start(after(end, 1))
    for _ in range(4):
        clock.sleep(31)
        view.on_change(after(end, 1))
    beats = [
        line
        for line in out.getvalue().splitlines()
        if line.startswith("1 of 2 jobs done (1 running, 1 reached)")
    ]
    assert len(beats) == 2


def test_what_an_error_says_cannot_steer_the_terminal():
    text = "bad \udcff path \x1b[31mred\x1b]0;title\x07\nsecond <b>line</b> 🚀 " + "x" * 10_000
    line = one_line(text)
    assert line.startswith("bad path [31mred ]0;title second <b>line</b> 🚀 xxx")
    assert (len(line), line.isprintable()) == (300, True)
    line.encode()


def test_a_job_that_goes_on_is_told_to_end_once_more(end):
    out = io.StringIO()
    view = LiveView(Console(file=out, width=100), VirtualClock())
    first = end.result["jobs"][0]["id"]
    view.on_start(after(end, 0))
    view.on_change(after(end, 1))
    view.on_event({"v": 1, "event": "continue", "time": 0.0, "job": first, "explanation": "verify"})
    view.on_change(after(end, 0))
    view.on_change(after(end, 1))
    assert sum(first in line and "reached" in line for line in out.getvalue().splitlines()) == 2


def test_a_search_says_why_it_runs_a_job(end):
    out = io.StringIO()
    view = LiveView(Console(file=out, width=100))
    for name, why in (
        ("submit", "2 updates for the update time"),
        ("submit", "listed"),
        ("continue", "verify"),
        ("submit", "verify"),
    ):
        view.on_event({"v": 1, "event": name, "time": 0.0, "job": "b32", "explanation": why})
    assert [" ".join(line.split()) for line in out.getvalue().splitlines()] == [
        "b32 2 updates for the update time",
        "b32 verify",
    ]


def test_a_skipped_job_says_after_what(end):
    row = {**end.result["jobs"][0], "outcome": "infeasible", "reason": "oom_gpu", "samples": 0}
    row |= {"message": "skipped: known OOM at 1024", "time_to_target": None}
    assert ended_line(row, 3).plain == f"   3  {row['id']}  infeasible: oom_gpu (skipped: known OOM at 1024)"


def test_a_terminal_shows_what_runs_and_keeps_what_ended(end):
    out = io.StringIO()
    follow(LiveView(Console(file=out, width=120, force_terminal=True, color_system=None)), end)
    text = out.getvalue()
    assert "b1024-lr0.0008-s0" in text
    assert "training" in text
    assert text.count("reached in") == 2


def test_a_thousand_jobs_stay_one_screen(end):
    row = end.result["jobs"][0]
    rows = [{**row, "id": f"job{i:04d}", "outcome": "running", "end": None} for i in range(1000)]
    view = replace(end, result={**end.result, "jobs": rows, "recommendation": None}, jobs=())
    out = io.StringIO()
    live = LiveView(Console(file=out, width=120, height=40, force_terminal=True, color_system=None))
    live.on_start(view)
    live.on_end(view)
    assert "… and 988 more running" in out.getvalue()
    assert summary(view).startswith("0 of 1000 jobs done (1000 running); ")


def test_a_resumed_sweep_does_not_repeat_what_ended_before(end):
    out = io.StringIO()
    view = LiveView(Console(file=out, width=200))
    view.on_start(after(end, 2))
    view.on_change(end)
    text = out.getvalue()
    assert "2 jobs already done" in text
    assert text.count("reached in") == 1


def test_the_fixture_follows_the_file_contracts(tmp_path):
    """What the report is tested with is what a controller writes."""
    from batchscout.schemas import validate

    result = make_sweep(tmp_path / "demo", Made(batch_sizes=(16, 256)))
    validate("result", result)
    validate("sweep", json.loads((tmp_path / "demo" / "sweep.json").read_text()))
    for path in Path(tmp_path / "demo").rglob("journal.jsonl"):
        for line in path.read_text().splitlines():
            validate("journal", json.loads(line))
