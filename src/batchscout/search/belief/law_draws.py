"""Draws of the law of samples-to-target, jointly with the curve shape, given what the curves say (`evidence`)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from batchscout.search.belief import law
from batchscout.search.belief.curve_shape import STEP
from batchscout.search.belief.evidence import NOISE_LEVELS, Evidence, enough, levels
from batchscout.search.belief.law import LawPrior
from batchscout.search.belief.particles import Cloud, evenly, lead

Array = NDArray[np.float64]
Table = NDArray[np.float32]
Index = NDArray[np.int64]

DRAWS, BANK = 600, 16384  # while jobs are few
LN_NOISE = np.log(NOISE_LEVELS)
BLUR = 1.0  # sd of ln S, and octaves of the edge, at which the search for the law begins
ODD_JOB = 0.2  # prior that a job follows neither law nor divergence
FAR_SD = 0.05  # sd of ln S per octave from the best lr, on top of the noise between seeds


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
        density = LawDensity(self.prior, evidence)
        density.start_power, start = self._start(density, rng)
        bank = np.column_stack([self._bank, np.full(len(self._bank), np.nan)])
        bank[:, law.S_MIN] = np.nan
        cloud = lead(start, density, rng, bank=bank, discrete=law.SIZE, discrete_size=density.shape_count)
        return replace(cloud, x=density.with_s_min(cloud.x))

    def _start(self, density: LawDensity, rng: np.random.Generator) -> tuple[float, Array]:
        """Draws from prior × blurred likelihood^power out of the bank, at the highest power that leaves enough.

        Each law's level is drawn where the curves put it (exact importance weights): the one direction in which the
        prior is hopelessly wide.
        """
        jobs = len(density.evidence.records)
        draws, bank = enough(DRAWS, jobs), self._bank[: enough(BANK, jobs)]
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


class LawDensity:
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
        self.centre, sd, by_shape = levels(evidence)
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


def _by_shape(ln_density: Array) -> Table:
    """(K, J) densities of (J, K)."""
    return np.exp(np.clip(ln_density.T, -60, 60)).astype(np.float32, order="C")
