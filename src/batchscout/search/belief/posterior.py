"""What is believed after the jobs seen so far: draws of the law, the curve shape and the update time, jointly.

A pure function of (space, target, seed, jobs): equal jobs give an equal posterior, whichever way they came about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import qmc

from batchscout.measure.outcome import Outcome
from batchscout.search.belief import law
from batchscout.search.belief.curve_shape import (
    NOISE,
    PRIOR_MEAN,
    PRIOR_SD,
    STEP,
    CurveBlock,
    ShapeEnsemble,
    fit_shapes,
)
from batchscout.search.belief.curve_shape import SIZE as SHAPE_SIZE
from batchscout.search.belief.law import LawPrior
from batchscout.search.belief.misfit import find_misfit
from batchscout.search.belief.particles import Cloud, evenly, lead
from batchscout.search.belief.records import JobRecord, start_score
from batchscout.search.belief.wandering import has_fallen, ln_wandering

Array = NDArray[np.float64]
Table = NDArray[np.float32]
Index = NDArray[np.int64]

DRAWS, SHAPES, BANK = 600, 64, 16384  # while jobs are few
FEW, LEAST_SHARE = 12, 0.25  # jobs; share of these numbers that is enough however many there are
NOISE_LEVELS = np.geomspace(0.03, 1.1, 7)
LN_NOISE = np.log(NOISE_LEVELS)
BLUR = 1.0  # sd of ln S, and octaves of the edge, at which the search for the law begins
ODD_JOB, RARE = (
    0.2,
    2.5,
)  # prior that a job follows neither law nor divergence; nats against it if it did not arrive
UNFALLEN_PRICE, CONFIRMED_PRICE = 1.0, 4.0  # nats against calling a job diverged before it has fallen
FALSE_ALARM = 0.02  # probability that a job which follows the law ends as diverged
LOUD_EVALUATIONS = 10.0  # as many say as much of a job's own noise as is known before
PRIOR_EVALUATIONS, LEAST_LN_NOISE = 4.0, float(np.log(0.005))
EDGE_EXPONENTS = (0.0, 0.4, 0.8)
CROSSING_SD = 0.08
CONFIRMED, BEYOND_REACH, MOST_CONFIRMED = 0.65, 0.1, 0.95
ENOUGH = 0.4  # share of the draws that must count where a job is left out
MAY_DIVERGE, FAR_OFF = 0.1, 0.8  # probability; difference of ln S
LEAST_DIP, LEAST_RISE = 0.05, 0.1  # of the rise
TOLD = 0.2  # sd of ln S up to which a job's own curve says it
ODD_CURVE = 0.05  # prior that a curve is not of the shared shape
FAR_SD = 0.05  # sd of ln S per octave from the best lr, on top of the noise between seeds


def _enough(size: int, jobs: int) -> int:
    """Draws that represent what is believed after so many jobs: the more they say, the fewer."""
    return round(size * min(1.0, max(LEAST_SHARE, float(np.sqrt(FEW / max(jobs, 1))))))


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


@dataclass(frozen=True, eq=False)
class Posterior:
    """P equally likely draws x of the law (their last column is the shape's index), and the evidence they rest on."""

    prior: LawPrior
    x: Array
    cloud: Cloud | None
    evidence: Evidence | None

    @property
    def noise(self) -> Array:
        """(P,) sd of ln S between seeds."""
        return np.exp(self.x[:, law.NOISE])

    def ln_samples(self, batch: Array, log2_lr: Array) -> tuple[Array, Array]:
        """(P, n) ln S and the probability of diverging at each point."""
        level, d = self.prior.ln_samples(self.x[:, : law.SIZE], batch, log2_lr)
        return level, divergence(d, self.x[:, law.EDGE, None])

    @cached_property
    def told(self) -> tuple[tuple[JobRecord, float, float], ...]:
        """Jobs of the shared shape whose own curve says ln S, with its mean and sd; no law is asked."""
        evidence = self.evidence
        if evidence is None:
            return ()
        level, sd, _ = _levels(evidence)
        usual = evidence.shape.ln_mass.max(1) > np.log(ODD_CURVE) + evidence.block.ln_wandering
        is_told = usual & (sd < TOLD) & ~evidence.fallen
        return tuple(
            (r, float(level[j]), float(sd[j]))
            for j, r in enumerate(evidence.records)
            if is_told[j] and r.outcome is not Outcome.DIVERGED
        )

    @cached_property
    def misfit(self) -> float:
        """Probability that the jobs which say ln S show a pattern beside the law (its median over the draws).

        Jobs that may yet diverge are left out, and those so far off that they are odd ones: both rise as no law says.
        """
        if not self.told:
            return 0.0
        records, level, sd = zip(*self.told, strict=True)
        batch, log2_lr = np.array([float(r.batch_size) for r in records]), np.log2([r.lr for r in records])
        by_law, diverges = self.ln_samples(batch, log2_lr)
        off = np.array(level) - np.median(by_law, axis=0)
        stays = np.array([r.is_reached for r in records]) | (diverges.mean(0) < MAY_DIVERGE)
        kept = stays & (np.abs(off) < FAR_OFF)
        return find_misfit(batch[kept], log2_lr[kept], off[kept], np.array(sd)[kept])

    def without(self, job_id: str) -> Posterior | None:
        """What is believed if one job is left out, its draws weighed by what that job did not have to say.

        None where it had so much to say that too few of the draws would count (importance weights, their effective
        number below a share of ENOUGH): that belief has to be formed from the other jobs.
        """
        if self.evidence is None or len(self.evidence.records) < 2:
            return None
        ids = [r.job_id for r in self.evidence.records]
        j = ids.index(job_id)
        alone = _LawDensity(self.prior, self.evidence.take([j]))
        level, d = self.prior.ln_samples(self.x[:, : law.SIZE], alone.batch, alone.log2_lr)
        said = alone.ln_each((level, d, self.x), 1.0) @ alone.counts_for
        weight = np.exp(said.min() - said)
        weight /= weight.sum()
        if 1 / (weight**2).sum() < ENOUGH * len(weight):
            return None
        others = self.evidence.take([i for i in range(len(ids)) if i != j])
        return replace(self, x=self.x[evenly(weight, len(weight))], evidence=others)


def divergence(d: Array, edge: Array) -> Array:
    """Probability that a job at d octaves above the best lr diverges."""
    return np.asarray(1 / (1 + np.exp(-np.clip((d - edge) / law.EDGE_WIDTH, -40, 40))))


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
def _shape_normals(seed: int) -> Array:
    u = qmc.Sobol(SHAPE_SIZE, rng=np.random.default_rng([seed, 1])).random(256)
    return np.asarray(ndtri(np.clip(u, 1e-4, 1 - 1e-4)))[:192]


def weigh_curves(records: Sequence[JobRecord], target: float, is_fraction: bool, seed: int) -> Evidence:
    """Evidence of all jobs that have a curve (at least one record with scores)."""
    block = curve_block(records, target, is_fraction)
    shape = fit_shapes(block, size=_enough(SHAPES, len(records)), normals=_shape_normals(seed))
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
    # one that is known to diverge may have stayed at the floor, which no walk explains as well as a slow job does
    ln_diverged = np.where(gone[:, None], np.logaddexp(odd, like[..., -1] - total), odd)
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


class LawEngine:
    """Draws the posterior of the law for one space. Keeps only what is fixed by (space, seed)."""

    def __init__(self, prior: LawPrior, seed: int) -> None:
        self.prior, self.seed = prior, seed
        self._bank = prior.bank(BANK, seed)

    def prior_draws(self) -> Array:
        """Draws before any curve: every law of the prior, at one level of S."""
        x = np.column_stack([self._bank[:DRAWS], np.full(DRAWS, 0.5)])
        x[:, law.S_MIN] = np.log(2e4)
        return x

    def draw(self, evidence: Evidence) -> Cloud:
        """(P, SIZE + 1) draws and how the sampling went."""
        rng = np.random.default_rng([self.seed, 2])
        density = _LawDensity(self.prior, evidence)
        density.start_power, start = self._start(density, rng)
        bank = np.column_stack([self._bank, np.full(len(self._bank), np.nan)])
        bank[:, law.S_MIN] = np.nan
        cloud = lead(start, density, rng, bank=bank, discrete=law.SIZE, discrete_size=density.shape_count)
        return replace(cloud, x=density.with_s_min(cloud.x))

    def _start(self, density: _LawDensity, rng: np.random.Generator) -> tuple[float, Array]:
        """Draws from prior × blurred likelihood^power out of the bank, at the highest power that leaves enough.

        Each law's level is drawn where the curves put it (exact importance weights): the one direction in which the
        prior is hopelessly wide.
        """
        jobs = len(density.evidence.records)
        draws, bank = _enough(DRAWS, jobs), self._bank[: _enough(BANK, jobs)]
        level, d = self.prior.ln_samples(bank, density.batch, density.log2_lr)
        raw = level[:, density.point_of]
        away = density.centre - raw
        guess = (away * density.weight).sum(1)
        # jobs far from it (diverging ones) would drag the mean: reweighted steps towards the bulk
        for _ in range(3):
            robust = density.weight / (1 + ((away - guess[:, None]) / 0.5) ** 2)
            guess = (away * robust).sum(1) / robust.sum(1)
        low, high = density.level_range
        noise, anywhere = rng.standard_t(4, len(bank)), rng.random(len(bank)) < 0.5
        mean = guess + density.spread * noise + raw @ density.weight
        mean = np.where(anywhere, rng.uniform(low, high, len(bank)), mean)
        shift = mean - raw @ density.weight
        x = np.column_stack([bank, rng.integers(0, density.shape_count, len(bank)) + 0.5])
        x[:, law.S_MIN] = mean
        like = density.ln_likelihood((level + (shift + density.offset(x))[:, None], d, x), 0.0)
        like = np.where((mean > low) & (mean < high), like, -1e6)
        t = (shift - guess) / density.spread
        ln_q = np.log(0.5 * 0.375 * (1 + t**2 / 4) ** -2.5 / density.spread + 0.5 / (high - low))
        power = 1.0
        for _ in range(40):
            w = power * like - ln_q
            w = np.exp(w - w.max())
            if w.sum() ** 2 / (w**2).sum() > 0.03 * len(bank):
                break
            power *= 0.75
        w /= w.sum()
        return power, x[rng.permutation(evenly(w, draws))]


def _levels(evidence: Evidence) -> tuple[Array, Array, Array]:
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


def _by_shape(ln_density: Array) -> Table:
    """(K, J) densities of (J, K)."""
    return np.exp(np.clip(ln_density.T, -60, 60)).astype(np.float32, order="C")


class _LawDensity:
    """Laws with a shape index: prior, and likelihood by looking up the tables, blurred at early stages.

    Draws carry, in the place of ln s_min, the mean of ln S over the jobs (flat a priori as well): that number the
    curves know, whatever the rest of the law. It counts from where the draw's own shape puts the jobs: with another
    shape they all move together, and a draw that changes its shape moves with them.
    """

    start_power = 1.0

    def __init__(self, prior: LawPrior, evidence: Evidence) -> None:
        self.prior, self.evidence, self.shape_count = prior, evidence, len(evidence.shape.shapes)
        points = [(float(r.batch_size), float(np.log2(r.lr))) for r in evidence.records]
        self.points = tuple(dict.fromkeys(points))
        self.point_of = np.array([self.points.index(p) for p in points])
        self.batch = np.array([p[0] for p in self.points])
        self.log2_lr = np.array([p[1] for p in self.points])
        self.z0, self.size = evidence.shape.z[0], len(evidence.shape.z)
        self.jobs = np.arange(len(points))[None]
        self.counts_for = np.array([r.weight for r in evidence.records])
        self.flat = np.ascontiguousarray(evidence.table).reshape(-1)
        self.strides = np.array([np.prod(evidence.table.shape[i + 1 :]) for i in range(3)], int)
        self.odd = ODD_JOB * _by_shape(evidence.ln_odd)
        self.lost = _by_shape(evidence.ln_diverged)
        self.centre, sd, by_shape = _levels(evidence)
        precision = 1 / (sd**2 + 0.15**2)
        self.weight = precision / precision.sum()
        by_shape = by_shape @ self.weight
        self.offsets = by_shape - by_shape.mean()
        self.spread = 0.3 + 1 / np.sqrt(precision.sum())
        # ln S averaged over the jobs: flat over the lattice and what lies around it
        self.level_range = (self.z0 - 2.0, float(evidence.shape.z[-1]) + 2.0)

    def with_s_min(self, x: Array) -> Array:
        """The draws with ln s_min in its own place."""
        out = x.copy()
        out[:, law.S_MIN] = 0.0
        level, _ = self.prior.ln_samples(out[:, : law.SIZE], self.batch, self.log2_lr)
        out[:, law.S_MIN] = x[:, law.S_MIN] + self.offset(x) - level[:, self.point_of] @ self.weight
        return out

    def offset(self, x: Array) -> Array:
        """(P,) mean of ln S over the jobs under each draw's shape, minus that over all shapes."""
        return np.asarray(self.offsets[x[:, law.SIZE].astype(int)])

    def ln_prior(self, x: Array) -> Array:
        inside = (x[:, law.SIZE] >= 0) & (x[:, law.SIZE] < self.shape_count)
        inside &= (x[:, law.S_MIN] > self.level_range[0]) & (x[:, law.S_MIN] < self.level_range[1])
        return np.where(inside, self.prior.ln_density(x[:, : law.SIZE]), -np.inf)

    def features(self, x: Array) -> tuple[Array, Array, Array]:
        level, d = self.prior.ln_samples(x[:, : law.SIZE], self.batch, self.log2_lr)
        # columns of level hold ln S up to the draw's own constant
        mean = level[:, self.point_of] @ self.weight
        return level + (x[:, law.S_MIN] + self.offset(x) - mean)[:, None], d, x

    def ln_likelihood(self, features: tuple[Array, Array, Array], stage: float) -> Array:
        power = self.start_power + (1 - self.start_power) * min(1.0, 1.5 * stage)
        return np.asarray(power * (self.ln_each(features, stage) @ self.counts_for))

    def ln_each(self, features: tuple[Array, Array, Array], stage: float) -> Table:
        """(P, J) of each job, in single precision."""
        level, d, x = features
        blur = BLUR * (1 - stage) ** 2
        k = x[:, law.SIZE].astype(int)
        width = np.hypot(law.EDGE_WIDTH, 0.7 * blur)
        away = ((d - x[:, law.EDGE, None]) / width).astype(np.float32)
        diverges = self._by_job(1 / (1 + np.exp(-np.clip(away, -40, 40))))
        where = np.clip(((level - self.z0) / STEP).astype(np.float32), 0, self.size - 1.001)
        # a law is least exact far from the best lr
        var = (np.exp(2 * x[:, law.NOISE]) + blur**2)[:, None] + (FAR_SD * d) ** 2
        # between two levels as between two places: a step from one to the next would be a wall for the whole cloud
        noise = (0.5 * np.log(var.astype(np.float32)) - LN_NOISE[0]) / (LN_NOISE[1] - LN_NOISE[0])
        noise = np.clip(noise, 0, len(LN_NOISE) - 1.001)
        along = np.exp(self._between(k[:, None], self._by_job(where), self._by_job(noise)))
        each = (1 - diverges) * ((1 - ODD_JOB) * along + self.odd[k])
        each += diverges * self.lost[k] + np.float32(1e-28)
        return np.asarray(np.log(each, out=each))

    def _by_job(self, at_points: Table) -> Table:
        is_itself = len(self.points) == len(self.point_of)
        return at_points if is_itself else np.asarray(at_points[:, self.point_of])

    def _between(self, k: Index, where: Table, noise: Table) -> Table:
        """(P, J) ln density between two lattice points and two noise levels."""
        by_job, by_shape, by_place = self.strides
        i, level = where.astype(int), noise.astype(int)
        share, noise_share = (a - np.floor(a) for a in (where, noise))
        base = self.jobs * by_job + k * by_shape + i * by_place + level
        here, next_place = np.take(self.flat, base), np.take(self.flat, base + by_place)
        low = here + share * (next_place - here)
        base += 1
        here, next_place = np.take(self.flat, base), np.take(self.flat, base + by_place)
        high = here + share * (next_place - here)
        return np.asarray(low + noise_share * (high - low))
