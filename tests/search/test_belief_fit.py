"""Where the belief's own assumptions are in doubt: jobs with floors of their own, dips, a world of no law."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.search.jobs import job
from tests.search.test_belief import BATCH_SIZES, LRS, START, TARGET, believe, rising, true_samples

from batchscout.search.belief import law, record_of
from batchscout.search.belief.curve_shape import (
    PRIOR_MEAN,
    PRIOR_SD,
    TILT,
    CurveBlock,
    _slopes,
    height,
    lattice,
    ln_likelihood,
)
from batchscout.search.belief.evidence import weigh_curves
from batchscout.search.belief.law_draws import LawEngine
from batchscout.search.belief.misfit import LENGTH, NOTICED, find_misfit
from batchscout.search.protocol import Finished, JobObservation, Point, Proposal, SearchContext, Space
from batchscout.search.time_to_target import TimeToTargetSearch, watch
from batchscout.search.time_to_target.settings import Settings


def lowered(one: JobObservation, depth: float, *, untrained: float | None = None) -> JobObservation:
    """The same job with its floor `depth` of the rise lower, the target where it was."""
    assert one.curve is not None
    score = one.curve.score
    score = np.clip(score - depth * (TARGET.score - score), 0, 1)
    n, seconds = one.curve.samples, one.curve.seconds
    if untrained is not None:
        n, seconds, score = np.r_[0, n], np.r_[0.0, seconds], np.r_[untrained, score]
    curve = replace(
        one.curve, samples=n, score=score, seconds=seconds, sampling_seconds=0.5 * seconds, score_n=None
    )
    return replace(one, curve=curve)


def spread_of(jobs: list[JobObservation]) -> tuple[float, np.ndarray, np.ndarray]:
    """The sd of the floors that is believed; error of ln S of each job, from its own curve, and its sd."""
    evidence = weigh_curves([record_of(j, TARGET) for j in jobs], TARGET.score, True, 0)
    weight = np.exp(evidence.shape.ln_like - evidence.shape.ln_like.max((1, 2), keepdims=True)).sum(1)
    weight /= weight.sum(1, keepdims=True)
    mean = weight @ evidence.shape.z
    sd = np.sqrt((weight * (evidence.shape.z - mean[:, None]) ** 2).sum(1))
    true = np.log([true_samples(j.point.batch_size, j.point.lr) for j in jobs])
    return evidence.shape.floor, mean - true, sd


def test_jobs_whose_floors_differ_are_seen_to_and_their_samples_are_still_read_aright() -> None:
    rng = np.random.default_rng(4)
    jobs = [rising(b, lr, upto=0.5, every=1000) for b in BATCH_SIZES[1:7] for lr in LRS[3:5]]
    shared = [lowered(j, 0.0, untrained=START) for j in jobs]
    floor, _, sure = spread_of(shared)
    assert floor == 0
    own = [lowered(j, d, untrained=START) for j, d in zip(jobs, rng.normal(0, 0.15, len(jobs)), strict=True)]
    floor, error, sd = spread_of(own)
    assert floor > 0
    assert np.abs(error).max() < 0.2
    assert np.median(sd) > np.median(sure), "a curve says less of its samples where it may start anywhere"


def test_curves_whose_floor_follows_the_lr_are_read_aright() -> None:
    """Our own trainer: the lower the lr, the sooner a curve has risen half-way and the later it arrives."""
    slope, rng = 0.12, np.random.default_rng(5)
    jobs = [
        lowered(
            rising(b, lr, upto=float(rng.uniform(0.3, 0.6)), every=1000), slope * (k - 2), untrained=START
        )
        for b in BATCH_SIZES[1:7]
        for k, lr in enumerate(LRS[2:7])
    ]
    evidence = weigh_curves([record_of(j, TARGET) for j in jobs], TARGET.score, True, 0)
    per_octave = slope / np.log2(LRS[3] / LRS[2])
    assert np.median(evidence.shape.shapes[:, TILT]) == pytest.approx(-per_octave, rel=0.4)
    _, error, _ = spread_of(jobs)
    assert np.abs(error - error.mean()).max() < 0.25
    by_lr = error.reshape(6, 5).mean(0)
    assert np.ptp(by_lr) < 0.15, "no lr is favoured"


def test_a_job_whose_score_jumps_says_less_than_a_calm_one() -> None:
    """Five times the jitter: a scatter that the other curves do not have is no other kind of curve."""
    calm = [rising(b, LRS[4], upto=0.5, prompts=5000, every=1000) for b in BATCH_SIZES[2:6]]
    loud = rising(256, LRS[5], upto=0.5, every=1000)
    assert loud.curve is not None
    jumps = np.random.default_rng(8).normal(0, 0.05, len(loud.curve.score))
    loud = replace(loud, curve=replace(loud.curve, score=loud.curve.score + jumps))
    evidence = weigh_curves([record_of(j, TARGET) for j in (*calm, loud)], TARGET.score, True, 0)
    share = evidence.block.count.sum(1) / [r.evaluations for r in evidence.records]
    assert share[4] < share[:4].min() / 5
    assert evidence.shape.ln_mass[4].max() > evidence.block.ln_wandering[4] + 1, "of the common shape"
    _, error, sd = spread_of([*calm, loud])
    assert abs(error[4] - error[:4].mean()) < 3 * sd[4] < 1


def test_the_slopes_of_the_curve_are_its_derivatives() -> None:
    rng = np.random.default_rng(0)
    shapes = PRIOR_MEAN + PRIOR_SD * rng.normal(size=(40, 1, 6))
    u, step = np.linspace(-4, 1, 30)[None], 1e-5
    p, *slopes, along = _slopes(shapes, u)
    assert p == pytest.approx(height(shapes, u), abs=1e-12)
    for i in range(4):
        move = np.where(np.arange(6) == i, step, 0.0)
        numeric = (height(shapes + move, u) - height(shapes - move, u)) / (2 * step)
        assert slopes[i] == pytest.approx(numeric, abs=1e-7)
    assert along == pytest.approx(
        (height(shapes, u + step) - height(shapes, u - step)) / (2 * step), abs=1e-7
    )


def test_a_job_that_dips_before_it_rises_is_no_diverging_one() -> None:
    """Our own trainer at a high lr: from 0.39 down to 0.15, then up to the target sooner than the others."""
    others = [lowered(rising(b, LRS[3], upto=0.5), 0.0, untrained=START) for b in (64, 256, 512)]
    dipped = lowered(rising(256, LRS[5], upto=0.5, seed=1), 0.14, untrained=START)
    assert dipped.curve is not None
    assert dipped.curve.score[1] < START - 0.05
    evidence = weigh_curves([record_of(j, TARGET) for j in (*others, dipped)], TARGET.score, True, 0)
    assert evidence.block.start == START, "measured before the first update"
    assert evidence.block.dip[3] > 0
    assert not evidence.fallen.any()
    assert evidence.shape.ln_mass[3].max() > evidence.block.ln_wandering[3] + 2


def test_the_likelihood_of_an_own_floor_is_the_integral_over_it() -> None:
    """Against brute force: the floor on a grid, each with its Gaussian weight."""
    n = np.log(np.arange(1, 13) * 2000.0)[None]
    shapes = np.array([[0.02, -1.5, -0.9, 0.1, -3.2, 0.0]])
    y = height(shapes[0], n - np.log(40_000)) - 0.1
    block = CurveBlock(
        n,
        y,
        np.ones_like(n),
        np.zeros(1),
        n[:, -1],
        1.0,
        0.0,
        False,
        np.zeros((1, 1)),
        -3.2,
        0.5,
        np.zeros(1),
        np.zeros(1),
    )
    sd, z = 0.2, lattice(block)
    told = ln_likelihood(block.with_floors(sd), shapes, z)[0, 0]
    floors = np.linspace(-6 * sd, 6 * sd, 2001)
    p = height(shapes[0], n[0] - z[:, None])
    v = np.exp(-6.4) + 0.004**2 + 0.005**2  # noise, quantisation, wobble
    off = y[0] - (p[None] - floors[:, None, None] * np.maximum(1 - p[None], 0))
    each = -0.5 * (off**2 / v + np.log(2 * np.pi * v)).sum(-1) - 0.5 * (floors[:, None] / sd) ** 2
    exact = np.logaddexp.reduce(each, axis=0) + np.log((floors[1] - floors[0]) / (sd * np.sqrt(2 * np.pi)))
    near = exact > exact.max() - 40
    assert told[near] == pytest.approx(exact[near], abs=0.3)
    assert abs(z[told.argmax()] - z[exact.argmax()]) < 0.06


def off_the_law(seed: int, pattern: float) -> tuple[np.ndarray, ...]:
    """12 jobs, 7 % noise between seeds, 5 % of their own; a pattern of this sd drawn from the Gaussian process."""
    rng = np.random.default_rng(seed)
    batch, log2_lr = 2.0 ** rng.integers(4, 11, 12), rng.integers(-16, -10, 12).astype(float)
    along, across = np.log2(batch)[:, None] - np.log2(batch), log2_lr[:, None] - log2_lr
    r = np.sqrt(3) * np.hypot(along / LENGTH[0], across / LENGTH[1])
    cov = pattern**2 * (1 + r) * np.exp(-r) + (0.07**2 + 0.05**2) * np.eye(12)
    return batch, log2_lr, rng.multivariate_normal(np.zeros(12), cov), np.full(12, 0.05)


def test_a_pattern_beside_the_law_is_noticed_and_noise_between_seeds_is_not() -> None:
    assert sum(find_misfit(*off_the_law(seed, 0.0)) > NOTICED for seed in range(60)) <= 3
    assert sum(find_misfit(*off_the_law(seed, 0.4)) > NOTICED for seed in range(60)) >= 54
    assert find_misfit(*(a[:5] for a in off_the_law(0, 2.0))) == 0, "five jobs show no pattern"


def test_one_job_left_out_by_weights_is_the_belief_of_the_others() -> None:
    jobs = [rising(b, lr, upto=0.5) for b in BATCH_SIZES[1:7] for lr in LRS[2:7]]
    belief, records = believe(jobs)
    thinned = belief.posterior(records).without(records[2].job_id)
    assert thinned is not None
    assert thinned.evidence is not None
    assert [r.job_id for r in thinned.evidence.records] == [r.job_id for r in records if r is not records[2]]
    # drawn anew from the other jobs' own likelihoods, under the same shapes; one cloud's median is off by some 0.03
    clouds = [LawEngine(belief.prior, seed).draw(thinned.evidence).x for seed in range(5)]
    batch, lr2 = np.array([64.0, 256.0, 1024.0]), np.full(3, np.log2(LRS[4]))
    told = thinned.ln_samples(batch, lr2)[0]
    exact = replace(thinned, x=np.concatenate(clouds)).ln_samples(batch, lr2)[0]
    assert np.median(told, axis=0) == pytest.approx(np.median(exact, axis=0), abs=0.04)
    assert told.std(0) == pytest.approx(exact.std(0), rel=0.4)


def test_the_level_that_all_jobs_share_is_as_uncertain_as_the_shape_whatever_the_seed() -> None:
    """Thirty sharp curves fix how the jobs lie to each other; where they lie together each shape says differently.

    A draw that cannot change its shape without leaving that place stays with the shapes it began with: two halves
    that agree, and another answer for every seed.
    """
    jobs = [rising(b, lr, upto=0.5) for b in BATCH_SIZES[1:7] for lr in LRS[2:7]]
    belief, records = believe(jobs)
    evidence = belief.posterior(records).evidence
    assert evidence is not None
    at = np.array([256.0]), np.array([np.log2(LRS[4])])
    levels = [
        belief.prior.ln_samples(LawEngine(belief.prior, s).draw(evidence).x[:, : law.SIZE], *at)[0]
        for s in range(4)
    ]
    weight = np.exp(evidence.shape.ln_like - evidence.shape.ln_like.max(-1, keepdims=True))
    by_shape = ((weight @ evidence.shape.z) / weight.sum(-1)).mean(0)
    assert np.std([np.median(x) for x in levels]) < 0.4 * by_shape.std()
    for x in levels:
        assert x.std() == pytest.approx(by_shape.std(), rel=0.4)


def test_a_job_that_says_all_there_is_cannot_be_left_out_by_weights() -> None:
    belief, records = believe([rising(128, LRS[4], upto=0.6), rising(128, LRS[1], upto=0.1)])
    assert belief.posterior(records).without(records[0].job_id) is None


def hump(point: Point) -> float:
    """What no law of the family shows: around 512 up to three times the samples of the batch sizes beside it."""
    off = np.log2(point.batch_size / 512)
    return float(true_samples(point.batch_size, point.lr) * (1 + 2 * np.exp(-(off**2))))


def arrived(point: Point, seed: int) -> JobObservation:
    """A job that ran to the target, an update of any size in 0.1 s and 1 ms a sample."""
    total = hump(point) * (1 + 0.02 * np.random.default_rng([point.batch_size, seed]).normal())
    n = np.arange(1, 41) * total / 40
    share = (TARGET.score - START) / (0.93 - START)
    p = START + (0.93 - START) / (1 + np.exp(-(np.log(n / total) / 0.38 + np.log(share / (1 - share)))))
    scores = (*(float(s) for s in p[:-1]), 0.805)
    seconds = total / point.batch_size * (0.1 + 0.001 * point.batch_size)
    return job(point.batch_size, point.lr, seed, scores=scores, samples=round(total / 40), seconds=seconds)


def test_where_no_law_fits_the_fastest_measured_setting_is_recommended_and_its_neighbours_are_run() -> None:
    search = TimeToTargetSearch(SearchContext(Space(BATCH_SIZES, LRS[2:7], seeds=3), TARGET))
    jobs = [arrived(Point(b, lr), s) for b in BATCH_SIZES for lr in LRS[3:6] for s in range(3)]
    state = search._state(jobs)
    fastest = min(jobs, key=lambda j: j.seconds)
    assert state.points[state.best_by_law] != fastest.point, "the law would be wrong"
    answer = search.recommend(jobs)
    assert answer is not None
    assert answer.point == fastest.point
    assert any("no law" in w for w in answer.warnings)
    assert answer.interval is not None
    assert answer.interval[0] < fastest.seconds < answer.interval[1]
    assert answer.expected_regret is None
    proposal = search.propose(jobs)
    assert isinstance(proposal, Proposal)
    assert "no law" in proposal.explanation
    b, lr = BATCH_SIZES.index(fastest.point.batch_size), LRS.index(fastest.point.lr)
    steps = (BATCH_SIZES.index(proposal.point.batch_size) - b, LRS.index(proposal.point.lr) - lr)
    assert steps in {(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1)}


def test_an_odd_curve_that_still_climbs_is_no_lost_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two stairs, as in a sweep of our own trainer: no curve of the others', and on its way to the target."""
    others = [rising(b, LRS[4], upto=0.7, prompts=5000) for b in (64, 128, 512, 1024)]
    stairs = np.repeat([0.02, 0.3, 0.62], 6) + np.random.default_rng(2).normal(0, 0.004, 18)
    scores = tuple(float(START + (TARGET.score - START) * p) for p in stairs)
    odd = job(256, LRS[5], 0, outcome="running", scores=scores, samples=1000, seconds=300.0)
    search = TimeToTargetSearch(SearchContext(Space(BATCH_SIZES, LRS[2:7], seeds=3), TARGET))
    assert "not that of a job that gets there" not in (search.stop(odd, [*others, odd]) or "")
    monkeypatch.setattr(watch, "CLIMBED", 9.0)
    assert search.stop(odd, [*others, odd]) == "its curve is not that of a job that gets there"


