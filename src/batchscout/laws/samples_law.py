"""Samples law: how many samples each batch size needs to reach the target.

    S(B) = S_min · (1 + (B/B_crit)^γ)^(1/γ) · (1 + B_small/B)

γ = 1 and B_small = 0 unless asked for: then it is McCandlish et al. 2018 (arXiv 1812.06162, eq. 2.11), there
written in updates, S_updates = S(B)/B = U_min (1 + B_crit/B) with U_min = S_min/B_crit. A large γ is a cliff
at B_crit; B_small is the batch size below which noise costs samples. Published fits that this reproduces:
docs/laws.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from batchscout.laws.observations import Array, positive


@dataclass(frozen=True, slots=True)
class SamplesLaw:
    """S(B). s_min in samples; b_crit, b_small in rollouts per update; gamma has no unit."""

    s_min: float
    b_crit: float
    gamma: float = 1.0
    b_small: float = 0.0

    def samples(self, batch_size: ArrayLike) -> Array:
        """(n,) samples to target at (n,) batch sizes."""
        b = positive("batch_size", batch_size)
        shape = np.array([[np.log(self.b_crit), np.log(self.gamma), _log(self.b_small)]])
        return np.asarray(self.s_min * np.exp(log_offset(np.log(b), shape)[0]))

    def updates(self, batch_size: ArrayLike) -> Array:
        """(n,) updates to target, not rounded."""
        return np.asarray(self.samples(batch_size) / positive("batch_size", batch_size))


def _log(value: float) -> float:
    return float(np.log(value)) if value > 0 else -np.inf


def log_offset(log_b: Array, shapes: Array) -> Array:
    """(K, n) log S − log S_min for (K, 3) logs of B_crit, γ, B_small."""
    log_crit, gamma, log_small = shapes[:, :1], np.exp(shapes[:, 1:2]), shapes[:, 2:3]
    body = np.logaddexp(0.0, gamma * (log_b - log_crit)) / gamma
    return np.asarray(body + np.logaddexp(0.0, log_small - log_b))


def full_shape(shapes: Array, law: SamplesLaw) -> Array:
    """(K, 3) from the free shape parameters, the fixed ones from the law."""
    if shapes.shape[1] == 3:
        return shapes
    out = np.tile([0.0, np.log(law.gamma), _log(law.b_small)], (len(shapes), 1))
    out[:, 0] = shapes[:, 0]
    if shapes.shape[1] == 2:
        out[:, 2 if law.b_small > 0 else 1] = shapes[:, 1]
    return out
