"""A check of the belief: do the jobs lie around the law as noise between seeds does, or is a pattern left?

    ln S_job = law(B, lr) + f(B, lr) + seed noise,   f a Gaussian process of sd `spread` (Kennedy and O'Hagan 2001,
    "Bayesian calibration of computer models", eq. 5), its kernel Matern 3/2 over octaves of batch size and of lr

Seed noise has no neighbours; where the world is not of the family, neighbours lie on the same side of the law.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from batchscout.search.belief.law import LN_NOISE

Array = NDArray[np.float64]

LENGTH = (2.0, 1.5)  # octaves of batch size, of lr, over which the pattern forgets itself
SPREADS = np.array([0.1, 0.2, 0.4])  # sd of f
NOISES = np.geomspace(0.03, 0.35, 6)  # sd between seeds
PRIOR = 0.1  # probability of a pattern before the jobs are seen
NOTICED = 0.5
LEAST_JOBS = 6


def find_misfit(batch: Array, log2_lr: Array, off: Array, sd: Array) -> float:
    """Probability that a pattern is left beside the law, from J jobs whose own curves say ln S.

    batch, log2_lr, off, sd  (J,): where they ran, their ln S minus the law's, and how well each is known
    """
    if len(off) < LEAST_JOBS:
        return 0.0
    kernel = _kernel(batch, log2_lr)
    ln_noise_prior = -0.5 * ((np.log(NOISES) - LN_NOISE[0]) / LN_NOISE[1]) ** 2
    ln_noise_prior -= np.logaddexp.reduce(ln_noise_prior)
    spreads = np.array([0.0, *SPREADS])
    prior = np.array([1 - PRIOR, *np.full(len(SPREADS), PRIOR / len(SPREADS))])
    ln_p = np.empty((len(spreads), len(NOISES)))
    for i, spread in enumerate(spreads):
        for k, noise in enumerate(NOISES):
            factor = cho_factor(spread**2 * kernel + np.diag(noise**2 + sd**2), lower=True)
            ln_det = 2 * np.log(np.diag(factor[0])).sum()
            ln_p[i, k] = np.log(prior[i]) + ln_noise_prior[k] - 0.5 * (ln_det + off @ cho_solve(factor, off))
    p = np.exp(ln_p - ln_p.max()).sum(1)
    p /= p.sum()
    return float(p[1:].sum())


def _kernel(batch: Array, log2_lr: Array) -> Array:
    """(J, J) Matern 3/2 of unit variance."""
    octaves = np.log2(batch)
    along, across = octaves[:, None] - octaves[None], log2_lr[:, None] - log2_lr[None]
    r = np.sqrt(3.0) * np.hypot(along / LENGTH[0], across / LENGTH[1])
    return np.asarray((1 + r) * np.exp(-r))
