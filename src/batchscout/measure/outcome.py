"""What a job can come to: one closed list, used in every file, table and store."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """The state of a logical job.

    A capped job is right-censored at what it consumed, a stopped one at a known bound (it may be continued
    later).
    """

    QUEUED = "queued"
    RUNNING = "running"
    PREEMPTED = "preempted"
    REACHED = "reached"
    CAPPED = "capped"
    STOPPED = "stopped"
    DIVERGED = "diverged"
    INFEASIBLE = "infeasible"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Nothing more will come of this job unless a person or the search asks for it."""
        return self not in (Outcome.QUEUED, Outcome.RUNNING, Outcome.PREEMPTED)


class InfeasibleReason(StrEnum):
    """Why a batch size cannot run on this hardware."""

    OOM_GPU = "oom_gpu"
    OOM_HOST = "oom_host"
    ARITHMETIC = "arithmetic"
