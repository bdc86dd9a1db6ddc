"""The kinds of faults. Each scenario injects its own at random instants and says how often it did."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.chaos.cluster import Cluster, kill
from bench.chaos.trial import Live, Trial

Expected = dict[str, tuple[str, str | None]]


@dataclass
class Scene:
    """What a fault works on. expected: outcomes that the fault itself decides (a cancelled job is
    cancelled)."""

    trial: Trial
    cluster: Cluster
    random: random.Random
    expected: Expected = field(default_factory=dict)
    undo: list[Callable[[], None]] = field(default_factory=list)

    def victim(self) -> Live | None:
        """A running job that has had no fault that ends it."""
        live = [j for j in self.trial.live() if j.job_id not in self.expected]
        return self.random.choice(live) if live else None


Fault = Callable[[Scene], bool]
"""Strike once. Returns whether it did (there may be nothing to strike)."""


@dataclass(frozen=True)
class Scenario:
    """times: how often to strike. gap: seconds between two strikes, at random. all_expected: of every job."""

    name: str
    fault: Fault | None
    times: int = 5
    gap: tuple[float, float] = (0.5, 3.0)
    hardware: str = "dev_gpu_a"
    overrides: tuple[str, ...] = ("batch_size=32,64,128", "seeds=2")
    options: tuple[str, ...] = ()
    all_expected: tuple[str, str | None] | None = None
    counts: str = "strikes"
    seconds: float = 240.0


def preemption(scene: Scene) -> bool:
    """The owner of the nodes wants all of them."""
    if scene.victim() is None:
        return False
    scene.cluster.run(
        "sbatch",
        "--partition=gpu-a",
        "--nodes=2",
        "--gres=gpu:a100:4",
        "--output=/dev/null",
        "--wrap=sleep 1",
    )
    return True


def requeue(scene: Scene) -> bool:
    victim = scene.victim()
    return victim is not None and scene.cluster.run("scontrol", "requeue", victim.slurm_id) is not None


def kill_task(scene: Scene) -> bool:
    victim = scene.victim()
    if victim is None:
        return False
    kill(victim.pid)
    return True


def scancel(scene: Scene) -> bool:
    """By a person, not by us: the job is cancelled, and stays so."""
    victim = scene.victim()
    if victim is None:
        return False
    scene.expected[victim.job_id] = ("cancelled", None)
    scene.cluster.run("scancel", victim.slurm_id)
    return True


def kill_stepd(scene: Scene) -> bool:
    victim = scene.victim()
    daemons = scene.cluster.step_daemons(victim.slurm_id) if victim else []
    kill(*daemons)
    return bool(daemons)


def kill_slurmd(scene: Scene) -> bool:
    """The daemon alone: jobs go on."""
    victim = scene.victim()
    if victim is None:
        return False
    scene.cluster.kill_daemon(f"slurmd-{victim.node}")
    time.sleep(scene.random.uniform(0.5, 4))
    scene.cluster.start_slurmd(victim.node)
    return True


def node_down(scene: Scene) -> bool:
    """The whole node goes: daemon, steps, tasks; it is back after 20 s."""
    victim = scene.victim()
    if victim is None:
        return False
    jobs = scene.cluster.jobs_on(victim.node)
    scene.cluster.kill_daemon(f"slurmd-{victim.node}")
    kill(*scene.cluster.step_daemons(*jobs))
    kill(*scene.cluster.processes_of(*jobs))
    time.sleep(20)
    scene.cluster.start_slurmd(victim.node)
    return True


def orphan(scene: Scene) -> bool:
    """The node is lost to Slurm while its tasks live on: two instances of one job, for a while."""
    victim = scene.victim()
    if victim is None:
        return False
    jobs = scene.cluster.jobs_on(victim.node)
    scene.cluster.kill_daemon(f"slurmd-{victim.node}")
    kill(*scene.cluster.step_daemons(*jobs))
    time.sleep(20)
    scene.cluster.start_slurmd(victim.node)
    return True


def kill_slurmctld(scene: Scene) -> bool:
    if scene.victim() is None:
        return False
    scene.cluster.kill_daemon("slurmctld")
    time.sleep(scene.random.uniform(1, 8))
    scene.cluster.start_slurmctld()
    time.sleep(2)
    return True


def resume_drained(scene: Scene) -> None:
    """What an administrator does after a slurmctld that forgot jobs gave their numbers again: it drains the
    nodes where the old ones still ran."""
    drained = [
        line.split()[0]
        for line in scene.cluster.run("sinfo", "-h", "-N", "-o", "%N %T").splitlines()
        if "drain" in line
    ]
    if drained:
        nodes = ",".join(sorted(set(drained)))
        scene.cluster.run("scontrol", "update", f"nodename={nodes}", "state=resume")


def kill_controller(scene: Scene) -> bool:
    if not scene.trial.job_directories():
        return False
    scene.trial.kill_controller()
    return True


def _at_next_sbatch(mode: str) -> Fault:
    def fault(scene: Scene) -> bool:
        before = _done(scene)
        scene.cluster.break_program("sbatch", f"once {mode}")
        end = time.monotonic() + 90
        while _done(scene) == before and time.monotonic() < end and not scene.trial.is_over():
            time.sleep(0.1)
        scene.cluster.repair_program("sbatch")
        return _done(scene) > before

    return fault


def _done(scene: Scene) -> int:
    path = scene.cluster.chaos / "done"
    return len(path.read_text().splitlines()) if path.exists() else 0


def kill_after_submit(scene: Scene) -> bool:
    """As soon as a new answer is written down."""
    before = dict(scene.trial.handles())
    end = time.monotonic() + 60
    while time.monotonic() < end and not scene.trial.is_over():
        if scene.trial.handles() != before:
            scene.trial.kill_controller()
            return True
        time.sleep(0.02)
    return False


def _window(program: str, mode: str, seconds: tuple[float, float]) -> Fault:
    def fault(scene: Scene) -> bool:
        if not scene.trial.job_directories():
            return False
        scene.cluster.break_program(program, mode)
        time.sleep(scene.random.uniform(*seconds))
        scene.cluster.repair_program(program)
        return True

    return fault


def full_disk(scene: Scene) -> bool:
    """The file system under a running job's attempts is full for some seconds."""
    victim = scene.victim()
    if victim is None:
        return False
    attempts = scene.trial.directory / "jobs" / victim.job_id / "attempts"
    if not attempts.is_mount():  # never the disk of this machine
        return False
    filler = attempts / "filler"
    descriptor = os.open(filler, os.O_WRONLY | os.O_CREAT)
    with contextlib.suppress(OSError):
        while os.write(descriptor, b"x" * 4096):
            pass
    os.close(descriptor)
    time.sleep(scene.random.uniform(1, 4))
    filler.unlink()
    return True


