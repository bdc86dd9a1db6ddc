"""Searches whose jobs wait in a real queue: late binding, and probes that share allocations."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.run.sweeps import settings
from tests.slurm.conftest import DevCluster, ExecutorMaker
from tests.synthetic_jobs import events, job_config, wait_for

from batchscout.clock import RealClock
from batchscout.measure.target import Target
from batchscout.run.api import run_sweep
from batchscout.run.executors.slurm import SlurmExecutor
from batchscout.run.log import newest_log
from batchscout.run.settings import ExitCode, SweepSettings
from batchscout.search.pooled import recommend_measured
from batchscout.search.protocol import Finished, JobObservation, Point, Proposal, Recommendation, Search

pytestmark = pytest.mark.slurm

LR = 1.414e-4
Wanted = Callable[[Sequence[JobObservation]], Sequence[tuple[Any, int]]]


class Wish:
    """Proposes what `wanted` lists, the first that is not there yet; nothing while something runs and all is
    there."""

    binds_late = True
    watches_curves = False

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted

    def propose(self, jobs: Sequence[JobObservation]) -> Proposal | Finished | None:
        there = {(j.kind, j.point.batch_size) for j in jobs}
        for kind, batch_size in self._wanted(jobs):
            if (kind, batch_size) not in there:
                limit = 2 if kind == "probe" else None
                return Proposal(kind, Point(batch_size, LR), 0, "a wish", updates_limit=limit)
        return None if any(not j.is_final for j in jobs) else Finished("all done")

    def stop(self, job: JobObservation, jobs: Sequence[JobObservation]) -> str | None:
        return None

    def recommend(self, jobs: Sequence[JobObservation]) -> Recommendation | None:
        return recommend_measured(jobs, Target(0.7))


def wanted_settings(slots: int) -> SweepSettings:
    def config(point: Point, seed: int) -> dict[str, Any]:
        own = {"batch_size": point.batch_size, "mini_batch_size": point.batch_size, "seed": seed}
        return {**job_config({"s_min": 600, "a": 0.05}), **own}

    plain = settings(batch_sizes=(16, 32, 48, 64, 80), lrs=(LR,), slots=slots, search="time_to_target")
    return replace(plain, job_config=config, poll_seconds=(0.2, 1.0))


def start(
    path: Path, executor: SlurmExecutor, search: Search, slots: int
) -> tuple[threading.Thread, list[ExitCode]]:
    codes: list[ExitCode] = []

    def run() -> None:
        codes.append(run_sweep(
            wanted_settings(slots), path, executor=executor, search=search, clock=RealClock(), command=["x"],
        ))  # fmt: skip

    thread = threading.Thread(target=run)
    thread.start()
    return thread, codes


def submissions(path: Path, job_id: str) -> list[dict[str, Any]]:
    file = path / "jobs" / job_id / "job.json"
    found: list[dict[str, Any]] = json.loads(file.read_text())["submissions"] if file.exists() else []
    return found


def handle(path: Path, job_id: str) -> str | None:
    found = submissions(path, job_id)
    return found[-1]["handle"] if found else None


def log_of_sweep(path: Path) -> list[dict[str, Any]]:
    file = path / "events.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_a_job_in_the_queue_gives_its_place_to_a_better_one(
    make_executor: ExecutorMaker, cluster: DevCluster, tmp_path: Path
) -> None:
    def changes_its_mind(jobs: Sequence[JobObservation]) -> list[tuple[Any, int]]:
        has_ended = any(j.is_final for j in jobs)
        return [("run", b) for b in ((16, 64) if has_ended else (16, 32))]

    path = tmp_path / "test" / "now"
    executor = make_executor("gpu-a", slots=2, extra={"nodelist": "a1"}, gres="gpu:a100:4")
    thread, codes = start(path, executor, Wish(changes_its_mind), slots=2)
    first, second, third = (f"b{b}-lr{LR:g}-s0" for b in (16, 32, 64))
    place = wait_for(lambda: handle(path, second))
    cluster.run("scontrol", "hold", place)  # a queue that is long enough
    wait_for(lambda: "rebind" in [e["event"] for e in log_of_sweep(path)], 40)
    assert not events(path / "jobs" / third)
    cluster.run("scontrol", "release", place)
    thread.join(60)
    assert codes == [ExitCode.OK]
    rows = {row["id"]: row for row in json.loads((path / "result.json").read_text())["jobs"]}
    assert {i: row["outcome"] for i, row in rows.items()} == {first: "reached", third: "reached"}
    assert rows[third]["slurm_job_id"] == place, "the place in the queue was kept"
    assert not events(path / "jobs" / second)
    assert executor.slurm.calls["sbatch"] == 2
    assert cluster.run("squeue", "-h", "-t", "all", "-j", place, "-o", "%T") == "COMPLETED"
    assert f"given to {third}" in newest_log(path / "jobs" / third)


def test_later_probes_share_an_allocation_too(
    make_executor: ExecutorMaker, cluster: DevCluster, tmp_path: Path
) -> None:
    def two_groups(jobs: Sequence[JobObservation]) -> list[tuple[Any, int]]:
        has_run = any(j.kind == "run" and j.is_final for j in jobs)
        early: list[tuple[Any, int]] = [("probe", 16), ("probe", 32), ("run", 16)]
        return [*early, ("probe", 48), ("probe", 64), ("probe", 80)] if has_run else early

    path = tmp_path / "test" / "now"
    executor = make_executor("gpu-b", slots=2, gres="gpu:h100:1")
    thread, codes = start(path, executor, Wish(two_groups), slots=2)
    thread.join(90)
    assert codes == [ExitCode.OK]
    groups = [{handle(path, f"probe-b{b}") for b in sizes} for sizes in ((16, 32), (48, 64, 80))]
    assert [len(group) for group in groups] == [1, 1]
    assert groups[0] != groups[1]
    assert executor.slurm.calls["sbatch"] == 3, "two groups of probes and one run"
    rows = json.loads((path / "result.json").read_text())["jobs"]
    assert [row["outcome"] for row in rows if row["kind"] == "probe"] == ["capped"] * 5
