"""Time to target in closed form: where it is least, how flat it is, and what more GPUs buy.

With samples S(B) = S_min (1 + (B/B_crit)^γ)^(1/γ) and update seconds t(B), T(B) = S(B)/B · t(B). All of it
follows from McCandlish et al. 2018 (arXiv 1812.06162) and calculus; docs/laws.md lists the numbers each form
is tested on. Units: s_min in samples, batch sizes in rollouts per update, a in seconds per update, b in
seconds per rollout.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from batchscout.errors import LawError


@dataclass(frozen=True, slots=True)
class Optimum:
    """A batch size, and the time to target there (seconds)."""

    batch_size: float
    time_to_target: float


@dataclass(frozen=True, slots=True)
class ScaleOut:
    """The optimum on n GPUs. speed_up is relative to one GPU at its own best batch size."""

    gpus: int
    batch_size: float
    time_to_target: float
    speed_up: float
    gpu_seconds: float


def _check(**values: float) -> None:
    for name, value in values.items():
        if not (value > 0 and math.isfinite(value)):
            raise LawError(f"{name}={value:g}; it must be a positive finite number")


def optimum(s_min: float, b_crit: float, a: float, b: float, *, gamma: float = 1.0) -> Optimum:
    """Least T for t(B) = a + b·B: B* = (a·B_crit^γ/b)^(1/(1+γ)).

    T = S_min/B_crit · (a^q + (b·B_crit)^q)^(1/q) with q = γ/(1+γ). For γ = 1: B* = √(a·B_crit/b), the
    geometric mean of B_crit and the hardware's knee a/b, and T = S_min (√(a/B_crit) + √b)².
    Raises LawError for numbers that are not positive.
    """
    _check(s_min=s_min, b_crit=b_crit, a=a, b=b, gamma=gamma)
    q = gamma / (1 + gamma)
    best = math.exp((math.log(a / b) + gamma * math.log(b_crit)) / (1 + gamma))
    return Optimum(best, s_min / b_crit * (a**q + (b * b_crit) ** q) ** (1 / q))


def roofline_optimum(s_min: float, b_crit: float, floor: float, b: float) -> Optimum:
    """Least T for t(B) = max(floor, b·B): exactly at the knee floor/b."""
    _check(s_min=s_min, b_crit=b_crit, floor=floor, b=b)
    return Optimum(floor / b, s_min / b_crit * (1 + b_crit * b / floor) * floor)


def power_optimum(b_crit: float, power: float) -> float | None:
    """Best batch size for t(B) = c·B^power: B_crit (1 − power)/power; None for power ≥ 1 (the smallest is
    best)."""
    _check(b_crit=b_crit, power=power)
    return b_crit * (1 - power) / power if power < 1 else None


def capped_optimum(
    s_min: float, b_crit: float, a: float, b: float, *, largest: float, gamma: float = 1.0
) -> Optimum:
    """Least T among batch sizes up to `largest` (memory): T is convex in log B, so min(B*, largest)."""
    _check(largest=largest)
    free = optimum(s_min, b_crit, a, b, gamma=gamma)
    if free.batch_size <= largest:
        return free
    return Optimum(largest, time_to_target(s_min, b_crit, largest, a + b * largest, gamma=gamma))


def time_to_target(
    s_min: float, b_crit: float, batch_size: float, update_seconds: float, *, gamma: float = 1.0,
    updates_multiple: int = 0,
) -> float:  # fmt: skip
    """T = updates · update_seconds.

    updates_multiple  0: updates are not rounded; k: rounded up to whole multiples of k (an evaluation every k
                      updates)
    """
    _check(s_min=s_min, b_crit=b_crit, batch_size=batch_size, update_seconds=update_seconds, gamma=gamma)
    updates: float = s_min / batch_size * (1 + (batch_size / b_crit) ** gamma) ** (1 / gamma)
    if updates_multiple:
        updates = updates_multiple * math.ceil(round(updates / updates_multiple, 9))
    return updates * update_seconds


def accumulation_optimum(
    s_min: float, b_crit: float, a: float, b: float, *, micro_batch_size: int, micro_batch_seconds: float
) -> Optimum:
    """Least T over whole batch sizes for t(B) = a + micro_batch_seconds·⌈B/micro_batch_size⌉ + b·B.

    Within one number of micro-batches T is that of a plain affine t(B), convex in log B, so its least is at
    the stationary point or at an end of the stretch. Only stretches are tried where the same T without the
    rounding up, a bound from below, does not exceed a T already found.
    """
    _check(s_min=s_min, b_crit=b_crit, a=a, b=b)
    _check(micro_batch_size=micro_batch_size, micro_batch_seconds=micro_batch_seconds)
    slope = b + micro_batch_seconds / micro_batch_size
    relaxed = optimum(s_min, b_crit, a, slope).batch_size / micro_batch_size
    start = max(1.0, float(np.rint(relaxed))) * micro_batch_size
    found = (1 + b_crit / start) * (a + slope * start)
    # (1 + b_crit/B)(a + slope·B) ≤ found, a quadratic in B
    middle = (found - a - b_crit * slope) / (2 * slope)
    reach = math.sqrt(max(middle**2 - a * b_crit / slope, 0.0))
    first = max(1, math.ceil((middle - reach) / micro_batch_size * (1 - 1e-9)))
    last = max(first, math.ceil((middle + reach) / micro_batch_size * (1 + 1e-9)))
    count = np.arange(first, last + 1, dtype=np.float64)
    fixed = a + count * micro_batch_seconds
    low, high = (count - 1) * micro_batch_size + 1, count * micro_batch_size
    inside = np.clip(np.sqrt(fixed * b_crit / b), low, high)
    sizes = np.concatenate([np.floor(inside), np.ceil(inside)])
    times = s_min / b_crit * (1 + b_crit / sizes) * (np.tile(fixed, 2) + b * sizes)
    k = int(np.argmin(times))
    return Optimum(float(sizes[k]), float(times[k]))


def flatness(ratio: float, *, a: float, b: float, b_crit: float) -> float:
    """T(ratio·B*)/T(B*) for γ = 1: (x² + y² + xy(r + 1/r))/(x + y)² with x = √a, y = √(b·B_crit).

    The price of a batch size that is wrong by a factor: at most 12.5% for a factor of two.
    """
    _check(ratio=ratio, a=a, b=b, b_crit=b_crit)
    x, y = math.sqrt(a), math.sqrt(b * b_crit)
    return (x * x + y * y + x * y * (ratio + 1 / ratio)) / (x + y) ** 2


def scale_out(
    s_min: float,
    b_crit: float,
    a: float | Callable[[int], float],
    b: float,
    *,
    gpus: Sequence[int],
    gamma: float = 1.0,
) -> tuple[ScaleOut, ...]:
    """The optimum on each number of data-parallel GPUs, t(B, n) = a + b·B/n.

    a  seconds per update that more GPUs do not shorten, or a function of n where they lengthen it
       (all-reduce)
    Speed-up is bounded by T(1)/(a·S_min/B_crit): from there on more GPUs only cost more.
    """

    def at(n: int) -> Optimum:
        return optimum(s_min, b_crit, a(n) if callable(a) else a, b / n, gamma=gamma)

    for n in gpus:
        _check(gpus=n)
    one = at(1)
    return tuple(
        ScaleOut(n, best.batch_size, best.time_to_target, one.time_to_target / best.time_to_target,
                 n * best.time_to_target)
        for n, best in ((n, at(n)) for n in gpus)
    )  # fmt: skip


def with_evaluation(
    a: float,
    b: float,
    *,
    evaluation_seconds: float,
    every_updates: int | None = None,
    every_samples: int | None = None,
) -> tuple[float, float]:
    """(a, b) with evaluation on the clock: every k updates it adds to a, every N samples to b."""
    if (every_updates is None) == (every_samples is None):
        raise LawError("give one of every_updates and every_samples")
    if every_updates is not None:
        _check(every_updates=every_updates)
        return a + evaluation_seconds / every_updates, b
    assert every_samples is not None
    _check(every_samples=every_samples)
    return a, b + evaluation_seconds / every_samples


def larger_batch_wins(throughput_ratio: float, samples_ratio: float) -> tuple[bool, float]:
    """Whether a candidate batch size reaches the target sooner, and T_candidate/T_base.

    Both ratios are candidate over base (arXiv 2608.29296: it wins where throughput grows more than samples).
    """
    _check(throughput_ratio=throughput_ratio, samples_ratio=samples_ratio)
    time_ratio = samples_ratio / throughput_ratio
    return time_ratio < 1, time_ratio


def twenty_percent_batch(b_crit: float, *, base_batch_size: float, overhead: float = 0.2) -> float:
    """Batch size whose updates exceed linear scaling from the base by `overhead` (Zhang et al. 2024's CBS), γ
    = 1.

    (1 + overhead)·base + overhead·B_crit.
    """
    _check(b_crit=b_crit, base_batch_size=base_batch_size, overhead=overhead)
    return (1 + overhead) * base_batch_size + overhead * b_crit


def compute_to_score(
    score: float, *, start: float, ceiling: float, midpoint: float, steepness: float
) -> float:
    """Compute at which ScaleRL's curve R = R_0 + (A − R_0)/(1 + (C_mid/C)^B) reaches a score (arXiv
    2510.13786).

    Returns 0 at or below `start` and infinity (the curve's own limit) at or above `ceiling`; never NaN.
    """
    _check(midpoint=midpoint, steepness=steepness)
    if score <= start:
        return 0.0
    if score >= ceiling:
        return math.inf
    return float(midpoint * ((score - start) / (ceiling - score)) ** (1 / steepness))
