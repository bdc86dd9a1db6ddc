"""Whole sweeps on a real Slurm, started as a person starts them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.slurm.conftest import DevCluster
from tests.slurm.sweeps import Sweep, assert_complete
from tests.synthetic_jobs import events, wait_for

pytestmark = pytest.mark.slurm

SweepMaker = Callable[..., Sweep]


@pytest.fixture
def make_sweep(cluster: DevCluster) -> Iterator[SweepMaker]:
    """make_sweep(directory, "key=value", …); none of their controllers outlives the test."""
    made: list[Sweep] = []

    def make(directory: Path, *overrides: str) -> Sweep:
        made.append(Sweep(directory, cluster, *overrides))
        return made[-1]

    yield make
    for sweep in made:
        sweep.kill()


def test_two_sweeps_at_once_run_on_their_own_partitions(
    make_sweep: SweepMaker, cluster: DevCluster, tmp_path: Path
) -> None:
    sweeps = {x: make_sweep(tmp_path / x, f"hardware=dev_gpu_{x}") for x in ("a", "b")}
    for sweep in sweeps.values():
        sweep.start()
    for sweep in sweeps.values():
        assert sweep.wait() == 0, sweep.output
    for x, gpu, nodes in (("a", "a100", {"a1", "a2"}), ("b", "h100", {"b1", "b2"})):
        rows = assert_complete(sweeps[x])["jobs"]
        assert {row["gpu"] for row in rows} == {gpu}
        assert {row["node"] for row in rows} <= nodes
        assert {row["gpus"] for row in rows} == {1}
    ids = {
        i
        for x in sweeps
        for i in (sweeps[x].slurm_id("b64-lr0.0003-s0"), sweeps[x].slurm_id("b128-lr0.0003-s0"))
    }
    assert len(ids) == 4
    assert all(cluster.run("squeue", "-h", "-t", "all", "-j", i, "-o", "%T") == "COMPLETED" for i in ids)


def test_a_sweep_survives_preemption_requeue_and_kill_of_its_controller(
    make_sweep: SweepMaker, cluster: DevCluster, tmp_path: Path
) -> None:
    job = "b64-lr0.0003-s0"
    sweep = make_sweep(tmp_path / "s", "hardware=dev_preemptible", "trainer.time_scale=6")
    sweep.start()
    sweep.wait_for_updates(job, 3)
    sweep.kill()
    owner = cluster.run(  # takes every a100: whatever of the sweep runs is preempted
        "sbatch", "--parsable", "--partition=gpu-a", "--nodes=2", "--gres=gpu:a100:4", "--output=/dev/null",
        "--wrap=sleep 3",
    )  # fmt: skip
    sweep.start()
    wait_for(lambda: len(events(sweep.job(job))) == 2, 60)
    sweep.wait_for_updates(job, 2)
    first = sweep.slurm_id(job)
    cluster.run("scontrol", "requeue", first)
    assert sweep.wait(120) == 0, sweep.output
    rows = {row["id"]: row for row in assert_complete(sweep)["jobs"]}
    assert rows[job]["attempts"] == 3
    assert sweep.slurm_id(job) == first, "one submission through preemption, requeue and the controller's end"
    assert cluster.run("squeue", "-h", "-t", "all", "-j", owner, "-o", "%T") == "COMPLETED"
    names = cluster.run("squeue", "-h", "-t", "all", "-o", "%j").splitlines()
    submitted = [
        n
        for n in names
        if n.startswith(json.loads((sweep.directory / "sweep.json").read_text())["submission_prefix"])
    ]
    assert len(submitted) == 2, "two jobs, two submissions"


def test_ctrl_c_leaves_jobs_running_and_the_same_command_goes_on(
    make_sweep: SweepMaker, cluster: DevCluster, tmp_path: Path
) -> None:
    sweep = make_sweep(tmp_path / "s", "hardware=dev_gpu_b", "trainer.time_scale=3")
    sweep.start()
    sweep.wait_for_updates("b128-lr0.0003-s0", 1)
    assert sweep.process is not None
    os.killpg(sweep.process.pid, signal.SIGINT)
    assert sweep.wait() == 130
    assert "sweep.py" in sweep.output, "says how to go on"
    assert cluster.run("squeue", "-h", "-j", sweep.slurm_id("b128-lr0.0003-s0"), "-o", "%T") == "RUNNING"
    time.sleep(1)
    sweep.start()
    assert sweep.wait() == 0, sweep.output
    assert {row["attempts"] for row in assert_complete(sweep)["jobs"]} == {1}


def test_verbs_work_from_another_shell_without_a_controller(
    make_sweep: SweepMaker, cluster: DevCluster, tmp_path: Path
) -> None:
    job, other = "b64-lr0.0003-s0", "b128-lr0.0003-s0"
    sweep = make_sweep(tmp_path / "s", "hardware=dev_gpu_b", "trainer.time_scale=10")
    sweep.start()
    sweep.wait_for_updates(job, 2)
    sweep.kill()

    def batchscout(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "batchscout.cli", *words],
            capture_output=True, text=True, env={**os.environ, "SLURM_CONF": str(cluster.conf)}, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    slurm_id = sweep.slurm_id(job)
    (line,) = [t for t in batchscout("status", str(sweep.directory)).splitlines() if job in t]
    assert "running" in line
    assert f"Slurm job {slurm_id} on b" in line
    batchscout("cancel", str(sweep.directory), job)
    wait_for(lambda: cluster.run("squeue", "-h", "-t", "all", "-j", slurm_id, "-o", "%T") == "CANCELLED")
    assert "caught SIGTERM" in batchscout("logs", str(sweep.directory), job)
    (line,) = [t for t in batchscout("status", str(sweep.directory)).splitlines() if job in t]
    assert "cancelled (user)" in line
    assert f"planned again: {job}" in batchscout("retry", str(sweep.directory), job), (
        "and goes on with the sweep"
    )
    rows = {row["id"]: row for row in assert_complete(sweep)["jobs"]}
    assert (rows[job]["attempts"], rows[other]["attempts"]) == (2, 1)


@pytest.mark.slow
def test_first_probes_of_a_search_share_one_allocation(
    make_sweep: SweepMaker, cluster: DevCluster, tmp_path: Path
) -> None:
    sweep = make_sweep(
        tmp_path / "s", "hardware=dev_gpu_b", "sweep=search", "batch_size=32,64,128,256,512", "lr=3e-4,6e-4",
        "budget.jobs=4", "hardware.slots=2",
    )  # fmt: skip
    sweep.start()
    assert sweep.wait() == 0, sweep.output
    rows = sweep.result()["jobs"]
    first = json.loads((sweep.job(rows[0]["id"]) / "job.json").read_text())["submissions"][0]
    together = [r for r in rows if sweep.slurm_id(r["id"]) == first["handle"]]
    assert [r["kind"] for r in together] == ["probe"] * len(together)
    assert len(together) >= 2
    assert {r["outcome"] for r in together} == {"capped"}
    assert len({r["queue_seconds"] for r in together}) == 1, "the wait is shared equally"
    assert cluster.run("squeue", "-h", "-t", "all", "-j", first["handle"], "-o", "%T") == "COMPLETED"