def test_a_sweep_does_not_end_on_a_setting_that_was_never_run_to_the_target() -> None:
    """Every setting was tried, none is known well enough, and no seed is left."""
    sizes = (64, 128, 256)
    context = SearchContext(Space(sizes, (LRS[3],), seeds=1), TARGET)
    search = TimeToTargetSearch(context, Settings(least_risen=0.0))
    jobs = [rising(b, LRS[3], upto=0.3, prompts=60) for b in sizes]
    assert not search._is_settled(search._state(jobs))
    proposal = search.propose(jobs)
    assert isinstance(proposal, Proposal)
    assert (proposal.kind, proposal.resume) == ("verify", f"b{proposal.point.batch_size}-lr2e-05-s0")


@pytest.mark.parametrize(("outcome", "reason"), [("infeasible", "oom_gpu"), ("diverged", "")])
def test_a_sweep_of_which_nothing_can_be_run_to_the_target_ends(outcome: str, reason: str) -> None:
    context = SearchContext(Space((64, 128), (LRS[3],), seeds=1), TARGET)
    scores = () if outcome == "infeasible" else tuple(float(s) for s in np.linspace(0.5, 0.1, 8))
    jobs = [
        replace(job(b, LRS[3], 0, outcome=outcome, scores=scores, samples=1000, seconds=8.0), reason=reason)
        for b in (64, 128)
    ]
    assert TimeToTargetSearch(context).propose(jobs) == Finished("every allowed point has been tried")
