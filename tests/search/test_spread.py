"""The noise between jobs, from seeds and from batch sizes, and how sure it leaves the best."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.search.jobs import job

from batchscout.measure.target import Target
from batchscout.search.pooled import pool_points, recommend_measured
from batchscout.search.spread import Spread, probability_of_least, spread

SIZES = 2.0 ** np.arange(4, 12)


def noisy_samples(seed: int, noise: float, sizes: np.ndarray = SIZES) -> dict[int, float]:
    """b_crit inside, below or above the sizes."""
    rng = np.random.default_rng(seed)
    law = 3e4 * (1 + sizes / rng.choice([40.0, 400.0, 4000.0]))
    found = law * np.exp(noise * rng.standard_normal(len(sizes)))
    return {int(b): float(s) for b, s in zip(sizes, found, strict=True)}


def test_seeds_tell_the_noise_where_there_are_enough() -> None:
    times = [[10.0, 11.0], [20.0, 22.0], [5.0, 5.5], [7.0, 7.7]]
    found = spread(times, noisy_samples(0, 0.5))
    assert found.freedom == 4
    assert found.deviation == pytest.approx(math.log(1.1) / math.sqrt(2))


def test_scatter_beside_a_smooth_curve_tells_the_noise_of_jobs_that_ran_once() -> None:
    found = [spread([[1.0]] * 8, noisy_samples(seed, 0.11)) for seed in range(400)]
    assert math.sqrt(np.mean([f.deviation**2 for f in found])) == pytest.approx(0.11, rel=0.1)


def test_a_machine_with_moods_adds_to_the_scatter() -> None:
    smooth = {b: 1e4 * (1 + b / 300) for b in (16, 32, 64, 128, 256)}
    moody = [[1.0, 1.2], [2.0, 2.4]]
    assert spread([], smooth, moody).deviation == pytest.approx(math.log(1.2) / math.sqrt(2), rel=0.02)
    assert spread([], smooth, [[1.0], [2.0]]).deviation < 0.01


def test_intervals_from_scatter_cover_the_truth_in_nine_of_ten() -> None:
    hits = []
    for seed in range(400):
        noise = spread([[1.0]] * 8, noisy_samples(seed, 0.11))
        error = 0.11 * np.random.default_rng([1, seed]).standard_normal(8)
        hits += list(np.abs(error) <= noise.half_width(1))
    assert 0.86 <= np.mean(hits) <= 0.94


def test_few_batch_sizes_tell_no_noise() -> None:
    assert spread([[1.0]] * 4, noisy_samples(0, 0.1, SIZES[:4])) == Spread(0.0, 0)
    assert Spread().half_width(3) == 0.0


def test_a_cliff_is_followed_by_the_parabola() -> None:
    steep = {int(b): 1e4 * math.exp(0.15 * math.log(b / 16) ** 2) for b in SIZES}
    assert spread([], steep).deviation < 0.01


def test_probabilities_of_the_least_are_those_of_draws() -> None:
    rng = np.random.default_rng(0)
    means, halves = np.log([3.2, 3.3, 4.3, 9.0]), np.array([0.2, 0.3, 0.2, 0.2])
    draws = means + halves / 1.6449 * rng.standard_normal((200_000, 4))
    expected = np.bincount(draws.argmin(axis=1), minlength=4) / 200_000
    assert probability_of_least(means, halves) == pytest.approx(expected, abs=0.005)
    assert probability_of_least([0.0, 1.0], [0.0, 0.0]) == pytest.approx([1.0, 0.0])


def test_a_grid_run_once_knows_how_sure_it_is() -> None:
    samples = {16: 37.7, 32: 42.6, 64: 41.2, 128: 30.6, 256: 34.7, 512: 42.9, 1024: 50.5, 2048: 75.0}
    seconds = {16: 12.2, 32: 8.86, 64: 6.4, 128: 3.48, 256: 3.23, 512: 3.28, 1024: 4.34, 2048: 6.24}
    jobs = [job(b, seconds=seconds[b] / 0.8, samples=int(1000 * samples[b] / 4)) for b in samples]
    answer = recommend_measured(jobs, Target(0.8))
    assert answer is not None
    assert answer.point.batch_size == 256
    assert set(answer.near_ties) >= {128, 256, 512}
    assert 2048 not in answer.near_ties
    assert answer.probability_best == pytest.approx(0.4, abs=0.15)


def test_where_a_search_chose_the_learning_rates_scatter_is_no_noise() -> None:
    jobs = [job(b, samples=1000 + b) for b in (16, 32, 64, 128, 256)]
    assert all(p.is_noise_known for p in pool_points(jobs, Target(0.8)))
    jobs.append(job(64, 2e-3, samples=5000))
    assert not any(p.is_noise_known for p in pool_points(jobs, Target(0.8)))
