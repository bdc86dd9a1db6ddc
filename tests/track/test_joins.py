"""Trainers that log to MLflow themselves write into their jobs' runs, wherever those run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from tests.track.conftest import Database
from tests.track.test_server import Server

from batchscout.run import joining
from batchscout.run.joining import answer_path, joined_run, request_path
from batchscout.track.joins import Joins
from batchscout.track.store import RunStore
from batchscout.track.sync import sync

#: MLflow 3.17 on SQLAlchemy 2.1 uses a loader that is to go away.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")

#: A training script as people have it: a program of its own, which knows MLflow and nothing of batchscout.
EXTERNAL = """
    import sys
    import mlflow

    with mlflow.start_run():
        mlflow.log_param("lr", "of the trainer")
        for step in range(3):
            mlflow.log_metric("trainer/kl", 0.01 * (step + 1), step=step)
        mlflow.set_tag("trainer.note", sys.argv[1])
"""
TRAINER = """
    import subprocess, sys
    from pathlib import Path

    def train(config, reporter):
        script = Path(__file__).with_name("external.py")
        subprocess.run([sys.executable, script, str(config["batch_size"])], check=True)
        score = 0.0
        while not reporter.should_stop():
            with reporter.learning():
                score = min(1.0, score + 0.2)
            reporter.end_update(samples=config["batch_size"])
            if reporter.due_for_evaluation():
                with reporter.evaluation() as evaluation:
                    evaluation.record(score, 100)
        reporter.end()
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    directory = tmp_path / "sweep" / "jobs" / "b64-lr0.0004-s0"
    directory.mkdir(parents=True)
    record = {"id": directory.name, "kind": "run", "batch_size": 64, "lr": 4e-4, "seed": 0}
    (directory / "job.json").write_text(json.dumps(record))
    return directory


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in joining.VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_without_an_offer_the_environment_is_left_alone(job, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://elsewhere")
    with joined_run(job):
        assert os.environ["MLFLOW_TRACKING_URI"] == "http://elsewhere"
    assert not (job.parent.parent / "joins").exists()


def test_a_job_gets_its_run_and_another_attempt_the_same(job, database: Database):
    sweep = job.parent.parent
    joins = Joins(RunStore(database.uri, "demo/now"), sweep)
    joins.offer()

    def tracker() -> None:
        while not answer_path(sweep, job.name).exists():
            for asked, started in list(joins.asking()):
                joins.answer(asked, started)
            time.sleep(0.05)

    thread = threading.Thread(target=tracker)
    thread.start()
    before = time.time()
    with joined_run(job):
        first = {name: os.environ[name] for name in joining.VARIABLES}
        del os.environ["MLFLOW_RUN_ID"]  # as mlflow.start_run does
    thread.join()
    assert first["MLFLOW_TRACKING_URI"] == database.uri
    assert first["MLFLOW_EXPERIMENT_NAME"] == "demo/now"
    assert not set(joining.VARIABLES) & set(os.environ)
    with joined_run(job):
        assert os.environ["MLFLOW_RUN_ID"] == first["MLFLOW_RUN_ID"]
    assert list(joins.asking()) == []
    [(start, status)] = database.rows("select start_time, status from runs where lifecycle_stage = 'active'")
    assert (abs(start / 1000 - before) < 20, status) == (True, "RUNNING")


def test_without_an_answer_a_job_starts_with_a_database_of_its_own(job, database, monkeypatch):
    monkeypatch.setattr(joining, "WAIT_SECONDS", 0.5)
    sweep = job.parent.parent
    Joins(RunStore(database.uri, "demo/now"), sweep).offer()
    answer_path(sweep, job.name).write_text(json.dumps({"v": 1, "uri": "http://old", "environment": {}}))
    before = time.monotonic()
    with joined_run(job):
        assert os.environ["MLFLOW_TRACKING_URI"] == f"sqlite:///{job / 'mlflow.db'}"
        assert "MLFLOW_RUN_ID" not in os.environ
    assert 0.5 <= time.monotonic() - before < 3
    assert json.loads(request_path(sweep, job.name).read_text())["uri"] == database.uri


def project(folder: Path) -> Path:
    """A project with the external trainer."""
    from batchscout.cli.project import write_project

    write_project(folder)
    (folder / "external.py").write_text(textwrap.dedent(EXTERNAL))
    (folder / "joining_trainer.py").write_text(textwrap.dedent(TRAINER))
    return folder


def run_sweep(folder: Path, uri: str, *words: str, batch_sizes: str = "64,128") -> Path:
    """A job for each batch size; returns the sweep's directory."""
    done = subprocess.run(
        [
            *(sys.executable, folder / "sweep.py", "-m", f"batch_size={batch_sizes}", "lr=1"),
            *("trainer.function=joining_trainer:train", "evaluation.samples=64", "target.score=0.7"),
            *("tracking=server", f"tracking.uri={uri}", "tracking.trainer_joins=true", *words),
        ],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return (folder / "runs" / "latest").resolve()


def check_joined(directory: Path, database: Database, uri: str) -> None:
    """One run a job, with both writers' points, and the job's own status and end."""
    result = json.loads((directory / "result.json").read_text())
    assert [row["outcome"] for row in result["jobs"]] == ["reached", "reached"]
    assert database.active_runs() == len(result["jobs"]) + 1
    for row in result["jobs"]:
        [(run, status, end)] = database.rows(
            "select r.run_uuid, r.status, r.end_time from runs r join tags t using (run_uuid) "
            "where t.key = 'batchscout.job' and t.value = ?",
            row["id"],
        )
        assert (status, end) == ("FINISHED", round(1000 * row["end"]))
        kl = database.rows(
            "select step, value from metrics where run_uuid = ? and key = 'trainer/kl' order by step", run
        )
        assert kl == [(0, 0.01), (1, 0.02), (2, 0.03)]
        assert database.value(row["id"], "time_to_target") == row["time_to_target"]
        params = dict(database.rows("select key, value from params where run_uuid = ?", run))
        assert (params["lr"], params["batch_size"]) == ("of the trainer", str(row["batch_size"]))
        assert database.value(row["id"], "lr") == row["lr"]
        note = database.one("select value from tags where run_uuid = ? and key = 'trainer.note'", run)
        assert note == str(row["batch_size"])
    points = database.points()
    assert sync(directory, uri).points == 0
    assert database.points() == points


@pytest.fixture
def server(database: Database, tmp_path: Path):
    server = Server(database, tmp_path / "artifacts")
    server.start()
    yield server
    server.kill()


@pytest.mark.slow
@pytest.mark.parametrize("hardware", ["local", "debug"])
def test_an_external_trainer_lands_in_its_jobs_run(hardware, server, database, tmp_path):
    directory = run_sweep(project(tmp_path / "project"), server.uri, f"hardware={hardware}")
    check_joined(directory, database, server.uri)


@pytest.mark.slow
def test_a_dead_server_costs_a_job_its_wait_and_no_more(tmp_path):
    """The trainer logs to its own database, and the sweep is whole."""
    folder = project(tmp_path / "project")
    directory = run_sweep(folder, "http://127.0.0.1:9", "hardware=local", "sweep=grid", batch_sizes="64")
    result = json.loads((directory / "result.json").read_text())
    [row] = result["jobs"]
    assert row["outcome"] == "reached"
    assert joining.WAIT_SECONDS <= row["startup_seconds"] < joining.WAIT_SECONDS + 60
    own = Database(directory / "jobs" / row["id"] / "mlflow.db")
    assert own.one("select count(*) from metrics where key = 'trainer/kl'") == 3
