"""What the curves of a sweep's jobs say: scaled to one scale, their common shape found, and for each job the density
of its curve over ln S as tables that the law's likelihood looks up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import qmc

from batchscout.measure.outcome import Outcome
from batchscout.search.belief.curve_shape import (
    NOISE,
    PRIOR_MEAN,
    PRIOR_SD,
    SIZE,
    STEP,
    CurveBlock,
    ShapeEnsemble,
    fit_shapes,
)
from batchscout.search.belief.records import JobRecord, start_score
from batchscout.search.belief.wandering import has_fallen, ln_wandering

Array = NDArray[np.float64]
Table = NDArray[np.float32]

SHAPES = 64  # while jobs are few
FEW, LEAST_SHARE = 12, 0.25  # jobs; share of a number of draws that is enough however many there are
NOISE_LEVELS = np.geomspace(0.03, 1.1, 7)
RARE = 2.5  # nats against a job that follows neither law nor divergence, if it did not arrive
UNFALLEN_PRICE, CONFIRMED_PRICE = 1.0, 4.0  # nats against calling a job diverged before it has fallen
STUCK = 0.5  # share of the diverging jobs that never rise
FALSE_ALARM = 0.02  # probability that a job which follows the law ends as diverged
LOUD_EVALUATIONS = 10.0  # as many say as much of a job's own noise as is known before
PRIOR_EVALUATIONS, LEAST_LN_NOISE = 4.0, float(np.log(0.005))
EDGE_EXPONENTS = (0.0, 0.4, 0.8)
CROSSING_SD = 0.08
CONFIRMED, BEYOND_REACH, MOST_CONFIRMED = 0.65, 0.1, 0.95
LEAST_DIP, LEAST_RISE = 0.05, 0.1  # of the rise
ODD_CURVE = 0.05  # prior that a curve is not of the shared shape


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the curves say: block of scaled curves, shapes, and per noise level and job ln p(curve | ln S) tables.

    table   (J, K, Z, L) ln density relative to the job's own evidence; ln_diverged (J, K) the same if it diverges
    ln_odd  (J, K) if it is odd
    fallen  (J,) whether each is measurably below its own maximum
    confirmed  share of the way up from which a job counts as one that gets there: above what those that fell came to
    """

    records: tuple[JobRecord, ...]
    block: CurveBlock
    shape: ShapeEnsemble
    table: Array
    ln_diverged: Array
    ln_odd: Array
    fallen: NDArray[np.bool_]
    confirmed: float = CONFIRMED

    def take(self, jobs: list[int]) -> Evidence:
        """What some of the jobs say, under the shapes of all."""
        return replace(
            self, records=tuple(self.records[j] for j in jobs), block=self.block.take(jobs),
            shape=self.shape.take(jobs), table=self.table[jobs], ln_diverged=self.ln_diverged[jobs],
            ln_odd=self.ln_odd[jobs], fallen=self.fallen[jobs],
        )  # fmt: skip


def enough(size: int, jobs: int) -> int:
    """Draws that represent what is believed after so many jobs: the more they say, the fewer."""
    return round(size * min(1.0, max(LEAST_SHARE, float(np.sqrt(FEW / max(jobs, 1))))))


def weigh_curves(records: Sequence[JobRecord], target: float, is_fraction: bool, seed: int) -> Evidence:
    """Evidence of all jobs that have a curve (at least one record with scores)."""
    block = curve_block(records, target, is_fraction)
    shape = fit_shapes(block, size=enough(SHAPES, len(records)), normals=shape_normals(seed))
    block = block.with_floors(shape.floor)
    fallen = np.array([is_fallen(r, shape.shapes, block) for r in records])
    like, mass, wandering = shape.ln_like, shape.ln_mass.copy(), block.ln_wandering
    like = like.copy()
    for j, r in enumerate(records):
        if r.ln_crossing is not None:  # a curve of another shape still shows where it crossed
            direct = _direct_crossing(shape.z, r.ln_crossing) + wandering[j]
            like[j] = np.logaddexp(np.log(0.9) + like[j], np.log(0.1) + direct)
            mass[j] = np.logaddexp(np.log(0.9) + mass[j], np.log(0.1) + wandering[j])
    total = np.logaddexp(mass, np.log(ODD_CURVE) + wandering[:, None])
    relative = np.exp(np.clip(like - total[..., None].astype(np.float32), -80, 60))
    table = relative @ _kernels(len(shape.z))
    table += np.float32(1e-30)
    table = np.log(table, out=table).reshape(*relative.shape, len(NOISE_LEVELS))
    gone = np.array([r.outcome is Outcome.DIVERGED for r in records])
    lost = fallen | gone
    reach = max(
        (block.risen(r.top) for r, is_lost in zip(records, lost, strict=True) if is_lost), default=0.0
    )
    confirmed = min(max(CONFIRMED, reach + BEYOND_REACH), MOST_CONFIRMED)
    price = np.array([
        80.0 if r.is_reached else 0.0 if is_lost else
        CONFIRMED_PRICE if is_confirmed(r, block, confirmed) else UNFALLEN_PRICE
        for r, is_lost in zip(records, lost, strict=True)
    ])  # fmt: skip
    odd = wandering[:, None] - total
    table[gone] += np.float32(np.log(FALSE_ALARM))
    # a job beyond the edge may stay at the floor, which no walk explains as well as a slow job does
    ln_diverged = np.logaddexp(odd, like[..., -1] - total + np.where(gone, 0.0, np.log(STUCK))[:, None])
    rare = np.array([0.0 if r.is_reached else -RARE for r in records])
    return Evidence(
        tuple(records),
        block,
        shape,
        table,
        ln_diverged - price[:, None],
        odd + rare[:, None],
        fallen,
        confirmed,
    )


