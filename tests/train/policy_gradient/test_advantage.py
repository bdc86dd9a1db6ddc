from __future__ import annotations

import math

import pytest
import torch

from batchscout.train.policy_gradient.advantage import advantages


def test_rloo_is_the_reward_less_the_mean_of_the_others() -> None:
    rewards = torch.tensor([1.0, 0.0, 0.0, 1.0, 0.5, 2.0, -1.0, 0.0])
    expected = []
    for group in (rewards[:4].tolist(), rewards[4:].tolist()):
        expected += [reward - (sum(group) - reward) / 3 for reward in group]
    assert advantages("rloo", rewards, 4).tolist() == pytest.approx(expected, abs=1e-6)


def test_grpo_is_the_reward_in_standard_deviations_of_its_group() -> None:
    rewards = torch.tensor([1.0, 0.0, 0.0, 0.0])
    deviation = math.sqrt((0.75**2 + 3 * 0.25**2) / 3)
    expected = [0.75 / (deviation + 1e-4)] + [-0.25 / (deviation + 1e-4)] * 3
    assert advantages("grpo", rewards, 4).tolist() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("kind", ["rloo", "grpo"])
def test_equal_rewards_have_no_advantage(kind: str) -> None:
    assert advantages(kind, torch.ones(8), 4).tolist() == [0.0] * 8
