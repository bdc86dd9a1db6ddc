"""An executor on top of any Hydra launcher (basic, joblib, submitit). Jobs go in batches: `launch` blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from batchscout.clock import RealClock
from batchscout.errors import LaunchError
from batchscout.run.executor import SchedulerState, Status, Submission
from batchscout.run.files import read_json


class HydraLauncherExecutor:
    """What was submitted is launched by `wait`, which returns when all of it has ended.

    A job is sweep.py's task function with its output directory at the job's own; it finds its job.json there.
    """

    def __init__(
        self,
        directory: Path,
        *,
        slots: int,
        hydra_context: HydraContext,
        task_function: TaskFunction,
        config: DictConfig,
    ) -> None:
        self.slots = slots
        self._directory, self._clock = directory, RealClock()
        self._launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )
        self._typed = [str(o) for o in config.hydra.overrides.task]
        self._queue: list[Submission] = []
        self._ended: dict[str, Status] = {}
        self._launched = 0

    def submit(self, job_dir: Path, *, name: str) -> Submission:
        submission = Submission(job_dir.name, f"hydra|{job_dir.name}", name, self._clock.now())
        self._ended.pop(job_dir.name, None)
        self._queue.append(submission)
        return submission

    def find(self, name: str) -> Submission | None:
        """Never: a batch ends with its controller."""
        return None

    def poll(self, submissions: Sequence[Submission]) -> Mapping[str, Status]:
        waiting = {s.job_id for s in self._queue}
        lost = Status(SchedulerState.ENDED, "KILLED")
        pending = Status(SchedulerState.PENDING)
        return {
            s.job_id: pending if s.job_id in waiting else self._ended.get(s.job_id, lost) for s in submissions
        }

    def cancel(self, submission: Submission) -> None:
        """Only before its batch starts; what a launcher runs cannot be reached."""
        if submission in self._queue:
            self._queue.remove(submission)
            self._ended[submission.job_id] = Status(SchedulerState.ENDED, "CANCELLED")

    def wait(self, seconds: float) -> None:
        batch, self._queue = self._queue, []
        if not batch:
            self._clock.sleep(seconds)
            return
        try:
            returns = self._launcher.launch([self._overrides(s.job_id) for s in batch], self._launched)
        except Exception as error:  # boundary: launchers raise whatever their infrastructure does
            raise LaunchError(f"{type(self._launcher).__name__}: {error}") from error
        self._launched += len(batch)
        for submission, job in zip(batch, returns, strict=True):
            self._ended[submission.job_id] = _status(job)

    def _overrides(self, job_id: str) -> list[str]:
        job = read_json(self._directory / "jobs" / job_id / "job.json") or {}
        values = {key: job[key] for key in ("batch_size", "seed")}
        kept = [
            o for o in self._typed if o.partition("=")[0] not in ("batch_size", "lr", "lr_reference", "seed")
        ]
        place = str(self._directory).replace("'", "\\'")
        return [
            *kept,
            *(f"{key}={value}" for key, value in values.items()),
            f"lr={job['lr']}",
            "lr_rule=fixed",
            f"hydra.sweep.dir='{place}'",
            f"hydra.sweep.subdir=jobs/{job_id}",
        ]

    def close(self) -> None:
        """Nothing is held."""


def _status(job: JobReturn) -> Status:
    failed = job.status != JobStatus.COMPLETED
    return Status(SchedulerState.ENDED, "FAILED" if failed else "COMPLETED", exit_code=int(failed))
