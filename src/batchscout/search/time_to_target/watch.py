"""What a running job's own curve says, against the belief from all the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from batchscout.search.belief import law
from batchscout.search.belief.curve_shape import OUTLIER, STEP, CurveBlock, lattice, ln_likelihood, ln_mass
from batchscout.search.belief.posterior import Posterior, curve_block, divergence
from batchscout.search.belief.records import JobRecord
from batchscout.search.belief.wandering import has_fallen

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Outlook:
    """Where a running job is going.

    z            (Z,) lattice of ln S;  weight (Z,) posterior probability of each, given that it follows the law
    known_sd     sd of ln S from its own curve once the shape is given, nothing else used (median over shapes)
    risen        share of the way from the untrained score to the target
    is_fallen    its score is measurably below its own maximum
    lost         probability that it diverges or is odd
    mean, sd     of ln S;  expected, expected_sd of ln S before the job was seen
    """

    z: Array
    weight: Array
    known_sd: float
    risen: float
    is_fallen: bool
    lost: float
    mean: float
    sd: float
    expected: float
    expected_sd: float


def look_at(
    record: JobRecord, others: Posterior, shapes: Array, target_score: float, is_fraction: bool
) -> Outlook:
    """others: the belief without this job; shapes: its (K, 5) curve shapes, or the prior's where it has none."""
    known = () if others.evidence is None else others.evidence.records
    block = curve_block([*known, record], target_score, is_fraction)
    own = CurveBlock(
        block.ln_n[-1:], block.y[-1:], block.count[-1:], block.ln_wandering[-1:], block.ln_last[-1:],
        block.scale, block.start, block.is_fraction,
    )  # fmt: skip
    z = lattice(own)
    like = ln_likelihood(own, shapes, z)[0]
    mass = ln_mass(like)
    batch, lr2 = np.array([float(record.batch_size)]), np.array([np.log2(record.lr)])
    level, d = others.prior.ln_samples(others.x[:, : law.SIZE], batch, lr2)
    level, d = level[:, 0], d[:, 0]
    diverging = divergence(d, others.x[:, law.EDGE])
    before = np.full(len(z), 1.0 / len(z))
    if others.evidence is not None:
        before = 0.05 * before + 0.95 * _spread(level, np.hypot(others.noise, 0.05 * np.abs(d)), z)
    joint = np.exp(like - like.max()) * before
    per_shape = joint.sum(1)
    weight = joint.sum(0) / joint.sum()
    alone = np.exp(like - like.max(1, keepdims=True))
    alone /= alone.sum(1, keepdims=True)
    m = alone @ z
    sds = np.sqrt(np.maximum(alone @ z**2 - m**2, 0.0))
    order = np.argsort(sds)
    share = np.cumsum((per_shape / per_shape.sum())[order])
    known_sd = float(sds[order][np.searchsorted(share, 0.5)])
    mean = float(weight @ z)
    noise = float(np.median(np.exp(shapes[:, 4]))) * own.scale
    fallen = has_fallen(record, max(noise, 0.01 * own.scale))
    normal = float(np.logaddexp.reduce(mass) - np.log(len(mass)))
    p_lost = float(np.clip(diverging.mean(), 0.02, 0.98))
    price = 0.0 if fallen else 2.0
    odds = np.log(p_lost) - price + own.ln_wandering[0] - np.log1p(-p_lost) - normal
    lost = float(1 / (1 + np.exp(-np.clip(odds, -50, 50))))
    if others.evidence is None:
        expected, expected_sd = mean, 9.0
    else:
        expected, expected_sd = float(level.mean()), float(np.sqrt(level.var() + np.mean(others.noise**2)))
    return Outlook(
        z, weight, known_sd, (record.last - own.start) / own.scale, fallen, lost, mean,
        float(np.sqrt(max(float(weight @ z**2) - mean**2, 0.0))), expected, expected_sd,
    )  # fmt: skip


def _spread(level: Array, sd: Array, z: Array) -> Array:
    """(Z,) density on the lattice of draws `level`, each blurred by its sd; beyond the lattice is left out."""
    e = np.exp(-0.5 * ((z[None] - level[:, None]) / sd[:, None]) ** 2) / sd[:, None]
    total = e.sum(0)
    return np.asarray(total * STEP / 2.5066 / len(level) + 1e-12)


__all__ = ["OUTLIER", "Outlook", "look_at"]
