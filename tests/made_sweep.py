"""A sweep directory made from simple laws, as a controller and its trainers would have left it.

S(B) = s_min (1 + B / b_crit) × 1.3^(log2(lr / best lr)²), t(B) = a + b B, and a saturating score curve
without noise: every number of the result follows from arithmetic here, not from the code under test.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

START = 1_790_000_000.0  # 2026-09-21
FIRST, LAST = 0.1, 0.95  # score at 0 samples and after infinitely many
PARTS = {"sampling": 0.55, "reward": 0.05, "learning": 0.3, "sync": 0.06, "other": 0.04}


@dataclass(frozen=True)
class Made:
    """What to make. outcomes: job id → (outcome, reason) of jobs that end after half of S."""

    name: str = "demo/2026-09-21T13-33-20"
    target: float = 0.7
    batch_sizes: tuple[int, ...] = (16, 32, 64, 128, 256, 512, 1024, 2048)
    lr_factors: tuple[float, ...] = (0.5, 1.0)
    seeds: int = 1
    s_min: float = 6000.0
    b_crit: float = 400.0
    a: float = 0.08
    b: float = 0.0006
    evaluation_samples: int = 1024
    reachable: bool = True
    outcomes: dict[str, tuple[str, str]] | None = None
    task: str = "addition"
    price: float | None = 2.0
    warmup_seconds: float = 1.5
    evaluation_seconds: float = 0.2
    status: str = "complete"

    def best_lr(self, batch: int) -> float:
        return float(f"{1e-4 * math.sqrt(batch / 16):.2g}")

    def update_seconds(self, batch: int) -> float:
        return self.a + self.b * batch

    def samples(self, batch: int, factor: float, seed: int) -> float:
        """S, with 3% between seeds."""
        return self.s_min * (1 + batch / self.b_crit) * 1.3 ** (math.log2(factor) ** 2) * (1 + 0.03 * seed)

    def score(self, progress: float) -> float:
        """The target at progress 1; a plateau at 90% of it in the unreachable world."""
        last = LAST if self.reachable else FIRST + 0.9 * (self.target - FIRST)
        rate = -math.log(1 - (self.target - FIRST) / (LAST - FIRST))
        return FIRST + (last - FIRST) * (1 - math.exp(-rate * progress))


def make_sweep(directory: Path, made: Made = Made()) -> dict[str, Any]:
    """Write the directory and return the object of result.json."""
    directory.mkdir(parents=True, exist_ok=True)
    rows, clock = [], START
    for batch in made.batch_sizes:
        for factor in made.lr_factors:
            for seed in range(made.seeds):
                row = _job(directory, made, batch=batch, factor=factor, seed=seed, submitted=clock)
                clock = row["end"]
                rows.append(row)
    result = _result(made, rows)
    _write(directory / "result.json", result)
    _write(directory / "sweep.json", _sweep(made))
    events = [{"v": 1, "event": "start", "time": START, "message": f"sweep {made.name}: {len(rows)} jobs"}]
    for row in rows:
        words = {"job": row["id"], "explanation": f"next point of the grid: batch_size={row['batch_size']}"}
        events.append({"v": 1, "event": "submit", "time": row["submitted"], **words})
        events.append(
            {"v": 1, "event": "end", "time": row["end"], "job": row["id"], "outcome": row["outcome"]}
        )
    events.append(
        {"v": 1, "event": "end_sweep", "time": clock, "explanation": "every planned point is final"}
    )
    (directory / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    return result


def _job(
    directory: Path, made: Made, *, batch: int, factor: float, seed: int, submitted: float
) -> dict[str, Any]:
    """One job: its journal and its row."""
    lr = float(f"{made.best_lr(batch) * factor:.3g}")
    job = f"b{batch}-lr{lr:g}-s{seed}"
    outcome, reason = (made.outcomes or {}).get(job, ("reached" if made.reachable else "capped", ""))
    wanted = made.samples(batch, factor, seed)
    per_update = made.update_seconds(batch)
    start = submitted + 0.5
    time = start
    events: list[dict[str, Any]] = []
    state = {"updates": 0, "samples": 0, "seconds": 0.0, "wall_seconds": 0.0}

    def write(event: str, **keys: Any) -> None:
        events.append({"v": 1, "event": event, "time": time, **state, **keys})

    identity = {"batch_size": batch, "lr": lr, "seed": seed, "group_size": 8, "gpu": "made GPU", "gpus": 1}
    place = {
        "node": "node1",
        "host": "node1",
        "pid": 4242,
        "slurm_job_id": str(1000 + batch),
        "startup_seconds": 0.4,
    }
    write("start", job=job, attempt=1, **identity, **place)
    last_index, above, bracket, evaluated = -1, 0, [(0, made.score(0.0))], 0.0
    limit = wanted * (3.0 if outcome in ("reached", "capped") else 0.5)
    while True:
        index = state["samples"] // made.evaluation_samples
        if index > last_index:
            last_index = index
            score = made.score(state["samples"] / wanted)
            time += made.evaluation_seconds
            evaluated += made.evaluation_seconds
            state["wall_seconds"] = time - start
            write(
                "evaluation", score=score, score_n=512, evaluation_seconds=evaluated, metrics={"length": 5.0}
            )
            bracket.append((state["samples"], score))
            above = above + 1 if score >= made.target else 0
            if above == 2 or state["samples"] > limit:
                break
        warmup = made.warmup_seconds if state["updates"] == 0 else 0.0
        took = per_update + warmup
        time += took
        state["updates"] += 1
        state["samples"] += batch
        state["seconds"] += took
        state["wall_seconds"] = time - start
        parts = {f"{name}_seconds": share * state["seconds"] for name, share in PARTS.items()}
        tokens = {"generated_tokens": state["samples"] * 6, "trained_tokens": state["samples"] * 6}
        write(
            "update",
            generated_samples=state["samples"],
            warmup=state["updates"] == 1,
            metrics={"reward": 0.5},
            **parts,
            **tokens,
        )
    write("end", outcome=outcome, reason=reason, message=reason)
    path = directory / "jobs" / job / "attempts" / "001" / "journal.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    crossing = _crossing(bracket, made.target) if outcome == "reached" else None
    reached_at = None if crossing is None else crossing * per_update / batch
    return {
        "id": job,
        "kind": "run",
        "batch_size": batch,
        "lr": lr,
        "seed": seed,
        "outcome": outcome,
        "reason": reason,
        "message": reason,
        "updates": state["updates"],
        "samples": state["samples"],
        "seconds": state["updates"] * per_update,
        "samples_to_target": crossing,
        "time_to_target": reached_at,
        "wall_seconds_to_target": reached_at,
        "gpu": "made GPU",
        "gpus": 1,
        "hardware": "local",
        "node": "node1",
        "attempts": 1,
        "submitted": submitted,
        "start": start,
        "end": time + 0.1,
        "queue_seconds": 0.1,
        "startup_seconds": 0.4,
        "warmup_seconds": made.warmup_seconds,
        "evaluation_seconds": evaluated,
        "lost_seconds": 0.0,
    }


def _crossing(bracket: list[tuple[int, float]], target: float) -> float:
    """Linear interpolation on a monotone curve."""
    pairs = pairwise(bracket)
    (x0, y0), (x1, y1) = next(pair for pair in pairs if pair[0][1] < target <= pair[1][1])
    return x0 + (x1 - x0) * (target - y0) / (y1 - y0)


def _result(made: Made, rows: list[dict[str, Any]]) -> dict[str, Any]:
    points = []
    for key in dict.fromkeys((row["batch_size"], row["lr"]) for row in rows):
        points.append(_point(made, *key, [row for row in rows if (row["batch_size"], row["lr"]) == key]))
    table = []
    for batch in made.batch_sizes:
        mine = [point for point in points if point["batch_size"] == batch]
        table.append(min(mine, key=lambda point: point["time_to_target"] or math.inf))
    reached = [point for point in table if point["time_to_target"] is not None]
    for point in [*points]:
        for key, relative in (("time_to_target", "relative_time"), ("samples_to_target", "relative_samples")):
            best = min((other[key] for other in reached), default=None)
            point[relative] = None if best is None or point[key] is None else point[key] / best
    best = min(reached, key=lambda point: point["time_to_target"], default=None)
    answer = best and {
        **{key: best[key] for key in ("batch_size", "lr", "time_to_target", "interval", "samples_to_target")},
        "throughput": best["throughput"],
        "probability_best": 0.81,
        "near_ties": sorted(
            p["batch_size"] for p in reached if p["time_to_target"] < 1.1 * best["time_to_target"]
        ),
    }
    spent, growing, so_far = 0.0, [], []
    for row in rows:
        spent += row["seconds"]
        if row["time_to_target"] is not None:
            so_far.append(row)
        leader = min(so_far, key=lambda r: r["time_to_target"], default={"batch_size": None, "lr": None})
        cost = {"cost_seconds": spent, "elapsed_seconds": row["end"] - START}
        growing.append({**cost, "batch_size": leader["batch_size"], "lr": leader["lr"]})
    hours = sum(row["end"] - row["start"] for row in rows) / 3600
    level = round(0.8 * made.target, 3)
    return {
        "v": 1,
        "sweep": made.name,
        "status": made.status,
        "target": made.target,
        "clock": "training",
        "recommendation": answer,
        "recommendations": growing,
        "cost": {
            "seconds": spent,
            "gpu_hours": hours,
            "money": made.price and made.price * hours,
            "lost_seconds": 0.0,
        },
        "elapsed_seconds": rows[-1]["end"] - START,
        "table": table,
        "points": points,
        "levels": [{"target": level, "recommendation": answer or _level_answer(made, rows)}],
        "laws": {
            "samples": {
                "s_min": made.s_min,
                "s_min_interval": [0.95 * made.s_min, 1.06 * made.s_min],
                "b_crit": made.b_crit,
                "b_crit_interval": [0.8 * made.b_crit, 1.3 * made.b_crit],
                "gamma": 1.0,
                "gamma_interval": [0.8, 1.3],
            },
            "update_seconds": {
                "total": {"form": "affine", "a": made.a, "b": made.b, "c": 0.0, "knee": 0.0, "power": 0.0}
            },
            "learning_rate": None,
            "warnings": [],
        }
        if made.reachable
        else {"samples": None, "update_seconds": None, "learning_rate": None, "warnings": []},
        "jobs": rows,
    }


def _level_answer(made: Made, rows: list[dict[str, Any]]) -> dict[str, Any]:
    row = rows[len(rows) // 2]
    time = row["seconds"] / 2
    return {
        "batch_size": row["batch_size"],
        "lr": row["lr"],
        "time_to_target": time,
        "interval": None,
        "samples_to_target": row["samples"] / 2,
        "throughput": row["samples"] / row["seconds"],
        "near_ties": [row["batch_size"]],
        "probability_best": None,
    }


def _point(made: Made, batch: int, lr: float, rows: list[dict[str, Any]]) -> dict[str, Any]:
    reached = [row for row in rows if row["samples_to_target"] is not None]
    samples = _mean([row["samples_to_target"] for row in reached])
    time = _mean([row["time_to_target"] for row in reached])
    per_update = made.update_seconds(batch)
    point = {
        "batch_size": batch,
        "lr": lr,
        "jobs": len(rows),
        "reached": len(reached),
        "samples_to_target": samples,
        "updates_to_target": samples and samples / batch,
        "update_seconds": per_update,
        "sampling_share": PARTS["sampling"],
        "throughput": batch / per_update,
        "time_to_target": time,
        "interval": time and [0.92 * time, 1.1 * time],
        "relative_time": None,
        "relative_samples": None,
    }
    if not made.reachable:
        point["best_score"] = FIRST + 0.9 * (made.target - FIRST)
    return point


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _sweep(made: Made) -> dict[str, Any]:
    config = {
        "task": {"name": made.task},
        "model": {"name": "char64"},
        "trainer": {"name": "policy_gradient"},
        "target": {
            "score": made.target,
            "direction": "max",
            "patience": 2,
            "levels": [],
            "clock": "training",
        },
        "lr_rule": {"name": "fixed"},
        "hardware": {"name": "local", "slots": 1, "price_per_gpu_hour": made.price},
        "group_size": 8,
        "mini_batch_size": None,
        "search": {"name": "grid", "tolerance": 0.05},
        "evaluation": {"samples": made.evaluation_samples, "prompts": 512},
        "tracking": {"uri": None},
    }
    return {
        "v": 1,
        "sweep": made.name,
        "config": config,
        "plan_signature": "f00dcafe0123456789ab",
        "command": ["python", "sweep.py", "-m"],
        "git": {"commit": "0123456789abcdef0123456789abcdef01234567", "is_dirty": False},
        "versions": {"python": "3.11", "torch": "2.13.0"},
    }


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, allow_nan=False))
