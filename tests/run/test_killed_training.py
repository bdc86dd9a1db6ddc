"""kill -9 of real training in processes of its own, at random instants: what comes out is what an unbroken job
gives, bit for bit."""

from __future__ import annotations

import copy
import json
import multiprocessing
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import torch
import yaml
from tests.run.test_killed_jobs import assert_is_one_trajectory
from tests.synthetic_jobs import job_config

from batchscout.measure.attempt import attempt_paths
from batchscout.measure.curve import Curve
from batchscout.measure.journal import read_journal
from batchscout.run.worker import run_attempt
from batchscout.train.policy_gradient.checkpoint import FILE
from batchscout.train.policy_gradient.warm_start import warm_start

CONF = Path(__file__).parents[2] / "conf"
KILLS, UPDATES = 10, 45


def make_job(directory: Path) -> Path:
    """45 updates of 64 rollouts, a second, with a checkpoint after each."""
    groups = {"trainer": "policy_gradient", "task": "addition", "model": "tiny"}
    config: dict[str, Any] = {
        **job_config({}),
        **{g: yaml.safe_load((CONF / g / f"{name}.yaml").read_text()) for g, name in groups.items()},
        "batch_size": 64,
        "mini_batch_size": 32,
        "lr": 4e-4,
        "evaluation": {"samples": 256, "prompts": 128},
        "caps": {"samples": None, "updates": UPDATES, "seconds": None},
        "checkpoint_every_seconds": 1e-3,
    }
    config["target"]["score"] = 0.99
    start = warm_start(config)
    config["warm_start"] = {"path": str(start.path), "sha256": start.sha256}
    directory.mkdir(parents=True)
    content = {"v": 1, "id": directory.name, "updates_limit": None, "snapshot": None, "config": config}
    (directory / "job.json").write_text(json.dumps(content))
    return directory


def work(directory: Path) -> None:
    torch.set_num_threads(1)
    run_attempt(str(directory))


def attempts(directory: Path) -> list[list[dict[str, Any]]]:
    found = [read_journal(p / "journal.jsonl") for p in attempt_paths(directory)]
    return [events for events in found if events]


def last_updates(directory: Path) -> int:
    """As far as any attempt came."""
    if not (directory / "attempts").exists():
        return 0
    return max((event.get("updates") or 0 for events in attempts(directory) for event in events), default=0)


def final_state(directory: Path) -> dict[str, Any]:
    """The checkpoint before the last update: parameters, Adam's moments, random generators."""
    content: dict[str, Any] = torch.load(directory / f"checkpoint/{UPDATES - 1}/{FILE}", weights_only=True)
    return content


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    return bool(one == other)


def test_a_job_killed_ten_times_equals_an_unbroken_one_bit_for_bit(tmp_path: Path) -> None:
    draw = random.Random(3)
    server = multiprocessing.get_context("forkserver")  # imports torch once, for twelve processes
    server.set_forkserver_preload(["batchscout.train.policy_gradient.trainer"])
    whole, broken = make_job(tmp_path / "whole"), make_job(tmp_path / "broken")
    process = server.Process(target=work, args=(whole,))
    process.start()
    process.join(60)
    kills = 0
    while kills < KILLS:
        process = server.Process(target=work, args=(broken,))
        process.start()
        assert process.pid is not None
        goal = last_updates(broken) + draw.randint(0, 4)
        while last_updates(broken) < goal:
            assert process.is_alive(), "it should not have come so far"
            time.sleep(0.002)
        time.sleep(draw.uniform(0.0, 0.02))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        kills += 1
    process = server.Process(target=work, args=(broken,))
    process.start()
    process.join(60)
    ends = [event for events in attempts(broken) for event in events if event["event"] == "end"]
    assert [(end["outcome"], end["updates"]) for end in ends] == [("capped", UPDATES)]
    curves = [Curve.from_attempts(copy.deepcopy(attempts(job))) for job in (whole, broken)]
    assert curves[0].samples.tolist() == curves[1].samples.tolist()
    assert curves[0].score.tolist() == curves[1].score.tolist()
    assert same(final_state(whole), final_state(broken))
    assert_is_one_trajectory(broken, curves[1])
