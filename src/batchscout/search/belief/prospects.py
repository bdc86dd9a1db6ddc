"""What each point would cost, draw by draw, and what is lost by recommending it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from batchscout.search.belief.posterior import Posterior
from batchscout.search.belief.update_time import UpdateTime

Array = NDArray[np.float64]

LOST = 2.0  # relative loss of a point that diverges, and the most that any point is charged


@dataclass(frozen=True, eq=False)
class Prospects:
    """n points (batch, log2 lr) under P draws.

    ln_samples, ln_seconds  (P, n);  diverges (P, n) probability;  ln_best (P,) of the best point that does not
    usable  (P, n) ln seconds where the point can run and does not diverge, else infinite
    regret  (P, n) relative time lost by taking the point, at most LOST
    """

    batch: Array
    log2_lr: Array
    ln_samples: Array
    ln_seconds: Array
    diverges: Array
    ln_best: Array
    usable: Array
    regret: Array

    @property
    def mean_regret(self) -> Array:
        return np.asarray(self.regret.mean(0))


def prospects(
    posterior: Posterior, update_time: UpdateTime, batch: Array, log2_lr: Array, allowed: NDArray[np.bool_]
) -> Prospects:
    """allowed: points that can run at all (memory)."""
    ln_samples, diverges = posterior.ln_samples(batch, log2_lr)
    draws = len(ln_samples)
    normals = np.random.default_rng(len(update_time.batch_sizes)).normal(
        size=(draws, len(update_time.batch_sizes))
    )
    ln_update = update_time.mean + normals @ update_time.root.T
    column = update_time.index(batch)
    ln_seconds = ln_samples + ln_update[:, column] - np.log(batch)
    usable = np.where((diverges < 0.5) & allowed, ln_seconds, np.inf)
    best = usable.min(1)
    best = np.where(np.isfinite(best), best, ln_seconds.min(1))
    lost = np.minimum(np.exp(np.clip(ln_seconds - best[:, None], -3, 5)) - 1, LOST)
    regret = np.clip((1 - diverges) * np.maximum(lost, 0.0) + diverges * LOST, 0.0, LOST)
    regret = np.where(allowed, regret, LOST)
    return Prospects(batch, log2_lr, ln_samples, ln_seconds, diverges, best, usable, regret)
