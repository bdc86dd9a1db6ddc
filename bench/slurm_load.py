"""What a sweep of many jobs asks of a cluster and of the machine its controller runs on.

    python -m bench.slurm_load [--jobs 1000] [--seconds 60] [--finish]

Every job is queued (the nodes are drained), then the controller is watched for a while: its share of one
core, and each call of one of Slurm's programs. With --finish the nodes come back, the jobs run, and the whole
is counted (four at a time).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from bench.chaos.cluster import PROGRAMS, ROOT, Cluster

Times = Any  # psutil's, of this platform
COUNTING = '#!/bin/sh\necho "{program} $1" >> {log}\nexec {real} "$@"\n'
OUT = Path("bench/out/slurm_load.md")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--finish", action="store_true", help="let the jobs run, too")
    options = parser.parse_args(arguments)
    if shutil.which("slurmctld", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
        print("skipped: Slurm is not installed here (`make system` installs it)")
        return 0
    folder = Path(tempfile.mkdtemp(prefix="batchscout-load-"))
    cluster = Cluster(folder / "cluster")
    cluster.up()
    controller = None
    try:
        log = count_calls(cluster)
        cluster.run("scontrol", "update", "nodename=a1,a2", "state=drain", "reason=bench")
        began = time.monotonic()
        controller = start(folder, cluster, options.jobs)
        wait_until_queued(cluster, controller, options.jobs)
        lines = [f"{options.jobs} jobs submitted in {time.monotonic() - began:.0f} s: {words(calls(log))}"]
        before, cpu, since = calls(log), controller.cpu_times(), time.monotonic()
        time.sleep(options.seconds)
        lines.append(describe(controller, cpu, since, calls(log) - before, f"{options.jobs} jobs queued"))
        if options.finish:
            before, cpu, since = calls(log), controller.cpu_times(), time.monotonic()
            cluster.run("scontrol", "update", "nodename=a1,a2", "state=resume")
            while controller.is_running() and controller.status() != psutil.STATUS_ZOMBIE:
                last = controller.cpu_times()
                time.sleep(1)
            lines.append(describe(None, cpu, since, calls(log) - before, "all of them ran", last))
            result = json.loads((folder / "sweep" / "result.json").read_text())
            ends = Counter(row["outcome"] for row in result["jobs"])
            lines.append(f"{result['status']}: {words(ends)}")
    finally:
        if controller is not None and controller.is_running():
            controller.kill()
        cluster.down()
        shutil.rmtree(folder, ignore_errors=True)
    print("\n".join(lines))
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text("".join(f"- {line}\n" for line in lines))
    return 0


def count_calls(cluster: Cluster) -> Path:
    """Programs in front of Slurm's that note each call."""
    log = cluster.directory / "calls"
    log.touch()
    for program in PROGRAMS:
        real = shutil.which(program)
        path = cluster.directory / "bin" / program
        path.write_text(COUNTING.format(program=program, log=log, real=real))
    return log


def calls(log: Path) -> Counter[str]:
    return Counter(line.split()[0] for line in log.read_text().splitlines())


def start(folder: Path, cluster: Cluster, jobs: int) -> psutil.Process:
    """10 batch sizes × 10 rates × as many seeds as it takes."""
    sizes = ",".join(str(8 * n) for n in range(1, 11))
    rates = ",".join(f"{n}e-4" for n in range(1, 11))
    command = [
        sys.executable, str(ROOT / "sweep.py"), "-m", "sweep=grid", "trainer=synthetic", "tracking=none",
        "hardware=dev_gpu_a", f"hardware.slots={jobs}", "hardware.gres=null", "hardware.gpus=0",
        "hardware.cpus=8",  # of the 2 × 16 that the nodes claim: four jobs at once
        f"batch_size={sizes}", f"lr={rates}", f"seeds={jobs // 100}", "evaluation.samples=512",
        "target.score=0.7", "trainer.s_min=500", "trainer.time_scale=0.1",
        f"hydra.sweep.dir={folder / 'sweep'}",
    ]  # fmt: skip
    with (folder / "log").open("ab") as out:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            cwd=folder, env=cluster.controller_environment,
        )  # fmt: skip
    return psutil.Process(child.pid)


def wait_until_queued(cluster: Cluster, controller: psutil.Process, jobs: int) -> None:
    while len(cluster.run("squeue", "-h", "-t", "PD", "-o", "%i").splitlines()) < jobs:
        if not controller.is_running() or controller.status() == psutil.STATUS_ZOMBIE:
            raise RuntimeError("the controller has ended before its jobs were queued")
        time.sleep(1)


def describe(
    controller: psutil.Process | None,
    before: object,
    since: float,
    made: Counter[str],
    what: str,
    last: object = None,
) -> str:
    now = controller.cpu_times() if controller is not None else last
    seconds = time.monotonic() - since
    assert now is not None
    used = now.user + now.system - before.user - before.system
    rate = {program: 60 * count / seconds for program, count in made.items()}
    per_minute = ", ".join(f"{program} {value:.1f}" for program, value in sorted(rate.items())) or "none"
    share = f"controller's CPU {100 * used / seconds:.1f}% of a core"
    return f"{what}, {seconds:.0f} s: {share}; calls a minute: {per_minute}"


def words(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


if __name__ == "__main__":
    sys.exit(main())
