"""Times the phases of updates. Phases exclude each other, and evaluations and checkpoints lie between
updates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from batchscout.clock import Clock
from batchscout.errors import TrainerError
from batchscout.measure.trajectory import PARTS


class Stopwatch:
    """One attempt's times; ``perf`` of the clock is all it reads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._opened = clock.perf()
        self._update_began: float | None = None  # None until the attempt's first phase: before it is start-up
        self._off_clock_ended = self._opened
        self._spent = dict.fromkeys(PARTS, 0.0)
        self._is_in_update = False
        self._running: str | None = None
        self._failed_in: str | None = None
        self._startup: float | None = None
        self._is_startup_taken = False

    @property
    def since_open(self) -> float:
        """Seconds since the attempt was opened."""
        return self._clock.perf() - self._opened

    @property
    def phase(self) -> str | None:
        """What is running, or what an exception came from."""
        return self._running or self._failed_in

    def take_startup(self) -> float | None:
        """Seconds from opening to the first phase or evaluation; None the second time."""
        if self._is_startup_taken or self._startup is None:
            return None
        self._is_startup_taken = True
        return self._startup

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        """A phase of the current update. An update may enter it several times."""
        began = self._enter(name)
        self._is_in_update = True
        if self._update_began is None:
            self._update_began = began
        try:
            yield
        except BaseException:
            self._failed_in = name
            raise
        finally:
            self._spent[name] += self._clock.perf() - began
            self._running = None

    @contextmanager
    def pause(self, name: str) -> Iterator[Callable[[], float]]:
        """Something off the training clock. Yields what says, when it is over, how long it took."""
        if self._is_in_update:
            raise TrainerError(f"{name}() inside an update; call end_update() first")
        began = self._enter(name)
        try:
            yield lambda: self._off_clock_ended - began
        except BaseException:
            self._failed_in = name
            raise
        finally:
            self._running = None
            self._off_clock_ended = self._clock.perf()
            if self._update_began is not None:
                self._update_began += self._off_clock_ended - began

    def end_update(self) -> dict[str, float]:
        """PART → seconds of the update that ends now; the next one begins."""
        if self._running is not None:
            raise TrainerError(f"end_update() inside {self._running}(); leave the phase first")
        now = self._clock.perf()
        began = self._off_clock_ended if self._update_began is None else self._update_began
        if self._startup is None:
            self._startup = began - self._opened
        spent = self._spent
        spent["other"] = max(0.0, now - began - sum(spent.values()))
        self._spent, self._update_began, self._is_in_update = dict.fromkeys(PARTS, 0.0), now, False
        return spent

    def _enter(self, name: str) -> float:
        if self._running is not None:
            raise TrainerError(f"{name}() inside {self._running}(): phases exclude each other")
        self._running, self._failed_in = name, None
        now = self._clock.perf()
        if self._startup is None:
            self._startup = now - self._opened
        return now
