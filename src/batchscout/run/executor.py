"""Where jobs run, seen from the controller. Peers: local, slurm, debug (in process), replay (virtual
clock)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol


class SchedulerState(StrEnum):
    """What the scheduler says of a submission; what the *job* achieved is in its journal."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETING = "completing"
    REQUEUED = "requeued"  # preempted or requeued; will run again under the same id
    ENDED = "ended"  # `detail` says how (COMPLETED, FAILED, TIMEOUT, OUT_OF_MEMORY, …)
    ABSENT = "absent"  # a *successful* query did not list it


@dataclass(frozen=True, slots=True)
class Submission:
    """One submission of one job. handle: what finds it again from any process (Slurm id, pid and start
    time)."""

    job_id: str
    handle: str
    name: str
    submitted: float


@dataclass(frozen=True, slots=True)
class Status:
    """One line of a status query. exit_code is None where unknown."""

    state: SchedulerState
    detail: str = ""
    node: str | None = None
    exit_code: int | None = None
    slurm_job_id: str | None = None


class Executor(Protocol):
    """Submits, asks, stops. Never reads journals and never decides what an outcome is."""

    slots: int

    def submit(self, job_dir: Path, *, name: str) -> Submission:
        """Submit the job in job_dir. Returns at once. Raises LaunchError, SchedulerBusy."""

    def find(self, name: str) -> Submission | None:
        """The live submission with this name (an answer to a submit may have been lost), or None."""

    def poll(self, submissions: Sequence[Submission]) -> Mapping[str, Status] | None:
        """job_id → Status, by one query for all; None where the query itself failed (means nothing about
        jobs)."""

    def cancel(self, submission: Submission) -> None:
        """End it by force. Idempotent."""

    def wait(self, seconds: float) -> None:
        """Let time pass (or the virtual clock advance to the next event)."""

    def close(self) -> None:
        """Release what this process holds; never touches running jobs."""
