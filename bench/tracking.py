"""How long MLflow takes to get a large sweep from its journals: jobs × evaluations × curves, once and again.

    python -m bench.tracking [jobs=500] [evaluations=200] [uri=…]

uri   an MLflow server; by default a new SQLite database. Nothing is judged: the machine decides.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

CURVES = 6  # score, training and wall seconds, sampling, learning and other seconds


def main(jobs: int = 500, evaluations: int = 200, uri: str | None = None) -> None:
    """Prints one line for the first sync and one for a second."""
    from batchscout.track import sync
    from batchscout.track.store import RunStore

    folder = Path(tempfile.mkdtemp(prefix="batchscout-bench-"))
    try:
        sweep = folder / "runs" / "bench" / f"now-{os.getpid()}"
        make(sweep, jobs, evaluations)
        place = uri or f"sqlite:///{folder / 'mlflow.db'}"
        print(f"{jobs} jobs × {evaluations} evaluations × {CURVES} curves into {uri or 'SQLite'}", flush=True)
        RunStore(place, f"bench/{sweep.name}").open()  # importing MLflow and making its tables take seconds
        for words in ("first sync", "again"):
            began = time.perf_counter()
            done = sync(sweep, place)
            seconds = time.perf_counter() - began
            rate = f", {done.points / seconds:,.0f} points/s" if done.points else ""
            print(
                f"{words:>10}: {seconds:6.1f} s, {done.runs} runs, {done.points:,} points{rate}", flush=True
            )
    finally:
        shutil.rmtree(folder)


def make(sweep: Path, jobs: int, evaluations: int) -> None:
    """A finished sweep's files: sweep.json, result.json, one journal a job with an evaluation each update."""
    began = 1_760_000_000.0
    sweep.mkdir(parents=True)
    name = f"{sweep.parent.name}/{sweep.name}"
    config = {"target": {"score": 0.9, "direction": "max", "patience": 2, "clock": "training"}}
    (sweep / "sweep.json").write_text(json.dumps({"v": 1, "sweep": name, "config": config}))
    rows = [_job(sweep, number, evaluations, began + 500.0 * number) for number in range(jobs)]
    cost = {
        "seconds": sum(row["seconds"] for row in rows),
        "gpu_hours": 0.0,
        "money": None,
        "lost_seconds": 0.0,
    }
    result = {
        "v": 1,
        "sweep": name,
        "status": "complete",
        "target": 0.9,
        "clock": "training",
        "recommendation": None,
        "recommendations": [],
        "cost": cost,
        "elapsed_seconds": 500.0 * jobs,
        "table": [],
        "points": [],
        "levels": [],
        "laws": {},
        "jobs": rows,
    }
    (sweep / "result.json").write_text(json.dumps(result))


def _job(sweep: Path, number: int, evaluations: int, start: float) -> dict[str, Any]:
    """Writes the journal; returns the row of result.json."""
    job, batch = f"b64-lr{1e-4 * (number + 1):g}-s0", 64
    head = {"v": 1, "updates": 0, "samples": 0, "seconds": 0.0, "wall_seconds": 0.0}
    about = {
        "job": job,
        "attempt": 1,
        "batch_size": batch,
        "lr": 1e-4 * (number + 1),
        "seed": 0,
        "group_size": 8,
    }
    where = {"gpu": None, "gpus": 0, "node": "n1", "host": "n1", "pid": 1, "slurm_job_id": None}
    events: list[dict[str, Any]] = [
        {**head, "event": "start", "time": start, **about, **where, "startup_seconds": 1.0}
    ]
    clocks = dict.fromkeys(("sampling", "reward", "learning", "sync", "other"), 0.0)
    for update in range(1, evaluations + 1):
        for part, seconds in (("sampling", 1.1 + 0.001 * (update % 7)), ("learning", 0.8), ("other", 0.1)):
            clocks[part] += seconds
        total = sum(clocks.values())
        now = {"v": 1, "updates": update, "samples": batch * update, "seconds": total, "wall_seconds": total}
        parts = {f"{part}_seconds": seconds for part, seconds in clocks.items() if seconds}
        events.append({**now, "event": "update", "time": start + total, "warmup": update == 1, **parts})
        score = 0.8 * update / evaluations
        events.append(
            {**now, "event": "evaluation", "time": start + total, "score": score, "score_n": 512,
             "evaluation_seconds": 0.0}
        )  # fmt: skip
    last = events[-1]
    end = {**{k: last[k] for k in head}, "event": "end", "time": last["time"], "outcome": "capped"}
    events.append({**end, "reason": "caps.samples", "message": ""})
    journal = sweep / "jobs" / job / "attempts" / "001" / "journal.jsonl"
    journal.parent.mkdir(parents=True)
    journal.write_text("".join(json.dumps(event) + "\n" for event in events))
    return {
        "id": job,
        "kind": "run",
        "batch_size": batch,
        "lr": about["lr"],
        "seed": 0,
        "outcome": "capped",
        "reason": "caps.samples",
        "message": "",
        "updates": evaluations,
        "samples": batch * evaluations,
        "seconds": last["seconds"],
        "samples_to_target": None,
        "time_to_target": None,
        "wall_seconds_to_target": None,
        "gpu": None,
        "gpus": 0,
        "hardware": "local",
        "node": "n1",
        "slurm_job_id": None,
        "attempts": 1,
        "submitted": start - 1,
        "start": start,
        "end": last["time"],
        **dict.fromkeys(("queue_seconds", "startup_seconds", "warmup_seconds", "evaluation_seconds"), 0.0),
        "lost_seconds": 0.0,
    }


if __name__ == "__main__":
    words = dict(argument.split("=", 1) for argument in sys.argv[1:])
    main(**{name: value if name == "uri" else int(value) for name, value in words.items()})
