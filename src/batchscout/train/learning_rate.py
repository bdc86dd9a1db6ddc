"""How the learning rate follows the batch size, and its warm-up.

Sources: Goyal et al. 2017 (arXiv 1706.02677) for the linear rule, Malladi et al. 2022 (arXiv 2205.10287) for the
square root with Adam.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from batchscout.errors import ConfigError

LR_RULES: dict[str, Callable[[float], float]] = {
    "fixed": lambda ratio: 1.0,
    "sqrt": math.sqrt,
    "linear": lambda ratio: ratio,
}
"""Rule name → factor on the reference lr, from batch_size / reference_batch_size."""


def lr_for(rule: str, lr_reference: float, reference_batch_size: int, batch_size: int) -> float:
    """The lr that ``rule`` gives at ``batch_size``.

    lr_reference  the lr at ``reference_batch_size`` rollouts per update
    Raises        ConfigError for an unknown rule, or where a number is not positive.
    """
    if rule not in LR_RULES:
        raise ConfigError("lr_rule.name", rule, f"is unknown; use one of {', '.join(LR_RULES)}")
    named = {"lr_reference": lr_reference, "lr_rule.reference_batch_size": reference_batch_size}
    for field, value in {**named, "batch_size": batch_size}.items():
        if not (value > 0 and math.isfinite(value)):
            raise ConfigError(field, value, "must be positive")
    return lr_reference * LR_RULES[rule](batch_size / reference_batch_size)


def warmed_up_lr(lr: float, samples: int, warmup_samples: int) -> float:
    """The lr of an optimizer step that brings the job to ``samples`` rollouts.

    It grows linearly with the samples and is ``lr`` from ``warmup_samples`` on, so that every batch size spends the
    same samples on warm-up; an update larger than the warm-up takes its only step at the full lr.
    """
    return lr * min(1.0, samples / warmup_samples) if warmup_samples > 0 else lr
