"""Is S on the new GPU type where the finished sweep says? Ended jobs against what is carried over.

Two hypotheses about ln S at the settings that ran here: it follows the carried law (same), or the law changed: its
critical batch size is 1/4, 1/2, 2 or 4 times the carried one, or its level differs. Their Bayes factor decides. If
nothing changed it exceeds k with probability at most 1/k, however often one looks and whatever was chosen to run, so
far as the law and its scatter are right.

A run near the recommended batch size says little of a critical batch size far above it. `power` says what the jobs
seen so far would show of either change, and what one more job would add.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from batchscout.measure.outcome import Outcome
from batchscout.search.belief import Belief, JobRecord, law
from batchscout.search.belief.curve_shape import lattice, ln_likelihood
from batchscout.search.belief.evidence import block_beside
from batchscout.search.belief.posterior import Posterior

Array = NDArray[np.float64]

ODDS, CHECKED = 4.0, 4
"""The transfer fails when one of the first jobs (at most CHECKED) brings the Bayes factor above this."""
KNOWN = 0.2
"""A job takes part in the check once its own curve says ln S to this standard deviation."""
CHECK_RISEN = 0.2
"""… and it has come so far up: below, a diverging job still looks like a fast one."""
SAFE = 0.05
"""A job takes part at a setting that diverges with less than this probability, or if it reached the target."""
LAW_ERROR = 0.05
"""sd of ln S of the law itself at one setting, on top of what its posterior says."""
CROSSING_SD = 0.04
CHANGES = {0.25: 0.35, 4.0: 0.35, 0.5: 0.1, 2.0: 0.1, 1.0: 0.1}
"""Critical batch size over the carried one, if S changed, and how likely each is then. 1 stands for the level."""
SHOWN = (0.25, 4.0)
"""Changes that the check is to see."""
LEVEL_SD = 0.3
"""sd of ln S of a change of the level, the same at all batch sizes."""


@dataclass(frozen=True, slots=True)
class TransferCheck:
    """S of one job's own curve against what is carried over.

    samples, expected   medians;  interval  90% of what is expected
    deviations          between the two, in standard deviations of both together
    """

    job_id: str
    samples: float
    expected: float
    interval: tuple[float, float]
    deviations: float

    @property
    def is_inside(self) -> bool:
        return self.interval[0] <= self.samples <= self.interval[1]

    def words(self) -> str:
        low, high = self.interval
        said = "agree with" if self.is_inside else "are outside of"
        return (
            f"samples to target of {self.job_id} ({self.samples:,.0f}) {said} the source sweep's "
            f"({self.expected:,.0f}, 90% interval {low:,.0f} to {high:,.0f})"
        )


@dataclass(frozen=True, slots=True)
class Transfer:
    """All checks, in order of the jobs. odds: of "S changed" against "the same S", the most over the first jobs."""

    checks: tuple[TransferCheck, ...] = ()
    odds: float = 1.0

    @property
    def is_failed(self) -> bool:
        return self.odds > ODDS

    def agreement(self) -> str:
        """In how many of the first jobs S is where the source sweep says; empty where none told."""
        first = self.checks[:CHECKED]
        inside = sum(check.is_inside for check in first)
        return f", samples as in the source sweep in {inside} of {len(first)} jobs" if first else ""

    def warnings(self) -> list[str]:
        """What does not agree, in sentences."""
        out = [check.words() for check in self.checks[:CHECKED] if not check.is_inside]
        if self.is_failed:
            out.append(
                f"the transfer failed (what these jobs show is {min(self.odds, 1e6):,.0f} times as likely if samples "
                "differ here): the search went on as an ordinary one with the source sweep as a hint"
            )
        return out


def check_transfer(belief: Belief, carried: Sequence[JobRecord], records: Sequence[JobRecord]) -> Transfer:
    """Ended jobs against the carried records alone; those whose own curve does not say S are left out."""
    posterior = belief.posterior(carried)
    told = _told(belief, carried, records)
    if posterior.evidence is None or not told:
        return Transfer()
    batch, log2_lr = _settings([r for r, _, _ in told])
    mean, sd = np.array([m for _, m, _ in told]), np.array([s for _, _, s in told])
    expected, spread = _law(posterior, batch, log2_lr, 1.0)
    odds = 1.0
    for k in range(1, min(len(told), CHECKED) + 1):
        same = _ln_normal(mean[:k] - expected[:k], spread[:k, :k] + np.diag(sd[:k] ** 2))
        changed = []
        for factor, weight in CHANGES.items():
            level, cov = _law(posterior, batch[:k], log2_lr[:k], factor)
            if factor == 1.0:
                cov = cov + LEVEL_SD**2
            changed.append(np.log(weight) + _ln_normal(mean[:k] - level, cov + np.diag(sd[:k] ** 2)))
        ln_odds = np.logaddexp.reduce(changed) - same
        odds = max(odds, float(np.exp(min(ln_odds, 50.0))))
    own = np.sqrt(np.diag(spread))
    checks = tuple(
        TransferCheck(
            r.job_id, float(np.exp(mean[i])), float(np.exp(expected[i])),
            (float(np.exp(expected[i] - 1.645 * own[i])), float(np.exp(expected[i] + 1.645 * own[i]))),
            float((mean[i] - expected[i]) / np.hypot(own[i], sd[i])),
        )
        for i, (r, _, _) in enumerate(told)
    )  # fmt: skip
    return Transfer(checks, odds)


def power(
    belief: Belief,
    carried: Sequence[JobRecord],
    records: Sequence[JobRecord],
    batch: Array,
    log2_lr: Array,
    own_sd: float,
) -> tuple[Array, Array]:
    """How far apart "same" and each change of SHOWN lie, in squared standard deviations of what the jobs show.

    Returns (F,) for the jobs in `records`, and (F, n) for them and one more at each of the n settings, whose own
    curve would say ln S to own_sd.
    """
    posterior = belief.posterior(carried)
    told = _told(belief, carried, records)[:CHECKED]
    b, lr = _settings([r for r, _, _ in told])
    k = len(b)
    own = np.concatenate([np.array([s for _, _, s in told]), np.full(len(batch), own_sd)])
    b, lr = np.concatenate([b, batch]), np.concatenate([lr, log2_lr])
    level, cov = _law(posterior, b, lr, 1.0)
    total = cov + np.diag(own**2)
    now, then = np.zeros(len(SHOWN)), np.zeros((len(SHOWN), len(batch)))
    for f, factor in enumerate(SHOWN):
        change = _law(posterior, b, lr, factor)[0] - level
        now[f] = change[:k] @ np.linalg.solve(total[:k, :k], change[:k])
        for i in range(len(batch)):
            at = [*range(k), k + i]
            then[f, i] = change[at] @ np.linalg.solve(total[np.ix_(at, at)], change[at])
    return now, then


def _settings(records: Sequence[JobRecord]) -> tuple[Array, Array]:
    return np.array([float(r.batch_size) for r in records]), np.log2([float(r.lr) for r in records])


def _law(posterior: Posterior, batch: Array, log2_lr: Array, factor: float) -> tuple[Array, Array]:
    """Mean and covariance of one job's ln S at each setting with the critical batch size times factor."""
    x = posterior.x[:, : law.SIZE].copy()
    x[:, law.B_CRIT] += np.log(factor)
    level, _ = posterior.prior.ln_samples(x, batch, log2_lr)
    own_variance = float(np.median(posterior.noise)) ** 2 + LAW_ERROR**2
    cov = (
        np.atleast_2d(np.cov(level.T)) + own_variance * np.eye(len(batch)) if len(batch) else np.zeros((0, 0))
    )
    return np.median(level, axis=0), cov


