"""Seconds of one update over the batch size: a smooth curve through what probes and jobs have shown.

A Gaussian process on ln seconds over ln batch with a straight line as its mean (slope between 0 and 1 a priori): no
form is assumed, so a roofline, a long tail and an affine law are all followed; between two measured batch sizes the
uncertainty is small, beyond them it grows as it should.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RELATIVE_NOISE, FLOOR = 0.10, 0.012  # sd of ln seconds of one update, and what no averaging removes
_BEND_SD, _BEND_LENGTH = 0.22, 1.6  # departure from the line, over ln batch
_SLOPE_MEAN, _SLOPE_SD = 0.5, 0.3


@dataclass(frozen=True, eq=False)
class UpdateTime:
    """ln seconds per update at the candidate batch sizes: mean (n,), covariance (n, n), root of it (n, n)."""

    batch_sizes: Array
    mean: Array
    cov: Array
    root: Array

    @property
    def sd(self) -> Array:
        return np.asarray(np.sqrt(np.diag(self.cov)))

    def index(self, batch: Array) -> NDArray[np.int64]:
        """Where each of these candidate batch sizes stands."""
        return np.searchsorted(self.batch_sizes, batch)

    def at(self, batch: float) -> tuple[float, float]:
        """ln seconds of an update at a candidate batch size, and its sd."""
        i = int(self.index(np.array(batch)))
        return float(self.mean[i]), float(self.sd[i])


def fit_update_time(observed: Sequence[tuple[int, int, float]], batch_sizes: Sequence[int]) -> UpdateTime:
    """observed: (batch_size, updates, seconds) of each probe or job with updates > 0."""
    at = np.log(np.asarray(batch_sizes, float))
    centre = float(at.mean())
    prior = _kernel(at, at, centre)
    if not observed:
        mean = _SLOPE_MEAN * (at - centre)
    else:
        x = np.log([o[0] for o in observed])
        y = np.log([o[2] / o[1] for o in observed])
        noise = np.array([FLOOR**2 + RELATIVE_NOISE**2 / o[1] for o in observed])
        K = _kernel(x, x, centre) + np.diag(noise)
        cross = _kernel(at, x, centre)
        solved = np.linalg.solve(K, np.column_stack([y - _SLOPE_MEAN * (x - centre), cross.T]))
        mean = _SLOPE_MEAN * (at - centre) + cross @ solved[:, 0]
        prior = prior - cross @ solved[:, 1:]
    cov = (prior + prior.T) / 2
    values, vectors = np.linalg.eigh(cov)
    return UpdateTime(np.asarray(batch_sizes, float), mean, cov, vectors * np.sqrt(np.maximum(values, 0.0)))


def _kernel(a: Array, b: Array, centre: float) -> Array:
    level, slope = 400.0, _SLOPE_SD**2 * np.outer(a - centre, b - centre)
    bend = _BEND_SD**2 * np.exp(-0.5 * ((a[:, None] - b[None]) / _BEND_LENGTH) ** 2)
    return np.asarray(level + slope + bend)