def curve_block(
    records: Sequence[JobRecord], target: float, is_fraction: bool, beside: CurveBlock | None = None
) -> CurveBlock:
    """The curves on one scale: 0 the untrained model, 1 the target.

    beside  the block of other jobs on whose scale they are put: its zero, its noise, its middle lr
    """
    start = start_score(records) if beside is None else beside.start
    assert start is not None, "no curve"
    # a start at or above the target leaves no rise to scale by: any positive unit will do
    scale = target - start if target - start > 1e-6 else max(abs(target), 1.0) * 0.1
    log2_lr = np.log2([r.lr for r in records])
    if beside is None:
        ln_noise, ln_noise_sd = _noise_of(records, scale)
        usual, middle = _usual_jitter(records, scale), float(np.median(log2_lr))
    else:
        ln_noise, ln_noise_sd = beside.ln_noise, beside.ln_noise_sd
        usual, middle = beside.ln_jitter, beside.log2_lr
    bins = max(len(r.score) for r in records)
    shape = (len(records), bins)
    ln_n, y, count = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    noise, wandering, dip = float(np.exp(ln_noise)), [], []
    for j, (r, loud) in enumerate(zip(records, _loudness(records, scale, usual), strict=True)):
        k, level, weight = len(r.score), (r.score - start) / scale, r.count / loud
        ln_n[j, :k], y[j, :k], count[j, :k] = r.ln_samples, level, weight
        ln_n[j, k:] = r.ln_samples[-1]
        wandering.append(ln_wandering(r.ln_samples, level, weight, noise))
        dip.append(_dip(level, noise))
    return CurveBlock(
        ln_n, y, count, np.array(wandering), ln_n[:, -1], scale, start, is_fraction, _partings(records), ln_noise,
        ln_noise_sd, np.array(dip), log2_lr - middle, middle, usual,
    )  # fmt: skip


def block_beside(
    evidence: Evidence | None, record: JobRecord, target: float, is_fraction: bool
) -> CurveBlock:
    """One job's curve on the scale of what is known, with a floor of its own where the others have theirs."""
    if evidence is None:
        return curve_block([record], target, is_fraction)
    alone = curve_block([record], target, is_fraction, evidence.block)
    return alone.with_floors(evidence.shape.floor)


def _dip(level: Array, noise: float) -> float:
    """How far scaled scores fell below the untrained model before they were highest; 0 where noise explains it.

    The first updates at a high lr may break what a trained start could do, before the job recovers.
    """
    depth = -float(level[: int(level.argmax()) + 1].min())
    return depth if depth > max(3 * noise, LEAST_DIP) else 0.0


def _noise_of(records: Sequence[JobRecord], scale: float) -> tuple[float, float]:
    """ln of the noise of one evaluation, in units of the rise, and its sd: the prior's, moved by the curves' jitter.

    Without it a noise far from the prior's makes every curve look odd, and odd curves teach no noise.
    """
    free, seen = _jitters(records, scale)
    weight = free.sum() / PRIOR_EVALUATIONS
    mean = (PRIOR_MEAN[NOISE] + weight * float(free @ seen) / max(free.sum(), 1e-9)) / (1 + weight)
    return float(max(mean, LEAST_LN_NOISE)), float(max(PRIOR_SD[NOISE] / np.sqrt(1 + weight), 0.25))


def _jitters(records: Sequence[JobRecord], scale: float) -> tuple[Array, Array]:
    """(J,) evaluations that tell each job's noise, and ln of the noise that they show, in units of the rise."""
    free = np.array([max(r.evaluations - 4, 0) if r.jitter > 0 else 0 for r in records], float)
    return free, np.log(np.maximum([r.jitter for r in records], 1e-9) / scale)


