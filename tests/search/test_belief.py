"""The belief held against closed forms and made-up sweeps whose truth is known."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.search.jobs import job

from batchscout.measure.curve import Curve
from batchscout.measure.outcome import Outcome
from batchscout.measure.target import Target
from batchscout.search.belief import Belief, JobRecord, law, record_of
from batchscout.search.belief.curve_shape import STEP, height
from batchscout.search.belief.evidence import curve_block, weigh_curves
from batchscout.search.belief.law import LawPrior
from batchscout.search.belief.law_draws import LawDensity
from batchscout.search.protocol import JobObservation, Point, Space

TARGET = Target(score=0.8)
LRS = tuple(2.5e-6 * 2.0**k for k in range(9))
BATCH_SIZES = (16, 32, 64, 128, 256, 512, 1024, 2048)
SPACE = Space(
    BATCH_SIZES, LRS, seeds=3, points=tuple(Point(b, lr) for b in BATCH_SIZES for lr in LRS), available=None
)
START, CEILING, WIDTH = 0.12, 0.93, 0.38


def true_samples(batch_size: int, lr: float) -> float:
    """McCandlish's hyperbola, S_min = 30,000, B_crit = 800; the best lr grows with the root of the batch size."""
    off = np.log2(lr / 4e-5) - 0.5 * np.log2(batch_size / 256)
    return float(30_000 * (1 + batch_size / 800) * (1 + 0.2 * off**2))


def rising(
    batch_size: int, lr: float, *, upto: float, prompts: int = 500, seed: int = 0, every: int = 2000
) -> JobObservation:
    """A job stopped at `upto` of its samples-to-target, its score a logistic in ln samples, counted on prompts."""
    rng = np.random.default_rng([batch_size, round(lr * 1e9), seed])
    total = true_samples(batch_size, lr)
    n = np.arange(1, int(upto * total / every) + 1) * every
    share = (TARGET.score - START) / (CEILING - START)
    p = START + (CEILING - START) / (1 + np.exp(-(np.log(n / total) / WIDTH + np.log(share / (1 - share)))))
    scores = tuple(float(s) for s in rng.binomial(prompts, p) / prompts)
    return job(
        batch_size, lr, seed, outcome="stopped", scores=scores, samples=every, seconds=0.01 * len(n) * every
    )


def believe(jobs: list[JobObservation], seed: int = 0) -> tuple[Belief, list[JobRecord]]:
    return Belief(SPACE, TARGET, seed), [record_of(j, TARGET) for j in jobs]


@lru_cache(maxsize=8)
def _believed(jobs: tuple[JobObservation, ...], seed: int) -> tuple[Belief, list[JobRecord]]:
    return believe(list(jobs), seed)


def ln_samples_of(jobs: list[JobObservation], at: JobObservation, seed: int = 0) -> np.ndarray:
    """(P,) ln S at the point of a job, as believed after all jobs."""
    belief, records = _believed(tuple(jobs), seed)
    b, lr2 = np.array([float(at.point.batch_size)]), np.array([np.log2(at.point.lr)])
    return belief.posterior(records).ln_samples(b, lr2)[0][:, 0]


@settings(deadline=None)
@given(
    st.floats(-0.2, 0.4), st.floats(0.02, 1.0), st.floats(0.1, 1.5), st.floats(0.3, 3.0), st.floats(-4.0, 2.0)
)
def test_a_shape_meets_the_target_at_its_samples_and_never_falls(
    lo: float, gap: float, w: float, nu: float, u: float
) -> None:
    shape = np.array([lo, np.log(gap), np.log(w), np.log(nu), -3.0])
    assert height(shape, np.array(0.0)) == pytest.approx(1.0, abs=1e-9)
    assert height(shape, np.array(u)) <= height(shape, np.array(u + 0.1)) + 1e-12


def test_the_law_is_mccandlish_s_hyperbola_where_nothing_else_is_at_work() -> None:
    """An Empirical Model of Large-Batch Training (2018), eq. 2.11: S / S_min = 1 + B / B_crit."""
    prior = LawPrior(16, 4096, -19, -11)
    x = np.zeros((1, law.SIZE))
    x[0, law.S_MIN], x[0, law.B_CRIT] = np.log(30_000), np.log(800)
    x[0, law.SMALL], x[0, law.CURVATURE], x[0, law.TURN] = -40.0, np.log(0.2), np.log(1500)
    batch = np.array([16.0, 128.0, 800.0, 4096.0])
    best = prior.log2_best_lr(x, np.log(batch)[None])[0]
    level, distance = prior.ln_samples(x, batch, best)
    assert np.exp(level[0]) == pytest.approx(30_000 * (1 + batch / 800), rel=1e-9)
    assert distance == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_partial_curves_tell_the_samples_of_jobs_that_never_arrived(seed: int) -> None:
    jobs = [rising(b, lr, upto=0.6) for b, lr in [(64, LRS[3]), (256, LRS[4]), (1024, LRS[5]), (256, LRS[2])]]
    for one in jobs:
        told = ln_samples_of(jobs, one, seed)
        true = np.log(true_samples(one.point.batch_size, one.point.lr))
        assert told.std() < 0.3
        assert abs(np.median(told) - true) < 2.5 * told.std()


