"""The start script of the server on PostgreSQL: a sweep syncs into it and survives its end."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from batchscout.track import sync

#: MLflow 3.17 on SQLAlchemy 2.1 uses a loader that is to go away.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")]
SCRIPT = Path(__file__).parents[2] / "slurm" / "mlflow-postgresql.sbatch"


@pytest.fixture
def place() -> Iterator[Path]:
    """Beside pytest's directories: these are closed to the user that PostgreSQL runs as under root."""
    path = Path(tempfile.mkdtemp(prefix="batchscout-"))
    path.chmod(0o755)
    yield path / "server"
    shutil.rmtree(path)


@pytest.fixture
def start(place: Path, tmp_path: Path) -> Callable[[], tuple[subprocess.Popen[bytes], str]]:
    """Starts the script as a person would, without Slurm; returns its process and the address it wrote."""
    has_server = shutil.which("pg_ctl") or list(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    if importlib.util.find_spec("psycopg") is None or not has_server:
        pytest.skip("needs PostgreSQL's server programs and `pip install 'batchscout[postgresql]'`")
    log = tmp_path / "log"

    def start_one() -> tuple[subprocess.Popen[bytes], str]:
        environment = {
            "BATCHSCOUT_PYTHON": sys.executable,
            "BATCHSCOUT_MLFLOW_DIRECTORY": str(place),
            "BATCHSCOUT_MLFLOW_HOST": "127.0.0.1",
        }
        with log.open("ab") as out:
            process = subprocess.Popen(
                ["bash", str(SCRIPT)], env={**os.environ, **environment}, stdout=out, stderr=subprocess.STDOUT
            )
        uri = place / "uri"
        deadline = time.monotonic() + 180
        while not uri.exists():
            assert process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline, "no address after three minutes"
            time.sleep(0.2)
        return process, uri.read_text().strip()

    return start_one


def end(process: subprocess.Popen[bytes], directory: Path) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert not (directory / "database" / "postmaster.pid").exists(), "PostgreSQL still runs"


def test_a_sweep_synced_into_postgresql_is_still_there_after_a_restart(sweep, start, place):
    directory, result = sweep
    process, uri = start()
    first = sync(directory, uri)
    assert (first.runs, first.points > 0) == (len(result["jobs"]) + 1, True)
    assert sync(directory, uri).points == 0
    end(process, place)
    assert not (place / "uri").exists()
    process, uri = start()
    assert sync(directory, uri).points == 0
    end(process, place)
