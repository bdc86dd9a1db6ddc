"""Ways in which a job goes wrong on a real cluster, on demand: for tests of what surrounds a trainer."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, NoReturn

from batchscout.clock import Clock
from batchscout.errors import ConfigError, InfeasibleError

NAP_SECONDS = 0.2
"""Length of the naps of a hanging job, short enough for a signal to be handled between two."""


def _value_error() -> NoReturn:
    raise ValueError("synthetic failure")


def _runtime_error() -> NoReturn:
    raise RuntimeError("synthetic failure")


def _oom_torch() -> NoReturn:
    import torch  # only here: a synthetic job starts fast as long as it behaves

    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB (synthetic)")


def _oom_cumem() -> NoReturn:
    raise RuntimeError("CUDA Error: out of memory at /csrc/cumem_allocator.cpp:119 (synthetic)")


def _oom_host() -> NoReturn:
    raise MemoryError("synthetic")


def _oom_ray() -> NoReturn:
    raise RuntimeError("Task was killed due to the Ray node running low on memory (synthetic)")


def _oom_killed() -> NoReturn:
    os._exit(137)  # what a shell reports of a process that the kernel's OOM killer ended


FAULTS: dict[str, Callable[[], NoReturn]] = {
    "value_error": _value_error,
    "runtime_error": _runtime_error,
    "oom_torch": _oom_torch,
    "oom_cumem": _oom_cumem,
    "oom_host": _oom_host,
    "oom_ray": _oom_ray,
    "oom_killed": _oom_killed,
}


@dataclass(frozen=True)
class Misbehaviour:
    """What goes wrong, and when.

    fault             a key of ``FAULTS``, ``nan`` (diverged) or ``hang`` (silent for ever); None for nothing
    at_update         updates that go well before
    phase             ``sampling`` or ``learning``: where the fault strikes
    above_batch_size  the fault strikes larger batches only
    infeasible_above  larger batches raise InfeasibleError before the first update
    ignores_stop      goes on although told to stop, until something kills it
    outlives_seconds  how long the process lives on after it reported its end
    """

    fault: str | None = None
    at_update: int = 0
    phase: str = "learning"
    above_batch_size: int = 0
    infeasible_above: int | None = None
    ignores_stop: bool = False
    outlives_seconds: float = 0.0

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Misbehaviour:
        """From ``trainer.misbehave``. Raises ConfigError for an unknown key, fault or phase."""
        known = [field.name for field in fields(cls)]
        for key in settings:
            if key not in known:
                raise ConfigError("trainer.misbehave", key, f"is unknown; use {', '.join(known)}")
        choices = {"fault": (None, *FAULTS, "nan", "hang"), "phase": ("sampling", "learning")}
        for key, allowed in choices.items():
            if key in settings and settings[key] not in allowed:
                names = ", ".join(str(name) for name in allowed if name)
                raise ConfigError(f"trainer.misbehave.{key}", settings[key], f"is unknown; use {names}")
        return cls(**settings)

    def before_start(self, batch_size: int) -> None:
        """Raise InfeasibleError if the batch is too large for this world."""
        if self.infeasible_above is not None and batch_size > self.infeasible_above:
            raise InfeasibleError("oom_gpu", f"batch_size={batch_size} does not fit (synthetic)")

    def strike(self, phase: str, *, batch_size: int, updates: int, clock: Clock) -> None:
        """Raise, hang or end the process, if it is time to."""
        if phase != self.phase or not self.is_time(batch_size, updates):
            return
        if self.fault in FAULTS:
            FAULTS[self.fault]()
        while self.fault == "hang":
            clock.sleep(NAP_SECONDS)

    def is_diverged(self, *, batch_size: int, updates: int) -> bool:
        """Whether parameters are NaN after ``updates`` updates."""
        return self.fault == "nan" and self.is_time(batch_size, updates)

    def is_time(self, batch_size: int, updates: int) -> bool:
        """Whether the fault strikes this batch after so many updates."""
        return self.fault is not None and batch_size > self.above_batch_size and updates >= self.at_update
