"""Run one sweep: the function that the Hydra sweeper and `batchscout resume` call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from batchscout.clock import Clock, RealClock
from batchscout.run.controller import Controller
from batchscout.run.executor import Executor
from batchscout.run.listener import Listener
from batchscout.run.lock import SweepLock
from batchscout.run.settings import ExitCode, SweepSettings
from batchscout.run.sweep_directory import SweepDirectory
from batchscout.search.protocol import Search


def run_sweep(
    settings: SweepSettings,
    directory: Path,
    *,
    executor: Executor,
    search: Search,
    listeners: Sequence[Listener] = (),
    clock: Clock | None = None,
    command: Sequence[str] = (),
) -> ExitCode:
    """Run, go on with, or extend the sweep in `directory` until it is complete, exhausted, failed or interrupted.

    directory  made where it does not exist; one that holds a sweep is resumed under the rules of DESIGN §2
    executor   where jobs run; a ReplayExecutor brings its own virtual clock and journals
    command    the words to type again, printed when interrupted
    Returns    the exit code; result.json holds the answer
    Raises     SweepLocked if another controller works there, SweepError if the directory's sweep is a different one
    """
    clock = clock or getattr(executor, "clock", None) or RealClock()
    with SweepLock(directory):
        sweep = SweepDirectory.open_or_create(directory, settings, clock=clock, command=command)
        controller = Controller(
            settings, sweep, executor=executor, search=search, listeners=listeners, clock=clock
        )
        return controller.run()
