from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from batchscout.clock import VirtualClock
from batchscout.errors import ConfigError, InfeasibleError
from batchscout.measure.journal import read_journal
from batchscout.measure.reporter import Reporter
from batchscout.measure.target import Caps, EvaluationGrid, Target
from batchscout.train.synthetic import SyntheticLaw, train

LAW: dict[str, Any] = {
    "s_min": 20_000,
    "b_crit": 500,
    "a": 0.1,
    "b": 0.001,
    "curvature": 0.5,
    "lr_reference": 4e-4,
    "reference_batch_size": 128,
    "lr_exponent": 0.5,
    "ceiling": 0.95,
    "seed_noise": 0.0,
}


def config_of(batch_size: int, lr: float = 4e-4, *, seed: int = 0, **trainer: Any) -> dict[str, Any]:
    return {
        "batch_size": batch_size,
        "lr": lr,
        "seed": seed,
        "group_size": 8,
        "trainer": {**LAW, **trainer},
        "target": {"score": 0.7},
        "evaluation": {"samples": 256, "prompts": 1_000_000},
    }


def run(directory: Path, config: dict[str, Any], *, updates: int | None = 4000) -> list[dict[str, Any]]:
    names = ("batch_size", "lr", "seed", "group_size")
    reporter = Reporter.open(
        directory,
        identity={"job": "j", "gpu": None, "gpus": 0, **{name: config[name] for name in names}},
        target=Target(score=config["target"]["score"]),
        caps=Caps(updates=updates),
        evaluation=EvaluationGrid(config["evaluation"]["samples"]),
        clock=VirtualClock(1000.0),
        checkpoint_every_seconds=None,
    )
    train(config, reporter)
    return read_journal(reporter.attempt_dir / "journal.jsonl")


@pytest.mark.parametrize(
    ("batch_size", "lr", "samples"),
    [
        (128, 4e-4, 20_000 * 1.256),
        (512, 8e-4, 20_000 * 2.024),
        (128, 8e-4, 20_000 * 1.256 * 1.5),
    ],
)
def test_jobs_reach_the_target_where_the_law_says(
    batch_size: int, lr: float, samples: float, tmp_path: Path
) -> None:
    events = run(tmp_path, config_of(batch_size, lr))
    end = events[-1]
    assert end["outcome"] == "reached"
    # The second evaluation in a row at the target ends the job: up to two steps of the grid beyond S.
    grid = max(256, batch_size)
    assert samples <= end["samples"] <= samples + 2 * grid + batch_size
    assert end["seconds"] == pytest.approx(end["updates"] * (0.1 + 0.001 * batch_size), rel=1e-6)
    update = [event for event in events if event["event"] == "update"][-1]
    assert update["sampling_seconds"] == pytest.approx(0.3 * end["seconds"], rel=1e-6)


def test_score_passes_through_start_target_and_stays_below_the_ceiling() -> None:
    law = SyntheticLaw(s_min=1, b_crit=1, a=0, b=0, target=0.7, start=0.3, ceiling=0.9)
    assert law.score(0, 1000) == 0.3
    assert law.score(1000, 1000) == pytest.approx(0.7)
    assert 0.7 < law.score(1e9, 1000) < 0.9


def test_too_high_a_learning_rate_collapses(tmp_path: Path) -> None:
    events = run(tmp_path, config_of(128, 4e-4 * 20))
    assert (events[-1]["outcome"], events[-1]["reason"]) == ("diverged", "collapse")


def test_noise_between_seeds_has_the_asked_size(tmp_path: Path) -> None:
    from batchscout.train.synthetic import SyntheticJob

    expected = 20_000 * 1.256
    jobs = [SyntheticJob(config_of(128, seed=seed, seed_noise=0.2)) for seed in range(400)]
    logs = [math.log(job.samples_to_target / expected) for job in jobs]
    mean = sum(logs) / len(logs)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in logs) / len(logs))
    assert abs(mean) < 0.04
    assert deviation == pytest.approx(0.2, abs=0.03)


def test_a_job_resumed_from_its_checkpoint_sees_the_same_noise(tmp_path: Path) -> None:
    config = config_of(128)
    config["evaluation"]["prompts"] = 100
    whole = run(tmp_path / "whole", config, updates=40)

    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "control").write_text("{}")
    reporter = Reporter.open(
        tmp_path / "broken",
        identity={"job": "j", "batch_size": 128, "lr": 4e-4, "seed": 0, "group_size": 8},
        target=Target(score=0.7),
        caps=Caps(updates=40),
        evaluation=EvaluationGrid(256),
        clock=VirtualClock(),
        checkpoint_every_seconds=3.0,
    )
    original = reporter.end_update

    def preempt(**counts: Any) -> None:
        original(**counts)
        if reporter.updates == 15:
            reporter.request_preemption()

    reporter.end_update = preempt  # type: ignore[method-assign]
    train(config, reporter)
    first = read_journal(reporter.attempt_dir / "journal.jsonl")
    second = run(tmp_path / "broken", config, updates=40)
    joined = [event for event in [*first, *second] if event["event"] == "evaluation"]
    alone = [event for event in whole if event["event"] == "evaluation"]
    assert [(e["samples"], e["score"]) for e in joined] == [(e["samples"], e["score"]) for e in alone]


@pytest.mark.parametrize(
    ("fault", "error", "text"),
    [
        ("value_error", ValueError, "synthetic failure"),
        ("runtime_error", RuntimeError, "synthetic failure"),
        ("oom_torch", torch.OutOfMemoryError, "CUDA out of memory"),
        ("oom_cumem", RuntimeError, "CUDA Error: out of memory at .*cumem_allocator.cpp"),
        ("oom_host", MemoryError, "synthetic"),
        ("oom_ray", RuntimeError, "Ray node running low on memory"),
    ],
)
def test_faults_strike_at_their_update(fault: str, error: type[Exception], text: str, tmp_path: Path) -> None:
    config = config_of(128, misbehave={"fault": fault, "at_update": 3})
    with pytest.raises(error, match=text):
        run(tmp_path, config)
    events = read_journal(tmp_path / "attempts" / "001" / "journal.jsonl")
    assert [event["updates"] for event in events if event["event"] == "update"] == [1, 2, 3]


def test_a_fault_may_spare_small_batches(tmp_path: Path) -> None:
    fault = {"fault": "oom_torch", "above_batch_size": 256, "phase": "sampling"}
    assert run(tmp_path / "a", config_of(256, 5.6e-4, misbehave=fault), updates=5)[-1]["outcome"] == "capped"
    with pytest.raises(torch.OutOfMemoryError):
        run(tmp_path / "b", config_of(512, 8e-4, misbehave=fault))


def test_nan_is_a_divergence_and_infeasible_is_said_before_any_update(tmp_path: Path) -> None:
    events = run(tmp_path / "a", config_of(128, misbehave={"fault": "nan", "at_update": 4}))
    assert (events[-1]["outcome"], events[-1]["updates"]) == ("diverged", 4)
    with pytest.raises(InfeasibleError, match="batch_size=512 does not fit"):
        run(tmp_path / "b", config_of(512, misbehave={"infeasible_above": 256}))


def test_unknown_misbehaviour_is_refused() -> None:
    from batchscout.train.misbehaviour import Misbehaviour

    for settings in ({"fault": "tired"}, {"mood": "bad"}, {"phase": "reward"}):
        with pytest.raises(ConfigError, match="is unknown; use"):
            Misbehaviour.from_settings(settings)
