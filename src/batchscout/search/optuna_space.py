"""The parameters of a plain Optuna study as the candidates of a search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from batchscout.errors import SearchError
from batchscout.search.protocol import JobObservation, Point, Space

PER_OCTAVE = 2
"""Candidates of a range between a value and its double."""

Number = int | float


def candidates(name: str, distribution: BaseDistribution) -> tuple[Number, ...]:
    """Sorted values that a search may ask for.

    Raises  SearchError for choices that are no numbers, or a range that reaches down to 0.
    """
    if isinstance(distribution, CategoricalDistribution):
        return _choices(name, distribution)
    if not isinstance(distribution, FloatDistribution | IntDistribution):
        raise SearchError(f"{name}={distribution} is no range of numbers; suggest an int, a float or numbers")
    low, high, step = distribution.low, distribution.high, distribution.step
    if low <= 0:
        raise SearchError(f"{name}: low={low:g} must be above 0; times are compared by factors")
    count = max(1, round(PER_OCTAVE * math.log2(high / low))) if high > low else 0
    spread = [low * (high / low) ** (i / max(count, 1)) for i in range(count + 1)]
    if step is not None and step > 0 and (isinstance(distribution, FloatDistribution) or step > 1):
        spread = [low + round((value - low) / step) * step for value in spread]
    if isinstance(distribution, IntDistribution):
        return tuple(sorted({min(high, max(low, round(value))) for value in spread}))
    rounded = [float(f"{value:.3g}") if step is None else value for value in spread]
    return tuple(sorted({min(high, max(low, value)) for value in (low, *rounded[1:-1], high)}))


def _choices(name: str, distribution: CategoricalDistribution) -> tuple[Number, ...]:
    numbers = [c for c in distribution.choices if isinstance(c, int | float) and not isinstance(c, bool)]
    if len(numbers) != len(distribution.choices) or not all(c > 0 and math.isfinite(c) for c in numbers):
        raise SearchError(f"{name}={distribution.choices} must be a list of numbers above 0")
    return tuple(sorted(numbers))


def make_space(
    batch_sizes: Sequence[Number], lrs: Sequence[Number], jobs: Sequence[JobObservation], runs: int
) -> Space:
    """All pairs, and every point that some trial has, with at most `runs` runs each."""
    points = {Point(int(b), float(lr)) for b, lr in product(batch_sizes, lrs)} | {j.point for j in jobs}
    return Space(
        tuple(sorted({p.batch_size for p in points})), tuple(sorted({p.lr for p in points})),
        seeds=max(runs, 1), points=tuple(sorted(points)),
    )  # fmt: skip


def nearest(value: float, allowed: Sequence[Number]) -> Number:
    """The allowed one with the smallest factor to `value`."""
    return min(allowed, key=lambda other: (abs(math.log(other / value)), other))


def from_the_middle(values: Sequence[Number], number: int) -> Number:
    """The middle one for number 0, then outward: where nothing is known of the space yet."""
    middle = (len(values) - 1) // 2
    order = sorted(range(len(values)), key=lambda i: (abs(i - middle), i))
    return values[order[number % len(order)]]
