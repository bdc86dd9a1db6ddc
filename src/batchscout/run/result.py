"""result.json: what a sweep has found so far, from its jobs and its search's recommendation (DESIGN §4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from batchscout.laws.levels import b_crit_moves, moves
from batchscout.measure.target import Target
from batchscout.run.hardware_mix import REASON, by_gpu, is_mixed, refusal
from batchscout.run.settings import SweepSettings
from batchscout.run.spending import gpu_hours
from batchscout.run.watch import Watched
from batchscout.search.pooled import (
    PooledPoint,
    best_by_batch_size,
    best_point,
    measurement,
    near_ties,
    pool_points,
    probability_best,
)
from batchscout.search.protocol import JobObservation, Recommendation

Laws = Callable[[Sequence[JobObservation], Target], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Progress:
    """What only the controller knows of a sweep."""

    sweep: str
    status: str
    elapsed_seconds: float
    recommendations: Sequence[Mapping[str, Any]]


def build_result(
    progress: Progress,
    settings: SweepSettings,
    jobs: Sequence[Watched],
    recommendation: Recommendation | None,
    laws: Mapping[str, Any],
    level_laws: Mapping[float, Any],
) -> dict[str, Any]:
    """The object of result.json. laws: its `laws` part; level_laws: level → samples law, as far as fitted."""
    target = settings.context.target
    observations = [w.observation() for w in jobs]
    points = pool_points(observations, target)
    mixed = is_mixed(jobs)
    if mixed:
        laws = {**laws, "update_seconds": None, "best": None}
    rows = [job_row(w, o, settings) for w, o in zip(jobs, observations, strict=True)]
    at_levels = levels(observations, target, level_laws)
    if mixed:
        at_levels = [{**level, "recommendation": None} for level in at_levels]
    answer = recommendation_row(recommendation)
    doubts = [*_level_warnings(at_levels, answer, laws, target), *_warnings(rows, jobs)]
    return {
        "v": 1,
        "sweep": progress.sweep,
        "status": progress.status,
        "target": target.score,
        "clock": target.clock,
        "recommendation": None if mixed else answer,
        **({"reason": REASON, "message": refusal(jobs, target)} if mixed else {}),
        "recommendations": list(progress.recommendations),
        "cost": _cost(rows, jobs, settings),
        "elapsed_seconds": progress.elapsed_seconds,
        "table": _relative(_table(points, target), is_ranked=not mixed),
        "points": _relative([_point_row(p) for p in points], is_ranked=not mixed),
        "levels": at_levels,
        "laws": {**laws, "warnings": [*laws.get("warnings", ()), *doubts]},
        "jobs": rows,
    }


def job_row(watched: Watched, job: JobObservation, settings: SweepSettings) -> dict[str, Any]:
    """One job, from its own curve only."""
    record, curve = watched.record, watched.curve
    starts = watched.view.starts
    found = measurement(job, settings.context.target) if job.kind != "probe" else None
    start, last = (starts[-1] if starts else {}), watched.view.last()
    total = job.seconds - (float(curve.lost_seconds) if curve is not None else 0.0)
    is_reached = found is not None and found.censored != "right"
    return {
        "id": job.job_id,
        "kind": job.kind,
        "batch_size": job.point.batch_size,
        "lr": job.point.lr,
        "seed": job.seed,
        "outcome": job.outcome.value,
        "reason": record.reason,
        "message": record.message,
        "updates": int(last["updates"]) if last else 0,
        "samples": int(last["samples"]) if last else 0,
        "seconds": total,
        "samples_to_target": found.samples_to_target if is_reached and found else None,
        "time_to_target": found.time_to_target if is_reached and found else None,
        "wall_seconds_to_target": found.wall_seconds_to_target if is_reached and found else None,
        "gpu": start.get("gpu") or settings.gpu,
        "gpus": start.get("gpus", settings.gpus),
        "hardware": settings.hardware,
        "node": start.get("node"),
        "slurm_job_id": start.get("slurm_job_id"),
        "attempts": len([events for events in watched.view.attempts if events]),
        "submitted": own[0].submitted if (own := record.own_submissions) else None,
        "start": starts[0]["time"] if starts else None,
        "end": record.ended if record.is_final else None,
        "queue_seconds": job.queue_seconds,
        "startup_seconds": job.startup_seconds,
        "warmup_seconds": float(curve.warmup_seconds) if curve is not None else 0.0,
        "evaluation_seconds": float(curve.evaluation_total_seconds) if curve is not None else 0.0,
        "lost_seconds": float(curve.lost_seconds) if curve is not None else 0.0,
    }


def recommendation_row(answer: Recommendation | None) -> dict[str, Any] | None:
    """None where nothing is known."""
    if answer is None:
        return None
    return {
        "batch_size": answer.point.batch_size,
        "lr": answer.point.lr,
        "time_to_target": answer.time_to_target,
        "interval": None if answer.interval is None else [_finite(v) for v in answer.interval],
        "samples_to_target": answer.samples_to_target,
        "throughput": answer.throughput,
        "near_ties": list(answer.near_ties),
        "probability_best": answer.probability_best,
        "expected_regret": answer.expected_regret,
        "warnings": list(answer.warnings),
    }


def levels(jobs: Sequence[JobObservation], target: Target, laws: Mapping[float, Any]) -> list[dict[str, Any]]:
    """The answer at each further score, from easy to hard; where nothing reached the target, also at the best
    level that anything did reach."""
    wanted = list(target.levels)
    if best_point(pool_points(jobs, target)) is None and (highest := highest_level(jobs, target)) is not None:
        wanted.append(highest)
    answers = []
    for level in sorted(set(wanted), key=lambda score: target.sign * score):
        points = pool_points(jobs, target, level)
        best = best_point(points)
        answers.append(
            {
                "target": level,
                "recommendation": _measured_row(points, best, target),
                "never_reached": _never_reached(jobs, points),
                "samples": laws.get(level),
            }
        )
    return answers


def _never_reached(jobs: Sequence[JobObservation], points: Sequence[PooledPoint]) -> list[int]:
    """Batch sizes whose jobs all ended without having reached a level."""
    reached = {p.point.batch_size for p in points if p.reached}
    whole = [j for j in jobs if j.kind != "probe"]
    open_ones = {j.point.batch_size for j in whole if not j.is_final}
    return sorted({j.point.batch_size for j in whole} - reached - open_ones)


def _level_warnings(
    at_levels: Sequence[Mapping[str, Any]],
    answer: Mapping[str, Any] | None,
    laws: Mapping[str, Any],
    target: Target,
) -> list[str]:
    """Where the answer, or b_crit, depends on the level."""
    every = [*at_levels, {"target": target.score, "recommendation": answer, "samples": laws.get("samples")}]
    every.sort(key=lambda level: target.sign * float(level["target"]))
    found = moves([(level["target"], level["recommendation"]) for level in every])
    return found + b_crit_moves([level["samples"] for level in every])


def highest_level(jobs: Sequence[JobObservation], target: Target) -> float | None:
    """The hardest score that some job met `patience` evaluations in a row, to two digits on the easy side."""
    found = []
    for job in jobs:
        if job.kind == "probe" or job.curve is None:
            continue
        beyond_start = [
            target.sign * float(score)
            for samples, score in zip(job.curve.samples, job.curve.score, strict=True)
            if samples > 0 and math.isfinite(score)
        ]
        windows = (
            beyond_start[i : i + target.patience] for i in range(len(beyond_start) - target.patience + 1)
        )
        found += [min(window) for window in windows]
    if not found:
        return None
    best = max(found)
    rounded = math.floor(best * 100) / 100
    return target.sign * (rounded if rounded != 0 else best)


def _measured_row(
    points: Sequence[PooledPoint], best: PooledPoint | None, target: Target
) -> dict[str, Any] | None:
    if best is None:
        return None
    rows = list(best_by_batch_size(points, target).values())
    return {
        "batch_size": best.point.batch_size,
        "lr": best.point.lr,
        "time_to_target": best.time_to_target,
        "interval": None if best.interval is None else list(best.interval),
        "samples_to_target": best.samples_to_target,
        "throughput": best.throughput,
        "near_ties": list(near_ties(rows, best)),
        "probability_best": probability_best(rows, best),
    }


def _table(points: Sequence[PooledPoint], target: Target) -> list[dict[str, Any]]:
    return [_point_row(p) for p in best_by_batch_size(points, target).values()]


def _point_row(p: PooledPoint) -> dict[str, Any]:
    batch_size = p.point.batch_size
    return {
        "batch_size": batch_size,
        "lr": p.point.lr,
        "jobs": p.jobs,
        "reached": p.reached,
        "samples_to_target": p.samples_to_target,
        "updates_to_target": None if p.samples_to_target is None else p.samples_to_target / batch_size,
        "update_seconds": p.update_seconds,
        "sampling_share": p.sampling_share,
        "throughput": p.throughput,
        "time_to_target": p.time_to_target,
        "interval": None if p.interval is None else list(p.interval),
        "best_score": p.best_score,
    }


def _relative(rows: list[dict[str, Any]], *, is_ranked: bool) -> list[dict[str, Any]]:
    """Adds each row's time and samples relative to the least of all rows; no time where none is ranked."""
    for name, key in (("relative_time", "time_to_target"), ("relative_samples", "samples_to_target")):
        is_compared = is_ranked or key == "samples_to_target"
        least = min((row[key] for row in rows if row[key] and is_compared), default=None)
        for row in rows:
            row[name] = None if row[key] is None or least is None else row[key] / least
    return rows


