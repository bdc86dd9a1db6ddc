from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from batchscout.train.policy_gradient import loss
from batchscout.train.policy_gradient.adam import Adam
from batchscout.train.policy_gradient.advantage import advantages
from batchscout.train.policy_gradient.imitation import load_start
from batchscout.train.policy_gradient.learner import Learner, equal_parts, warmed_up_lr
from batchscout.train.policy_gradient.model import model_for
from batchscout.train.policy_gradient.sampling import Rollouts, Sampler
from batchscout.train.policy_gradient.settings import LearningSettings
from batchscout.train.policy_gradient.warm_start import WarmStart
from batchscout.train.tasks import make_task


def learner_of(job: dict[str, Any], **changes: Any) -> Learner:
    task = make_task(job["task"])
    model = model_for(job["model"], task)
    start = job["warm_start"]
    load_start(model, WarmStart(Path(start["path"]), start["sha256"]))
    return Learner(model, replace(LearningSettings.from_job(job), **changes))


def batch_of(job: dict[str, Any], n: int = 128) -> tuple[Rollouts, torch.Tensor]:
    task = make_task(job["task"])
    sampler = Sampler(task.completion_tokens, task.end)
    prompts = task.prompts[: n // 8]
    rollouts = sampler.sample(learner_of(job).model, prompts, 8, torch.Generator().manual_seed(7))
    rewards = task.reward(prompts.repeat_interleave(8, 0), rollouts.tokens)
    return rollouts, advantages("rloo", rewards, 8)


def gradient_of(job: dict[str, Any], rollouts: Rollouts, weights: torch.Tensor, micro: int) -> torch.Tensor:
    learner = learner_of(job, micro_batch_size=micro)
    learner.gradient(rollouts, weights)
    return learner.parameters.gradient.clone()


def test_micro_batches_do_not_change_the_gradient(job: dict[str, Any]) -> None:
    rollouts, weights = batch_of(job)
    whole = gradient_of(job, rollouts, weights, 128)
    assert float(whole.norm()) > 0.01
    for micro in (64, 48, 8, 5):
        part = gradient_of(job, rollouts, weights, micro)
        assert float((part - whole).norm() / whole.norm()) < 1e-5, micro


def test_shared_prompts_do_not_change_the_gradient(
    job: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rollouts, weights = batch_of(job)
    gradients = []
    for share_from in (1, 10_000):
        monkeypatch.setattr(loss, "SHARE_FROM", share_from)
        gradients.append(gradient_of(job, rollouts, weights, 128))
    shared, unshared = gradients
    assert float((shared - unshared).norm() / unshared.norm()) < 1e-5
    assert not torch.equal(shared, unshared)  # they did take different ways


def test_first_adam_steps_by_hand(job: dict[str, Any]) -> None:
    learner = learner_of(job, betas=(0.8, 0.9))
    before = learner.parameters.vector[:2].clone()
    gradients = [torch.tensor([0.5, -2.0]), torch.tensor([-1.0, 1.0])]
    mean, square = torch.zeros(2), torch.zeros(2)
    expected = before.clone()
    for step, gradient in enumerate(gradients, start=1):
        mean = 0.8 * mean + 0.2 * gradient
        square = 0.9 * square + 0.1 * gradient**2
        expected -= 0.01 * (mean / (1 - 0.8**step)) / ((square / (1 - 0.9**step)).sqrt() + 1e-8)
        learner.parameters.zero_gradient()
        learner.parameters.gradient[:2] = gradient
        learner.step(0.01)
    assert learner.parameters.vector[:2].tolist() == pytest.approx(expected.tolist(), rel=1e-6)
    assert abs(float(before[0] - 0.01) - float(expected[0])) > 1e-3  # the second step counted


def test_many_steps_are_those_of_torch_s_adam() -> None:
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(50, generator=generator)
    theirs = torch.nn.Parameter(start.clone())
    reference = torch.optim.Adam([theirs], lr=0.01, betas=(0.9, 0.95))
    ours = start.clone()
    adam = Adam(ours, (0.9, 0.95))
    for _ in range(30):
        gradient = torch.randn(50, generator=generator)
        theirs.grad = gradient.clone()
        reference.step()
        adam.step(gradient, 0.01)
    torch.testing.assert_close(ours, theirs.detach(), rtol=1e-5, atol=1e-6)


def test_optimizer_changes_the_model_itself(job: dict[str, Any]) -> None:
    learner = learner_of(job)
    before = learner.model.tokens.detach().clone()
    learner.parameters.gradient.fill_(1.0)
    learner.step(0.01)
    torch.testing.assert_close(learner.model.tokens.detach(), before - 0.01)


def test_long_gradients_are_clipped_to_the_limit(job: dict[str, Any]) -> None:
    learner = learner_of(job, gradient_clip=0.5)
    learner.parameters.gradient.zero_()
    learner.parameters.gradient[:2] = torch.tensor([3.0, 4.0])
    assert learner.step(0.0) == pytest.approx(5.0)
    assert learner.parameters.gradient[:2].tolist() == pytest.approx([0.3, 0.4])
    learner.parameters.gradient[:2] = torch.tensor([0.03, 0.04])
    assert learner.step(0.0) == pytest.approx(0.05)
    assert learner.parameters.gradient[:2].tolist() == pytest.approx([0.03, 0.04])


def test_warm_up_counts_samples_whatever_the_batch_size() -> None:
    assert [warmed_up_lr(1e-3, n, 512) for n in (128, 256, 512, 4096)] == [2.5e-4, 5e-4, 1e-3, 1e-3]
    assert warmed_up_lr(1e-3, 16, 0) == 1e-3


def test_mini_batches_are_optimizer_steps_and_warm_up_one_after_the_other(
    job: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rollouts, weights = batch_of(job)
    learner = learner_of(job, batch_size=128, mini_batch_size=32, lr=1e-3, lr_warmup_samples=256)
    rates: list[float] = []
    monkeypatch.setattr(learner, "step", lambda lr: rates.append(lr) or 0.0)
    learner.update(rollouts, weights, samples=128)
    assert rates == pytest.approx([1e-3 * n / 256 for n in (160, 192, 224, 256)])


@pytest.mark.parametrize("micro", [512, 8])
def test_squared_norms_of_parts_match_gradients_taken_one_by_one(job: dict[str, Any], micro: int) -> None:
    rollouts, weights = batch_of(job, 64)
    learner = learner_of(job, micro_batch_size=micro)
    norms = learner.gradient_by_parts(rollouts, weights)
    by_parts = learner.parameters.gradient.clone()
    squares = []
    for start in range(0, 64, 16):
        learner.gradient(rollouts.slice(start, start + 16), weights[start : start + 16])
        squares.append(float(learner.parameters.gradient.square().sum()))
    learner.gradient(rollouts, weights)
    whole = learner.parameters.gradient
    assert norms.small == pytest.approx(sum(squares) / 4, rel=1e-4)
    assert norms.big == pytest.approx(float(whole.square().sum()), rel=1e-4)
    assert (norms.small_size, norms.big_size) == (16, 64)
    assert float((by_parts - whole).norm() / whole.norm()) < 1e-5


def test_parts_are_equal_and_of_whole_groups() -> None:
    assert [equal_parts(groups, 4) for groups in (2, 3, 4, 6, 7, 10, 12, 256)] == [2, 3, 4, 6, 7, 5, 4, 4]


def test_a_parameter_that_is_no_number_is_noticed(job: dict[str, Any]) -> None:
    learner = learner_of(job)
    assert learner.is_finite()
    for broken in (math.nan, math.inf):
        learner.parameters.load(torch.where(torch.arange(len(learner.parameters.vector)) == 99, broken, 0.0))
        assert not learner.is_finite()
