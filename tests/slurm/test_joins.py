"""An external trainer that logs to MLflow itself, as a Slurm job: both write into the job's one run."""

from __future__ import annotations

import pytest
from tests.track.conftest import Database
from tests.track.test_joins import check_joined, project, run_sweep
from tests.track.test_server import Server

#: MLflow 3.17 on SQLAlchemy 2.1 uses a loader that is to go away.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.slurm,
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy"),
]


def test_an_external_trainer_on_a_node_lands_in_its_jobs_run(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
    database = Database(tmp_path / "mlflow.db")
    server = Server(database, tmp_path / "artifacts")
    server.start()
    try:
        words = (
            "hardware=slurm",
            "hardware.memory=800M",
            "hardware.partition=gpu-a",
            "hardware.poll_seconds=2",
        )
        directory = run_sweep(project(tmp_path / "project"), server.uri, *words)
        check_joined(directory, database, server.uri)
    finally:
        server.kill()
