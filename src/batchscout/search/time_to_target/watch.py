"""What a running job's own curve says, together with the belief from the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from batchscout.search.belief import law
from batchscout.search.belief.curve_shape import STEP, lattice, ln_likelihood, ln_mass
from batchscout.search.belief.evidence import Evidence, block_beside, is_confirmed, is_fallen
from batchscout.search.belief.law_draws import FAR_SD
from batchscout.search.belief.posterior import Posterior, divergence
from batchscout.search.belief.records import JobRecord

Array = NDArray[np.float64]

CLIMBED = 0.3  # of the rise


@dataclass(frozen=True, eq=False)
class Outlook:
    """Where a running job is going.

    z            (Z,) lattice of ln S;  weight (Z,) posterior probability of each, given that it follows the law
    known_sd     sd of ln S from its own curve once the shape is given, nothing else used (median over shapes)
    risen        share of the way from the untrained score to the target
    is_fallen    its score is measurably below its own maximum
    lost         probability that it diverges or is odd
    """

    z: Array
    weight: Array
    known_sd: float
    risen: float
    is_fallen: bool
    lost: float


def look_at(
    record: JobRecord, belief: Posterior, shapes: Array, target_score: float, is_fraction: bool
) -> Outlook:
    """belief: from the other jobs, or from all with this one as it was a little earlier; shapes: its (K, 6) curve
    shapes, or the prior's where it has none."""
    evidence = belief.evidence
    own = block_beside(evidence, record, target_score, is_fraction)
    z = lattice(own)
    like = ln_likelihood(own, shapes, z)[0]
    batch, lr2 = np.array([float(record.batch_size)]), np.array([np.log2(record.lr)])
    level, d = belief.prior.ln_samples(belief.x[:, : law.SIZE], batch, lr2)
    level, d = level[:, 0], d[:, 0]
    is_counted = evidence is not None and any(r.job_id == record.job_id for r in evidence.records)
    sd = np.hypot(belief.noise, FAR_SD * np.abs(d))
    weight, per_shape = _place(like, z, None if evidence is None else level, sd, belief, is_counted)
    fallen = is_fallen(record, shapes, own)
    mass = ln_mass(like)
    normal = float(np.logaddexp.reduce(mass) - np.log(len(mass)))
    diverging = float(divergence(d, belief.x[:, law.EDGE]).mean())
    most = 0.5 if is_counted else 0.98  # where it is counted, its own curve is in it already
    p_lost = float(np.clip(diverging, 0.02, most))
    odds = np.log(p_lost) - (0.0 if fallen else 2.0) + own.ln_wandering[0] - np.log1p(-p_lost) - normal
    lost = float(1 / (1 + np.exp(-np.clip(odds, -50, 50))))
    return Outlook(z, weight, _known_sd(like, z, per_shape), own.risen(record.last), fallen, lost)


def is_climbing(record: JobRecord, outlook: Outlook) -> bool:
    """Whether a job has come some of the way and is as high as it ever was: an odd curve, but none that is lost."""
    return outlook.risen > CLIMBED and record.last > record.top - record.flicker


def is_sheltered(record: JobRecord, evidence: Evidence | None) -> bool:
    """Whether a job at least as likely to diverge has come most of the way up.

    Jobs that diverge rise first, and faster than those that get there: until one has come far, the fastest of all may
    be one of them. The highest lr that a batch size bears grows with it, between its fourth root and its power 3/4.
    """
    if evidence is None:
        return False
    for r, fallen in zip(evidence.records, evidence.fallen, strict=True):
        has_come = r.is_reached or (not fallen and is_confirmed(r, evidence.block, evidence.confirmed))
        ratio = record.batch_size / r.batch_size
        if has_come and r.lr * ratio ** (0.25 if ratio > 1 else 0.75) >= 0.99 * record.lr:
            return True
    return False


def _place(
    like: Array, z: Array, level: Array | None, sd: Array, belief: Posterior, is_counted: bool
) -> tuple[Array, Array]:
    """(Z,) probability of each ln S and (K,) of each shape.

    Where the draws have not seen this curve they say where S may be, whatever the shape; where they have, each draw
    places S by its own shape and level.
    """
    scaled = np.exp(like - like.max())
    if level is None:
        joint = scaled / len(z)
    elif not is_counted:
        joint = scaled * (0.05 / len(z) + 0.95 * _spread(level, sd, z))
    else:
        by_draw = np.exp(like - like.max(1, keepdims=True))[belief.x[:, law.SIZE].astype(int)]  # (P, Z)
        by_draw = by_draw * (1e-6 + np.exp(-0.5 * ((z[None] - level[:, None]) / sd[:, None]) ** 2))
        weight = (by_draw / by_draw.sum(1, keepdims=True)).mean(0)
        shapes = np.bincount(belief.x[:, law.SIZE].astype(int), minlength=len(like)).astype(float)
        return weight / weight.sum(), shapes / shapes.sum()
    return np.asarray(joint.sum(0) / joint.sum()), np.asarray(joint.sum(1) / joint.sum())


def _known_sd(like: Array, z: Array, per_shape: Array) -> float:
    alone = np.exp(like - like.max(1, keepdims=True))
    alone /= alone.sum(1, keepdims=True)
    mean = alone @ z
    sds = np.sqrt(np.maximum(alone @ z**2 - mean**2, 0.0))
    order = np.argsort(sds)
    share = np.cumsum(per_shape[order])
    return float(sds[order][min(np.searchsorted(share, 0.5), len(order) - 1)])


def _spread(level: Array, sd: Array, z: Array) -> Array:
    """(Z,) density on the lattice of draws `level`, each blurred by its sd; beyond the lattice is left out."""
    e = np.exp(-0.5 * ((z[None] - level[:, None]) / sd[:, None]) ** 2) / sd[:, None]
    total = e.sum(0)
    return np.asarray(total * STEP / 2.5066 / len(level) + 1e-12)
