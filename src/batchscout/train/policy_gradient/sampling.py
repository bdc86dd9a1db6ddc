"""Rollouts: completions sampled in batches with a cache of keys and values."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from batchscout.train.policy_gradient.model import Transformer, repeat_cache


@dataclass(frozen=True)
class Rollouts:
    """Completions, the g of one prompt in a row.

    prompts   (n / g, P) each prompt once
    tokens    (n, A) completions, filled up with the end token
    logprobs  (n, A) log-probability of each token under the policy that sampled it
    mask      (n, A) 1 up to and including the first end token, else 0
    """

    prompts: Tensor
    tokens: Tensor
    logprobs: Tensor
    mask: Tensor

    @property
    def group_size(self) -> int:
        """g."""
        return len(self.tokens) // len(self.prompts)

    def slice(self, start: int, stop: int) -> Rollouts:
        """Rollouts ``start`` to ``stop``; where these cut a group, every rollout gets its own prompt."""
        g = self.group_size
        if start % g == 0 and stop % g == 0:
            prompts = self.prompts[start // g : stop // g]
        else:
            prompts = self.prompts[torch.arange(start, stop, device=self.prompts.device) // g]
        part = slice(start, stop)
        return Rollouts(prompts, self.tokens[part], self.logprobs[part], self.mask[part])


@dataclass(frozen=True)
class Sampler:
    """How completions are drawn.

    completion_tokens  most tokens of a completion
    end                id of the token that ends one
    temperature        of the distribution sampled from; the learner uses the same
    micro_batch_size   rollouts sampled at once; a memory matter, though it decides which random number
                       goes where
    """

    completion_tokens: int
    end: int
    temperature: float = 1.0
    micro_batch_size: int = 1024

    def sample(
        self, model: Transformer, prompts: Tensor, group_size: int, generator: torch.Generator
    ) -> Rollouts:
        """``group_size`` completions of each of the (m, P) ``prompts``."""
        return self._complete(model, prompts, group_size, generator)

    def greedy(self, model: Transformer, prompts: Tensor) -> Tensor:
        """(m, A) most probable completion, token by token, of each of the (m, P) ``prompts``."""
        return self._complete(model, prompts, 1, None).tokens

    def _complete(
        self, model: Transformer, prompts: Tensor, group_size: int, generator: torch.Generator | None
    ) -> Rollouts:
        chunks = torch.split(prompts, max(1, self.micro_batch_size // group_size))
        with torch.inference_mode():
            drawn = [self._complete_chunk(model, chunk, group_size, generator) for chunk in chunks]
        tokens, logprobs = (torch.cat(parts) for parts in zip(*drawn, strict=True))
        return Rollouts(prompts, tokens, logprobs, completion_mask(tokens, self.end))

    def _complete_chunk(
        self, model: Transformer, prompts: Tensor, group_size: int, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        logits, cache = model(prompts, last=1)  # once a prompt: its completions share the keys and values
        logits, cache = logits.repeat_interleave(group_size, 0), repeat_cache(cache, group_size)
        rows = len(logits)
        tokens = torch.full((rows, self.completion_tokens), self.end, device=prompts.device)
        logprobs = torch.zeros(rows, self.completion_tokens, device=prompts.device)
        ended = torch.zeros(rows, dtype=torch.bool, device=prompts.device)
        for position in range(self.completion_tokens):
            distribution = (logits[:, -1] / self.temperature).log_softmax(-1)  # (rows, vocabulary)
            drawn = distribution.argmax(-1) if generator is None else draw(distribution, generator)
            drawn = torch.where(ended, self.end, drawn)
            tokens[:, position] = drawn
            logprobs[:, position] = distribution.gather(1, drawn[:, None])[:, 0]
            ended |= drawn == self.end
            if position == self.completion_tokens - 1 or bool(ended.all()):
                break
            logits, cache = model(drawn[:, None], cache=cache)
        return tokens, logprobs


def draw(logprobs: Tensor, generator: torch.Generator) -> Tensor:
    """One index a row of (n, v) ``logprobs``: largest with Gumbel noise, −log of an exponential, added."""
    noise = torch.empty_like(logprobs).exponential_(generator=generator)
    return (logprobs - noise.log()).argmax(-1)


def completion_mask(tokens: Tensor, end: int) -> Tensor:
    """(n, A) 1 up to and including the first ``end`` of each row of ``tokens``, else 0."""
    is_end = (tokens == end).int()
    return (is_end.cumsum(1) - is_end == 0).float()
