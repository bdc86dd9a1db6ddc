"""The jobs of a sweep as rows that laws are fitted to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from batchscout.errors import LawError
from batchscout.laws.points import PointRow, laws_of_points
from batchscout.measure.outcome import Outcome
from batchscout.measure.target import Target
from batchscout.search.pooled import measurement
from batchscout.search.protocol import JobObservation

_MEASURED = (Outcome.REACHED, Outcome.CAPPED, Outcome.STOPPED, Outcome.DIVERGED)
NOTHING: dict[str, Any] = {"samples": None, "update_seconds": None, "learning_rate": None, "warnings": []}


def laws_of_jobs(jobs: Iterable[JobObservation], target: Target) -> dict[str, Any]:
    """result.json's `laws`: samples, update_seconds, learning_rate, warnings. A law that cannot be fitted is
    None."""
    rows = [row for job in jobs if (row := point_row(job, target)) is not None]
    if not rows:
        return dict(NOTHING)
    try:
        with np.errstate(all="ignore"):  # a law that a handful of jobs leaves open may run off to infinity
            laws: dict[str, Any] = laws_of_points(rows, target=target.score)["laws"]
    except (LawError, ArithmeticError, ValueError) as error:  # boundary: no fit may end a running sweep
        return {**NOTHING, "warnings": [f"no laws: {error}"]}
    return laws


def point_row(job: JobObservation, target: Target) -> PointRow | None:
    """What one job tells the laws: a probe its seconds only; None where it was not measured (yet)."""
    found = measurement(job, target)
    if found is None or job.outcome not in _MEASURED or not job.seconds:
        return None
    share = found.sampling_share
    sampling = (
        found.update_seconds * share if found.update_seconds is not None and share is not None else None
    )
    is_run = job.kind != "probe"
    return PointRow(
        batch_size=job.point.batch_size,
        lr=job.point.lr,
        seed=job.seed,
        samples=found.samples_to_target if is_run else None,
        lower=(found.samples_lower or None) if is_run else None,
        upper=(found.samples_upper or None) if is_run else None,
        censored=found.censored if is_run else "right",
        update_seconds=found.update_seconds,
        sampling_seconds=sampling,
        learning_seconds=None
        if sampling is None or found.update_seconds is None
        else found.update_seconds - sampling,
        tokens=_tokens(job),
    )


def _tokens(job: JobObservation) -> float | None:
    """Generated per rollout."""
    curve = job.curve
    if curve is None or curve.generated_tokens is None or not curve.generated_tokens.size:
        return None
    samples = curve.generated_samples if curve.generated_samples is not None else curve.update_samples
    return float(curve.generated_tokens[-1] / samples[-1]) if samples[-1] else None
