"""A real MLflow server that is killed and comes back while a sweep goes on."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.track.conftest import Database

from batchscout.run.record import read_sweep
from batchscout.track import MlflowTracker, sync

#: MLflow 3.17 on SQLAlchemy 2.1 uses a loader that is to go away.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")


class Server:
    """`mlflow server` on a database, on a port of its own."""

    def __init__(self, database: Database, artifacts: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self.port}"
        self._command = [
            *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port)),
            *(
                "--workers",
                "1",
                "--backend-store-uri",
                database.uri,
                "--artifacts-destination",
                str(artifacts),
            ),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
        self._process = subprocess.Popen(
            self._command,
            env={**os.environ, **quiet},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + 90
        while True:
            try:
                with urllib.request.urlopen(f"{self.uri}/health", timeout=1):
                    return
            except (urllib.error.URLError, OSError):
                assert time.monotonic() < deadline, "mlflow server did not start"
                time.sleep(0.2)

    def kill(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


@pytest.fixture
def server(database: Database, tmp_path: Path) -> Iterator[Server]:
    server = Server(database, tmp_path / "artifacts")
    server.start()
    yield server
    server.kill()


@pytest.mark.slow
def test_an_outage_in_a_running_sweep_leaves_one_run_per_job_and_each_point_once(sweep, server, database):
    directory, result = sweep
    said: list[str] = []
    end = read_sweep(directory)
    early = {**result, "jobs": result["jobs"][:1], "status": "running", "recommendations": []}
    tracker = MlflowTracker(server.uri, say=said.append)
    tracker.on_start(type(end)(end.directory, end.sweep, end.config, early, end.jobs[:1]))
    while database.active_runs() < 2:
        time.sleep(0.05)
    server.kill()
    before = time.monotonic()
    middle = {**early, "jobs": result["jobs"][:2]}
    tracker.on_change(type(end)(end.directory, end.sweep, end.config, middle, end.jobs[:2]))
    assert time.monotonic() - before < 0.5
    while not tracker.is_degraded:
        assert time.monotonic() - before < 10
        time.sleep(0.05)
    server.start()
    while tracker.is_degraded:
        assert time.monotonic() - before < 120
        time.sleep(0.05)
    server.kill()
    tracker.on_end(end)
    assert said[0].startswith("tracking degraded")
    assert said[-1].startswith("MLflow is behind")
    server.start()
    report = sync(directory, server.uri)
    points = database.points()
    assert database.active_runs() == len(result["jobs"]) + 1
    assert sync(directory, server.uri).points == 0
    assert database.points() == points
    evaluations = sum(len(job.curve.samples) for job in end.jobs)
    assert sum(key == "score" for _, key, *_ in points) == evaluations
    assert report.links[0].startswith(f"{server.uri}/#/experiments/")
    with urllib.request.urlopen(f"{server.uri}/health", timeout=5) as answer:
        assert answer.status == 200
