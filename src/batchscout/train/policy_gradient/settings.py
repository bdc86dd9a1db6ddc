"""What policy_gradient reads from a job, checked without torch, so that a sweep checks its jobs quickly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from batchscout.config.fields import Limits, convert
from batchscout.errors import ConfigError
from batchscout.train.policy_gradient.advantage import ADVANTAGES

DEFAULT_MICRO_BATCH_SIZE = 512
"""Rollouts per pass where none is asked for: throughput on a CPU core is flat from here on."""

AT_LEAST_1, AT_LEAST_0, ABOVE_0, SHARE = Limits(least=1), Limits(least=0), Limits(above=0), Limits(0, None, 1)
RANGES: dict[str, tuple[Any, Limits]] = {
    "trainer.clip": (float, ABOVE_0),
    "trainer.gradient_clip": (float | None, ABOVE_0),
    "trainer.lr_warmup_samples": (int, AT_LEAST_0),
    "trainer.temperature": (float, ABOVE_0),
    "trainer.sampling_micro_batch_size": (int, AT_LEAST_1),
    "trainer.noise_scale_samples": (int, AT_LEAST_0),
    "trainer.threads": (int, AT_LEAST_1),
    "model.layers": (int, AT_LEAST_1),
    "model.width": (int, AT_LEAST_1),
    "model.heads": (int, AT_LEAST_1),
    "model.embedding_std": (float, ABOVE_0),
    "model.start_score": (float, SHARE),
    "model.start_lr": (float, ABOVE_0),
    "model.start_batch_size": (int, AT_LEAST_1),
    "model.start_steps": (int, AT_LEAST_0),
}
DEVICES = ("auto", "cpu", "cuda", "mps", "xpu")


@dataclass(frozen=True)
class LearningSettings:
    """How rollouts become a step; sizes as in the table of words.

    clip                 half-width of the ratio's interval around 1
    betas                Adam's decay rates
    gradient_clip        largest gradient norm, None for no limit
    lr_warmup_samples    rollouts over which the lr grows from 0
    noise_scale_samples  rollouts between two measurements of squared gradient norms, 0 for none
    """

    batch_size: int
    mini_batch_size: int
    micro_batch_size: int
    group_size: int
    lr: float
    advantage: str = "rloo"
    clip: float = 0.2
    betas: tuple[float, float] = (0.9, 0.95)
    gradient_clip: float | None = None
    lr_warmup_samples: int = 0
    temperature: float = 1.0
    noise_scale_samples: int = 0

    @classmethod
    def from_job(cls, job: Mapping[str, Any]) -> LearningSettings:
        """From a resolved job. Raises ConfigError where sizes do not fit each other or a word is unknown."""
        batch, group, trainer = job["batch_size"], job["group_size"], job["trainer"]
        mini = job.get("mini_batch_size") or batch
        check_sizes(batch, mini, group)
        advantage = trainer.get("advantage", "rloo")
        if advantage not in ADVANTAGES:
            raise ConfigError(
                "trainer.advantage", advantage, f"is unknown; use one of {', '.join(ADVANTAGES)}"
            )
        optional = ("clip", "gradient_clip", "lr_warmup_samples", "temperature", "noise_scale_samples")
        first_beta, second_beta = trainer.get("betas", cls.betas)
        return cls(
            batch_size=batch,
            mini_batch_size=mini,
            micro_batch_size=min(mini, job.get("micro_batch_size") or DEFAULT_MICRO_BATCH_SIZE),
            group_size=group,
            lr=job["lr"],
            advantage=advantage,
            betas=(first_beta, second_beta),
            **{name: trainer[name] for name in optional if name in trainer},
        )


def check_sizes(batch_size: int, mini_batch_size: int, group_size: int) -> None:
    """Raise ConfigError unless a batch is whole groups and whole mini-batches."""
    if group_size < 2:
        raise ConfigError(
            "group_size", group_size, "leaves nothing to compare a rollout with; use at least 2"
        )
    if batch_size % group_size:
        raise ConfigError("batch_size", batch_size, f"is not a multiple of group_size={group_size}")
    if batch_size % mini_batch_size:
        sizes = [size for size in range(group_size, batch_size + 1, group_size) if batch_size % size == 0]
        fitting = ", ".join(map(str, sizes))
        raise ConfigError(
            "mini_batch_size",
            mini_batch_size,
            f"does not divide batch_size={batch_size}; use one of {fitting}",
        )


def check(job: Mapping[str, Any]) -> None:
    """Raise ConfigError for whatever of a job would fail as soon as it started."""
    LearningSettings.from_job(job)
    for name, (kind, limits) in RANGES.items():
        group, _, key = name.partition(".")
        if key in job[group]:
            convert(kind, job[group][key], name, limits)
    _check_trainer(job["trainer"])
    if job["task"].get("name") == "addition":
        check_addition(job["task"].get("digits", 2), job["task"].get("held_out", 512))
    check_heads(job["model"]["width"], job["model"]["heads"])
    held_out, prompts = job["task"].get("held_out"), job["evaluation"]["prompts"]
    if held_out is not None:
        check_prompts(prompts, held_out)


def _check_trainer(trainer: Mapping[str, Any]) -> None:
    betas = trainer.get("betas", LearningSettings.betas)
    if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
        raise ConfigError(
            "trainer.betas", list(betas), "must be two numbers from 0 to below 1, as in [0.9,0.95]"
        )
    device = trainer.get("device") or "auto"
    if str(device).partition(":")[0] not in DEVICES:
        raise ConfigError("trainer.device", device, f"is unknown; use {', '.join(DEVICES)}, or cuda:1")


def check_addition(digits: int, held_out: int) -> None:
    """Raise ConfigError for an addition task that does not exist, or leaves too little to train on."""
    if digits not in (1, 2, 3):
        raise ConfigError("task.digits", digits, "is out of range; use 1, 2 or 3")
    prompts = 10**digits * (10**digits + 1) // 2  # pairs whose sum has no more digits
    if not 1 <= held_out <= prompts // 2:
        raise ConfigError("task.held_out", held_out, f"is out of range; use 1 to {prompts // 2}")


def check_heads(width: int, heads: int) -> None:
    """Raise ConfigError unless every head gets the same whole width."""
    if width % heads:
        raise ConfigError("model.heads", heads, f"does not divide model.width={width}")


def check_prompts(prompts: int, held_out: int) -> None:
    """Raise ConfigError unless there are as many held-out prompts as an evaluation asks."""
    if prompts > held_out:
        raise ConfigError("evaluation.prompts", prompts, f"exceeds the task's {held_out} held-out prompts")
