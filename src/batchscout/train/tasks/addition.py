"""Addition of two zero-padded numbers, character by character: ``03+41=`` → ``44$``."""

from __future__ import annotations

import torch
from torch import Tensor

from batchscout.errors import ConfigError

PLUS, EQUALS, END = 10, 11, 12


class Addition:
    """All pairs of ``digits``-digit numbers whose sum has no more; an answer is right or worth nothing.

    digits      digits of each operand, 1 to 3
    held_out    prompts kept away from training
    split_seed  decides which; the same split for all jobs
    Raises      ConfigError if fewer than half the prompts would be left to train on.
    """

    alphabet = "0123456789+=$"
    end = END

    def __init__(
        self, *, digits: int = 2, held_out: int = 512, split_seed: int = 1234, device: str = "cpu"
    ) -> None:
        if not 1 <= digits <= 3:
            raise ConfigError("task.digits", digits, "is out of range; use 1, 2 or 3")
        self.digits, self.completion_tokens = digits, digits + 1
        prompts = self._all_prompts()
        if not 1 <= held_out <= len(prompts) // 2:
            raise ConfigError("task.held_out", held_out, f"is out of range; use 1 to {len(prompts) // 2}")
        order = torch.randperm(len(prompts), generator=torch.Generator().manual_seed(split_seed))
        self.prompts = prompts[order[held_out:]].to(device)
        self.held_out = prompts[order[:held_out]].to(device)

    def _all_prompts(self) -> Tensor:
        numbers = torch.arange(10**self.digits)
        first, second = (grid.flatten() for grid in torch.meshgrid(numbers, numbers, indexing="ij"))
        fits = first + second < 10**self.digits
        first, second = self._digits(first[fits]), self._digits(second[fits])
        plus, equals = (torch.full((len(first), 1), token) for token in (PLUS, EQUALS))
        return torch.cat([first, plus, second, equals], 1)

    def _digits(self, numbers: Tensor) -> Tensor:
        """(k, digits) of the (k,) ``numbers``, most significant first."""
        powers = 10 ** torch.arange(self.digits - 1, -1, -1, device=numbers.device)
        return numbers[:, None] // powers % 10

    def answers(self, prompts: Tensor) -> Tensor:
        """(k, digits + 1): the sum's digits and the end token."""
        powers = 10 ** torch.arange(self.digits - 1, -1, -1, device=prompts.device)
        operands = prompts[:, : self.digits] + prompts[:, self.digits + 1 : 2 * self.digits + 1]
        total = self._digits((operands * powers).sum(1))
        return torch.cat([total, torch.full_like(total[:, :1], END)], 1)

    def reward(self, prompts: Tensor, completions: Tensor) -> Tensor:
        """(k,) 1 where the completion is exactly the answer, else 0."""
        return (completions == self.answers(prompts)).all(1).float()
