from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from batchscout.clock import VirtualClock
from batchscout.errors import TrainerError
from batchscout.measure.journal import read_journal
from batchscout.measure.reporter import Reporter
from batchscout.measure.target import Caps, EvaluationGrid, Target
from batchscout.train.policy_gradient import trainer
from batchscout.train.policy_gradient.trainer import PolicyGradientJob, train
from batchscout.train.policy_gradient.warm_start import warm_start


class CountingClock(VirtualClock):
    """Every look at it takes a millisecond, so that two runs of a test measure the same seconds."""

    def perf(self) -> float:
        self.sleep(0.001)
        return super().perf()


def reporter_in(
    directory: Path,
    job: dict[str, Any],
    *,
    updates: int | None = 12,
    score: float = 0.99,
    checkpoint_every_seconds: float | None = None,
) -> Reporter:
    names = ("batch_size", "lr", "seed", "group_size")
    return Reporter.open(
        directory,
        identity={"job": "j", "gpu": None, "gpus": 0, **{name: job[name] for name in names}},
        target=Target(score=score),
        caps=Caps(updates=updates),
        evaluation=EvaluationGrid(job["evaluation"]["samples"]),
        clock=CountingClock(),
        checkpoint_every_seconds=checkpoint_every_seconds,
    )


def final_parameters(
    job: dict[str, Any], reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> torch.Tensor:
    """Train, and look at the parameters where the trainer leaves them."""
    seen: list[PolicyGradientJob] = []

    class Watched(PolicyGradientJob):
        def __init__(self, config: dict[str, Any]) -> None:
            super().__init__(config)
            seen.append(self)

    monkeypatch.setattr(trainer, "PolicyGradientJob", Watched)
    train(job, reporter)
    return seen[-1].learner.parameters.vector.clone()


def events_of(directory: Path, kind: str) -> list[dict[str, Any]]:
    """Events of a kind along all attempts of a job, in order."""
    journals = sorted(directory.glob("attempts/*/journal.jsonl"))
    return [event for path in journals for event in read_journal(path) if event["event"] == kind]


def test_job_learns_and_journals_what_it_did(job: dict[str, Any], tmp_path: Path) -> None:
    job.update(batch_size=256, lr=8e-4, evaluation={"samples": 2048, "prompts": 512})
    train(job, reporter_in(tmp_path, job, updates=None, score=0.47))
    (end,) = events_of(tmp_path, "end")
    assert (end["outcome"], end["reason"]) == ("reached", "target")
    assert 2048 <= end["samples"] <= 20_000
    scores = [event["score"] for event in events_of(tmp_path, "evaluation")]
    assert scores[0] < 0.42
    assert min(scores[-2:]) >= 0.47
    update = events_of(tmp_path, "update")[-1]
    assert update["samples"] == 256 * update["updates"]
    assert 256 <= update["trained_tokens"] / update["updates"] <= 3 * 256
    assert {"reward", "groups_with_signal", "gradient_norm"} <= set(update["metrics"])
    assert update["sampling_seconds"] > 0
    assert update["learning_seconds"] > 0


@pytest.mark.parametrize("changes", [{}, {"mini_batch_size": 16, "batch_size": 32}])
def test_a_job_stopped_and_resumed_equals_an_unbroken_one_bit_for_bit(
    job: dict[str, Any], changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.update(changes)
    whole = final_parameters(job, reporter_in(tmp_path / "whole", job), monkeypatch)

    first = reporter_in(tmp_path / "broken", job)
    saved_at = 5
    original = first.end_update

    def preempt_after_some(**counts: Any) -> None:
        original(**counts)
        if first.updates == saved_at:
            first.request_preemption()

    monkeypatch.setattr(first, "end_update", preempt_after_some)
    train(job, first)
    (end,) = events_of(tmp_path / "broken", "end")
    assert (end["outcome"], end["updates"]) == ("preempted", saved_at)
    torch.manual_seed(999)  # the state of a fresh process is another one
    resumed = final_parameters(job, reporter_in(tmp_path / "broken", job), monkeypatch)

    assert torch.equal(resumed, whole)
    curves = []
    for name in ("whole", "broken"):
        evaluations = events_of(tmp_path / name, "evaluation")
        curves.append([(event["samples"], event["score"]) for event in evaluations])
    assert curves[0] == curves[1]
    assert len(curves[0]) >= 2


def test_equal_seeds_give_equal_jobs_and_others_do_not(
    job: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = []
    for name, seed in [("a", 0), ("b", 0), ("c", 1)]:
        seeded = {**copy.deepcopy(job), "seed": seed}
        results.append(final_parameters(seeded, reporter_in(tmp_path / name, job, updates=3), monkeypatch))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


def test_parameters_that_are_no_numbers_end_the_job_as_diverged(job: dict[str, Any], tmp_path: Path) -> None:
    job.update(lr=1e30)
    train(job, reporter_in(tmp_path, job, updates=50))
    (end,) = events_of(tmp_path, "end")
    assert end["outcome"] == "diverged"
    assert end["updates"] < 10


def test_a_warm_up_that_takes_a_good_part_of_the_way_is_warned_about(
    job: dict[str, Any], tmp_path: Path
) -> None:
    job["trainer"]["lr_warmup_samples"] = 512
    train(job, reporter_in(tmp_path, job, updates=None, score=0.42))
    (warning,) = events_of(tmp_path, "warning")
    assert "lr_warmup_samples=512 is " in warning["message"]


def test_squared_gradient_norms_are_journalled_every_so_many_rollouts(
    job: dict[str, Any], tmp_path: Path
) -> None:
    job["trainer"]["noise_scale_samples"] = 96  # batches of 64 begin at 0, 64, 128, 192, 256
    train(job, reporter_in(tmp_path, job, updates=5))
    updates = events_of(tmp_path, "update")
    assert ["gradient_square_small" in event["metrics"] for event in updates] == [
        True,
        False,
        True,
        True,
        False,
    ]
    assert updates[0]["metrics"]["noise_scale_small_size"] == 16
    assert updates[0]["metrics"]["noise_scale_big_size"] == 64


def test_a_checkpoint_of_another_model_is_refused(job: dict[str, Any], tmp_path: Path) -> None:
    train(job, reporter_in(tmp_path, job, updates=2, checkpoint_every_seconds=0.001))
    assert events_of(tmp_path, "checkpoint")
    other = {**job["model"], "width": 32, "start_score": 0.0}
    start = warm_start({**job, "model": other}, directory=tmp_path / "starts")
    wider = {**job, "model": other, "warm_start": {"path": str(start.path), "sha256": start.sha256}}
    with pytest.raises(TrainerError, match="use fresh=true"):
        train(wider, reporter_in(tmp_path, job, updates=4))
