"""Where jobs run: peers behind one protocol (batchscout.run.executor)."""

from __future__ import annotations

from pathlib import Path

from batchscout.clock import Clock
from batchscout.config import HardwareConfig
from batchscout.errors import ConfigError
from batchscout.run.executor import Executor

__all__ = ["make_executor"]


def make_executor(
    hardware: HardwareConfig, *, clock: Clock, working_directory: Path | None = None, max_requeues: int = 10
) -> Executor:
    """The executor of `hardware.executor` (local, slurm or debug; replay is made from its recording).

    working_directory   where jobs start, default the current one
    max_requeues        how often a Slurm job may put itself back into the queue
    Raises              LaunchError where the machine cannot run such jobs (no sbatch)
    """
    directory = (working_directory or Path.cwd()).resolve()
    # imported late: a workstation never loads submitit, a cluster's controller never looks at local processes
    if hardware.executor == "local":
        from batchscout.run.executors.local import LocalExecutor

        return LocalExecutor(hardware, clock=clock, working_directory=directory)
    if hardware.executor == "debug":
        from batchscout.run.executors.debug import DebugExecutor

        return DebugExecutor(clock=clock)
    if hardware.executor == "slurm":
        from batchscout.run.executors.slurm import SlurmExecutor

        return SlurmExecutor(hardware, clock=clock, working_directory=directory, max_requeues=max_requeues)
    raise ConfigError(
        "hardware.executor", hardware.executor, "is not one that starts processes; use local, slurm or debug"
    )
