"""A real sweep whose MLflow server dies for a minute and whose controller is killed, counted against the journals."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.track.conftest import Database
from tests.track.test_server import Server

from batchscout.track import sync

#: MLflow 3.17 on SQLAlchemy 2.1 uses a loader that is to go away.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")]
OUTAGE_SECONDS = 60.0
#: 3 jobs of 31, 16 and 8 updates of 1.5 s.
SWEEP = (
    *("-m", "sweep=grid", "trainer=synthetic", "hardware=local", "batch_size=64,128,256", "lr=3e-4"),
    *("evaluation.samples=64", "target.score=0.7", "trainer.s_min=2000", "trainer.a=1.5", "trainer.b=0"),
    *("checkpoint_every_seconds=5", "tracking=server"),
)


def wait_for(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def journalled(directory: Path, job: str) -> list[tuple[int, float]]:
    """(samples, score) of every evaluation."""
    path = directory / "jobs" / job / "attempts" / "001" / "journal.jsonl"
    events = [json.loads(line) for line in path.read_text().splitlines()]
    return sorted((e["samples"], e["score"]) for e in events if e["event"] == "evaluation")


def test_an_outage_and_a_killed_controller_leave_one_run_per_job_and_each_point_once(database, tmp_path):
    from batchscout.cli.project import write_project

    folder, directory = tmp_path / "project", tmp_path / "project" / "runs" / "grid" / "now"
    write_project(folder)
    server = Server(database, tmp_path / "artifacts")
    server.start()
    command = [sys.executable, str(folder / "sweep.py"), *SWEEP]
    command += [f"tracking.uri={server.uri}", f"hydra.sweep.dir={directory}"]
    log = tmp_path / "log"

    def controller() -> subprocess.Popen[bytes]:
        with log.open("ab") as out:
            return subprocess.Popen(command, cwd=folder, stdout=out, stderr=subprocess.STDOUT)

    process = controller()
    try:
        wait_for(lambda: any(key == "score" and step > 0 for _, key, _, step, _ in database.points()))
        process.kill()  # as its first batches are being written
        process.wait()
        process = controller()
        wait_for(lambda: database.active_runs() >= 2)
        server.kill()
        down = time.monotonic()
        ended = json.loads((directory / "result.json").read_text())
        time.sleep(OUTAGE_SECONDS / 2)
        process.kill()  # while nothing answers, too
        process.wait()
        process = controller()
        time.sleep(max(0.0, OUTAGE_SECONDS - (time.monotonic() - down)))
        grown = json.loads((directory / "result.json").read_text())
        assert grown["cost"]["seconds"] > ended["cost"]["seconds"] + OUTAGE_SECONDS / 4, (
            "the sweep stood still"
        )
        server.start()
        assert process.wait(300) == 0, log.read_text()[-3000:]
        result = json.loads((directory / "result.json").read_text())
        assert [row["outcome"] for row in result["jobs"]] == ["reached"] * 3
        assert [row["attempts"] for row in result["jobs"]] == [1, 1, 1], "jobs are not touched by any of this"
        sync(directory, server.uri)
        check(database, directory)
        points = database.points()
        assert sync(directory, server.uri).points == 0
        assert database.points() == points
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        server.kill()


def check(database: Database, directory: Path) -> None:
    """One run a job; of each evaluation one point, of each result one."""
    rows = json.loads((directory / "result.json").read_text())["jobs"]
    assert database.active_runs() == len(rows) + 1
    tagged = "select count(*) from tags join runs using (run_uuid) where key = 'batchscout.job' and value = ?"
    for row in rows:
        assert database.one(f"{tagged} and lifecycle_stage = 'active'", row["id"]) == 1
        points = [p for p in database.points() if p[0] == row["id"]]
        scores = sorted((step, value) for _, key, _, step, value in points if key == "score")
        assert scores == journalled(directory, row["id"])
        for series in ("train_seconds", "wall_seconds", "sampling_seconds", "learning_seconds"):
            assert sum(key == series for _, key, *_ in points) == len(scores)
        for name in ("time_to_target", "samples_to_target", "updates", "attempts"):
            assert [value for _, key, _, _, value in points if key == name] == [row[name]]
        assert [value for _, key, _, _, value in points if key == "batch_size"] == [row["batch_size"]]
