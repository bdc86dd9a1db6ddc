"""A real Slurm for the tests of this folder: started once, stopped at the end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.synthetic_jobs import JobMaker, job_maker

from batchscout.clock import RealClock
from batchscout.config import HardwareConfig
from batchscout.run.executors.slurm import SlurmExecutor

ROOT = Path(__file__).parents[2]

ExecutorMaker = Callable[..., SlurmExecutor]


class DevCluster:
    """slurm/dev-cluster as a person uses it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.conf = directory / "etc" / "slurm.conf"

    def up(self, *options: str) -> None:
        self._call("up", str(self.directory), *options)

    def down(self) -> None:
        self._call("down", str(self.directory), "--now")

    def _call(self, *arguments: str) -> None:
        done = subprocess.run(
            [sys.executable, str(ROOT / "slurm" / "dev-cluster"), *arguments], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr

    def run(self, *command: str) -> str:
        """Output of one of Slurm's programs."""
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "SLURM_CONF": str(self.conf)}
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout.strip()

    def pid(self, daemon: str) -> int:
        return int((self.directory / "run" / f"{daemon}.pid").read_text())


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    if shutil.which("slurmctld", path=f"{os.environ['PATH']}:/usr/sbin") is None and os.geteuid() != 0:
        pytest.skip("Slurm is not installed, and installing it needs root")
    found = DevCluster(tmp_path_factory.mktemp("slurm"))
    found.up("--set", "KillWait=2", "--set", "scavenge.GraceTime=8")
    yield found
    found.down()


@pytest.fixture
def make_executor(cluster: DevCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ExecutorMaker:
    """make_executor("gpu-a", gpus=…, time_limit=…): an executor of that partition."""
    monkeypatch.setenv("SLURM_CONF", str(cluster.conf))

    def make(partition: str, **hardware: object) -> SlurmExecutor:
        gpu = {"gpu-a": "a100", "gpu-b": "h100"}.get(partition, "a100")
        keys = {"executor": "slurm", "partition": partition, "gres": f"gpu:{gpu}:1", "gpu": gpu, "gpus": 1}
        keys |= {"time_limit": "30", "signal_seconds": 60, "poll_seconds": 2.0, "memory": "300M"}
        return SlurmExecutor(
            HardwareConfig(**{**keys, **hardware}),  # type: ignore[arg-type]
            clock=RealClock(),
            working_directory=tmp_path,
        )

    return make


@pytest.fixture
def make_job(tmp_path: Path) -> JobMaker:
    return job_maker(tmp_path)