def _usual_jitter(records: Sequence[JobRecord], scale: float) -> float:
    """ln of the noise of one evaluation that the jobs show on average, in units of the rise; NaN where none does."""
    free, seen = _jitters(records, scale)
    return float(free @ np.maximum(seen, LEAST_LN_NOISE) / free.sum()) if free.any() else float("nan")


def _loudness(records: Sequence[JobRecord], scale: float, usual: float) -> Array:
    """(J,) variance of one evaluation relative to the usual job's, as the curves' own jitter shows it.

    At a high lr the policy itself jumps from update to update. In steps of sqrt 2, shrunk to 1 by as many evaluations
    as it takes to see a difference.
    """
    free, seen = _jitters(records, scale)
    if np.isnan(usual):
        return np.ones(len(records))
    ratio = np.exp(2 * np.clip(np.maximum(seen, LEAST_LN_NOISE) - usual, -3, 3))
    shrunk = (LOUD_EVALUATIONS + free * ratio) / (LOUD_EVALUATIONS + free)
    return np.asarray(2 ** (np.round(2 * np.log2(shrunk)) / 2))


def _partings(records: Sequence[JobRecord]) -> Array:
    """(M, J) the ways in which an edge lr ~ B^a parts the jobs, none beyond it among them; who arrived is below."""
    may = np.array([not r.is_reached for r in records])
    ln_b, ln_lr = np.log([r.batch_size for r in records]), np.log([r.lr for r in records])
    ways = {tuple(np.zeros(len(records)))}
    for a in EDGE_EXPONENTS:
        rank = np.round(ln_lr - a * ln_b, 6)
        ways |= {tuple((may & (rank >= edge)).astype(float)) for edge in rank}
    return np.array(sorted(ways))


@lru_cache(maxsize=8)
def shape_normals(seed: int) -> Array:
    u = qmc.Sobol(SIZE, rng=np.random.default_rng([seed, 1])).random(256)
    return np.asarray(ndtri(np.clip(u, 1e-4, 1 - 1e-4)))[:192]


def is_fallen(record: JobRecord, shapes: Array, block: CurveBlock) -> bool:
    """Whether a job has fallen, by the noise of the shapes (K, 6), and at least by a hundredth of the rise.

    One that never rose has nothing to fall from: it may be in the dip that others recovered from.
    """
    if block.risen(record.top) < LEAST_RISE:
        return False
    noise = float(np.median(np.exp(shapes[:, NOISE]))) * block.scale
    return has_fallen(record, max(noise, 0.01 * block.scale), block.scale)


def is_confirmed(record: JobRecord, block: CurveBlock, share: float) -> bool:
    """Most of the way up: a job that diverges would have turned."""
    return record.evaluations >= 3 and block.risen(record.last) > share


def _direct_crossing(z: Array, ln_crossing: float) -> Array:
    """ln of a density of ln S on the lattice, whose flat mass is that of the lattice's own unit."""
    e = -0.5 * ((z - ln_crossing) / CROSSING_SD) ** 2
    return np.asarray(e - np.log(np.exp(e).sum() * STEP / 8.0))


@lru_cache(maxsize=4)
def _kernels(size: int) -> Table:
    """(Z, Z L) Gaussian kernels over the lattice, one a noise level; rows beyond the edge see its last value."""
    i = np.arange(size)
    away = STEP * (i[:, None] - i)
    k = np.exp(-0.5 * (away[..., None] / NOISE_LEVELS) ** 2)
    return np.asarray(k / k.sum(0), np.float32).reshape(size, -1)


def levels(evidence: Evidence) -> tuple[Array, Array, Array]:
    """Rough mean and sd of each job's ln S over lattice and shapes, (J,) each; and its mean by shape, (K, J)."""
    shape = evidence.shape
    weight = np.exp(shape.ln_like - shape.ln_like.max(-1, keepdims=True))
    middle = shape.z.mean()
    off = shape.z - middle
    moments = weight @ np.column_stack([np.ones_like(off), off, off**2]).astype(np.float32)
    mass, first, second = np.asarray(moments, np.float64).transpose(2, 0, 1)
    share = np.exp(shape.ln_mass - shape.ln_mass.max(-1, keepdims=True))
    share /= share.sum(-1, keepdims=True)
    by_shape = first / mass
    mean = (share * by_shape).sum(-1)
    square = (share * (second / mass)).sum(-1)
    return middle + mean, np.sqrt(np.maximum(square - mean**2, 1e-4)), middle + by_shape.T