def recorded(name: str) -> list[tuple[JobObservation, float | None]]:
    """Jobs stopped early, each with its true samples-to-target (None: it diverges later)."""
    rows = json.loads((Path(__file__).parents[1] / "recordings" / "search_curves.json").read_text())[name]
    return [
        (
            JobObservation(
                f"{i:03d}", "run", Point(r["batch_size"], r["lr"]), r["seed"], Outcome.STOPPED, "",
                Curve.from_recorded(r), r["seconds"][-1],
            ),
            r["true_samples"],
        )
        for i, r in enumerate(rows)
    ]  # fmt: skip


def test_jobs_that_diverge_together_do_not_bend_the_shape_of_the_others() -> None:
    """Five of nine rose fast, beyond one edge of the lr, and were stopped before they fell."""
    jobs = [one for one, _ in recorded("together")]
    for one, true in recorded("together"):
        if true is not None:
            assert abs(np.median(ln_samples_of(jobs, one)) - np.log(true)) < 0.4
    belief, records = believe(jobs)
    lost = [one.point for one, true in recorded("together") if true is None]
    batch, lr2 = np.array([float(p.batch_size) for p in lost]), np.log2([p.lr for p in lost])
    assert (belief.posterior(records).ln_samples(batch, lr2)[1].mean(0) > 0.5).all()


def test_a_noise_far_from_the_usual_does_not_make_a_job_look_odd() -> None:
    """128 prompts and a short rise: one evaluation's noise is a tenth of the way up."""
    ((one, true),) = recorded("coarse")
    told = ln_samples_of([one], one)
    assert true is not None
    assert abs(np.median(told) - np.log(true)) < 0.4
    assert told.std() < 0.6


def test_the_noise_expected_is_that_of_the_curves() -> None:
    """Binomial: sd of a share p of n prompts is sqrt(p (1 - p) / n), at most 0.5 / sqrt(n)."""
    jobs = [rising(b, LRS[4], upto=0.9, prompts=60, every=500) for b in (128, 256, 512)]
    block = curve_block([record_of(j, TARGET) for j in jobs], TARGET.score, True)
    expected = 0.42 / np.sqrt(60) / block.scale
    assert np.exp(block.ln_noise) == pytest.approx(expected, rel=0.35)


def test_evaluating_twice_as_often_moves_no_job() -> None:
    """How often a job is evaluated says nothing of its samples."""
    points = [(64, LRS[3]), (256, LRS[4]), (1024, LRS[5])]
    often = [rising(b, lr, upto=0.6, every=1000, prompts=2000) for b, lr in points]
    seldom = [rising(b, lr, upto=0.6, every=2000, prompts=2000) for b, lr in points]
    for a, b in zip(often, seldom, strict=True):
        first, second = ln_samples_of(often, a), ln_samples_of(seldom, b)
        assert abs(np.median(first) - np.median(second)) < 0.2


def test_equal_jobs_give_an_equal_belief_in_a_fresh_instance() -> None:
    jobs = [rising(b, lr, upto=0.5) for b, lr in [(64, LRS[3]), (256, LRS[4])]]
    used, records = believe(jobs)
    used.posterior(records[:1])
    fresh, same = believe(jobs)
    assert np.array_equal(used.posterior(records).x, fresh.posterior(same).x)


def test_a_job_that_arrived_is_known_by_its_crossing() -> None:
    whole = rising(256, LRS[4], upto=1.15, prompts=2000)
    reached = job(256, LRS[4], outcome="reached", scores=tuple(whole.curve.score), samples=2000)  # type: ignore[union-attr]
    told = ln_samples_of([reached], reached)
    assert np.median(told) == pytest.approx(np.log(true_samples(256, LRS[4])), abs=0.12)


