"""From rollouts and their advantages to a changed policy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from batchscout.errors import TrainerError
from batchscout.train.policy_gradient.adam import Adam
from batchscout.train.policy_gradient.distributed import ALONE, Ranks
from batchscout.train.policy_gradient.loss import clipped_objective, completion_logprobs
from batchscout.train.policy_gradient.model import Transformer
from batchscout.train.policy_gradient.parameters import FlatParameters
from batchscout.train.policy_gradient.sampling import Rollouts
from batchscout.train.policy_gradient.settings import LearningSettings


@dataclass(frozen=True)
class NoiseScaleNorms:
    """Squared norms of mean gradients over few and over many rollouts of one mini-batch.

    small, big            |G_small|² (mean over the parts), |G_big|²
    small_size, big_size  rollouts behind each
    Source                McCandlish et al. 2018 (arXiv 1812.06162), appendix A.1
    """

    small: float
    big: float
    small_size: int
    big_size: int

    def metrics(self) -> dict[str, float]:
        """As journalled with an update."""
        return {
            "gradient_square_small": self.small,
            "gradient_square_big": self.big,
            "noise_scale_small_size": self.small_size,
            "noise_scale_big_size": self.big_size,
        }


NOISE_SCALE_PARTS = 4
"""A mini-batch is split into so many equal parts of whole groups, more where its groups do not divide so: few
parts cost little, and in many dimensions even two tell the noise well."""


class Learner:
    """Adam on the clipped objective of one model, on one rank or several."""

    def __init__(self, model: Transformer, settings: LearningSettings, ranks: Ranks = ALONE) -> None:
        self.model, self.settings, self.ranks = model, settings, ranks
        if ranks.size > 1 and (
            settings.mini_batch_size % settings.group_size or settings.noise_scale_samples
        ):
            raise TrainerError(
                f"on {ranks.size} ranks a mini-batch must be whole groups (mini_batch_size="
                f"{settings.mini_batch_size}, group_size={settings.group_size}) and noise_scale_samples 0"
            )
        self.parameters = FlatParameters(model)
        self.optimizer = Adam(self.parameters.vector, settings.betas)

    def update(self, rollouts: Rollouts, advantages: Tensor, *, samples: int) -> dict[str, float]:
        """Learn from a whole batch, mini-batch after mini-batch.

        rollouts    this rank's share of each mini-batch, one after the other (alone: the batch)
        advantages  (n,) of them
        samples     rollouts trained on before this update; it sets the lr during warm-up, and whether squared
                    gradient norms are measured: in the first update beyond each multiple of noise_scale_samples
        Returns     metrics of the update; ``gradient_norm`` of its last step, before clipping
        """
        every, mini = self.settings.noise_scale_samples, self.settings.mini_batch_size
        metrics: dict[str, float] = {}
        own = self._own_share(mini)
        for number, start in enumerate(range(0, self.settings.batch_size, mini)):
            here = slice(number * own, (number + 1) * own)
            part, part_advantages = rollouts.slice(here.start, here.stop), advantages[here]
            is_due = every > 0 and samples % every < self.settings.batch_size
            if start == 0 and is_due and mini > self.settings.group_size:
                metrics.update(self.gradient_by_parts(part, part_advantages).metrics())
            else:
                self.gradient(part, part_advantages, mini_batch_size=mini)
                self.ranks.sum(self.parameters.gradient)
            lr = warmed_up_lr(self.settings.lr, samples + start + mini, self.settings.lr_warmup_samples)
            metrics["gradient_norm"] = self.step(lr)
        return metrics

    def _own_share(self, mini_batch_size: int) -> int:
        """Rollouts of each mini-batch that lie on this rank."""
        if self.ranks.size == 1:
            return mini_batch_size
        share = self.ranks.share(mini_batch_size // self.settings.group_size)
        return int(share.stop - share.start) * self.settings.group_size

    def gradient(self, rollouts: Rollouts, advantages: Tensor, *, mini_batch_size: int | None = None) -> None:
        """Leave the gradient of minus the mean objective of ``rollouts`` in the parameters, pass by pass.

        mini_batch_size  rollouts that the mean is over, where other ranks hold the rest
        """
        self.parameters.zero_gradient()
        n, micro = len(rollouts.tokens), self.settings.micro_batch_size
        for start in range(0, n, micro):
            stop = min(n, start + micro)
            part = rollouts.slice(start, stop)
            self._accumulate(part, advantages[start:stop], mini_batch_size or n)

    def gradient_by_parts(
        self, rollouts: Rollouts, advantages: Tensor, *, parts: int = NOISE_SCALE_PARTS
    ) -> NoiseScaleNorms:
        """As ``gradient``, and the squared norms of the parts' gradients.

        parts  at least so many, all equal, of whole groups, which are what is independent
        """
        self.parameters.zero_gradient()
        n, micro = len(rollouts.tokens), self.settings.micro_batch_size
        size = n // equal_parts(n // rollouts.group_size, parts)
        squares, before = [], self.parameters.gradient.clone()
        for begin in range(0, n, size):
            for start in range(begin, begin + size, micro):
                stop = min(begin + size, start + micro)
                self._accumulate(rollouts.slice(start, stop), advantages[start:stop], n)
            after = self.parameters.gradient.clone()
            squares.append((after - before).square().sum() * (n / size) ** 2)
            before = after
        return NoiseScaleNorms(float(torch.stack(squares).mean()), float(before.square().sum()), size, n)

    def _accumulate(self, rollouts: Rollouts, advantages: Tensor, mini_batch_size: int) -> None:
        logprobs = completion_logprobs(self.model, rollouts, temperature=self.settings.temperature)
        objective = clipped_objective(
            logprobs, rollouts.logprobs, advantages, rollouts.mask, clip=self.settings.clip
        )
        loss = -objective / mini_batch_size
        loss.backward()  # type: ignore[no-untyped-call]

    def step(self, lr: float) -> float:
        """One optimizer step at ``lr`` along the gradient; returns the gradient's norm before clipping."""
        norm = float(self.parameters.gradient.norm())
        limit = self.settings.gradient_clip
        if limit is not None and norm > limit:
            self.parameters.gradient.mul_(limit / norm)
        self.optimizer.step(self.parameters.gradient, lr)
        return norm

    def is_finite(self) -> bool:
        """Whether every parameter is a number: a sum is infinite or NaN as soon as one of them is."""
        return math.isfinite(float(self.parameters.vector.sum()))


def warmed_up_lr(lr: float, samples: int, warmup_samples: int) -> float:
    """The lr of an optimizer step that brings the job to ``samples`` rollouts.

    It grows linearly with the samples and is ``lr`` from ``warmup_samples`` on, so that every batch size
    spends the same samples on warm-up; an update larger than the warm-up takes its only step at the full lr.
    """
    return lr * min(1.0, samples / warmup_samples) if warmup_samples > 0 else lr


def equal_parts(groups: int, wanted: int) -> int:
    """The least number of equal parts of ``groups`` that is ``wanted`` or more; all of them where they are
    fewer."""
    return next((n for n in range(wanted, groups) if groups % n == 0), groups)
