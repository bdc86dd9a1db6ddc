"""The clipped policy objective.

Departures from GRPO as published: tokens of a rollout are summed, not averaged over its length, so that no
rollout's tokens weigh more for being few; there is no penalty on the distance to the start model; sums are
divided by the rollouts of the whole mini-batch, so that micro-batches add up to its gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor

from batchscout.train.policy_gradient.model import Transformer, repeat_cache
from batchscout.train.policy_gradient.sampling import Rollouts

SHARE_FROM = 64
"""Rollouts per pass from which running a prompt once for its group is faster: bench/trainer.py."""


def completion_logprobs(
    model: Transformer, rollouts: Rollouts, *, temperature: float = 1.0, is_shared: bool | None = None
) -> Tensor:
    """(n, A) log-probabilities of the rollouts' tokens, differentiable.

    is_shared  whether a group's prompt runs through the model once; None chooses what is faster. The
               gradient is the same but for rounding.
    """
    if is_shared is None:
        is_shared = rollouts.group_size > 1 and len(rollouts.tokens) >= SHARE_FROM
    forced = rollouts.tokens[:, :-1]  # the last token is only predicted
    g = rollouts.group_size
    if is_shared:
        first, cache = model(rollouts.prompts, last=1)
        rest, _ = model(forced, cache=repeat_cache(cache, g))
        logits = torch.cat([first.repeat_interleave(g, 0), rest], 1)
    else:
        sequences = torch.cat([rollouts.prompts.repeat_interleave(g, 0), forced], 1)
        logits, _ = model(sequences, last=rollouts.tokens.shape[1])
    distribution = (logits / temperature).log_softmax(-1)  # (n, A, vocabulary)
    return distribution.gather(2, rollouts.tokens[..., None])[..., 0]


def clipped_objective(
    logprobs: Tensor, sampled_logprobs: Tensor, advantages: Tensor, mask: Tensor, *, clip: float
) -> Tensor:
    """Sum over rollouts and their tokens of min(ρ·a, clamp(ρ, 1 − clip, 1 + clip)·a); the learner ascends it.

    logprobs, sampled_logprobs, mask  (n, A); ρ = exp(logprobs − sampled_logprobs)
    advantages                        (n,)
    Source                            Schulman et al. 2017 (arXiv 1707.06347), equation 7
    """
    ratio = (logprobs - sampled_logprobs).exp()
    weights = advantages[:, None]
    clipped = ratio.clamp(1 - clip, 1 + clip) * weights
    return (torch.minimum(ratio * weights, clipped) * mask).sum()
