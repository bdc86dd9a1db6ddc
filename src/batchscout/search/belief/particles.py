"""Weighted draws from a posterior known up to a constant: tempering from a starting cloud, moved by ensemble MCMC.

Deterministic given the generator. Collapse is looked for (two halves that never exchange members must agree) and
repaired by more moves rather than believed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
LnDensity = Callable[[Array], tuple[Array, Array]]


@dataclass(frozen=True, eq=False)
class Cloud:
    """P equally likely draws (P, D), their ln likelihood, and how the sampling went.

    disagreement  largest difference of a parameter's mean between the two halves, in its own sd
    """

    x: Array
    ln_like: Array
    acceptance: float
    disagreement: float
    evaluations: int


def temper(
    start: Array,
    start_power: float,
    ln_density: LnDensity,
    rng: np.random.Generator,
    *,
    discrete: int | None = None,
    discrete_size: int = 1,
    moves: int = 2,
    last_moves: int = 12,
) -> Cloud:
    """Moves a cloud that follows prior × likelihood^start_power to the posterior.

    ln_density(x) → (ln prior, ln likelihood), each (P,). discrete: column holding an index below discrete_size.
    """
    x = start.copy()
    prior, like = ln_density(x)
    power, evaluations, acceptance = start_power, 1, 0.0
    mover = _Mover(ln_density, rng, discrete, discrete_size)
    while power < 1:
        power, weight = _next_power(like, power)
        pick = _resample(weight, rng)
        x, prior, like = x[pick], prior[pick], like[pick]
        for _ in range(moves):
            x, prior, like, acceptance = mover.sweep(x, prior, like, power)
            evaluations += 1
    for repair in range(3):
        for _ in range(last_moves):
            x, prior, like, acceptance = mover.sweep(x, prior, like, 1.0)
            evaluations += 1
        disagreement = _disagreement(x)
        if disagreement < 0.5:
            break
        if repair == 0:
            # stuck members far below the rest start again from others
            lost = prior + like < np.median(prior + like) - 30
            if lost.any() and not lost.all():
                source = rng.choice(np.flatnonzero(~lost), lost.sum())
                x[lost], prior[lost], like[lost] = x[source], prior[source], like[source]
    return Cloud(x, like, acceptance, disagreement, evaluations)


def _next_power(like: Array, power: float) -> tuple[float, Array]:
    """The largest step of the likelihood's power that keeps half of the draws effective."""
    low, high = power, 1.0
    shifted = np.clip(like - like.max(), -1e4, 0)
    if _effective(np.exp((1.0 - power) * shifted)) > 0.5:
        return 1.0, _normal(np.exp((1.0 - power) * shifted))
    for _ in range(18):
        middle = 0.5 * (low + high)
        if _effective(np.exp((middle - power) * shifted)) > 0.5:
            low = middle
        else:
            high = middle
    step = max(low - power, 1e-4)
    return min(1.0, power + step), _normal(np.exp(step * shifted))


def _effective(w: Array) -> float:
    return float(w.sum() ** 2 / (w**2).sum() / len(w))


def _normal(w: Array) -> Array:
    return np.asarray(w / w.sum())


def _resample(weight: Array, rng: np.random.Generator) -> NDArray[np.int64]:
    positions = (np.arange(len(weight)) + rng.random()) / len(weight)
    pick = np.searchsorted(np.cumsum(weight), positions).clip(0, len(weight) - 1)
    # members of each half stay scattered: neighbours are copies of each other
    return np.asarray(rng.permutation(pick))


class _Mover:
    """Differential evolution: each half moves along differences of the other half's members."""

    def __init__(
        self, ln_density: LnDensity, rng: np.random.Generator, discrete: int | None, discrete_size: int
    ):
        self.ln_density, self.rng, self.discrete, self.discrete_size = (
            ln_density,
            rng,
            discrete,
            discrete_size,
        )

    def sweep(self, x: Array, prior: Array, like: Array, power: float) -> tuple[Array, Array, Array, float]:
        x, prior, like = x.copy(), prior.copy(), like.copy()
        size, accepted = len(x), 0
        for half in (0, 1):
            mine, other = np.arange(half, size, 2), np.arange(1 - half, size, 2)
            proposed = self._propose(x[mine], x[other])
            new_prior, new_like = self.ln_density(proposed)
            gain = new_prior - prior[mine] + power * (new_like - like[mine])
            ok = np.log(self.rng.random(len(mine))) < gain
            moved = mine[ok]
            x[moved], prior[moved], like[moved] = proposed[ok], new_prior[ok], new_like[ok]
            accepted += int(ok.sum())
        return x, prior, like, accepted / size

    def _propose(self, mine: Array, other: Array) -> Array:
        rng = self.rng
        m, d = mine.shape
        a, b = rng.integers(0, len(other), m), rng.integers(0, len(other), m)
        scale = np.where(rng.random(m) < 0.12, 1.0, 1.7 / np.sqrt(2 * d) * np.exp(rng.normal(0, 0.5, m)))
        mask = rng.random((m, d)) < rng.choice([1.0, 0.5, 0.25], m)[:, None]
        y = mine + mask * (scale[:, None] * (other[a] - other[b])) + rng.normal(0, 1e-3, (m, d))
        if self.discrete is not None:
            jump = rng.random(m)
            y[:, self.discrete] = np.where(
                jump < 0.25,
                other[a, self.discrete],
                np.where(jump < 0.5, rng.integers(0, self.discrete_size, m) + 0.5, mine[:, self.discrete]),
            )
        return np.asarray(y)


def _disagreement(x: Array) -> float:
    sd = x.std(0) + 1e-9
    return float(np.max(np.abs(x[0::2].mean(0) - x[1::2].mean(0)) / sd))
