"""Batch arithmetic of trainers that count in their own units, in ours: everything in rollouts.

verl counts batches in prompts and micro-batches in completions per GPU; TRL, since 0.15, counts completions
per device and derives the batch. Both fail late, after the model is loaded, where the numbers do not
divide; here they fail before a job is submitted, with the nearest numbers that do.
"""

from __future__ import annotations

import math

from batchscout.config.arithmetic import BatchArithmetic
from batchscout.errors import ConfigError


def verl_arithmetic(
    *,
    train_batch_size: int,
    ppo_mini_batch_size: int,
    rollout_n: int,
    ppo_micro_batch_size_per_gpu: int,
    gpus: int,
) -> BatchArithmetic:
    """One verl step in rollouts; a step is one update of ours, its mini-batches are our optimizer steps.

    train_batch_size, ppo_mini_batch_size  prompts; each is multiplied by ``rollout_n`` inside verl
    ppo_micro_batch_size_per_gpu           completions per GPU and pass
    Raises                                 ConfigError where verl would fail, naming the nearest valid values.
    """
    mini_field = "actor_rollout_ref.actor.ppo_mini_batch_size"
    fitting = [size for size in divisors(train_batch_size) if size * rollout_n % gpus == 0]
    near = nearest(fitting, ppo_mini_batch_size)
    if ppo_mini_batch_size > train_batch_size or train_batch_size % ppo_mini_batch_size:
        raise ConfigError(
            mini_field,
            ppo_mini_batch_size,
            f"prompts do not divide data.train_batch_size={train_batch_size}; {near}",
        )
    mini_batch_size = ppo_mini_batch_size * rollout_n
    if mini_batch_size % gpus:
        raise ConfigError(
            mini_field,
            ppo_mini_batch_size,
            f"prompts × rollout.n={rollout_n} cannot be shared equally by {gpus} GPUs; {near}",
        )
    per_gpu = mini_batch_size // gpus
    if per_gpu % ppo_micro_batch_size_per_gpu:
        raise ConfigError(
            "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
            ppo_micro_batch_size_per_gpu,
            f"does not divide the {per_gpu} rollouts of a mini-batch on one GPU; "
            f"{nearest(divisors(per_gpu), ppo_micro_batch_size_per_gpu)}",
        )
    return BatchArithmetic(
        batch_size=train_batch_size * rollout_n,
        group_size=rollout_n,
        mini_batch_size=mini_batch_size,
        micro_batch_size=ppo_micro_batch_size_per_gpu,
        gpus=gpus,
    )


def trl_arithmetic(
    *,
    per_device_train_batch_size: int,
    gradient_accumulation_steps: int,
    num_generations: int,
    gpus: int,
    steps_per_generation: int | None = None,
) -> BatchArithmetic:
    """One generation of TRL's GRPOTrainer (0.15 or later) in rollouts.

    per_device_train_batch_size  completions per training GPU and pass; GPUs given to vLLM do not count
    steps_per_generation         passes fed by one generation; None: ``gradient_accumulation_steps``
    Raises                       ConfigError where TRL would fail, naming the nearest batches that fit.
    """
    step = per_device_train_batch_size * gpus * gradient_accumulation_steps
    passes = steps_per_generation or gradient_accumulation_steps
    if passes % gradient_accumulation_steps:
        multiples = range(gradient_accumulation_steps, 2 * passes + 1, gradient_accumulation_steps)
        raise ConfigError(
            "steps_per_generation",
            passes,
            f"is not a multiple of gradient_accumulation_steps={gradient_accumulation_steps}; "
            f"{nearest(list(multiples), passes)}",
        )
    batch_size = per_device_train_batch_size * gpus * passes
    if batch_size % num_generations:
        grain = math.lcm(gpus, num_generations)
        below = batch_size // grain * grain
        batches = [size for size in (below, below + grain) if size]
        raise ConfigError(
            "per_device_train_batch_size",
            per_device_train_batch_size,
            f"× {gpus} GPUs × {passes} passes = {batch_size} completions, not a multiple of "
            f"num_generations={num_generations}; nearest on {gpus} GPUs: {words(batches)} completions",
        )
    return BatchArithmetic(
        batch_size=batch_size,
        group_size=num_generations,
        mini_batch_size=step,
        micro_batch_size=per_device_train_batch_size,
        gpus=gpus,
    )


def divisors(number: int) -> list[int]:
    """Every divisor of a positive number, ascending."""
    return [size for size in range(1, number + 1) if number % size == 0]


def nearest(allowed: list[int], asked: int) -> str:
    """In words, the allowed values on both sides of the one asked for."""
    below = [value for value in allowed if value < asked][-1:]
    above = [value for value in allowed if value > asked][:1]
    return f"use {words(below + above)}" if below or above else "no value fits"


def words(numbers: list[int]) -> str:
    """``64 or 128``."""
    return " or ".join(map(str, numbers))
