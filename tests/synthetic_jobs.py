"""Jobs of the synthetic trainer in a sweep directory, without a controller, and what became of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from batchscout.measure.attempt import attempt_paths
from batchscout.measure.journal import read_journal
from batchscout.run.executor import Executor, SchedulerState, Status, Submission

JobMaker = Callable[..., Path]

# S = 200 · (1 + 16/1e9) ≈ 200 rollouts: 13 updates of 16, 0.13 s.
TRAINER = {
    "name": "synthetic",
    "function": "batchscout.train.synthetic:train",
    "s_min": 200,
    "b_crit": 1e9,
    "a": 0.01,
    "b": 0.0,
    "ceiling": 0.999,
    "steepness": 6.0,
}


def job_config(trainer: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "batch_size": 16,
        "lr": 1.414e-4,
        "seed": 0,
        "group_size": 8,
        "mini_batch_size": 16,
        "micro_batch_size": None,
        "trainer": {**TRAINER, **trainer},
        "task": {"name": "none"},
        "model": {"name": "none", "seed": 0},
        "target": {"score": 0.7, "direction": "max", "patience": 2, "levels": [], "clock": "training"},
        "evaluation": {"samples": 64, "prompts": 4096},
        "caps": {"samples": 20_000, "updates": None, "seconds": None},
        "checkpoint_every_seconds": 60.0,
        "gpu": None,
        "gpus": 0,
    }


def job_maker(folder: Path) -> JobMaker:
    """make("a", a=0.1) → folder/sweep/jobs/a with its job.json; other names are the trainer's keys."""

    def make(
        job_id: str = "a", *, sweep: str = "sweep", extra: Mapping[str, Any] | None = None, **trainer: Any
    ) -> Path:
        directory = folder / sweep / "jobs" / job_id
        directory.mkdir(parents=True)
        content = {
            "v": 1,
            "id": job_id,
            "updates_limit": None,
            "snapshot": None,
            "config": job_config(trainer),
        }
        (directory / "job.json").write_text(json.dumps({**content, **(extra or {})}))
        return directory

    return make


def events(job_directory: Path) -> list[list[dict[str, Any]]]:
    """The journals, one list an attempt."""
    return [read_journal(p / "journal.jsonl") for p in attempt_paths(job_directory)]


def outcome(job_directory: Path) -> str | None:
    """Of the newest attempt, None where it has no end."""
    ends = [e for e in events(job_directory)[-1] if e["event"] == "end"]
    return str(ends[-1]["outcome"]) if ends else None


def wait_for(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    """The condition's first true value."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"did not happen within {seconds} s"
        time.sleep(0.02)
    return value


def wait_for_updates(job: Path, updates: int, attempt: int = 1) -> None:
    """Until that attempt has made so many updates."""

    def has() -> bool:
        found = events(job) if (job / "attempts").exists() else []
        return len(found) >= attempt and [e["event"] for e in found[attempt - 1]].count("update") >= updates

    wait_for(has, 30)


def wait_until_ended(executor: Executor, submission: Submission, seconds: float = 20.0) -> Status:
    def ended() -> Status | None:
        status = (executor.poll([submission]) or {}).get(submission.job_id)
        return status if status is not None and status.state is SchedulerState.ENDED else None

    found: Status = wait_for(ended, seconds)
    return found
