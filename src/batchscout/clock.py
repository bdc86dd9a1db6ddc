"""Time is an argument: the same code runs on the real clock and on the replay's virtual one."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What measures time and waits."""

    def now(self) -> float:
        """Seconds since the epoch, for time stamps."""

    def perf(self) -> float:
        """Monotonic seconds, for differences."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class RealClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()

    def perf(self) -> float:
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class VirtualClock:
    """A clock that moves only when told; it never goes back."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def perf(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += max(0.0, seconds)

    def advance_to(self, time: float) -> None:
        self._now = max(self._now, time)
