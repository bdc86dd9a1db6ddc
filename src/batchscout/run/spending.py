"""What the jobs of a sweep have used so far."""

from __future__ import annotations

from collections.abc import Iterable

from batchscout.run.budget import Spending
from batchscout.run.settings import SweepSettings
from batchscout.run.watch import Watched


def spent(jobs: Iterable[Watched], settings: SweepSettings, elapsed_seconds: float) -> Spending:
    """Jobs that ran or run; skipped ones are free."""
    begun = [w for w in jobs if w.record.own_submissions]
    hours = sum(gpu_hours(w, settings) for w in begun)
    return Spending(
        jobs=len(begun),
        seconds=sum(w.seconds for w in begun),
        gpu_hours=hours,
        money=hours * (settings.price_per_gpu_hour or 0.0),
        wall_seconds=elapsed_seconds,
    )


def gpu_hours(watched: Watched, settings: SweepSettings) -> float:
    """Allocated wall time of all attempts times GPUs."""
    starts = watched.view.starts
    gpus = starts[-1].get("gpus") if starts else None
    return watched.view.allocated_seconds * (settings.gpus if gpus is None else gpus) / 3600.0
