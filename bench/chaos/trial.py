"""One sweep under faults: kept going whatever happens to its controller, then checked."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from batchscout.measure.attempt import JOURNAL, attempt_paths
from batchscout.measure.curve import Curve
from batchscout.measure.journal import read_journal
from bench.chaos.cluster import ROOT, Cluster

OVERRIDES = (
    "trainer=synthetic", "tracking=none", "sweep=grid", "lr=3e-4,6e-4", "evaluation.samples=512",
    "target.score=0.7", "trainer.s_min=2000", "trainer.time_scale=6", "checkpoint_every_seconds=1",
    "max_requeues=50", "max_failures=20",
    "hardware.slots=4", "hardware.poll_seconds=2", "hardware.watchdog_seconds=8", "hardware.time_limit=30",
)  # fmt: skip


@dataclass(frozen=True)
class Live:
    """A job that runs now."""

    job_id: str
    slurm_id: str
    pid: int
    node: str


@dataclass
class Verdict:
    """What one scenario cost. notes say which job and what was wrong."""

    injected: int = 0
    lost: int = 0
    duplicates: int = 0
    wrong: int = 0
    notes: list[str] = field(default_factory=list)


class Trial:
    """A sweep's directory and its controller process."""

    def __init__(self, directory: Path, cluster: Cluster, hardware: str, overrides: tuple[str, ...]) -> None:
        self.directory, self.cluster = directory, cluster
        self._command = [
            sys.executable, str(ROOT / "sweep.py"), "-m", *OVERRIDES, f"hardware={hardware}",
            *overrides, f"hydra.sweep.dir={directory}",
        ]  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None
        self.exit_codes: list[int] = []

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory.parent / f"{self.directory.name}.log").open("ab") as out:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.directory.parent,
                env=self.cluster.controller_environment, start_new_session=True,
            )  # fmt: skip

    def is_over(self) -> bool:
        """Whether the sweep has ended; a controller that was killed is started again by the same command."""
        assert self._process is not None
        code = self._process.poll()
        if code is None:
            return False
        self.exit_codes.append(code)
        if code == -9 or (code not in (0, 2) and self.exit_codes.count(code) < 3):
            self.start()
            return False
        return True

    def kill_controller(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Give up: nothing of it shall live on."""
        if self._process is not None and self._process.poll() is None:
            self.kill_controller()

    def job_directories(self) -> list[Path]:
        return sorted(p for p in (self.directory / "jobs").glob("*") if (p / "job.json").exists())

    def handles(self) -> dict[str, str]:
        """Newest Slurm id by job, of all that have one."""
        found = {}
        for path in self.job_directories():
            submissions = read_object(path / "job.json").get("submissions") or []
            if submissions and submissions[-1]["handle"]:
                found[path.name] = submissions[-1]["handle"]
        return found

    def live(self) -> list[Live]:
        """Jobs whose newest attempt has started and not ended, and whose process is there."""
        found = []
        for job_id, slurm_id in self.handles().items():
            events = newest_events(self.directory / "jobs" / job_id)
            if not events or events[-1]["event"] == "end":
                continue
            start = events[0]
            if start.get("slurm_job_id") == slurm_id and Path(f"/proc/{start['pid']}").exists():
                found.append(Live(job_id, slurm_id, start["pid"], start["node"]))
        return found

    def result(self) -> dict[str, Any]:
        return read_object(self.directory / "result.json")

    def samples_to_target(self) -> dict[str, float | None]:
        return {row["id"]: row["samples_to_target"] for row in self.result().get("jobs", [])}


def read_object(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return content


def newest_events(job: Path) -> list[dict[str, Any]]:
    paths = attempt_paths(job)
    return read_journal(paths[-1] / JOURNAL) if paths and (paths[-1] / JOURNAL).exists() else []


def judge(
    trial: Trial,
    reference: Mapping[str, float | None],
    expected: Mapping[str, tuple[str, str | None]],
    injected: int,
) -> Verdict:
    """Compare with the undisturbed sweep.

    expected  outcome and reason (None: any) by job, where that is not `reached`
    """
    verdict = Verdict(injected=injected)
    result = trial.result()
    rows = {row["id"]: row for row in result.get("jobs", [])}
    for text in _wrong_of_sweep(trial, result):
        verdict.wrong += 1
        verdict.notes.append(text)
    for job_id in reference:
        row = rows.get(job_id)
        outcome, reason = expected.get(job_id, ("reached", None))
        if row is None:
            verdict.lost += 1
            verdict.notes.append(f"{job_id}: no such job in result.json")
            continue
        if row["outcome"] != outcome or (reason is not None and row["reason"] != reason):
            verdict.wrong += 1
            verdict.notes.append(
                f"{job_id}: {row['outcome']} ({row['reason']}) instead of {outcome} ({reason or 'any'})"
            )
        if outcome == "reached" and row["samples_to_target"] != reference[job_id]:
            verdict.lost += 1
            verdict.notes.append(f"{job_id}: S={row['samples_to_target']} instead of {reference[job_id]}")
        for text in _torn(trial.directory / "jobs" / job_id):
            verdict.wrong += 1
            verdict.notes.append(f"{job_id}: {text}")
    for text in _duplicates(trial, set(rows) - set(reference)):
        verdict.duplicates += 1
        verdict.notes.append(text)
    return verdict


def _wrong_of_sweep(trial: Trial, result: Mapping[str, Any]) -> Iterator[str]:
    if result.get("status") != "complete":
        yield f"the sweep is {result.get('status')}"
    bad = [c for c in trial.exit_codes if c not in (0, -9)]
    if bad:
        yield f"the controller ended with {bad}"


def _torn(job: Path) -> Iterator[str]:
    """The surviving trajectory must be one: cumulative counts never fall."""
    attempts = [read_journal(p / JOURNAL) for p in attempt_paths(job) if (p / JOURNAL).exists()]
    curve = Curve.from_attempts([a for a in attempts if a])
    if any(b <= a for a, b in zip(curve.update_samples, curve.update_samples[1:], strict=False)):
        yield "samples fall along the trajectory"
    if any(b < a for a, b in zip(curve.seconds, curve.seconds[1:], strict=False)):
        yield "seconds fall along the trajectory"


def _duplicates(trial: Trial, unknown: set[str]) -> Iterator[str]:
    yield from (f"{job_id}: a job that was never planned" for job_id in sorted(unknown))
    for job in trial.job_directories():
        ends = [
            e["outcome"]
            for p in attempt_paths(job)
            if (p / JOURNAL).exists()
            for e in read_journal(p / JOURNAL)
            if e["event"] == "end"
        ]
        if ends.count("reached") > 1:
            yield f"{job.name}: reached {ends.count('reached')} times"
    prefix = read_object(trial.directory / "sweep.json").get("submission_prefix", "?")
    for line in _left_over(trial.cluster, prefix):
        yield f"still in the queue: {line}"


def _left_over(cluster: Cluster, prefix: str) -> list[str]:
    """Live Slurm jobs of the sweep; those that are just ending get a moment.

    A restarted slurmctld may list a job as running that ended before: without a process it is a ghost.
    """
    lines: list[str] = []
    for _ in range(20):
        listed = cluster.run("squeue", "-h", "-a", "-o", "%j %i %T").splitlines()
        lines = [line for line in listed if line.startswith(prefix) and _works(cluster, line)]
        if not lines:
            break
        time.sleep(1)
    return lines


def _works(cluster: Cluster, line: str) -> bool:
    _, slurm_id, state = line.rsplit(" ", 2)
    if state == "COMPLETING":
        return False
    return state != "RUNNING" or bool(cluster.processes_of(slurm_id))
