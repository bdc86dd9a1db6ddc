"""Databases and sweeps for the tracking tests."""

from __future__ import annotations

import shutil
import sqlite3
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.made_sweep import Made, make_sweep

SMALL = Made(batch_sizes=(32, 256, 1024), lr_factors=(1.0,))


@dataclass(frozen=True)
class Database:
    """An MLflow database, read without MLflow."""

    path: Path

    @property
    def uri(self) -> str:
        return f"sqlite:///{self.path}"

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self.path)
        try:
            return connection.execute(query, values).fetchall()
        finally:
            connection.close()

    def one(self, query: str, *values: Any) -> Any:
        return self.rows(query, *values)[0][0]

    def active_runs(self) -> int:
        return int(self.one("select count(*) from runs where lifecycle_stage = 'active'"))

    def points(self) -> set[tuple[str, str, int, int, float]]:
        """(job, key, timestamp, step, value) of all active jobs' runs."""
        return set(
            self.rows(
                "select t.value, m.key, m.timestamp, m.step, m.value "
                "from metrics m join runs r using (run_uuid) "
                "join tags t on t.run_uuid = m.run_uuid and t.key = 'batchscout.job' "
                "where r.lifecycle_stage = 'active'"
            )
        )

    def value(self, job: str, key: str) -> float:
        """The latest value of a metric, as the runs table shows it."""
        found = self.rows(
            "select l.value from latest_metrics l join runs r using (run_uuid) join tags t "
            "on t.run_uuid = l.run_uuid and t.key = 'batchscout.job' and t.value = ? "
            "where l.key = ? and r.lifecycle_stage = 'active'",
            job,
            key,
        )
        assert len(found) == 1, (job, key, found)
        return float(found[0][0])


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Making MLflow's tables takes seconds: once, then copied."""
    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from batchscout.track.store import RunStore

        RunStore(f"sqlite:///{path}", "nothing").open()
    return path


@pytest.fixture
def database(empty_database: Path, tmp_path: Path) -> Database:
    path = tmp_path / "db" / "mlflow.db"
    path.parent.mkdir()
    shutil.copy(empty_database, path)
    return Database(path)


@pytest.fixture
def sweep(tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """A small finished sweep: its directory and its result."""
    directory = tmp_path / "runs" / "demo" / "now"
    return directory, make_sweep(directory, SMALL)


@pytest.fixture
def make(tmp_path: Path) -> Callable[[Made], tuple[Path, dict[str, Any]]]:
    def make_one(made: Made) -> tuple[Path, dict[str, Any]]:
        directory = tmp_path / "runs" / "made"
        return directory, make_sweep(directory, made)

    return make_one
