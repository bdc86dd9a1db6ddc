"""Each contract accepts what DESIGN shows and refuses what breaks it."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest

from batchscout.schemas import NAMES, SchemaError, schema, validate

AT = {"v": 1, "time": 1.0, "updates": 2, "samples": 16, "seconds": 3.5, "wall_seconds": 5.0}
PARTS = {f"{p}_seconds": 0.7 for p in ("sampling", "reward", "learning", "sync", "other")}
COUNTS = {"generated_samples": 16, "generated_tokens": None, "trained_tokens": None}
ROW = {
    "batch_size": 128,
    "lr": 4e-4,
    "jobs": 2,
    "reached": 2,
    "samples_to_target": 25000.0,
    "updates_to_target": 195.3,
    "update_seconds": 0.2,
    "sampling_share": 0.6,
    "throughput": 610.0,
    "time_to_target": 41.0,
    "interval": [37, None],
    "relative_time": 1.0,
    "relative_samples": 1.1,
}
ANSWER = {
    "batch_size": 128,
    "lr": 4e-4,
    "time_to_target": 41.0,
    "interval": [37, 46],
    "samples_to_target": 25000,
    "throughput": 610,
    "near_ties": [64, 128],
    "probability_best": 0.81,
}
JOB_ROW = {
    "id": "b128",
    "kind": "run",
    "batch_size": 128,
    "lr": 4e-4,
    "seed": 0,
    "outcome": "reached",
    "reason": "target",
    "updates": 200,
    "samples": 25600,
    "seconds": 42.0,
    "samples_to_target": 25000.0,
    "time_to_target": 41.0,
    "wall_seconds_to_target": 60.0,
    "gpu": None,
    "gpus": 0,
    "hardware": "local",
    "node": "n1",
    "attempts": 1,
    "submitted": 1.0,
    "start": 2.0,
    "end": 3.0,
    "queue_seconds": 1.0,
    "startup_seconds": 1.0,
    "warmup_seconds": 0.1,
    "evaluation_seconds": 4.0,
    "lost_seconds": 0.0,
}

VALID: dict[str, list[dict[str, Any]]] = {
    "journal": [
        {
            **AT,
            "event": "start",
            "job": "b128",
            "attempt": 1,
            "batch_size": 128,
            "lr": 1e-3,
            "seed": 0,
            "group_size": 8,
            "gpu": "H100",
            "gpus": 1,
            "node": "n1",
            "host": "n1",
            "pid": 7,
            "slurm_job_id": "12_3",
            "startup_seconds": 3.0,
        },
        {**AT, "event": "update", **COUNTS, **PARTS, "warmup": True, "metrics": {"loss": 0.1}},
        {
            **AT,
            "event": "evaluation",
            "score": None,
            "score_n": 64,
            "evaluation_seconds": 1.0,
            "metrics": {},
            "nonfinite": ["score"],
        },
        {**AT, "event": "checkpoint", "path": "checkpoint/2", "checkpoint_seconds": 0.1},
        {**AT, "event": "resume", "path": "checkpoint/2", "from_updates": 2},
        {**AT, "event": "end", "outcome": "capped", "reason": "caps.samples", "message": ""},
    ],
    "job": [
        {
            "v": 1,
            "id": "b128",
            "kind": "probe",
            "batch_size": 128,
            "lr": 1e-3,
            "seed": 0,
            "signature": "0123456789ab",
            "config": {"anything": {"goes": 1}},
            "created": 1.0,
            "outcome": "queued",
        },
    ],
    "sweep": [
        {
            "v": 1,
            "sweep": "demo/2026-12-02T10-15-00",
            "plan_signature": "0123456789ab",
            "config": {},
            "versions": {"torch": "2.13"},
            "git": None,
            "command": ["python", "sweep.py", "-m"],
        },
    ],
    "result": [
        {
            "v": 1,
            "sweep": "demo/2026-12-02T10-15-00",
            "status": "complete",
            "target": 0.8,
            "clock": "training",
            "recommendation": ANSWER,
            "recommendations": [
                {"cost_seconds": 10.0, "elapsed_seconds": 12.0, "batch_size": 128, "lr": 4e-4}
            ],
            "cost": {"seconds": 42.0, "gpu_hours": 0.1, "money": None, "lost_seconds": 0.0},
            "elapsed_seconds": 60.0,
            "table": [ROW],
            "points": [ROW, {**ROW, "time_to_target": None, "interval": None, "best_score": 0.5}],
            "levels": [{"target": 0.6, "recommendation": None}],
            "laws": {
                "samples": {
                    "s_min": 1e4,
                    "s_min_interval": [9e3, None],
                    "b_crit": 200.0,
                    "b_crit_interval": [None, 300.0],
                    "gamma": 1.0,
                    "gamma_interval": None,
                },
                "update_seconds": {"sampling": {"a": 1.0, "b": 0.1}, "learning": None},
                "learning_rate": None,
                "warnings": [],
            },
            "jobs": [JOB_ROW, {**JOB_ROW, "outcome": "queued", "start": None, "end": None, "seconds": 0.0}],
        },
    ],
    "recorded": [
        {
            "world": "w",
            "target": 0.8,
            "batch_sizes": [16, 32],
            "learning_rates": [1e-3],
            "seeds": [0, 1],
            "gpus": 1,
        },
        {
            "world": "w",
            "target": 0.8,
            "batch_sizes": [16],
            "learning_rates": [1e-3],
            "seeds": [0],
            "gpus": None,
            "gpu": "H100",
            "trainer": "verl",
            "startup_seconds": 30.0,
        },
        {
            "batch_size": 16,
            "learning_rate": 1e-3,
            "seed": 0,
            "status": "infeasible",
            "samples": [],
            "seconds": [],
            "sampling_seconds": [],
            "score": [],
        },
        {
            "batch_size": 16,
            "learning_rate": 1e-3,
            "seed": 0,
            "status": "reached",
            "samples": [16],
            "seconds": [1.0],
            "sampling_seconds": [0.5],
            "score": [None],
            "update_seconds": 1.0,
        },
    ],
}

REMOVED = object()
BROKEN: list[tuple[str, int, str, Any]] = [
    ("journal", 0, "v", 2),
    ("journal", 0, "event", "begin"),
    ("journal", 0, "lr", 0),
    ("journal", 1, "warmup", REMOVED),
    ("journal", 1, "seconds", -1.0),
    ("journal", 1, "sampling_seconds", None),
    ("journal", 2, "score", "0.5"),
    ("journal", 4, "from_updates", REMOVED),
    ("journal", 5, "outcome", "oom"),
    ("journal", 5, "outcome", "queued"),
    ("job", 0, "kind", "trial"),
    ("job", 0, "signature", REMOVED),
    ("job", 0, "outcome", "done"),
    ("sweep", 0, "sweep", REMOVED),
    ("result", 0, "status", "finished"),
    ("result", 0, "clock", "cpu"),
    ("result", 0, "recommendation", REMOVED),
    ("result", 0, "typo", 1),
    ("result", 0, "table", [{**ROW, "interval": [1]}]),
    ("result", 0, "table", [{**ROW, "relative_time": -1}]),
    ("result", 0, "points", [{k: v for k, v in ROW.items() if k != "reached"}]),
    ("result", 0, "jobs", [{**JOB_ROW, "outcome": "oom"}]),
    ("result", 0, "jobs", [{**JOB_ROW, "tiem_to_target": 1.0}]),
    ("result", 0, "cost", {"seconds": 1.0}),
    ("result", 0, "elapsed_seconds", math.inf),
    ("recorded", 0, "batch_sizes", REMOVED),
    ("recorded", 3, "status", "failed"),
    ("recorded", 3, "samples", [1.5]),
]


@pytest.mark.parametrize("name", NAMES)
def test_examples_of_each_file_are_valid(name: str) -> None:
    for example in VALID[name]:
        validate(name, example)


@pytest.mark.parametrize(("name", "index", "key", "value"), BROKEN)
def test_broken_contracts_are_refused(name: str, index: int, key: str, value: Any) -> None:
    content = copy.deepcopy(VALID[name][index])
    if value is REMOVED:
        del content[key]
    else:
        content[key] = value
    with pytest.raises(SchemaError, match=name):
        validate(name, content)


def test_error_names_the_place() -> None:
    content = copy.deepcopy(VALID["result"][0])
    content["jobs"][0]["seed"] = "zero"
    with pytest.raises(SchemaError, match=r"result: \$\.jobs\[0\]\.seed: 'zero' is not of type 'integer'"):
        validate("result", content)


def test_unknown_contract_is_an_error() -> None:
    with pytest.raises(SchemaError, match="use one of journal"):
        schema("trial")