def _ln_normal(off: Array, cov: Array) -> float:
    """ln density of a multivariate normal at `off` from its mean, without the (2 pi)^(k/2)."""
    return float(-0.5 * (off @ np.linalg.solve(cov, off) + np.linalg.slogdet(cov)[1]))


def _told(
    belief: Belief, carried: Sequence[JobRecord], records: Sequence[JobRecord]
) -> list[tuple[JobRecord, float, float]]:
    """Records whose own curve says ln S, with its mean and sd."""
    posterior = belief.posterior(carried)
    if posterior.evidence is None or not records:
        return []
    out = []
    for r, risk in zip(records, posterior.ln_samples(*_settings(records))[1].mean(0), strict=True):
        if r.is_reached or risk < SAFE:  # a diverging job's curve says nothing of S
            own = own_samples(belief, posterior, r)
            if own is not None:
                out.append((r, *own))
    return out


def own_samples(belief: Belief, posterior: Posterior, record: JobRecord) -> tuple[float, float] | None:
    """Mean and sd of ln S by the job's own curve, with the carried curves' shapes."""
    if record.ln_crossing is not None:
        return record.ln_crossing, CROSSING_SD
    evidence = posterior.evidence
    if evidence is None or record.outcome is Outcome.DIVERGED:
        return None
    alone = block_beside(evidence, record, belief.target_score, evidence.block.is_fraction)
    if alone.risen(record.top) < CHECK_RISEN:
        return None
    z = lattice(alone)
    like = ln_likelihood(alone, evidence.shape.shapes, z)[0]
    weight = np.exp(like - like.max()).sum(0)
    weight /= weight.sum()
    mean = float(weight @ z)
    sd = float(np.sqrt(max(float(weight @ z**2) - mean**2, 0.0)))
    return (mean, sd) if sd < KNOWN else None
