"""Jobs in the controller's own process, one after the other: for debuggers, and for a single job in the
foreground."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from batchscout.clock import Clock
from batchscout.run.executor import SchedulerState, Status, Submission


class DebugExecutor:
    """Submitting is running: `submit` returns when the job has ended. Nothing can be stopped from outside
    meanwhile.

    Code comes from the working tree, not from the snapshot: that is what somebody with a debugger wants.
    """

    slots = 1

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._exit_codes: dict[str, int] = {}

    def submit(self, job_dir: Path, *, name: str) -> Submission:
        from batchscout.run.worker import run_attempt  # loads the reporter only where jobs run

        submitted = self._clock.now()
        attempts = [int(p.name) for p in (job_dir / "attempts").glob("*") if p.name.isdigit()]
        self._exit_codes[job_dir.name] = run_attempt(str(job_dir), after=max(attempts, default=0))
        return Submission(job_dir.name, f"{socket.gethostname()}|{os.getpid()}|debug", name, submitted)

    def find(self, name: str) -> Submission | None:
        """Never: a job of this executor does not outlive its controller."""
        return None

    def poll(self, submissions: Sequence[Submission]) -> Mapping[str, Status]:
        return {s.job_id: self._status(s.job_id) for s in submissions}

    def _status(self, job_id: str) -> Status:
        code = self._exit_codes.get(job_id)
        if code is None:  # it ran in a controller that is gone
            return Status(SchedulerState.ENDED, "KILLED", socket.gethostname())
        return Status(SchedulerState.ENDED, "FAILED" if code else "COMPLETED", socket.gethostname(), code)

    def cancel(self, submission: Submission) -> None:
        """Nothing runs that could be ended."""

    def wait(self, seconds: float) -> None:
        """Nothing to wait for."""

    def close(self) -> None:
        """Nothing is held."""
