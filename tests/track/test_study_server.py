"""The Optuna study on a real PostgreSQL, and what `optuna-dashboard` makes of it and of the sweep's own file."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import optuna
import pytest
from tests.track.conftest import SMALL

from batchscout.run.record import read_sweep
from batchscout.track import StudyServer, StudyWriter, sync
from batchscout.track.optuna_study import write_study

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning"),
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy"),
]
STOPPED = {"b32-lr0.00014-s0": ("stopped", "its projected time exceeds the best")}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Postgres:
    """Debian's PostgreSQL on a loopback port, in a directory of its own."""

    directory: Path
    programs: Path
    port: int

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://batchscout@127.0.0.1:{self.port}/postgres"

    def make(self) -> None:
        self._run("initdb", "--pgdata", self.directory, "--username=batchscout", "--auth=trust", "--no-sync")

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        log = self.directory / "log"
        self._run("pg_ctl", "--pgdata", self.directory, "--wait", "--log", log, "--options", options, "start")

    def stop(self) -> None:
        self._run("pg_ctl", "--pgdata", self.directory, "--wait", "--mode=immediate", "stop")

    def _run(self, program: str, *words: str | Path) -> None:
        command = [str(self.programs / program), *map(str, words)]
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            command = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", *command]
        done = subprocess.run(command, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip("PostgreSQL is not installed; tests/install-system-packages installs it")
    folder = Path(tempfile.mkdtemp(prefix="batchscout-"))  # pytest's own are closed to the user postgres
    data = folder / "data"
    data.mkdir(mode=0o700)
    if os.geteuid() == 0:
        folder.chmod(0o755)
        shutil.chown(data, "postgres")
    server = Postgres(data, found[-1].parent, free_port())
    server.make()
    server.start()
    yield server
    server.stop()
    shutil.rmtree(folder)


def trials(url: str, sweep: str) -> list[tuple[Any, ...]]:
    storage = optuna.storages.RDBStorage(url)
    study = optuna.load_study(study_name=sweep, storage=storage)
    found = [(t.user_attrs["job"], t.state, t.value, t.params, t.intermediate_values) for t in study.trials]
    storage.engine.dispose()
    return found


def own_trials(directory: Path) -> list[tuple[Any, ...]]:
    """Of study.journal, by another route than SQL."""
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    storage = JournalStorage(JournalFileBackend(str(directory / "study.journal")))
    study = optuna.load_study(study_name=None, storage=storage)
    return [(t.user_attrs["job"], t.state, t.value, t.params, t.intermediate_values) for t in study.trials]


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_study_in_postgresql_is_that_of_the_file(make, postgres):
    directory, result = make(replace(SMALL, outcomes=STOPPED))
    view = read_sweep(directory)
    said: list[str] = []
    server = StudyServer(postgres.url, say=said.append)
    early = {**result, "jobs": result["jobs"][:1]}
    server.on_start(replace(view, result=early))
    for done in range(2, len(result["jobs"]) + 1):
        server.on_change(replace(view, result={**result, "jobs": result["jobs"][:done]}))
    server.on_end(view)
    StudyWriter().on_end(view)
    assert said == []
    assert len(result["jobs"]) == 3
    assert trials(postgres.url, view.sweep) == own_trials(directory)


def test_an_outage_of_postgresql_holds_nobody_up_and_sync_completes_the_study(make, postgres, database):
    directory, result = make(SMALL)
    record = json.loads((directory / "sweep.json").read_text())
    record["config"]["tracking"] = {"uri": database.uri, "study": postgres.url}
    (directory / "sweep.json").write_text(json.dumps(record))
    view = read_sweep(directory)
    postgres.stop()
    said: list[str] = []
    server = StudyServer(postgres.url, say=said.append)
    before = time.monotonic()
    server.on_start(view)
    for _ in range(50):
        server.on_change(view)
    assert time.monotonic() - before < 1.0
    wait_for(lambda: server.is_degraded)
    before = time.monotonic()
    server.on_end(view)
    assert time.monotonic() - before < 3.0
    assert said[0].startswith("the Optuna study is not written, the sweep goes on: ")
    assert said[1] == f"the Optuna study is behind: `batchscout sync {directory}` completes it"
    postgres.start()
    assert sync(directory).study == postgres.url
    assert [trial[0] for trial in trials(postgres.url, view.sweep)] == [row["id"] for row in result["jobs"]]


@contextmanager
def dashboard(storage: str) -> Iterator[str]:
    """`optuna-dashboard STORAGE`, as one types it; yields its address."""
    port = free_port()
    process = subprocess.Popen(
        [Path(sys.executable).with_name("optuna-dashboard"), storage, "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        assert process.poll() is None, "optuna-dashboard ended"
        try:
            with urllib.request.urlopen(f"{address}/api/studies", timeout=2):
                return True
        except (urllib.error.URLError, OSError):
            return False

    try:
        wait_for(answers)
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def get(address: str) -> Any:
    with urllib.request.urlopen(address, timeout=20) as answer:
        return json.load(answer)


@pytest.mark.parametrize("place", ["file", "postgresql"])
def test_optuna_dashboard_shows_the_jobs(place, make, request):
    directory, result = make(replace(SMALL, outcomes=STOPPED))
    view = read_sweep(directory)
    if place == "file":
        storage = str(directory / "study.journal")
        StudyWriter().on_end(view)
    else:
        storage = request.getfixturevalue("postgres").url
        write_study(view, storage=storage)
    with dashboard(storage) as address:
        [study] = [
            s for s in get(f"{address}/api/studies")["study_summaries"] if s["study_name"] == view.sweep
        ]
        found = get(f"{address}/api/studies/{study['study_id']}?after=0")
        rows = {row["id"]: row for row in result["jobs"]}
        assert len(found["trials"]) == len(rows)
        for trial in found["trials"]:
            attributes = {a["key"]: a["value"] for a in trial["user_attrs"]}
            row = rows[attributes["job"]]
            wanted = [row["time_to_target"]] if row["outcome"] == "reached" else None
            assert trial.get("values") == wanted
            assert {p["name"]: p["param_internal_value"] for p in trial["params"]} == {
                "batch_size": row["batch_size"],
                "lr": row["lr"],
            }
