"""Run one sweep: the function that the Hydra sweeper and `batchscout resume` call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from batchscout.clock import Clock, RealClock
from batchscout.run.controller import Controller
from batchscout.run.executor import Executor
from batchscout.run.listener import Listener
from batchscout.run.lock import SweepLock
from batchscout.run.replay import ReplayExecutor
from batchscout.run.settings import ExitCode, SweepSettings
from batchscout.run.snapshot import take_snapshot
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
    source: Path | None = None,
) -> ExitCode:
    """Run, go on with, or extend the sweep in `directory` until it is complete, exhausted, failed or
    interrupted.

    directory  made where it does not exist; one that holds a sweep is resumed under the rules of DESIGN §2
    executor   where jobs run; a ReplayExecutor brings its own virtual clock and journals
    command    the words to type again, printed when interrupted
    source     sweep.py's directory, whose code is copied for the jobs; None: they run the working tree
    Returns    the exit code; result.json holds the answer
    Raises     SweepLocked if another controller works there, SweepError if its sweep is a different one
    """
    if isinstance(executor, ReplayExecutor):
        clock = executor.clock
        has_clocked_budget = any(name != "jobs" for name in settings.budget.limits())
        executor.wakes_on_evaluations = getattr(search, "watches_curves", True) or has_clocked_budget
    clock = clock or RealClock()
    with SweepLock(directory):
        sweep = SweepDirectory.open_or_create(directory, settings, clock=clock, command=command)
        snapshot = None
        if source is not None and not settings.is_recorded:
            taken = take_snapshot(sweep.path, source)
            sweep.note_code(taken.commit, taken.is_dirty, f"snapshot/{taken.number}")
            snapshot = taken.number
        return Controller(
            settings,
            sweep,
            executor=executor,
            search=search,
            clock=clock,
            listeners=listeners,
            snapshot=snapshot,
        ).run()
