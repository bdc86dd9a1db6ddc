"""How the learning rate and its companions follow the batch size, by rule.

fixed, sqrt, linear   lr ∝ 1, √B, B (√ for Adam: Malladi et al. 2022; linear for SGD: Goyal et al. 2017)
mccandlish            lr ∝ 1/(1 + B_noise/B): linear below the noise scale, flat above (arXiv 1812.06162)
surge                 lr ∝ 1/(√(B_noise/B) + √(B/B_noise)): √B below, falling above (Adam; arXiv
                      2405.14578)
"""

from __future__ import annotations

import math
from collections.abc import Callable

from batchscout.errors import LawError

FORMS: dict[str, Callable[[float, float], float]] = {
    "fixed": lambda size, noise: 1.0,
    "sqrt": lambda size, noise: math.sqrt(size),
    "linear": lambda size, noise: size,
    "mccandlish": lambda size, noise: 1 / (1 + noise / size),
    "surge": lambda size, noise: 2 / (math.sqrt(noise / size) + math.sqrt(size / noise)),
}
"""Rule → what lr is proportional to at a batch size, given the noise scale (ignored by the first three)."""

NEEDS_NOISE_SCALE = ("mccandlish", "surge")


def scaled_lr(
    rule: str,
    lr_reference: float,
    *,
    reference_batch_size: float,
    batch_size: float,
    b_noise: float | None = None,
) -> float:
    """The lr at a batch size from the one at the reference.

    b_noise  gradient noise scale in rollouts, for the rules that need it
    Raises   LawError for an unknown rule, a number that is not positive, or a missing noise scale.
    """
    if rule not in FORMS:
        raise LawError(f"rule={rule} is unknown; use one of {', '.join(FORMS)}")
    if rule in NEEDS_NOISE_SCALE and b_noise is None:
        raise LawError(f"rule={rule} needs b_noise; measure it, or use sqrt or linear")
    named = {
        "lr_reference": lr_reference,
        "reference_batch_size": reference_batch_size,
        "batch_size": batch_size,
    }
    for name, value in {**named, "b_noise": b_noise if b_noise is not None else 1.0}.items():
        if not (value > 0 and math.isfinite(value)):
            raise LawError(f"{name}={value:g}; it must be a positive finite number")
    form, noise = FORMS[rule], b_noise or 1.0
    return lr_reference * form(batch_size, noise) / form(reference_batch_size, noise)


def default_rule(optimizer: str) -> str:
    """sqrt for Adam-like optimizers, linear for SGD (Goyal's table: √ costs SGD 2.5 points at 8192)."""
    name = optimizer.lower()
    if name.startswith("sgd"):
        return "linear"
    if "adam" in name or name in ("lion", "rmsprop"):
        return "sqrt"
    raise LawError(f"optimizer={optimizer} has no known rule; name one of {', '.join(FORMS)}")


def scaled_adam(
    ratio: float, *, beta1: float, beta2: float, epsilon: float, half_life: bool = False
) -> tuple[float, float, float]:
    """(β1, β2, ε) at `ratio` times the batch size by Malladi's square-root rule.

    half_life  use β^ratio (the same half-life in samples) instead of 1 − ratio·(1 − β), its first order
    Raises     LawError where the first order would leave β below zero.
    """
    if half_life:
        return beta1**ratio, beta2**ratio, epsilon / math.sqrt(ratio)
    betas = [1 - ratio * (1 - beta) for beta in (beta1, beta2)]
    if min(betas) < 0:
        raise LawError(f"ratio={ratio:g} times 1 − β exceeds 1; use half_life=True")
    return betas[0], betas[1], epsilon / math.sqrt(ratio)


def scaled_ewma_decay(decay: float, factor: float) -> float:
    """PPO-EWMA: decay whose centre of mass is `factor` times as many updates (batch divided by it).

    Hilton et al. 2022 (arXiv 2110.00641): 1 − 1/(factor·(1/(1 − decay) − 1) + 1).
    """
    if not (0 <= decay < 1 and factor > 0):
        raise LawError(f"decay={decay:g}, factor={factor:g}; decay lies in [0, 1), factor is positive")
    return 1 - 1 / (factor * (1 / (1 - decay) - 1) + 1)


def decay_of_half_life(half_life_tokens: float, tokens_per_update: float) -> float:
    """β with the same half-life in tokens at every batch size (Marek et al. 2025, arXiv 2507.07101)."""
    if not (half_life_tokens > 0 and tokens_per_update > 0):
        raise LawError(f"half_life_tokens={half_life_tokens:g}, tokens_per_update={tokens_per_update:g}; "
                       "both must be positive")  # fmt: skip
    return float(0.5 ** (tokens_per_update / half_life_tokens))
