"""Requests to a job or about it, as files in its directory: they survive every process.

`control`  read by the job itself: end at the next update boundary
`cancel`   read by the controller: a person wants this job cancelled
"""

from __future__ import annotations

from pathlib import Path

from batchscout.run.files import write_json

CONTROL, CANCEL = "control", "cancel"


def request_stop(job_dir: Path, reason: str, *, time: float) -> None:
    """Ask the job to end. time: of the request, on the controller's clock."""
    write_json(job_dir / CONTROL, {"v": 1, "request": "stop", "reason": reason, "time": time})


def request_cancel(job_dir: Path) -> None:
    """Tell the controller that a person cancelled the job."""
    write_json(job_dir / CANCEL, {"v": 1, "request": "cancel"})


def is_cancelled(job_dir: Path) -> bool:
    return (job_dir / CANCEL).exists()


def clear_stop(job_dir: Path) -> None:
    """Before a job is submitted again."""
    (job_dir / CONTROL).unlink(missing_ok=True)


def clear_cancel(job_dir: Path) -> None:
    """A person wants the job after all."""
    (job_dir / CANCEL).unlink(missing_ok=True)