def prepare_disks(scene: Scene) -> None:
    """A small file system of its own for each job's attempts."""
    for batch_size in (32, 64, 128):
        for name in (f"lr{lr}-s{seed}" for lr in ("0.0003", "0.0006") for seed in (0, 1)):
            attempts = scene.trial.directory / "jobs" / f"b{batch_size}-{name}" / "attempts"
            attempts.mkdir(parents=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "none", str(attempts)], check=True)
            scene.undo.append(lambda path=attempts: unmount(path))


def unmount(path: Path) -> None:
    subprocess.run(["umount", "--lazy", str(path)], check=False)


def hang(scene: Scene) -> bool:
    """A job stops without a word, while Slurm says that it runs."""
    victim = scene.victim()
    if victim is None:
        return False
    os.kill(victim.pid, signal.SIGSTOP)
    return True


def _oom(fault: str, phase: str = "learning") -> tuple[str, ...]:
    return (
        "batch_size=32,64,128",
        f"+trainer.misbehave={{fault:{fault},at_update:3,phase:{phase}}}",
        "max_requeues=1",
    )


LONG = ("batch_size=64", "trainer.time_scale=110", "hardware.time_limit=1", "hardware.signal_seconds=20")
GPU, HOST = ("infeasible", "oom_gpu"), ("infeasible", "oom_host")

SCENARIOS = (
    Scenario("preemption", preemption, 6, (3, 6), "dev_preemptible"),
    Scenario("requeue from outside", requeue, 6, (2, 5)),
    Scenario("scancel by somebody", scancel, 4),
    Scenario("kill -9 of the task", kill_task, 8, (1, 3)),
    Scenario("kill -9 of slurmstepd", kill_stepd, 3, (2, 5), seconds=400),
    Scenario("kill -9 of slurmd", kill_slurmd, 5, (1, 3)),
    Scenario("node down", node_down, 3, (2, 4), seconds=400),
    Scenario("node lost, its tasks live on", orphan, 3, (2, 4), seconds=400),
    Scenario("kill -9 of slurmctld", kill_slurmctld, 5, (2, 6), seconds=400),
    Scenario("kill -9 of the controller", kill_controller, 6, (1, 4)),
    Scenario("… before a submit", _at_next_sbatch("kill_before"), 4, (0.1, 1), seconds=500),
    Scenario("… during a submit", _at_next_sbatch("kill_after"), 4, (0.1, 1)),
    Scenario("… 20 s before its submit arrives", _at_next_sbatch("kill_late"), 3, (0.1, 1), seconds=500),
    Scenario("… after a submit", kill_after_submit, 4, (0.1, 1)),
    Scenario("time limit again and again", None, overrides=LONG, counts="attempts", seconds=600),
    Scenario("queue full", _window("sbatch", "full", (3, 8)), 4, (0.5, 2)),
    Scenario("squeue fails", _window("squeue", "fail", (3, 8)), 4, (0.5, 2)),
    Scenario("squeue empty", _window("squeue", "empty", (3, 8)), 4, (0.5, 2)),
    Scenario("squeue hangs", _window("squeue", "hang", (5, 10)), 3, (0.5, 2), seconds=400),
    Scenario(
        "sacct fails, jobs forgotten", _window("sacct", "fail", (4, 9)), 4, (0.5, 2),
        options=("--accounting", "--set", "MinJobAge=2"), seconds=400,
    ),
    Scenario("sbatch answers after 65 s", _at_next_sbatch("late"), 3, (0.1, 1), seconds=500),
    Scenario("disk full", full_disk, 5, (1, 3)),
    Scenario("silent job", hang, 4, (1, 3), seconds=400),
    Scenario("OOM: torch", None, overrides=_oom("oom_torch"), all_expected=GPU, counts="attempts"),
    Scenario(
        "OOM: vLLM wakes up", None, overrides=_oom("oom_cumem", "sampling"), all_expected=GPU,
        counts="attempts",
    ),
    Scenario("OOM: Ray", None, overrides=_oom("oom_ray"), all_expected=HOST, counts="attempts"),
    Scenario("OOM: exit code 137", None, overrides=_oom("oom_killed"), all_expected=HOST, counts="attempts"),
)  # fmt: skip
