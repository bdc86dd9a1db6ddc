"""The tracker next to a running sweep: it follows, never holds it up, and logs nothing twice."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from batchscout.run.listener import SweepView
from batchscout.run.record import read_sweep
from batchscout.track import MlflowTracker, mlflow_tracker, sync

#: MLflow 3.17 on SQLAlchemy 2.1 uses a loader that is to go away.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")
DEAD = "http://127.0.0.1:9"  # the discard port: refused at once


def running(directory: Path, *, share: float, checkpoint: int | None, to: Path) -> tuple[SweepView, str]:
    """The sweep as it was when its last job had written this share of its journal."""
    shutil.copytree(directory, to)
    result = json.loads((to / "result.json").read_text())
    row = result["jobs"][-1]
    path = to / "jobs" / row["id"] / "attempts" / "001" / "journal.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[: int(share * len(lines))]))
    unknown = ("end", "samples_to_target", "time_to_target", "wall_seconds_to_target")
    row |= {"outcome": "running", **dict.fromkeys(unknown)}
    result |= {"status": "running", "recommendations": result["recommendations"][:-1]}
    (to / "result.json").write_text(json.dumps(result))
    if checkpoint is not None:
        (to / "jobs" / row["id"] / "checkpoint" / str(checkpoint)).mkdir(parents=True)
    return read_sweep(to), row["id"]


def wait_for(condition: Any, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the tracker did not get there"
        time.sleep(0.02)


def test_what_is_followed_live_equals_what_is_synced(sweep, database, tmp_path):
    directory, result = sweep
    said: list[str] = []
    early, job = running(directory, share=0.6, checkpoint=None, to=tmp_path / "early")
    later, _ = running(directory, share=0.9, checkpoint=8, to=tmp_path / "later")
    settled = later.jobs[-1].curve.update_samples[7]
    tracker = MlflowTracker(database.uri, say=said.append)
    tracker.on_start(early)
    wait_for(lambda: database.active_runs() == len(result["jobs"]) + 1)
    tracker.on_change(later)
    wait_for(lambda: any(p[:2] == (job, "score") and p[3] > 0 for p in database.points()))
    live = {
        (step, value) for found, key, _, step, value in database.points() if (found, key) == (job, "score")
    }
    curve = later.jobs[-1].curve
    assert live == {(int(s), v) for s, v in zip(curve.samples, curve.score, strict=True) if s <= settled}, (
        "only what a restart cannot undo"
    )
    tracker.on_end(read_sweep(directory))
    followed = database.points()
    assert sync(directory, database.uri).points == 0
    assert database.points() == followed
    assert said == []
    assert tracker.links == (f"batchscout ui {tmp_path / 'early'}",)


def test_a_tracker_that_starts_again_goes_on_where_the_other_was_killed(sweep, database, tmp_path):
    directory, result = sweep
    view, _ = running(directory, share=0.8, checkpoint=8, to=tmp_path / "early")
    for _ in range(2):  # the first one is simply abandoned, as by kill -9
        tracker = MlflowTracker(database.uri)
        tracker.on_start(view)
        wait_for(lambda: database.active_runs() == len(result["jobs"]) + 1)
    tracker.on_end(read_sweep(directory))
    assert database.active_runs() == len(result["jobs"]) + 1
    assert sync(directory, database.uri).points == 0


def test_a_dead_server_never_holds_the_sweep_up(sweep):
    directory, _ = sweep
    said: list[str] = []
    view = read_sweep(directory)
    tracker = MlflowTracker(DEAD, say=said.append)
    before = time.monotonic()
    tracker.on_start(view)
    for _ in range(50):
        tracker.on_change(view)
    assert time.monotonic() - before < 1.0
    wait_for(lambda: tracker.is_degraded)
    before = time.monotonic()
    tracker.on_end(replace(view))
    assert time.monotonic() - before < 3.0
    assert len(said) == 2
    assert said[0].startswith("tracking degraded, the sweep goes on and its journals keep everything: ")
    assert said[1] == f"MLflow is behind: `batchscout sync {directory}` completes it from the journals"


def test_a_locked_database_is_waited_for_by_the_tracker_alone(sweep, database, monkeypatch):
    monkeypatch.setattr(mlflow_tracker, "PATIENCE_SECONDS", 0.3)
    directory, result = sweep
    said: list[str] = []
    view = read_sweep(directory)
    tracker = MlflowTracker(database.uri, say=said.append)
    lock = sqlite3.connect(database.path, isolation_level=None)
    lock.execute("begin exclusive")
    tracker.on_start(view)
    before = time.monotonic()
    while not tracker.is_degraded:
        tracker.on_change(view)
        assert time.monotonic() - before < 15
        time.sleep(0.05)
    lock.execute("rollback")
    lock.close()
    wait_for(lambda: not tracker.is_degraded)
    tracker.on_end(view)
    assert [text.split(",")[0] for text in said[:2]] == [
        "tracking degraded",
        "tracking caught up with the sweep",
    ]
    assert database.active_runs() == len(result["jobs"]) + 1


def test_no_database_is_made_on_a_network_file_system(sweep, tmp_path, monkeypatch):
    monkeypatch.setattr(mlflow_tracker, "is_network_filesystem", lambda path: True)
    monkeypatch.setattr(mlflow_tracker, "filesystem_type", lambda path: "nfs4")
    directory, _ = sweep
    said: list[str] = []
    view = read_sweep(directory)
    tracker = MlflowTracker(f"sqlite:///{tmp_path}/home/mlflow.db", say=said.append)
    tracker.on_start(view)
    tracker.on_change(view)
    tracker.on_end(view)
    assert not (tmp_path / "home").exists()
    assert "network file system (nfs4)" in said[0]
    assert "batchscout sync" in said[1]
