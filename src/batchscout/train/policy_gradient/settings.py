"""What policy_gradient reads from a job, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from batchscout.errors import ConfigError
from batchscout.train.policy_gradient.model import ModelShape, Transformer
from batchscout.train.tasks import Task

DEFAULT_MICRO_BATCH_SIZE = 512
"""Rollouts per pass where none is asked for: throughput on a CPU core is flat from here on."""


@dataclass(frozen=True)
class LearningSettings:
    """How rollouts become a step; words as in the table of words.

    clip                 half-width of the ratio's interval around 1
    betas                Adam's decay rates
    gradient_clip        largest gradient norm, None for no limit
    lr_warmup_samples    rollouts over which the lr grows from 0
    noise_scale_every    updates between two measurements of squared gradient norms, 0 for none
    """

    batch_size: int
    mini_batch_size: int
    micro_batch_size: int
    group_size: int
    lr: float
    advantage: str
    clip: float
    betas: tuple[float, float]
    gradient_clip: float | None
    lr_warmup_samples: int
    temperature: float
    noise_scale_every: int

    @classmethod
    def from_job(cls, config: Mapping[str, Any]) -> LearningSettings:
        """From a resolved job. Raises ConfigError where the sizes do not divide each other."""
        batch, group, trainer = config["batch_size"], config["group_size"], config["trainer"]
        mini = config.get("mini_batch_size") or batch
        if batch % group:
            raise ConfigError("batch_size", batch, f"is not a multiple of group_size={group}")
        if batch % mini:
            fitting = ", ".join(str(size) for size in range(group, batch + 1, group) if batch % size == 0)
            raise ConfigError(
                "mini_batch_size", mini, f"does not divide batch_size={batch}; use one of {fitting}"
            )
        first_beta, second_beta = trainer.get("betas", (0.9, 0.95))
        return cls(
            batch_size=batch,
            mini_batch_size=mini,
            micro_batch_size=min(mini, config.get("micro_batch_size") or DEFAULT_MICRO_BATCH_SIZE),
            group_size=group,
            lr=config["lr"],
            advantage=trainer.get("advantage", "rloo"),
            clip=trainer.get("clip", 0.2),
            betas=(first_beta, second_beta),
            gradient_clip=trainer.get("gradient_clip"),
            lr_warmup_samples=trainer.get("lr_warmup_samples", 0),
            temperature=trainer.get("temperature", 1.0),
            noise_scale_every=trainer.get("noise_scale_every", 0),
        )


def device_of(config: Mapping[str, Any]) -> torch.device:
    """``trainer.device``; where it is null or ``auto``, a CUDA device if there is one, else the CPU."""
    asked = config["trainer"].get("device")
    if asked in (None, "auto"):
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(asked)


def model_for(settings: Mapping[str, Any], task: Task) -> Transformer:
    """A freshly drawn model of the ``model`` entry ``settings`` for ``task``; ``model.seed`` decides the draw."""
    width, heads = settings["width"], settings["heads"]
    if width % heads:
        raise ConfigError("model.heads", heads, f"does not divide model.width={width}")
    shape = ModelShape(
        vocabulary=len(task.alphabet),
        positions=task.prompts.shape[1] + task.completion_tokens,
        layers=settings["layers"],
        width=width,
        heads=heads,
    )
    return Transformer(shape, embedding_std=settings["embedding_std"], seed=settings["seed"])
