"""What the laws say of a sweep's jobs: result.json's `laws`, and the samples law at each level."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from batchscout.errors import LawError
from batchscout.laws.points import PointRow, laws_of_points
from batchscout.laws.prediction import SquaredNorms, predicted_b_crit
from batchscout.measure.outcome import Outcome
from batchscout.measure.target import Target
from batchscout.run.watch import Watched
from batchscout.search.pooled import measurement
from batchscout.search.protocol import JobObservation

_MEASURED = (Outcome.REACHED, Outcome.CAPPED, Outcome.STOPPED, Outcome.DIVERGED)
_NORMS = ("noise_scale_small_size", "noise_scale_big_size", "gradient_square_small", "gradient_square_big")
"""Metrics of an update from which any trainer's noise scale is estimated."""
NOTHING: dict[str, Any] = {
    "samples": None,
    "update_seconds": None,
    "learning_rate": None,
    "noise_scale": None,
    "best": None,
    "warnings": [],
}


def laws_of_jobs(
    jobs: Iterable[JobObservation], target: Target, norms: Sequence[SquaredNorms] = ()
) -> dict[str, Any]:
    """result.json's `laws`. A law that cannot be fitted is None.

    norms  squared gradient norms, where the trainer measured any
    """
    laws = dict(NOTHING)
    rows = [row for job in jobs if (row := point_row(job, target)) is not None]
    try:
        with np.errstate(all="ignore"):  # a law that a handful of jobs leaves open may run off to infinity
            if rows:
                found = laws_of_points(rows, target=target.score)
                laws |= {**found["laws"], "best": found["best"]}
            predicted = predicted_b_crit(norms, laws["samples"])
    except (LawError, ArithmeticError, ValueError) as error:  # boundary: no fit may end a running sweep
        return {**NOTHING, "warnings": [f"no laws: {error}"]}
    if predicted is None:
        return laws
    return {**laws, "noise_scale": predicted, "warnings": [*laws["warnings"], *predicted.pop("warnings")]}


def level_laws(jobs: Sequence[JobObservation], target: Target) -> dict[float, dict[str, Any] | None]:
    """Level → its samples law, None where it cannot be fitted."""
    out: dict[float, dict[str, Any] | None] = {}
    for level in target.levels:
        rows = [row for job in jobs if (row := point_row(job, target, level)) is not None]
        try:
            with np.errstate(all="ignore"):
                out[level] = laws_of_points(rows, target=level)["laws"]["samples"] if rows else None
        except (LawError, ArithmeticError, ValueError):  # boundary: as above
            out[level] = None
    return out


def squared_norms(jobs: Iterable[Watched]) -> list[SquaredNorms]:
    """From the journals; an update that was done twice counts once, a diverged job does not count."""
    out = []
    for watched in jobs:
        if watched.outcome is Outcome.DIVERGED:
            continue
        found = {
            event["updates"]: [event["metrics"].get(name) for name in _NORMS]
            for events in watched.view.attempts
            for event in events
            if event["event"] == "update" and _NORMS[-1] in (event.get("metrics") or ())
        }
        size = watched.record.job.point.batch_size
        out += [SquaredNorms(size, *values) for values in found.values() if None not in values]
    return out


def point_row(job: JobObservation, target: Target, level: float | None = None) -> PointRow | None:
    """What one job tells the laws: a probe its seconds only; None where it was not measured (yet).

    level  another score than the target's
    """
    found = measurement(job, target, level)
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
