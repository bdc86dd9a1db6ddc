"""How many prompts, optimizer steps and passes one update takes: what a dry run prints."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchArithmetic:
    """One update in numbers.

    batch_size = prompts · group_size = steps · mini_batch_size rollouts, on `gpus` devices together;
    mini_batch_size = passes · micro_batch_size · gpus: micro_batch_size is per device, None where the trainer
    chooses it
    """

    batch_size: int
    group_size: int
    mini_batch_size: int
    micro_batch_size: int | None = None
    gpus: int = 1

    @property
    def prompts(self) -> int:
        return self.batch_size // self.group_size

    @property
    def steps(self) -> int:
        """Optimizer steps per update."""
        return self.batch_size // self.mini_batch_size

    @property
    def rollouts_per_device(self) -> int:
        """Rollouts of one optimizer step on one device."""
        return -(-self.mini_batch_size // max(1, self.gpus))

    @property
    def passes(self) -> int:
        """Accumulation steps: forward/backward passes per optimizer step on one device."""
        if self.micro_batch_size is None:
            return 1
        return -(-self.rollouts_per_device // min(self.micro_batch_size, self.rollouts_per_device))

    def __str__(self) -> str:
        words = [
            f"{self.batch_size} rollouts = {_count(self.prompts, 'prompt')} × {self.group_size}",
            f"{_count(self.steps, 'optimizer step')} of {self.mini_batch_size} per update",
        ]
        if self.gpus > 1:
            most = "at most " if self.mini_batch_size % self.gpus else ""
            words.append(f"{most}{self.rollouts_per_device} on each of {self.gpus} GPUs")
        if self.micro_batch_size is not None:
            micro = min(self.micro_batch_size, self.rollouts_per_device)
            words.append(f"{_count(self.passes, 'accumulation step')} of {micro}")
        return "; ".join(words)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
