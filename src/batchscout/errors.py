"""Every error that batchscout raises on purpose.

BatchscoutError
├── ConfigError        a field of the configuration is wrong; nothing was submitted
├── JournalError       a journal that cannot be read as one
├── CurveError         measurements from which no curve can be built
├── LawError           data that a law cannot be fitted to
├── SearchError        a search space or study that cannot be used
├── TrainerError       the trainer could not run
│   └── InfeasibleError    this batch size cannot run on this hardware
├── ExecutorError      jobs cannot be submitted, queried or stopped
│   ├── LaunchError        the submission itself was refused
│   └── SchedulerBusy      no answer, or no more jobs now; worth trying again
├── SweepError         a sweep directory that cannot be used as asked
│   └── SweepLocked        another controller works on it
└── TrackingError      MLflow or the study's storage could not be written
"""

from __future__ import annotations

from typing import Any


class BatchscoutError(Exception):
    """Root of the tree. ``str(error)`` is one line: what was wrong, the value, what is allowed, a remedy."""


class ConfigError(BatchscoutError):
    """A field of the configuration is wrong.

    field    dotted name as typed on the command line
    value    what was given
    allowed  what would be right, in words
    """

    def __init__(self, field: str, value: Any, allowed: str) -> None:
        super().__init__(field, value, allowed)
        self.field, self.value, self.allowed = field, value, allowed

    def __str__(self) -> str:
        return f"{self.field}={self.value} {self.allowed}"


class JournalError(BatchscoutError):
    """A journal that cannot be read as one."""


class CurveError(BatchscoutError):
    """Measurements from which no curve can be built."""


class LawError(BatchscoutError):
    """Data that a law cannot be fitted to."""


class SearchError(BatchscoutError):
    """A search space or study that cannot be used."""


class TrainerError(BatchscoutError):
    """The trainer could not run."""


class InfeasibleError(TrainerError):
    """This batch size cannot run on this hardware; ``reason`` is oom_gpu, oom_host or arithmetic."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(reason, message)
        self.reason, self.message = reason, message

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"


class ExecutorError(BatchscoutError):
    """Jobs cannot be submitted, queried or stopped."""


class LaunchError(ExecutorError):
    """The submission itself was refused (partition, quota, missing program)."""


class SchedulerBusy(ExecutorError):
    """The scheduler does not answer, or takes no more jobs now: the same submission may go through later."""


class SweepError(BatchscoutError):
    """A sweep directory that cannot be used as asked."""


class SweepLocked(SweepError):
    """Another controller works on this sweep."""


class TrackingError(BatchscoutError):
    """MLflow or the study's storage could not be written."""
