"""Draws from a posterior: a cloud led from a blurred likelihood to the sharp one, moved by ensemble MCMC.

Raising the likelihood's power alone does not lead to narrow modes when each job may be an outlier (a floor has no
slope); blurring does: at first every job speaks from afar, in the end only from where it is. Deterministic given the
generator. Collapse is looked for (two halves that never exchange members must agree) and repaired by more moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


EFFECTIVE, EASILY, STRIDE = 0.25, 0.55, 1.5
"""Share of the draws that a stage must leave effective; above the second a longer step is tried. Next first step, in
last steps."""


class Density(Protocol):
    """A family of densities over (P, D) draws, from blurred (stage 0) to the wanted one (stage 1)."""

    def ln_prior(self, x: Array) -> Array:
        """(P,), -inf outside."""

    def features(self, x: Array) -> Any:
        """What the likelihood needs of the draws, the costly part; arrays with P rows each."""

    def ln_likelihood(self, features: Any, stage: float) -> Array:
        """(P,) at a stage."""


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


def evenly(weight: Array, size: int, offset: float = 0.5) -> NDArray[np.int64]:
    """(size,) indices, each as often as its weight (sum 1) asks, to within one: systematic resampling."""
    return np.searchsorted(np.cumsum(weight), (np.arange(size) + offset) / size).clip(0, len(weight) - 1)


def lead(
    start: Array,
    density: Density,
    rng: np.random.Generator,
    *,
    bank: Array,
    discrete: int,
    discrete_size: int,
    moves: int = 3,
    last_moves: int = 30,
) -> Cloud:
    """Moves a cloud that follows stage 0 to stage 1.

    bank      (N, D) draws from the prior, NaN where a column must not be drawn anew
    discrete  column that holds an index below discrete_size
    """
    x = start.copy()
    mover = _Mover(density, rng, bank, discrete, discrete_size)
    stage, step, evaluations, acceptance = 0.0, 0.25, 1, 0.0
    prior = density.ln_prior(x)
    like = density.ln_likelihood(density.features(x), 0.0)
    while stage < 1:
        features = density.features(x)
        before = stage
        stage, like, weight = _next_stage(density, features, like, stage, step)
        step = STRIDE * (stage - before)
        pick = _resample(weight, rng)
        x, like, prior = x[pick], like[pick], prior[pick]
        for _ in range(moves):
            acceptance = mover.sweep(x, like, prior, stage)
            evaluations += 1
    disagreement = 9.0
    for repair in range(2):
        for _ in range(last_moves):
            acceptance = mover.sweep(x, like, prior, 1.0)
            evaluations += 1
        disagreement = _disagreement(x)
        if disagreement < 0.4:
            break
        if repair == 0:
            # stuck members far below the rest start again from others
            lost = like < np.median(like) - 30
            if lost.any() and not lost.all():
                source = rng.choice(np.flatnonzero(~lost), lost.sum())
                x[lost], like[lost], prior[lost] = x[source], like[source], prior[source]
    return Cloud(x, like, acceptance, disagreement, evaluations)


def _next_stage(
    density: Density, features: Any, like: Array, stage: float, step: float
) -> tuple[float, Array, Array]:
    """A stage that keeps EFFECTIVE of the draws effective, its ln likelihood and the draws' weights.

    step  to try first; halved until it will do, else doubled for as long as it does easily
    """
    found = too_far = None
    for _ in range(8):
        trial = min(1.0, stage + step)
        new = density.ln_likelihood(features, trial)
        w = np.exp(np.clip(new - like - (new - like).max(), -700, 0))
        share = w.sum() ** 2 / (w**2).sum() / len(w)
        here = trial, new, w / w.sum()
        if share > EFFECTIVE:
            found = here
            if trial == 1.0 or share < EASILY or too_far is not None:  # twice as long was tried
                break
            step *= 2
        elif found is not None:
            break
        else:
            too_far, step = here, step / 2
    best = found or too_far
    assert best is not None, "one of the two was set"
    return best


def _resample(weight: Array, rng: np.random.Generator) -> NDArray[np.int64]:
    pick = evenly(weight, len(weight), rng.random())
    # members of each half stay scattered: neighbours are copies of each other
    return np.asarray(rng.permutation(pick))


class _Mover:
    """Each half moves along differences of the other half's members, or draws some numbers anew from the prior."""

    def __init__(
        self, density: Density, rng: np.random.Generator, bank: Array, discrete: int, discrete_size: int
    ) -> None:
        self.density, self.rng, self.bank = density, rng, bank
        self.discrete, self.discrete_size = discrete, discrete_size
        self.can_redraw = np.isfinite(bank[0])

    def sweep(self, x: Array, like: Array, prior: Array, stage: float) -> float:
        """Moves the draws in place, with their ln likelihood and ln prior; share of them that moved."""
        size, accepted = len(x), 0
        for half in (0, 1):
            mine, other = np.arange(half, size, 2), np.arange(1 - half, size, 2)
            proposed, redrawn = self._propose(x[mine], x[other])
            new_prior = self.density.ln_prior(proposed)
            inside = np.flatnonzero(np.isfinite(new_prior))
            if not len(inside):
                continue
            mine, proposed, new_prior = mine[inside], proposed[inside], new_prior[inside]
            new = self.density.ln_likelihood(self.density.features(proposed), stage)
            # numbers drawn anew from the prior have its density in their proposal
            known = np.where(redrawn[inside], 0.0, new_prior - prior[mine])
            gain = known + new - like[mine]
            ok = np.log(self.rng.random(len(mine))) < gain
            x[mine[ok]], like[mine[ok]], prior[mine[ok]] = proposed[ok], new[ok], new_prior[ok]
            accepted += int(ok.sum())
        return accepted / size

    def _propose(self, mine: Array, other: Array) -> tuple[Array, NDArray[np.bool_]]:
        rng = self.rng
        m, d = mine.shape
        a, b = rng.integers(0, len(other), m), rng.integers(0, len(other), m)
        scale = np.where(rng.random(m) < 0.12, 1.0, 1.7 / np.sqrt(2 * d) * np.exp(rng.normal(0, 0.5, m)))
        mask = rng.random((m, d)) < rng.choice([1.0, 0.5, 0.25], m)[:, None]
        y = mine + mask * (scale[:, None] * (other[a] - other[b])) + rng.normal(0, 1e-3, (m, d))
        redrawn: NDArray[np.bool_] = np.asarray(rng.random(m) < 0.35)
        fresh = self.bank[rng.integers(0, len(self.bank), m)]
        swap = (rng.random((m, d)) < rng.choice([0.1, 0.3], m)[:, None]) & self.can_redraw
        y = np.where(redrawn[:, None], np.where(swap, fresh, mine), y)
        jump = rng.random(m)
        y[:, self.discrete] = np.where(
            jump < 0.25,
            other[a, self.discrete],
            np.where(jump < 0.5, rng.integers(0, self.discrete_size, m) + 0.5, mine[:, self.discrete]),
        )
        return y, redrawn


def _disagreement(x: Array) -> float:
    sd = x.std(0) + 1e-9
    return float(np.max(np.abs(x[0::2].mean(0) - x[1::2].mean(0)) / sd))