def _cost(
    rows: Sequence[Mapping[str, Any]], jobs: Sequence[Watched], settings: SweepSettings
) -> dict[str, Any]:
    lost = sum(row["lost_seconds"] for row in rows)
    hours = sum(gpu_hours(w, settings) for w in jobs)
    price = settings.price_per_gpu_hour
    return {
        "seconds": sum(row["seconds"] for row in rows) + lost,
        "gpu_hours": hours,
        "money": None if price is None else hours * price,
        "lost_seconds": lost,
    }


def _warnings(rows: Sequence[Mapping[str, Any]], jobs: Sequence[Watched]) -> list[str]:
    """What makes a ranking doubtful whatever the laws say."""
    measured = [row for row in rows if row["seconds"] > 0]
    warnings = []
    if is_mixed(jobs):
        models = ", ".join(by_gpu(jobs))
        warnings.append(f"jobs ran on different GPUs ({models}): their times cannot be compared")
    counts = sorted({row["gpus"] for row in measured})
    if len(counts) > 1:
        warnings.append(f"jobs used different numbers of GPUs ({', '.join(map(str, counts))})")
    codes = sorted({w.record.job.snapshot for w in jobs if w.curve is not None and w.record.job.snapshot})
    if len(codes) > 1:
        warnings.append(f"jobs ran different code (snapshots {', '.join(map(str, codes))})")
    return warnings


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
