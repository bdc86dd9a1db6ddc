"""Frozen dataclasses of every config group, read from plain mappings; what is wrong is said in one line."""

from batchscout.config.arithmetic import BatchArithmetic
from batchscout.config.groups import (
    BudgetConfig,
    CapsConfig,
    EvaluationConfig,
    HardwareConfig,
    LrRuleConfig,
    ModelConfig,
    SearchConfig,
    TargetConfig,
    TaskConfig,
    TrackingConfig,
    TrainerConfig,
)
from batchscout.config.sweep import JobConfig, SweepConfig

__all__ = [
    "BatchArithmetic",
    "BudgetConfig",
    "CapsConfig",
    "EvaluationConfig",
    "HardwareConfig",
    "JobConfig",
    "LrRuleConfig",
    "ModelConfig",
    "SearchConfig",
    "SweepConfig",
    "TargetConfig",
    "TaskConfig",
    "TrackingConfig",
    "TrainerConfig",
]
