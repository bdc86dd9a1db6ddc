"""Advantages of rollouts within the group of their prompt.

Sources: RLOO, Ahmadian et al. 2024 (arXiv 2402.14740); GRPO, Shao et al. 2024 (arXiv 2402.03300).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the names of advantages are checked where torch is not wanted
    from torch import Tensor

STD_FLOOR = 1e-4
"""Added to a group's standard deviation, so that a group of equal rewards has advantage 0."""


def rloo(rewards: Tensor) -> Tensor:
    """(groups, g) each reward less the mean of the others of its group."""
    g = rewards.shape[1]
    return (rewards - rewards.mean(1, keepdim=True)) * (g / (g - 1))


def grpo(rewards: Tensor) -> Tensor:
    """(groups, g) rewards less their group's mean, in units of its standard deviation (n − 1)."""
    return (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + STD_FLOOR)


ADVANTAGES: dict[str, Callable[[Tensor], Tensor]] = {"rloo": rloo, "grpo": grpo}


def advantages(kind: str, rewards: Tensor, group_size: int) -> Tensor:
    """(n,) advantages of (n,) ``rewards``, the ``group_size`` of one prompt in a row.

    kind         a key of ``ADVANTAGES``
    group_size   at least 2: one rollout has nothing to be compared with
    """
    return ADVANTAGES[kind](rewards.view(-1, group_size)).flatten()
