"""What is believed after the jobs seen so far: draws of the law, the curve shape and the update time, jointly.

A pure function of (space, target, seed, jobs): equal jobs give an equal posterior, whichever way they came about.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from batchscout.measure.outcome import Outcome
from batchscout.search.belief import law
from batchscout.search.belief.evidence import ODD_CURVE, Evidence, levels
from batchscout.search.belief.law import LawPrior
from batchscout.search.belief.law_draws import LawDensity
from batchscout.search.belief.misfit import find_misfit
from batchscout.search.belief.particles import Cloud, evenly
from batchscout.search.belief.records import JobRecord

Array = NDArray[np.float64]

ENOUGH = 0.4  # share of the draws that must count where a job is left out
MAY_DIVERGE, FAR_OFF = 0.1, 0.8  # probability; difference of ln S
TOLD = 0.2  # sd of ln S up to which a job's own curve says it


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
        level, sd, _ = levels(evidence)
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
        ids = () if self.evidence is None else [r.job_id for r in self.evidence.records]
        if job_id not in ids:  # no score, nothing said
            return self
        if self.evidence is None or len(ids) < 2:
            return None
        j = ids.index(job_id)
        alone = LawDensity(self.prior, self.evidence.take([j]))
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
