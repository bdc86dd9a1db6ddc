"""`python sweep.py -m` on the dev cluster, as a person types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.slurm.conftest import ROOT, DevCluster
from tests.synthetic_jobs import events, wait_for

# Two jobs of about 30 updates.
COMMON = (
    "trainer=synthetic", "tracking=none", "sweep=grid", "batch_size=64,128", "lr=3e-4",
    "evaluation.samples=512", "target.score=0.7", "trainer.s_min=2000", "hardware.poll_seconds=2",
)  # fmt: skip


class Sweep:
    """One `python sweep.py -m` with its directory."""

    def __init__(self, directory: Path, cluster: DevCluster, *overrides: str) -> None:
        self.directory = directory
        self._command = [sys.executable, str(ROOT / "sweep.py"), "-m", *COMMON, *overrides]
        self._command.append(f"hydra.sweep.dir={directory}")
        self._environment = {**os.environ, "SLURM_CONF": str(cluster.conf)}
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        # a suite that runs in the background ignores Ctrl-C, and its children would, too
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.process = subprocess.Popen(
            self._command, cwd=self.directory.parent, env=self._environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        signal.signal(signal.SIGINT, before)

    def kill(self) -> None:
        """kill -9 of the controller, if it lives."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

    def wait(self, seconds: float = 180) -> int:
        assert self.process is not None
        try:
            self.output = self.process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"no end within {seconds} s:\n{self.process.communicate()[0]}") from None
        return self.process.returncode

    def result(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.directory / "result.json").read_text())
        return content

    def job(self, job_id: str) -> Path:
        return self.directory / "jobs" / job_id

    def slurm_id(self, job_id: str) -> str:
        """Of the newest submission, once it is written down."""

        def found() -> str | None:
            path = self.job(job_id) / "job.json"
            submissions = json.loads(path.read_text())["submissions"] if path.exists() else []
            return submissions[-1]["handle"] if submissions else None

        return str(wait_for(found, 40))

    def wait_for_updates(self, job_id: str, updates: int) -> None:
        def has() -> bool:
            found = events(self.job(job_id))
            return bool(found) and [e["event"] for e in found[-1]].count("update") >= updates

        wait_for(has, 60)


def assert_complete(sweep: Sweep, jobs: int = 2) -> dict[str, Any]:
    """Every job reached the target once, and nothing ran twice along its surviving trajectory."""
    result = sweep.result()
    assert result["status"] == "complete"
    assert [row["outcome"] for row in result["jobs"]] == ["reached"] * jobs
    assert len({row["id"] for row in result["jobs"]}) == jobs
    for row in result["jobs"]:
        ends = [e["outcome"] for a in events(sweep.job(row["id"])) for e in a if e["event"] == "end"]
        assert ends.count("reached") == 1
    return result
