"""The configuration of a sweep, the part of it that enters a job's measurement, and what one job needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from batchscout.config.fields import build, key, plain_fields
from batchscout.config.groups import (
    BudgetConfig,
    CapsConfig,
    EvaluationConfig,
    HardwareConfig,
    LrRuleConfig,
    ModelConfig,
    NewGpuConfig,
    ScaleOutConfig,
    SearchConfig,
    TargetConfig,
    TaskConfig,
    TrackingConfig,
    TrainerConfig,
)
from batchscout.config.limits import check_job, check_sweep

MEASURED = (
    "trainer",
    "task",
    "model",
    "evaluation",
    "caps",
    "group_size",
    "mini_batch_size",
    "micro_batch_size",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepConfig:
    """Every key of the configuration.

    batch_size        rollouts per update (prompts × group_size)
    lr                rate after warm-up; lr_reference instead of it where lr_rule is not fixed
    points            learning rates by batch size, in place of the product of two lists; {} is none
    seed, seeds       first seed and runs per point (in a search the most per point)
    group_size        rollouts per prompt
    mini_batch_size   rollouts per optimizer step, null: the whole batch
    micro_batch_size  rollouts per forward and backward pass, null: the trainer's choice
    name              the sweep's name, NAME in runs/NAME/TIME
    checkpoint_every_seconds   wall time between a job's checkpoints
    output            what the terminal gets: text for people, json for scripts (one object a line)
    """

    batch_size: int = key(128, least=1)
    lr: float | None = key(None, above=0)
    lr_reference: float | None = key(None, above=0)
    points: Mapping[str, Any] = key(dict)
    seed: int = key(0, least=0)
    seeds: int = key(1, least=1)
    group_size: int = key(8, least=1)
    mini_batch_size: int | None = key(None, least=1)
    micro_batch_size: int | None = key(None, least=1)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    task: TaskConfig = field(default_factory=TaskConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    target: TargetConfig = field(default_factory=TargetConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    caps: CapsConfig = field(default_factory=CapsConfig)
    budget: BudgetConfig = field(default_factory=BudgetConfig)
    lr_rule: LrRuleConfig = field(default_factory=LrRuleConfig)
    hardware: HardwareConfig = field(default_factory=HardwareConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    new_gpu: NewGpuConfig = field(default_factory=NewGpuConfig)
    scale_out: ScaleOutConfig = field(default_factory=ScaleOutConfig)
    max_failures: int = key(3, least=1)
    max_requeues: int = key(3, least=0)
    checkpoint_every_seconds: float = key(60.0, above=0)
    fresh: bool = key(False)
    dry_run: bool = key(False)
    output: str = key("text", choices=("text", "json"))
    name: str = key("sweep")

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """Raises ConfigError, one line, for an unknown key, a wrong type or an impossible value."""
        config = build(cls, mapping)
        check_sweep(config)
        return config

    def to_mapping(self) -> dict[str, Any]:
        """JSON-able; from_mapping reads it back to an equal object."""
        return plain_fields(self)

    def replace(self, **changes: Any) -> Self:
        """A copy with other values, checked again."""
        return type(self).from_mapping({**self.to_mapping(), **changes})

    def job_lr(self, batch_size: int, lr: float) -> float:
        """The rate a job uses; `lr` is what was typed as lr, or as lr_reference where a rule computes."""
        return self.lr_rule.lr(lr, batch_size)

    def job(self, batch_size: int, lr: float, seed: int) -> JobConfig:
        """One job; lr is the rate it uses. Raises ConfigError where the arithmetic is impossible."""
        job = JobConfig(
            batch_size=batch_size,
            lr=lr,
            seed=seed,
            gpu=self.hardware.gpu,
            gpus=self.hardware.gpus,
            **{f.name: getattr(self, f.name) for f in dataclasses.fields(JobConfig) if f.name in _SHARED},
        )
        check_job(job)
        return job

    def measured_part(self) -> dict[str, Any]:
        """What enters a job's measurement: equal in two sweeps whose journals may be put together."""
        whole = self.to_mapping()
        target = {k: whole["target"][k] for k in ("score", "direction", "patience")}
        hardware = {k: whole["hardware"][k] for k in ("name", "gpu", "gpus", "nodes", "tasks", "threads")}
        return {**{k: whole[k] for k in MEASURED}, "target": target, "hardware": hardware}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobConfig:
    """What one job needs; a trainer gets its mapping. lr is the rate after warm-up."""

    batch_size: int = key(128, least=1)
    lr: float = key(1e-4, above=0)
    seed: int = key(0, least=0)
    group_size: int = key(8, least=1)
    mini_batch_size: int | None = key(None, least=1)
    micro_batch_size: int | None = key(None, least=1)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    task: TaskConfig = field(default_factory=TaskConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    target: TargetConfig = field(default_factory=TargetConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    caps: CapsConfig = field(default_factory=CapsConfig)
    checkpoint_every_seconds: float = key(60.0, above=0)
    gpu: str | None = key(None)
    gpus: int = key(0, least=0)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """Reads `to_mapping()` back. Raises ConfigError."""
        job = build(cls, mapping)
        check_job(job)
        return job

    def to_mapping(self) -> dict[str, Any]:
        """JSON-able, with mini_batch_size filled in."""
        return {**plain_fields(self), "mini_batch_size": self.mini_batch_size or self.batch_size}


_SHARED = {f.name for f in dataclasses.fields(JobConfig)} & {
    f.name for f in dataclasses.fields(SweepConfig)
} - {
    "batch_size",
    "lr",
    "seed",
}
