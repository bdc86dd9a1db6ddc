"""What every submission of a job consists of: the worker's command, its environment, and its place in the log
folder.

The worker is started directly rather than through submitit's pickled functions: a pickle that is moved into
place after the submit is lost with a controller killed in between, and the exit code of the task would not
reach us.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from batchscout.config import HardwareConfig
from batchscout.run.classify import KERNEL_OOM_MARK
from batchscout.run.snapshot import Snapshot, load_snapshot, newest_snapshot

# Read by the worker; the name also finds a local job again when a controller died between start and record.
NAME = "BATCHSCOUT_SUBMISSION"
SUBMITTED = "BATCHSCOUT_SUBMITTED"
STARTED = "BATCHSCOUT_STARTED"  # of the allocation, where a scheduler made the job wait
SHARED = "BATCHSCOUT_SHARED"  # start of the allocation and number of jobs in it, where there are several
CLAIMS = "BATCHSCOUT_CLAIMS"  # the job given may have left its place in the queue to another one
AFTER = "BATCHSCOUT_AFTER_ATTEMPT"
SNAPSHOT = "BATCHSCOUT_SNAPSHOT"
MAX_REQUEUES = "BATCHSCOUT_MAX_REQUEUES"

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")

SHELL_FUNCTIONS = f"""\
kernel_kills() {{ sed -n 's/^oom_kill //p' /proc/vmstat 2>/dev/null || echo 0; }}
kills_before=$(kernel_kills)
say_kernel_kills() {{
  [ "$1" -ne 137 ] || echo "{KERNEL_OOM_MARK} $(( $(kernel_kills) - ${{kills_before:-0}} ))"
}}
"""
"""Tells a kernel's kill for memory from anybody else's kill -9: both look like exit code 137."""


def worker_command(job_directories: Sequence[Path], python: Sequence[str] = ()) -> list[str]:
    """Runs the jobs one after the other, each in its own process where there are several.

    python   how to start Python (a container's prefix); default this interpreter. -P keeps the current
             directory off sys.path, where it would hide the snapshot; unlike PYTHONSAFEPATH it is not
             inherited by what trainers start.
    """
    start = list(python) or [sys.executable]
    return [*start, "-P", "-u", "-m", "batchscout.run.worker", *map(str, job_directories)]


def worker_variables(
    job_directories: Sequence[Path], *, name: str, submitted: float, hardware: HardwareConfig
) -> dict[str, str]:
    """Environment of a submission, beyond what it inherits; an inherited PYTHONPATH goes behind this one."""
    variables = {
        NAME: name,
        SUBMITTED: f"{submitted:.3f}",
        AFTER: ",".join(map(str, map(_attempts, job_directories))),
    }
    snapshot = job_snapshot(job_directories[0])
    if snapshot is not None:
        paths = os.pathsep.join(map(str, snapshot.import_path))
        variables |= {"PYTHONPATH": paths, SNAPSHOT: str(snapshot.path)}
    if hardware.threads is not None:
        variables |= dict.fromkeys(_THREAD_VARIABLES, str(hardware.threads))
    return variables


def job_snapshot(job_directory: Path) -> Snapshot | None:
    """The code the job was planned with: job.json's `snapshot` number, else the newest; None before the
    first."""
    sweep = job_directory.resolve().parent.parent
    job = json.loads((job_directory / "job.json").read_text(encoding="utf-8"))
    number = job.get("snapshot")
    return load_snapshot(sweep, int(number)) if number else newest_snapshot(sweep)


def _attempts(job_directory: Path) -> int:
    """How many attempts there are: one that ends after this submission ends it, an older end does not
    count."""
    return max((int(p.name) for p in (job_directory / "attempts").glob("*") if p.name.isdigit()), default=0)


def new_log(job_directory: Path) -> Path:
    """log/NNN.log, free for one more submission (its neighbours NNN.exit and NNN.cancelled belong to it)."""
    folder = job_directory / "log"
    folder.mkdir(parents=True, exist_ok=True)
    number = 1 + max((int(p.stem) for p in folder.glob("*.log") if p.stem.isdigit()), default=0)
    return folder / f"{number:03d}.log"
