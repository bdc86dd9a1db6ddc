"""Observations of made-up jobs for tests of searches."""

from __future__ import annotations

from typing import Any

from tests.made_world import MadeWorld

from batchscout.measure.curve import Curve
from batchscout.measure.outcome import Outcome
from batchscout.search.protocol import JobObservation, Point


def job(
    batch_size: int = 64,
    lr: float = 1e-3,
    seed: int = 0,
    *,
    outcome: str = "reached",
    seconds: float = 10.0,
    scores: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8, 0.9),
    samples: int = 1000,
    kind: Any = "run",
) -> JobObservation:
    """One job with evaluations every `samples`, equally spaced in time; `seconds` at the last one."""
    count = len(scores)
    record = {
        "batch_size": batch_size,
        "samples": [samples * (i + 1) for i in range(count)],
        "seconds": [seconds * (i + 1) / count for i in range(count)],
        "sampling_seconds": [0.5 * seconds * (i + 1) / count for i in range(count)],
        "score": list(scores),
    }
    return JobObservation(
        job_id=f"b{batch_size}-lr{lr:g}-s{seed}",
        kind=kind,
        point=Point(batch_size, lr),
        seed=seed,
        outcome=Outcome(outcome),
        reason="",
        curve=Curve.from_recorded(record) if count else None,
        seconds=seconds,
    )


def made_job(
    world: MadeWorld, batch_size: int, lr: float, seed: int = 0, *, evaluations: int | None = None
) -> JobObservation:
    """A job of a made world: the whole, or its first evaluations."""
    row = world._job(batch_size, lr, seed)
    row = {k: v[:evaluations] if isinstance(v, list) else v for k, v in row.items()}
    return JobObservation(
        f"b{batch_size}-lr{lr:g}-s{seed}", "run", Point(batch_size, lr), seed, Outcome(row["status"]), "",
        Curve.from_recorded(row), row["seconds"][-1],
    )  # fmt: skip
