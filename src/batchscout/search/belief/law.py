"""The law of samples-to-target over batch size and learning rate, its parameters and their prior.

    ln S = ln s_min + (p / gamma) ln(1 + (B / b_crit)^gamma) + ln(1 + b_small / B) + ln(1 + c(d) d^2)
    d    = log2 lr - log2 lr_opt(B),  lr_opt ~ (x / (1 + x)^kappa)^alpha,  x = B / b_turn
    a job diverges with probability sigmoid((d - edge) / 0.15)

p = 1 is McCandlish's hyperbola with exponent gamma; p > 1 is a cliff. kappa = 0 is a power law of the learning rate,
1 saturates, 2 turns down (the surge form). c differs on the two sides of lr_opt. Priors are broad and know the space
only through its own range: the middle of the lr grid is the likeliest optimum, as a person would have chosen it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import qmc

Array = NDArray[np.float64]

NAMES = (
    "ln_s_min", "ln_b_crit", "ln_gamma", "ln_p", "ln_b_small", "log2_lr", "alpha", "kappa", "ln_turn", "ln_curvature",
    "tilt", "edge", "ln_noise",
)  # fmt: skip
S_MIN, B_CRIT, GAMMA, POWER, SMALL, LR, ALPHA, KAPPA, TURN, CURVATURE, TILT, EDGE, NOISE = range(13)
SIZE = 13
EDGE_WIDTH = 0.15
LN_NOISE = (float(np.log(0.09)), 0.5)  # prior mean and sd of the ln of the noise between seeds
LN_S_MIN_RANGE = (-30.0, 60.0)  # flat over all that a task may need


@dataclass(frozen=True)
class LawPrior:
    """Prior of the law on one space.

    b_low, b_high  smallest and largest batch size;  lr_middle, lr_sd  of log2 lr_opt at the middle batch size
    """

    b_low: float
    b_high: float
    lr_low: float
    lr_high: float

    @property
    def ln_b_middle(self) -> float:
        return 0.5 * float(np.log(self.b_low) + np.log(self.b_high))

    @property
    def lr_middle(self) -> float:
        return 0.5 * (self.lr_low + self.lr_high)

    @property
    def lr_sd(self) -> float:
        return max(0.28 * (self.lr_high - self.lr_low), 0.7)

    @property
    def b_crit_range(self) -> tuple[float, float]:
        return float(np.log(self.b_low / 2)), float(np.log(self.b_high * 2))

    def ln_density(self, x: Array) -> Array:
        """(P,) ln prior density up to a constant, -inf outside; x (P, SIZE). ln s_min is flat over a huge range."""
        low, high = self.bounds()
        inside = np.all((x >= low) & (x <= high), axis=1)
        out = _mixture(x[:, GAMMA], 0.7, 0.0, 0.3, 3.0) + _mixture(x[:, POWER], 0.75, 0.0, 0.08, 1.6)
        out += _mixture(x[:, KAPPA], 0.0, 0.0, 1.0, 2.2)
        for index, mean, sd in self._gaussians():
            out -= 0.5 * ((x[:, index] - mean) / sd) ** 2
        # a small-batch term is the exception
        out -= np.maximum(x[:, SMALL], 0.0) * 0.25
        return np.where(inside, out, -np.inf)

    def _gaussians(self) -> tuple[tuple[int, float, float], ...]:
        return (
            (LR, self.lr_middle, self.lr_sd), (ALPHA, 0.5, 0.25), (TURN, np.log(1500.0), 1.5),
            (CURVATURE, np.log(0.2), 0.7), (TILT, 0.2, 0.45), (NOISE, *LN_NOISE),
        )  # fmt: skip

    def bounds(self) -> tuple[Array, Array]:
        b0, b1 = self.b_crit_range
        low = [
            LN_S_MIN_RANGE[0], b0, -0.8, -0.2, np.log(0.3), self.lr_low - 3, 0.0, -0.1, np.log(30.0),
            np.log(0.02), -1.2, 0.6, np.log(0.02),
        ]  # fmt: skip
        high = [
            LN_S_MIN_RANGE[1], b1, 2.3, 1.5, np.log(200.0), self.lr_high + 3, 1.15, 2.3, np.log(6e4),
            np.log(1.5), 1.6, 6.0, np.log(0.35),
        ]  # fmt: skip
        return np.array(low), np.array(high)

    def bank(self, size: int, seed: int) -> Array:
        """(size, SIZE) draws from the prior, evenly spread (Sobol); ln s_min is left at 0, to be set by the data."""
        u = qmc.Sobol(SIZE + 2, rng=np.random.default_rng(seed)).random(size)
        u = np.clip(u, 1e-6, 1 - 1e-6)
        low, high = self.bounds()
        x = np.zeros((size, SIZE))
        for i in (B_CRIT, EDGE, KAPPA):
            x[:, i] = low[i] + u[:, i] * (high[i] - low[i])
        for i, mean, sd in self._gaussians():
            x[:, i] = np.clip(mean + sd * ndtri(u[:, i]), low[i], high[i])
        x[:, GAMMA] = np.where(u[:, SIZE] < 0.7, 0.3 * ndtri(u[:, GAMMA]), -0.7 + 3.0 * u[:, GAMMA])
        x[:, POWER] = np.where(u[:, SIZE + 1] < 0.75, 0.08 * ndtri(u[:, POWER]), -0.1 + 1.6 * u[:, POWER])
        plain = u[:, SMALL] < 0.48
        v = np.where(plain, u[:, SMALL] / 0.48, (u[:, SMALL] - 0.48) / 0.52)
        x[:, SMALL] = np.where(
            plain, low[SMALL] * (1 - v), np.minimum(-np.log1p(-v * 0.73) / 0.25, high[SMALL])
        )
        return np.clip(x, low, high) * np.where(np.arange(SIZE) == S_MIN, 0.0, 1.0)

    def ln_samples(self, x: Array, batch: Array, log2_lr: Array) -> tuple[Array, Array]:
        """(P, J) ln S and the distance d in octaves; x (P, SIZE), batch and log2_lr (J,)."""
        c = _columns(x)
        sizes, of = np.unique(batch, return_inverse=True)
        ln_b = np.log(sizes)[None]
        gamma = np.exp(c(GAMMA))
        by_size = c(S_MIN) + np.exp(c(POWER)) / gamma * np.logaddexp(0.0, gamma * (ln_b - c(B_CRIT)))
        by_size = by_size + np.log1p(np.exp(c(SMALL) - ln_b))
        d = log2_lr[None] - self.log2_best_lr(x, ln_b)[:, of]
        above, below = (np.exp(c(CURVATURE) + side * c(TILT)) for side in (0.5, -0.5))
        curvature = np.where(d > 0, above, below)
        return by_size[:, of] + np.log1p(curvature * d * d), d

    def log2_best_lr(self, x: Array, ln_b: Array) -> Array:
        """(P, J) log2 of the best lr at each batch size."""
        c = _columns(x)
        turn, middle = c(TURN), self.ln_b_middle
        bend = np.logaddexp(0.0, ln_b - turn) - np.logaddexp(0.0, middle - turn)
        return np.asarray(c(LR) + c(ALPHA) * ((ln_b - middle) - c(KAPPA) * bend) / np.log(2.0))


def _columns(x: Array) -> Callable[[int], Array]:
    """i → (P, 1) column of the draws, to broadcast against the points."""

    def column(i: int) -> Array:
        return np.asarray(x[:, i, None])

    return column


def _mixture(v: Array, share: float, mean: float, sd: float, width: float) -> Array:
    """ln of a Gaussian core with a flat background."""
    core = share / (sd * 2.5066) * np.exp(-0.5 * ((v - mean) / sd) ** 2)
    return np.asarray(np.log(core + (1 - share) / width))
