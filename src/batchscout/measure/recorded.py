"""Jobs of recorded sweeps: one JSON object each, cumulative arrays with one entry an evaluation.

Beyond the required keys a record may say ``update_seconds`` (mean of an update), ``score_n``,
``evaluation_seconds``, ``wall_seconds`` (arrays) and, where the job went on after its last evaluation,
``total_samples`` and ``total_seconds``. What is not sampling counts as learning: the format has no more
parts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batchscout.errors import CurveError
from batchscout.measure.curve import Curve

Array = NDArray[np.float64]

STATUSES = ("reached", "capped", "stopped", "diverged", "infeasible")


def curve_from_record(record: Mapping[str, Any]) -> Curve:
    """The curve of one recorded job. Updates between evaluations are taken as equally long.

    Raises   CurveError if arrays differ in length or do not increase.
    """
    columns = {key: _column(record, key) for key in ("samples", "seconds", "sampling_seconds", "score")}
    lengths = {key: len(column) for key, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise CurveError(f"arrays of one record must be equally long, these are {lengths}")
    at, seconds, sampling = columns["samples"], columns["seconds"], columns["sampling_seconds"]
    if at.size and (
        np.isnan(at).any() or (np.diff(at) <= 0).any() or (np.diff(seconds) < 0).any() or at[0] < 0
    ):
        raise CurveError("samples and seconds of a record must increase")
    batch_size = int(record["batch_size"])
    end, end_seconds, end_sampling = _with_end(record, at, seconds, sampling)
    update_samples, each, sampling_each = _updates(batch_size, end, end_seconds, end_sampling)
    if isinstance(record.get("update_seconds"), list) and len(record["update_seconds"]) == len(each):
        each, sampling_each = _told(np.asarray(record["update_seconds"], dtype=float), each, sampling_each)
    spent, wall = _optional(record, "evaluation_seconds", len(at)), _optional(record, "wall_seconds", len(at))
    mean = record.get("update_seconds")
    return Curve(
        batch_size=batch_size,
        update_samples=update_samples,
        update_seconds_each=each,
        update_end_seconds=np.cumsum(each),
        parts={}
        if np.isnan(sampling_each).any()
        else {"sampling": sampling_each, "learning": each - sampling_each},
        warmup=np.zeros(len(each), dtype=bool),
        generated_samples=None,
        generated_tokens=None,
        trained_tokens=None,
        samples=at,
        score=columns["score"],
        score_n=_optional(record, "score_n", len(at)),
        seconds=seconds,
        sampling_seconds=sampling,
        evaluation_seconds=spent,
        wall_seconds=wall,
        total_updates=len(each),
        total_samples=int(end[-1]) if end.size else 0,
        total_seconds=float(end_seconds[-1]) if end.size else 0.0,
        total_wall_seconds=None,
        warmup_seconds=0.0,
        lost_seconds=0.0,
        evaluation_total_seconds=float(spent[-1]) if spent.size and np.isfinite(spent[-1]) else 0.0,
        checkpoint_seconds=0.0,
        startup_seconds=0.0,
        attempts=1,
        mean_update_seconds=float(mean) if isinstance(mean, int | float) else None,
    )


def record_from_curve(curve: Curve, *, learning_rate: float, seed: int, status: str) -> dict[str, Any]:
    """The inverse: what a replay needs of this job, to the digit.

    status   reached, capped, stopped, diverged or infeasible
    Raises   CurveError for another status, or a curve of unknown batch size.
    """
    if status not in STATUSES:
        raise CurveError(f"status={status} cannot be recorded; only {', '.join(STATUSES)} can")
    if curve.batch_size is None:
        raise CurveError(
            "the journal has no start event, so its batch_size is unknown; it cannot be recorded"
        )
    record: dict[str, Any] = {
        "batch_size": curve.batch_size,
        "learning_rate": learning_rate,
        "seed": seed,
        "status": status,
        "samples": [int(n) for n in curve.samples],
        "seconds": _listed(curve.seconds),
        "sampling_seconds": _listed(curve.sampling_seconds),
        "score": _listed(curve.score),
    }
    for key in ("score_n", "evaluation_seconds", "wall_seconds"):
        column = getattr(curve, key)
        if column.size and np.isfinite(column).all():
            record[key] = [int(n) for n in column] if key == "score_n" else _listed(column)
    if not curve.samples.size or curve.total_samples > curve.samples[-1]:
        record |= {"total_samples": curve.total_samples, "total_seconds": curve.total_seconds}
    mean = curve.update_means[0]
    return record if mean is None else {**record, "update_seconds": mean}


def _column(record: Mapping[str, Any], key: str) -> Array:
    return np.array(record[key], dtype=float)  # None becomes NaN


def _optional(record: Mapping[str, Any], key: str, count: int) -> Array:
    column = np.full(count, np.nan) if record.get(key) is None else _column(record, key)
    if len(column) != count:
        raise CurveError(f"{key} has {len(column)} entries, but there are {count} evaluations")
    return column


def _with_end(
    record: Mapping[str, Any], at: Array, seconds: Array, sampling: Array
) -> tuple[Array, Array, Array]:
    """With the last update after the last evaluation, where the record has it; sampling's share goes on as it
    was."""
    total = record.get("total_samples")
    if total is None or (at.size and total <= at[-1]) or total == 0:
        return at, seconds, sampling
    total_seconds = float(record["total_seconds"])
    share = sampling[-1] / seconds[-1] if at.size and seconds[-1] > 0 else math.nan
    return (
        np.append(at, float(total)),
        np.append(seconds, total_seconds),
        np.append(sampling, share * total_seconds),
    )


def _updates(batch_size: int, at: Array, seconds: Array, sampling: Array) -> tuple[Array, Array, Array]:
    """Samples at the end of each update, its seconds and its sampling seconds."""
    steps = np.diff(at, prepend=0.0)
    counts = np.maximum(np.rint(steps / batch_size), steps > 0).astype(int)
    per_update = [
        np.repeat(np.divide(step, counts, out=np.zeros_like(step), where=counts > 0), counts)
        for step in (steps, np.diff(seconds, prepend=0.0), np.diff(sampling, prepend=0.0))
    ]
    return np.cumsum(per_update[0]), per_update[1], per_update[2]


def _told(told: Array, each: Array, sampling: Array) -> tuple[Array, Array]:
    return told, sampling * np.divide(told, each, out=np.zeros_like(each), where=each > 0)


def _listed(column: Array) -> list[float | None]:
    return [float(x) if np.isfinite(x) else None for x in column]
