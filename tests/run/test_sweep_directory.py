"""Where sweeps go, and what may differ when one is used again (DESIGN §2)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.run.sweeps import Sweep, settings

from batchscout.clock import VirtualClock
from batchscout.errors import SweepError
from batchscout.measure.target import Target
from batchscout.run.budget import Budget
from batchscout.run.settings import ExitCode
from batchscout.run.sweep_directory import SweepDirectory, choose_directory

CONFIG = {
    "target": {"score": 0.8, "clock": "training", "levels": []},
    "trainer": {"name": "made", "width": 8},
    "caps": {"samples": 1000},
    "search": {"name": "grid", "tolerance": 0.05},
    "tracking": {"name": "none"},
    "max_requeues": 3,
}


def config(**changes: Any) -> dict[str, Any]:
    """CONFIG with dotted keys changed."""
    content: dict[str, Any] = json.loads(json.dumps(CONFIG))
    content["hardware"] = {"slots": 1, "name": "local", "gpu": "H1"}
    for key, value in changes.items():
        *groups, name = key.split("__")
        inner = content
        for group in groups:
            inner = inner.setdefault(group, {})
        inner[name] = value
    return content


@pytest.mark.parametrize(
    "changes",
    [
        {"target__clock": "wall"},
        {"target__levels": [0.5]},
        {"search__tolerance": 0.01},
        {"hardware__slots": 4},
        {"hardware__partition": "long"},
        {"hardware__time_limit": "2:00:00"},
        {"hardware__price_per_gpu_hour": 3.0},
        {"max_failures": 9},
        {"max_requeues": 9},
        {"tracking__name": "server"},
    ],
)
def test_what_changes_no_measurement_is_simply_taken(tmp_path: Path, changes: dict[str, Any]) -> None:
    sweep = Sweep(tmp_path)
    sweep.run(settings(config=config()))
    assert sweep.run(settings(config=config(**changes))) is ExitCode.OK
    assert len(sweep.cluster.submits()) == 4
    kept = json.loads((sweep.path / "sweep.json").read_text())["config"]
    assert kept == settings(config=config(**changes)).config


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"trainer__width": 16}, r"trainer\.width=16 \(was 8\)"),
        ({"caps__samples": 2000}, r"caps\.samples=2000 \(was 1000\)"),
        ({"hardware__gpu": "H2"}, r"hardware\.gpu=H2 \(was H1\)"),
        ({"target__score": 0.9}, r"target\.score=0\.9 \(was 0\.8\)"),
        ({"trainer__depth": 2}, r"trainer\.depth=2 \(was null\)"),
        ({"trainer__width": 16, "caps__samples": 5}, r"caps\.samples=5 .*trainer\.width=16"),
    ],
)
def test_any_other_difference_is_one_error_that_names_the_fields(
    tmp_path: Path, changes: dict[str, Any], named: str
) -> None:
    sweep = Sweep(tmp_path)
    sweep.run(settings(config=config()))
    with pytest.raises(SweepError, match=named) as caught:
        sweep.run(settings(config=config(**changes)))
    assert "\n" not in str(caught.value)
    assert len(sweep.cluster.submits()) == 4


def test_lists_may_grow_also_of_a_finished_sweep(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.run(settings(batch_sizes=(64, 128)))
    assert sweep.run(settings(batch_sizes=(64, 128, 256), lrs=(1e-3, 2e-3), seeds=2)) is ExitCode.OK
    assert len(sweep.cluster.submits()) == len(set(sweep.cluster.submits())) == 12
    assert sweep.result["status"] == "complete"


def test_lists_may_not_shrink(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.run(settings(batch_sizes=(64, 128), seeds=2))
    with pytest.raises(SweepError, match="lists without batch_size=128"):
        sweep.run(settings(batch_sizes=(64,), seeds=2))
    with pytest.raises(SweepError, match=r"seeds without \[1\]"):
        sweep.run(settings(batch_sizes=(64, 128)))


def test_a_budget_may_grow_but_not_shrink(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.run(settings(budget=Budget(jobs=3)))
    with pytest.raises(SweepError, match=r"budget\.jobs=2 \(was 3"):
        sweep.run(settings(budget=Budget(jobs=2)))
    assert sweep.run(settings(budget=Budget(jobs=9))) is ExitCode.OK


def test_another_search_is_another_sweep(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.run(settings())
    with pytest.raises(SweepError, match=r"search=random \(was grid\)"):
        sweep.run(settings(search="random"))


def test_levels_and_clock_are_answered_from_the_same_journals(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.run(settings())
    sweep.run(settings(target=Target(0.8, levels=(0.7, 0.3), clock="wall")))
    result = sweep.result
    assert result["clock"] == "wall"
    assert [level["target"] for level in result["levels"]] == [0.3, 0.7]
    assert all(level["recommendation"]["time_to_target"] > 0 for level in result["levels"])
    assert len(sweep.cluster.submits()) == 4


def test_an_unfinished_sweep_with_equal_lists_is_taken_up_again(tmp_path: Path) -> None:
    runs, clock = tmp_path / "runs", VirtualClock(1_800_000_000.0)
    wanted = settings()
    first, is_resumed = choose_directory(runs, wanted, clock=clock)
    assert (first.parent, is_resumed) == (runs / "test", False)
    SweepDirectory.open_or_create(first, wanted, clock=clock)
    assert (runs / "latest").resolve() == first.resolve()
    assert choose_directory(runs, wanted, clock=clock) == (first, True)
    assert choose_directory(runs, wanted, clock=clock, is_fresh=True)[1] is False
    assert choose_directory(runs, settings(batch_sizes=(64,)), clock=clock)[1] is False
    assert choose_directory(runs, settings(search="random"), clock=clock)[1] is False
    assert choose_directory(runs, settings(config={"trainer": "other"}), clock=clock)[1] is False


@pytest.mark.parametrize(
    ("status", "is_taken"),
    [("running", True), ("interrupted", True), ("complete", False), ("exhausted", False)],
)
def test_finished_sweeps_are_not_taken_up(tmp_path: Path, status: str, is_taken: bool) -> None:
    runs, clock = tmp_path / "runs", VirtualClock(1_800_000_000.0)
    directory, _ = choose_directory(runs, settings(), clock=clock)
    sweep = SweepDirectory.open_or_create(directory, settings(), clock=clock)
    sweep.save_result({"status": status})
    assert choose_directory(runs, settings(), clock=clock)[1] is is_taken


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"sweep": "x"}'])
def test_a_broken_record_is_one_error_and_keeps_no_other_sweep_from_running(
    tmp_path: Path, text: str
) -> None:
    runs, clock = tmp_path / "runs", VirtualClock(1_800_000_000.0)
    old = runs / "test" / "old"
    old.mkdir(parents=True)
    (old / "sweep.json").write_text(text)
    assert choose_directory(runs, settings(), clock=clock)[1] is False
    with pytest.raises(SweepError, match=r"sweep\.json is no (JSON|record)"):
        SweepDirectory.open_or_create(old, settings(), clock=clock)


def test_two_sweeps_of_one_second_get_two_directories(tmp_path: Path) -> None:
    runs, clock = tmp_path / "runs", VirtualClock(1_800_000_000.0)
    first, _ = choose_directory(runs, settings(), clock=clock, is_fresh=True)
    SweepDirectory.open_or_create(first, settings(), clock=clock)
    second, _ = choose_directory(runs, settings(), clock=clock, is_fresh=True)
    assert second != first


def test_submission_names_end_in_the_jobs_id_and_differ(tmp_path: Path) -> None:
    clock = VirtualClock(1.0)
    sweep = SweepDirectory.open_or_create(tmp_path / "test" / "now", settings(), clock=clock)
    names = [sweep.submission_name("b64-lr0.001-s0", n) for n in (1, 2)]
    assert all(name.endswith("-b64-lr0.001-s0") for name in names)
    assert len(set(names)) == 2
    assert "/" not in "".join(names)
