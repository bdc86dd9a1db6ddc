from __future__ import annotations

import math
from typing import cast

import pytest
import torch
from torch import Tensor, nn

from batchscout.train.policy_gradient.loss import clipped_objective, completion_logprobs
from batchscout.train.policy_gradient.model import KeyValues, Transformer
from batchscout.train.policy_gradient.sampling import Rollouts


def test_clipped_objective_by_hand() -> None:
    ratios = torch.tensor([[1.5], [0.5], [1.5], [0.5], [1.1]])
    weights = torch.tensor([2.0, 2.0, -1.0, -1.0, 1.0])
    ones = torch.ones(5, 1)
    # min(3, 2.4), min(1, 1.6), min(−1.5, −1.2), min(−0.5, −0.8), 1.1
    expected = 2.4 + 1.0 - 1.5 - 0.8 + 1.1
    objective = clipped_objective(ratios.log(), torch.zeros(5, 1), weights, ones, clip=0.2)
    assert float(objective) == pytest.approx(expected, rel=1e-6)


def test_tokens_after_the_end_do_not_count() -> None:
    logprobs = torch.full((1, 3), math.log(0.5))
    mask = torch.tensor([[1.0, 1.0, 0.0]])
    objective = clipped_objective(logprobs, torch.zeros(1, 3), torch.tensor([-1.0]), mask, clip=0.2)
    assert float(objective) == pytest.approx(-2 * 0.8)


class TwoArms(nn.Module):
    """A policy whose only choice is one token of two, with probability sigmoid(θ) for token 1."""

    def __init__(self, theta: float) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.tensor(theta))

    def forward(
        self, tokens: Tensor, *, cache: KeyValues | None = None, last: int | None = None
    ) -> tuple[Tensor, KeyValues]:
        logits = torch.stack([torch.zeros(()), self.theta]).expand(len(tokens), last or tokens.shape[1], 2)
        return logits, []


def test_gradient_of_two_arms_is_the_analytic_one() -> None:
    theta, p = 0.4, 1 / (1 + math.exp(-0.4))
    arms = TwoArms(theta)
    tokens = torch.tensor([[1], [0], [0], [1]])
    weights = torch.tensor([0.5, -1.0, 2.0, 0.25])
    with torch.no_grad():
        sampled = torch.tensor([math.log(p), math.log(1 - p), math.log(1 - p), math.log(p)])[:, None]
    rollouts = Rollouts(torch.zeros(4, 1, dtype=torch.long), tokens, sampled, torch.ones(4, 1))
    logprobs = completion_logprobs(cast(Transformer, arms), rollouts, is_shared=False)
    clipped_objective(logprobs, sampled, weights, rollouts.mask, clip=0.2).backward()
    # d log π(1) / dθ = 1 − p, d log π(0) / dθ = −p
    expected = (0.5 + 0.25) * (1 - p) + (-1.0 + 2.0) * -p
    assert arms.theta.grad is not None
    assert float(arms.theta.grad) == pytest.approx(expected, rel=1e-5)


def test_expected_gradient_of_two_arms_is_that_of_the_expected_reward() -> None:
    """Arm 1 pays 1, arm 0 pays 0: dE/dθ = p (1 − p), whatever baseline RLOO takes from the other rollouts."""
    from batchscout.train.policy_gradient.advantage import advantages

    theta = -0.7
    p = 1 / (1 + math.exp(-theta))
    arms = TwoArms(theta)
    n = 200_000
    tokens = torch.bernoulli(torch.full((n, 1), p), generator=torch.Generator().manual_seed(5)).long()
    sampled = torch.where(tokens == 1, math.log(p), math.log(1 - p)).float()
    rollouts = Rollouts(torch.zeros(n, 1, dtype=torch.long), tokens, sampled, torch.ones(n, 1))
    weights = advantages("rloo", tokens[:, 0].float(), 8)
    logprobs = completion_logprobs(cast(Transformer, arms), rollouts, is_shared=False)
    (clipped_objective(logprobs, sampled, weights, rollouts.mask, clip=0.2) / n).backward()
    assert arms.theta.grad is not None
    assert float(arms.theta.grad) == pytest.approx(p * (1 - p), abs=0.003)
