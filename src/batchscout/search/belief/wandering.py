"""How likely a score curve is if it follows no common shape: a random walk in ln samples, observed with noise.

This is the hypothesis that a job is diverging, or simply odd. It competes on equal terms with the common shape (a
proper marginal likelihood, no free explanation): a curve on the floor or one that rises as others do is explained
better by the shape; one that starts high and sinks is not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from batchscout.search.belief.records import JobRecord

Array = NDArray[np.float64]

# the walk's sd per unit of ln samples in units of (target - start); the noise of one evaluation, as a share of what
# is expected
_DRIFT, _NOISE = (a.ravel() for a in np.meshgrid([0.12, 0.4, 1.0], [0.5, 1.0, 2.0]))
START_MEAN, START_SD = 0.1, 0.3
FALLEN_EVALUATIONS, FALLEN_SDS, FALLEN_SHARE = 4, 4.0, 0.1


def ln_wandering(ln_samples: Array, level: Array, count: Array, noise: float) -> float:
    """ln marginal likelihood of (b,) scaled scores, averaged over drift and noise (Kalman filter, wide start)."""
    mean, var = np.full(_DRIFT.shape, START_MEAN), np.full(_DRIFT.shape, START_SD**2)
    total = np.zeros(_DRIFT.shape)
    for i, (y, c) in enumerate(zip(level, count, strict=True)):
        if i:
            var = var + _DRIFT**2 * max(ln_samples[i] - ln_samples[i - 1], 1e-3)
        spread = var + (noise * _NOISE) ** 2 / c
        total -= 0.5 * (np.log(2 * np.pi * spread) + (y - mean) ** 2 / spread)
        gain = var / spread
        mean, var = mean + gain * (y - mean), var * (1 - gain)
    peak = total.max()
    return float(peak + np.log(np.mean(np.exp(total - peak))))


def has_fallen(record: JobRecord, noise: float, rise: float) -> bool:
    """Whether the score is measurably and materially below its own maximum.

    noise  sd of one evaluation; the job's own flicker counts where it is larger
    rise   from the untrained score to the target; a fall by less than a share of it is a wobble
    """
    if record.evaluations < FALLEN_EVALUATIONS or record.is_reached:
        return False
    spread = max(noise, record.flicker)
    return bool(record.top - record.last > max(FALLEN_SDS * spread, FALLEN_SHARE * rise))
