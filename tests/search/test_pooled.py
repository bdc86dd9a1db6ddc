"""Jobs of one setting put together, and the best of them."""

from __future__ import annotations

import math

import pytest
from scipy import stats
from tests.search.jobs import job

from batchscout.measure.target import Target
from batchscout.search.pooled import best_by_batch_size, best_point, pool_points, recommend_measured
from batchscout.search.protocol import Point

TARGET = Target(0.8)
FLAT = (0.2, 0.3, 0.3, 0.3, 0.3)


def test_a_points_time_is_the_mean_over_its_seeds_and_s_over_r() -> None:
    (point,) = pool_points([job(seed=0, seconds=10), job(seed=1, seconds=14)], TARGET)
    assert point.reached == point.jobs == 2
    assert point.time_to_target == pytest.approx((8 + 11.2) / 2)
    assert point.samples_to_target == pytest.approx(4000)
    assert point.throughput == pytest.approx(4000 / 9.6)
    # 1000 samples are 16 updates of 64, the last one cut
    assert point.update_seconds == pytest.approx(12 / 80)
    assert point.best_score == pytest.approx(0.9)


def test_censored_jobs_are_never_chosen() -> None:
    jobs = [
        job(16, outcome="capped", seconds=1, scores=FLAT),
        job(32, outcome="diverged", seconds=1, scores=FLAT),
        job(64, outcome="stopped", seconds=1, scores=FLAT),
        job(128, outcome="failed", seconds=1, scores=()),
        job(256, seconds=100),
    ]
    answer = recommend_measured(jobs, TARGET)
    assert answer is not None
    assert answer.point.batch_size == 256
    assert recommend_measured(jobs[:4], TARGET) is None


def test_a_probe_tells_its_seconds_only() -> None:
    (point,) = pool_points([job(kind="probe", outcome="capped")], TARGET)
    assert (point.jobs, point.reached, point.time_to_target) == (0, 0, None)
    assert point.update_seconds is not None


def test_missing_the_target_on_other_seeds_makes_a_point_dearer() -> None:
    missed = [job(64, seed=s, outcome="diverged", seconds=10, scores=FLAT) for s in (1, 2)]
    lucky = [job(64, seed=0, seconds=10), *missed]
    steady = [job(128, seed=s, seconds=20) for s in (0, 1)]
    points = {p.point.batch_size: p for p in pool_points([*lucky, *steady], TARGET)}
    # one of three reaches it: two failures of 10 s for each success of 8 s
    assert points[64].expected_seconds == pytest.approx(8 + 2 * 10)
    assert points[64].time_to_target == pytest.approx(8)
    best = best_point(points.values())
    assert best is not None
    assert best.point.batch_size == 128


def test_a_seed_that_was_stopped_for_being_slow_is_not_forgotten() -> None:
    jobs = [job(64, seed=0, seconds=10), job(64, seed=1, outcome="stopped", seconds=30, scores=FLAT)]
    (point,) = pool_points(jobs, TARGET)
    assert point.expected_seconds == pytest.approx((8 + 30) / 2)
    early = [job(64, seed=0, seconds=10), job(64, seed=1, outcome="stopped", seconds=2, scores=FLAT)]
    assert pool_points(early, TARGET)[0].expected_seconds == pytest.approx(8)


def test_without_repeats_the_interval_is_the_bracket() -> None:
    (point,) = pool_points([job(scores=(0.2, 0.4, 0.6, 1.0, 1.0))], TARGET)
    # between the evaluations at 3000 and 4000: 0.6 below, 1.0 above, so S = 3500
    assert point.samples_to_target == pytest.approx(3500)
    assert point.half_width == pytest.approx(0.5 * math.log(4000 / 3000))
    assert point.interval == pytest.approx((7 * math.sqrt(3 / 4), 7 * math.sqrt(4 / 3)))


def test_repeats_widen_the_interval_by_students_factor() -> None:
    jobs = [job(seed=0, seconds=10, samples=10), job(seed=1, seconds=20, samples=10)]
    (point,) = pool_points(jobs, TARGET)
    deviation = math.log(2) / math.sqrt(2)
    seeds = stats.t.ppf(0.95, 1) * deviation / math.sqrt(2)
    bracket = 0.5 * math.log(40 / 30)
    assert point.half_width == pytest.approx(math.hypot(seeds, bracket))


def test_a_target_met_at_the_first_evaluation_is_known_from_above_only() -> None:
    (point,) = pool_points([job(scores=(0.9, 0.9, 0.9), samples=1000)], TARGET)
    assert point.interval is not None
    assert point.interval[0] is None


def test_the_best_lr_of_a_batch_size_is_the_fastest_else_the_best_score() -> None:
    jobs = [
        job(64, 1e-3, seconds=10),
        job(64, 2e-3, seconds=7),
        job(128, 1e-3, outcome="capped", scores=FLAT),
        job(128, 2e-3, outcome="capped", scores=(0.1, 0.5, 0.6, 0.7, 0.7)),
    ]
    best = best_by_batch_size(pool_points(jobs, TARGET), TARGET)
    assert best[64].point == Point(64, 2e-3)
    assert best[128].point == Point(128, 2e-3)


def test_near_ties_are_those_within_the_noise() -> None:
    times = {32: 10.0, 64: 10.5, 128: 40.0}
    jobs = [job(b, seed=s, seconds=t * (1 + 0.1 * s)) for b, t in times.items() for s in (0, 1)]
    answer = recommend_measured(jobs, TARGET)
    assert answer is not None
    assert answer.near_ties == (32, 64)


def test_lower_scores_can_be_better() -> None:
    target = Target(0.3, direction="min")
    falling = (0.9, 0.8, 0.7, 0.6, 0.5)
    jobs = [job(64, scores=(0.9, 0.7, 0.5, 0.3, 0.2)), job(128, outcome="capped", scores=falling)]
    rows = best_by_batch_size(pool_points(jobs, target), target)
    assert rows[64].time_to_target == pytest.approx(8)
    assert rows[128].best_score == pytest.approx(0.5)


def test_other_levels_come_from_the_same_curves() -> None:
    answer = recommend_measured([job()], TARGET, level=0.5)
    assert answer is not None
    assert answer.samples_to_target == pytest.approx(2500)
