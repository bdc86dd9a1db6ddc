"""CPU milliseconds of an update of the tiny model, phase by phase and batch by batch.

    python bench/trainer.py [batch_size …]

Thread time, so that other work on the machine matters little; the best of several repeats.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml

from batchscout.train.policy_gradient.advantage import advantages
from batchscout.train.policy_gradient.evaluation import greedy_score
from batchscout.train.policy_gradient.imitation import load_start
from batchscout.train.policy_gradient.learner import Learner
from batchscout.train.policy_gradient.loss import clipped_objective, completion_logprobs
from batchscout.train.policy_gradient.model import model_for
from batchscout.train.policy_gradient.sampling import Sampler
from batchscout.train.policy_gradient.settings import LearningSettings
from batchscout.train.policy_gradient.warm_start import warm_start
from batchscout.train.tasks import make_task

CONF = Path(__file__).parents[1] / "conf"
REPEATS = 7
BATCH_SIZES = (16, 32, 64, 128, 256, 512, 1024, 2048)


def milliseconds(call: Callable[[], object], *, calls: int) -> float:
    """CPU milliseconds of one call: the best mean of ``REPEATS`` series of ``calls``."""
    call()
    best = float("inf")
    for _ in range(REPEATS):
        start = time.thread_time()
        for _ in range(calls):
            call()
        best = min(best, (time.thread_time() - start) / calls)
    return 1000 * best


def entry(group: str, name: str) -> dict[str, Any]:
    """A config group entry."""
    content: dict[str, Any] = yaml.safe_load((CONF / group / f"{name}.yaml").read_text())
    return content


def measure(batch_size: int) -> dict[str, float]:
    """Milliseconds by phase at one batch size."""
    job = {
        "batch_size": batch_size,
        "group_size": 8,
        "lr": 1e-4,
        "task": entry("task", "addition"),
        "model": entry("model", "tiny"),
        "trainer": entry("trainer", "policy_gradient"),
    }
    task = make_task(job["task"])
    model = model_for(job["model"], task)
    load_start(model, warm_start(job))
    learner = Learner(model, LearningSettings.from_job(job))
    sampler = Sampler(task.completion_tokens, task.end)
    generator = torch.Generator().manual_seed(0)
    prompts = task.prompts[torch.randint(len(task.prompts), (batch_size // 8,), generator=generator)]
    rollouts = sampler.sample(model, prompts, 8, generator)
    rewards = task.reward(prompts.repeat_interleave(8, 0), rollouts.tokens)
    weights = advantages("rloo", rewards, 8)

    def passes(is_shared: bool) -> None:
        for start in range(0, batch_size, 512):
            part = rollouts.slice(start, min(batch_size, start + 512))
            logprobs = completion_logprobs(model, part, is_shared=is_shared)
            objective = clipped_objective(
                logprobs, part.logprobs, weights[start : start + 512], part.mask, clip=0.2
            )
            objective.backward()

    calls = max(2, 256 // batch_size)
    return {
        "sampling": milliseconds(lambda: sampler.sample(model, prompts, 8, generator), calls=calls),
        "pass, shared prompts": milliseconds(lambda: passes(True), calls=calls),
        "pass, unshared": milliseconds(lambda: passes(False), calls=calls),
        "whole learning": milliseconds(lambda: learner.update(rollouts, weights, samples=10**6), calls=calls),
        "gradient by parts": milliseconds(lambda: learner.gradient_by_parts(rollouts, weights), calls=calls),
        "evaluation of 512": milliseconds(lambda: greedy_score(model, task, 512), calls=2),
    }


def main(batch_sizes: Sequence[int] = BATCH_SIZES) -> None:
    """Print one row a batch size; the last column is what the squared norms of noise_scale_samples=8192 add."""
    torch.set_num_threads(1)
    print("CPU milliseconds on one core")
    for number, batch_size in enumerate(batch_sizes):
        found = measure(batch_size)
        extra = found["gradient by parts"] - found["pass, shared prompts"]
        share = extra * batch_size / 8192 / (found["sampling"] + found["whole learning"])
        if not number:
            print("batch_size  " + "  ".join(found) + "  norms add")
        cells = [f"{value:>{len(name)}.2f}" for name, value in found.items()]
        print(f"{batch_size:>10}  " + "  ".join(cells) + f"  {share:>9.1%}", flush=True)


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or BATCH_SIZES)
