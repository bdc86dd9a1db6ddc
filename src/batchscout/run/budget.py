"""What a sweep may use. Every limit that is set counts; the first one reached ends the sweep as
`exhausted`."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from batchscout.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one sweep, None where open.

    jobs          submitted jobs, probes included (skipped ones are free)
    seconds       training clock summed over jobs, lost work included
    gpu_hours     allocated wall time times GPUs, summed over all attempts
    money         gpu_hours times the price
    wall_seconds  since the sweep's first start
    """

    jobs: int | None = None
    seconds: float | None = None
    gpu_hours: float | None = None
    money: float | None = None
    wall_seconds: float | None = None

    def __post_init__(self) -> None:
        for name, limit in self.limits().items():
            if limit < 0:
                raise ConfigError(f"budget.{name}", limit, "must be 0 or more; leave it out for no limit")

    def limits(self) -> dict[str, float]:
        """The limits that are set, by name."""
        pairs = ((item.name, getattr(self, item.name)) for item in fields(self))
        return {name: value for name, value in pairs if value is not None}

    def with_default_jobs(self, jobs: int) -> Budget:
        """The same, made finite: at most `jobs` jobs where nothing at all was limited."""
        return self if self.limits() else replace(self, jobs=jobs)

    def shrunk_fields(self, other: Budget) -> list[str]:
        """Names of the limits that are tighter in `other` (a resumed sweep's budget may only grow)."""
        before, after = self.limits(), other.limits()
        return [name for name, limit in after.items() if name not in before or limit < before[name]]


@dataclass(frozen=True, slots=True)
class Spending:
    """What a sweep has used so far, in the units of Budget."""

    jobs: int = 0
    seconds: float = 0.0
    gpu_hours: float = 0.0
    money: float = 0.0
    wall_seconds: float = 0.0

    def exceeded(self, budget: Budget) -> str | None:
        """The first limit that is used up, in words, or None. The number of jobs is `is_last_job`'s
        matter."""
        for name, limit in budget.limits().items():
            if name != "jobs" and getattr(self, name) >= limit:
                return f"budget.{name}={limit:g} is used up ({getattr(self, name):.6g})"
        return None

    def has_no_job_left(self, budget: Budget) -> bool:
        """No further job may be submitted."""
        return budget.jobs is not None and self.jobs >= budget.jobs
