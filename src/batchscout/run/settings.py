"""What the controller must know of a sweep. Built from the configuration (and a recording's header) at the
edge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from batchscout.measure.target import Caps
from batchscout.run.budget import Budget
from batchscout.search.protocol import Point, SearchContext

JobConfigOf = Callable[[Point, int], Mapping[str, Any]]


class ExitCode(IntEnum):
    """What a sweep's command returns (DESIGN: exit codes)."""

    OK = 0  # complete or exhausted, whatever single jobs' outcomes
    CONFIG = 1  # refused before anything was submitted
    FAILED = 2  # stopped by max_failures, or every job failed
    INTERRUPTED = 130  # jobs were left running


@dataclass(frozen=True, kw_only=True)
class SweepSettings:
    """One sweep as asked for.

    name              of the sweep file (`demo`); with the start time it makes the sweep's id
    config            the resolved configuration, JSON-able; goes to sweep.json
    measured          the part that enters a job's measurement (DESIGN: plan signature), without lists and
                      seeds
    job_config        (point, seed) → one job's resolved configuration, JSON-able; goes to job.json
    context           space, target (levels and clock included), search seed, tolerance, slots
    search            name of the search (grid, random, tpe, gp, time_to_target)
    budget            finite; see Budget.with_default_jobs
    hardware          name of the hardware entry; rankings across several are refused
    gpu, gpus         model (None: unknown) and number per job
    price_per_gpu_hour  None: money is not counted
    max_failures      so many identical failures at the start end the sweep
    max_requeues      so often a job lost to the infrastructure is run again
    oom_host_skips_larger  an oom_host job makes larger batch sizes infeasible too
    is_recorded       a replay: everything happens on the virtual clock, files are written at ends only
    grace_seconds     wait for the end event of a job that the scheduler says has ended
    stop_grace_seconds  wait for a job to obey a stop request before it is cancelled
    watchdog_seconds  silence of a journal after which a job unknown to the scheduler is gone
    """

    name: str
    config: Mapping[str, Any]
    measured: Mapping[str, Any]
    job_config: JobConfigOf
    context: SearchContext
    search: str
    budget: Budget
    caps: Caps = field(default_factory=lambda: Caps(samples=None, updates=None, seconds=None))
    hardware: str = "local"
    gpu: str | None = None
    gpus: int = 0
    price_per_gpu_hour: float | None = None
    max_failures: int = 3
    max_requeues: int = 3
    oom_host_skips_larger: bool = False
    is_recorded: bool = False
    grace_seconds: float = 5.0
    stop_grace_seconds: float = 60.0
    watchdog_seconds: float = 600.0
    poll_seconds: tuple[float, float] = (0.2, 10.0)
