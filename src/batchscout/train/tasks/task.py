"""What a task gives a trainer."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Task(Protocol):
    """Prompts with verifiable completions, as token ids of a small alphabet.

    All prompts have P tokens; a completion has at most A, the first ``end`` closes it and fills the rest.
    """

    alphabet: str
    """One character a token id."""

    end: int
    """Id of the token that ends a completion."""

    prompts: Tensor
    """(n, P) prompts to train on."""

    held_out: Tensor
    """(m, P) prompts to evaluate on, none of them in ``prompts``."""

    completion_tokens: int
    """A."""

    def answers(self, prompts: Tensor) -> Tensor:
        """(k, A) right completions of the (k, P) ``prompts``: what a supervised warm start imitates."""

    def reward(self, prompts: Tensor, completions: Tensor) -> Tensor:
        """(k,) rewards of the (k, A) ``completions``; their mean on held-out prompts is the score."""
