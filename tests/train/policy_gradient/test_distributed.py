"""Data parallelism on real processes that talk through gloo."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from batchscout.errors import InfeasibleError, TrainerError
from batchscout.laws.scale_out_law import fit_scale_out
from batchscout.train.policy_gradient.advantage import advantages
from batchscout.train.policy_gradient.distributed import Ranks
from batchscout.train.policy_gradient.imitation import load_start
from batchscout.train.policy_gradient.learner import Learner
from batchscout.train.policy_gradient.model import model_for
from batchscout.train.policy_gradient.sampling import Sampler
from batchscout.train.policy_gradient.settings import LearningSettings
from batchscout.train.policy_gradient.trainer import own_groups
from batchscout.train.policy_gradient.warm_start import WarmStart
from batchscout.train.tasks import make_task

PROCESS = Path(__file__).with_name("rank_process.py")


def on_ranks(size: int, folder: Path, content: dict[str, Any], *words: str) -> list[dict[str, Any]]:
    """What each rank leaves."""
    source = folder / "content.pt"
    torch.save(content, source)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
    }
    outs = [folder / f"rank{rank}.pt" for rank in range(size)]
    processes = [
        subprocess.Popen(
            [sys.executable, str(PROCESS), words[0], str(source), str(out), *words[1:]],
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank, out in enumerate(outs)
    ]
    assert [p.wait(timeout=240) for p in processes] == [0] * size
    return [torch.load(out, weights_only=False) for out in outs]


def rollouts_of(job: dict[str, Any]) -> dict[str, Any]:
    """A batch of rollouts as tensors, with advantages."""
    task = make_task(job["task"])
    model = model_for(job["model"], task)
    load_start(model, WarmStart(Path(job["warm_start"]["path"]), job["warm_start"]["sha256"]))
    prompts = task.prompts[: job["batch_size"] // 8]
    drawn = Sampler(task.completion_tokens, task.end).sample(
        model, prompts, 8, torch.Generator().manual_seed(7)
    )
    rewards = task.reward(prompts.repeat_interleave(8, 0), drawn.tokens)
    fields = {name: getattr(drawn, name) for name in ("prompts", "tokens", "logprobs", "mask")}
    return {"job": job, **fields, "advantages": advantages("rloo", rewards, 8)}


def alone(content: dict[str, Any]) -> Learner:
    """After the same update on one rank."""
    from batchscout.train.policy_gradient.sampling import Rollouts

    job = content["job"]
    model = model_for(job["model"], make_task(job["task"]))
    load_start(model, WarmStart(Path(job["warm_start"]["path"]), job["warm_start"]["sha256"]))
    learner = Learner(model, LearningSettings.from_job(job))
    whole = Rollouts(*(content[name] for name in ("prompts", "tokens", "logprobs", "mask")))
    before = learner.parameters.vector.clone()
    learner.update(whole, content["advantages"], samples=10_000)
    assert float((learner.parameters.vector - before).norm()) > 1e-3
    return learner


@pytest.mark.parametrize(("batch", "mini"), [(64, 64), (72, 24)])  # 9 groups: uneven shares
def test_two_ranks_make_the_update_of_one_with_the_same_batch(
    job: dict[str, Any], tmp_path: Path, batch: int, mini: int
) -> None:
    content = rollouts_of({**job, "batch_size": batch, "mini_batch_size": mini})
    one, (first, second) = alone(content).parameters, on_ranks(2, tmp_path, content, "update")
    assert torch.equal(first["parameters"], second["parameters"])
    size = float(one.gradient.abs().max())
    assert float((first["gradient"] - one.gradient).abs().max()) < 1e-5 * size
    # Adam divides by the gradient's size: where that is all rounding, so is the step
    told = one.gradient.abs() > 1e-3 * size
    assert float(told.float().mean()) > 0.2
    assert (
        float((first["parameters"] - one.vector)[told].abs().max())
        < (1e-3 if mini == batch else 0.03) * job["lr"]
    )
    assert first["metrics"]["gradient_norm"] == pytest.approx(float(one.gradient.norm()), rel=1e-5)


def test_ranks_stay_equal_over_updates_and_report_the_whole_batch(
    job: dict[str, Any], tmp_path: Path
) -> None:
    first, second = on_ranks(2, tmp_path, {"job": job}, "train", "3")
    assert torch.equal(first["parameters"], second["parameters"])
    assert first["metrics"] == second["metrics"]
    assert 0 < first["metrics"][0]["reward"] < 1


@pytest.mark.slow
def test_update_seconds_are_probed_on_one_and_two_ranks(job: dict[str, Any], tmp_path: Path) -> None:
    rows = []
    for size in (1, 2):
        for batch in (64, 256, 1024):
            spent = on_ranks(size, tmp_path, {"job": {**job, "batch_size": batch}}, "train", "5")[0][
                "seconds"
            ]
            sampling, learning = np.mean(spent["sampling"][1:]), np.mean(spent["learning"][1:])
            rows.append((batch, size, sampling + learning, sampling))
    batch, size, seconds, sampling = np.array(rows).T
    print("\n".join(f"B={b:5.0f} n={n:.0f}  {t:.4f} s, sampling {s:.4f} s" for b, n, t, s in rows))
    fit = fit_scale_out(batch, size, seconds, sampling=sampling, group_size=8)
    assert fit.seconds([1024], [2])[0] < fit.seconds([1024], [1])[0]


@pytest.mark.parametrize(("size", "count"), [(2, 8), (2, 9), (3, 8), (5, 7)])
def test_shares_are_whole_and_as_even_as_they_go(size: int, count: int) -> None:
    shares = [list(range(count))[Ranks(rank, size).share(count)] for rank in range(size)]
    assert [i for share in shares for i in share] == list(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_each_mini_batch_is_dealt_out_on_its_own() -> None:
    assert Ranks(0, 2).chosen(6, 3) == [0, 1, 3, 4]
    assert Ranks(1, 2).chosen(6, 3) == [2, 5]


def test_a_batch_with_fewer_groups_than_ranks_is_infeasible(job: dict[str, Any]) -> None:
    settings = LearningSettings.from_job({**job, "batch_size": 8})
    with pytest.raises(InfeasibleError, match="2 ranks need mini_batch_size ≥ 16"):
        own_groups(settings, Ranks(0, 2))


def test_noise_scale_is_not_measured_on_several_ranks(job: dict[str, Any]) -> None:
    settings = LearningSettings.from_job({**job, "trainer": {**job["trainer"], "noise_scale_samples": 5}})
    with pytest.raises(TrainerError, match="noise_scale_samples 0"):
        Learner(model_for(job["model"], make_task(job["task"])), settings, Ranks(0, 2))