def flat(batch_size: int, lr: float, *, outcome: str, evaluations: int = 60, seed: int = 0) -> JobObservation:
    """A job that never leaves the floor."""
    rng = np.random.default_rng([batch_size, seed, 5])
    scores = tuple(float(s) for s in rng.binomial(500, START, evaluations) / 500)
    return job(batch_size, lr, seed, outcome=outcome, scores=scores, samples=2000, seconds=20.0 * evaluations)


def test_a_job_at_the_floor_has_diverged_if_it_says_so_or_was_there_for_long() -> None:
    """Where it was taken for a slow one, the next hundred jobs were spent beside it. The others need 16 and 24
    evaluations; one that was capped after 8 may be slow, one after 60, at 8 times their lr, hardly."""
    rises = [rising(64, LRS[3], upto=0.6), rising(256, LRS[3], upto=0.6)]

    def diverges(outcome: str, evaluations: int) -> float:
        flats = [flat(256, LRS[6], outcome=outcome, evaluations=evaluations, seed=s) for s in range(2)]
        belief, records = believe([*rises, *flats])
        told = belief.posterior(records).ln_samples(np.array([256.0]), np.array([np.log2(LRS[6])]))[1]
        return float(told.mean())

    assert diverges("diverged", 8) > 0.9
    assert diverges("diverged", 60) > 0.9
    assert diverges("capped", 8) < 0.3
    assert diverges("capped", 60) > 0.9


def test_a_floor_that_wobbles_is_not_taken_for_another_kind_of_curve() -> None:
    """A hundredth of the rise, slowly up and down: no shape is exact, and noise alone does not explain it."""
    n = 200
    calm = np.random.default_rng(3).normal(0, 0.01, n)
    scores = START + calm + 0.008 * np.sin(np.arange(n) / 15)
    one = job(
        256, LRS[4], 0, outcome="stopped", scores=tuple(map(float, scores)), samples=2000, seconds=4000.0
    )
    evidence = weigh_curves([record_of(one, TARGET)], TARGET.score, True, 0)
    assert evidence.shape.ln_mass.mean() > evidence.block.ln_wandering[0] + 3


def test_the_likelihood_is_the_curves_blurred_by_the_noise_between_seeds() -> None:
    """Against the integral over ln S by brute force, between the tabulated levels of noise too; no steps."""
    jobs = [rising(64, LRS[3], upto=0.5), rising(256, LRS[4], upto=0.35)]
    belief, records = believe(jobs)
    evidence = weigh_curves(records, TARGET.score, True, 0)
    density = LawDensity(belief.prior, evidence)
    draws = belief.posterior(records).cloud.x[:16]  # type: ignore[union-attr]
    z, noises = evidence.shape.z, np.geomspace(0.06, 0.3, 40)

    def both(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        level, d = belief.prior.ln_samples(x[:, : law.SIZE], density.batch, density.log2_lr)
        like = evidence.shape.ln_like[:, int(x[0, law.SIZE])]
        curve = np.exp(like - like.max(1, keepdims=True))
        told, exact = np.zeros((2, len(noises)))
        for i, noise in enumerate(noises):
            x[0, law.NOISE] = np.log(noise)
            told[i] = density.ln_likelihood((level, d, x), 1.0)[0]
            sd = np.hypot(noise, 0.05 * d[0])
            bell = np.exp(-0.5 * ((z - level[0][:, None]) / sd[:, None]) ** 2) / sd[:, None]
            exact[i] = np.log((curve * bell).sum(1) * STEP).sum()
        return told - told[0], exact - exact[0]

    off = []
    for i in range(len(draws)):
        told, exact = both(draws[i : i + 1].copy())
        off.append(np.abs(told - exact).max())
        assert np.abs(np.diff(told)).max() < 2 * np.abs(np.diff(exact)).max() + 0.02
    assert np.median(off) < 0.2


def test_how_far_a_job_must_come_to_count_as_one_that_gets_there_rises_with_what_fell() -> None:
    def fallen(top: float) -> JobObservation:
        up = np.linspace(START, START + top * (TARGET.score - START), 12)
        scores = (*map(float, up), *map(float, up[::-1]))
        return job(256, LRS[7], 0, outcome="diverged", scores=scores, samples=2000, seconds=480.0)

    rises = [rising(64, LRS[3], upto=0.6), rising(256, LRS[3], upto=0.6)]

    def confirmed(top: float) -> float:
        return weigh_curves([record_of(j, TARGET) for j in [*rises, fallen(top)]], 0.8, True, 0).confirmed

    assert confirmed(0.4) == 0.65
    assert confirmed(0.75) == pytest.approx(0.85, abs=0.05)
    assert confirmed(0.99) == 0.95
