"""Which job an allocation runs: settled once, at its start, by whoever is first.

A submission in the queue carries a job's directory. Until it starts, the controller may give its place to
another job that has become more worth running; it keeps its age in the queue and nothing is submitted anew.
`jobs/ID/bound/SUBMISSION` decides: a symbolic link to a job's directory, which a file system makes as a
whole or not at all. The starting worker links it to its own job, the controller to another one, and the
second of the two finds that it is settled.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

BOUND = "bound"


def claim(job_dir: Path, submission: str) -> Path:
    """For a worker that starts: the directory of the job that it is to run, its own unless that place was
    given away."""
    while True:
        job_id = _settle(job_dir, submission, job_dir.name)
        if job_id == job_dir.name:
            return job_dir
        job_dir = job_dir.parent / job_id


def give(job_dir: Path, submission: str, job_id: str) -> bool:
    """For the controller: let that submission of this job run another one. False: it has started already."""
    return _settle(job_dir, submission, job_id) == job_id


def bound_to(job_dir: Path, submission: str) -> str | None:
    """The job that this submission runs, None while it is not settled."""
    path = _path(job_dir, submission)
    return path.readlink().name if path.is_symlink() else None


def _settle(job_dir: Path, submission: str, job_id: str) -> str:
    path = _path(job_dir, submission)
    path.parent.mkdir(exist_ok=True)
    # where it exists it is settled: perhaps by us, where NFS lost the answer and asked again
    with contextlib.suppress(FileExistsError):
        path.symlink_to(Path("..", "..", job_id), target_is_directory=True)
    return path.readlink().name


def _path(job_dir: Path, submission: str) -> Path:
    return job_dir / BOUND / re.sub(r"[^\w.+=@-]+", "-", submission)
