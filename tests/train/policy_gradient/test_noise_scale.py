"""The gradient noise scale of the built-in trainer: the laws' estimate from the learner's squared norms."""

from __future__ import annotations

import math
from itertools import permutations
from pathlib import Path
from typing import Any

import torch

from batchscout.laws import NoiseScale, noise_scale
from batchscout.train.policy_gradient.advantage import advantages
from batchscout.train.policy_gradient.imitation import load_start
from batchscout.train.policy_gradient.learner import Learner
from batchscout.train.policy_gradient.model import model_for
from batchscout.train.policy_gradient.sampling import Sampler
from batchscout.train.policy_gradient.settings import LearningSettings
from batchscout.train.policy_gradient.warm_start import WarmStart
from batchscout.train.tasks import make_task

ROLLOUTS = 8_192
"""Behind each estimate."""


def estimate(job: dict[str, Any], batch_size: int, parts: int, generator: torch.Generator) -> NoiseScale:
    """At the start model, which stands still, from batches of its own."""
    task = make_task(job["task"])
    model = model_for(job["model"], task)
    load_start(model, WarmStart(Path(job["warm_start"]["path"]), job["warm_start"]["sha256"]))
    learner = Learner(model, LearningSettings.from_job({**job, "batch_size": batch_size}))
    sampler = Sampler(task.completion_tokens, task.end)
    found = []
    for _ in range(ROLLOUTS // batch_size):
        prompts = task.prompts[torch.randint(len(task.prompts), (batch_size // 8,), generator=generator)]
        rollouts = sampler.sample(model, prompts, 8, generator)
        rewards = task.reward(prompts.repeat_interleave(8, 0), rollouts.tokens)
        found.append(learner.gradient_by_parts(rollouts, advantages("rloo", rewards, 8), parts=parts))
    return noise_scale(
        found[0].small_size, batch_size, [norms.small for norms in found], [norms.big for norms in found]
    )


def test_estimates_from_different_pairs_of_batch_sizes_agree(job: dict[str, Any]) -> None:
    generator = torch.Generator().manual_seed(5)
    found = [estimate(job, batch_size, 4, generator) for batch_size in (128, 512, 2048)]
    for one, other in permutations(found, 2):
        assert other.interval[1] is not None
        assert (one.interval[0] or 0.0) <= other.interval[1], (one, other)
    traces = [each.trace for each in found]  # the noise itself, which every pair tells well
    assert max(traces) < 1.3 * min(traces)
    largest = found[-1].interval
    assert (largest[1] or math.inf) < 3 * (largest[0] or 0.0)  # else agreement would mean little
