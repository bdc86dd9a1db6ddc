"""The metric points of one job's MLflow run: its curves and its results.

Time stamps are the job's start plus its `wall_seconds`; steps are samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from batchscout.measure.curve import Curve
from batchscout.measure.target import Target
from batchscout.run.listener import SweepView
from batchscout.search.pooled import measurement
from batchscout.search.protocol import JobObservation

Row = Mapping[str, Any]

PHASES = ("sampling", "reward", "learning", "sync", "other")


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """One metric point. timestamp: milliseconds since the epoch; step: samples (a sweep's own run: jobs)."""

    key: str
    step: int
    timestamp: int
    value: float


def target_of(view: SweepView) -> Target:
    """The target that the sweep's numbers are for."""
    config = view.config.get("target") or {}
    return Target(
        score=view.result["target"],
        direction=config.get("direction", "max"),
        patience=config.get("patience", 2),
        clock=view.result["clock"],
    )


def curve_points(curve: Curve, start: float, *, upto: int | None) -> Iterator[Point]:
    """Score and cumulative clocks at each evaluation; with ``upto`` the score alone, and only so far."""
    series = {"score": curve.score}
    if upto is None:
        series |= {"train_seconds": curve.seconds, "wall_seconds": curve.wall_seconds, **_phases(curve)}
    for index, samples in enumerate(curve.samples):
        if upto is not None and samples > upto:
            return
        wall = curve.wall_seconds[index]
        when = milliseconds(start + float(wall if math.isfinite(wall) else curve.seconds[index]))
        for key, values in series.items():
            if math.isfinite(values[index]):
                yield Point(key, int(samples), when, float(values[index]))


def _phases(curve: Curve) -> dict[str, np.ndarray]:
    """Cumulative seconds of each phase at the evaluations, for the phases that the trainer reported."""
    done = np.searchsorted(curve.update_samples, curve.samples, side="right")
    phases = {}
    for name in PHASES:
        each = curve.parts.get(name)
        if each is not None and len(each):
            phases[f"{name}_seconds"] = np.concatenate([[0.0], np.cumsum(each)])[done]
    if "sampling_seconds" not in phases and curve.sampling_seconds is not None:
        phases["sampling_seconds"] = curve.sampling_seconds
    return phases


def final_points(view: SweepView, row: Row, job: JobObservation | None, start: float) -> Iterator[Point]:
    """The job's results, once, at its last sample."""
    step = int(row["samples"] or 0)
    when = milliseconds(row["end"] if row["end"] is not None else start)
    for key, value in final_metrics(view, row, job).items():
        if value is not None and math.isfinite(value):
            yield Point(key, step, when, float(value))


def final_metrics(view: SweepView, row: Row, job: JobObservation | None) -> dict[str, float | None]:
    """Name → value as in result.json and what only the curve knows; None: not reached, not measured."""
    names = ("samples_to_target", "time_to_target", "wall_seconds_to_target", "updates", "attempts")
    seconds = ("queue_seconds", "startup_seconds", "warmup_seconds", "evaluation_seconds", "lost_seconds")
    metrics = {key: row[key] for key in (*names, *seconds)}
    metrics["cost_seconds"] = (row["seconds"] or 0.0) + (row["lost_seconds"] or 0.0)
    if row["start"] is not None and row["end"] is not None and row["gpus"]:
        metrics["gpu_hours"] = (row["end"] - row["start"]) * row["gpus"] / 3600.0
    target = target_of(view)
    found = None if job is None else measurement(job, target)
    if found is not None:
        metrics["throughput"] = found.throughput
        metrics["update_seconds"] = found.update_seconds
        metrics["sampling_share"] = found.sampling_share
    if job is not None and job.curve is not None:
        scores = job.curve.score[np.isfinite(job.curve.score)]
        if len(scores):
            metrics["best_score"] = float(scores.max() if target.direction == "max" else scores.min())
    return metrics


def milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
