"""Medians with misses, comparisons and the rest of the small statistics."""

from __future__ import annotations

import numpy as np
import pytest

from batchscout.errors import LawError
from batchscout.laws import (
    compare_batches,
    crossing_by_luck,
    fit_log_normal,
    median_with_misses,
    minimum_acceptable_mean,
    olympic_mean,
    probability_of_least,
    prune_reference_points,
    seeds_needed,
    welch_log,
)


def test_misses_are_infinite_in_the_median():
    assert median_with_misses([3.0, None, 1.0]) == 3.0
    assert median_with_misses([3.0, None, None]) is None
    assert median_with_misses([1.0, 2.0, 3.0, None]) == 2.5
    assert median_with_misses([1.0, None]) is None


def test_a_single_run_gets_the_noise_of_the_others():
    groups = {16: [100.0], 64: [50.0, 52.0, 48.0], 256: [51.0]}
    found = compare_batches(groups)
    assert found.batch_size == 64
    assert found.near_ties == (64, 256)
    assert sum(found.probability.values()) == pytest.approx(1)
    low, high = found.interval(256)
    assert low < 51 < high


def test_equal_times_tie():
    found = compare_batches({16: [2.0, 2.0], 64: [2.0, 2.0]})
    assert found.near_ties == (16, 64)
    assert welch_log([2.0, 2.0], [2.0, 2.0]) == 1.0
    assert welch_log([2.0, 2.0], [3.0, 3.0]) == 0.0


def test_log_normal_interval_covers_the_median_in_nine_of_ten():
    """Two of eight runs are cut at a cap."""
    hits = 0
    for seed in range(80):
        values = np.exp(np.random.default_rng(seed).normal(5.0, 0.2, 8))
        cap = np.exp(5.15)
        kinds = ["right" if v > cap else None for v in values]
        low, high = fit_log_normal(np.minimum(values, cap), censored=kinds).median_interval
        hits += low <= np.exp(5.0) and (high is None or np.exp(5.0) <= high)
    assert 0.82 <= hits / 80 <= 0.97


def test_bootstrap_probability_is_certain_without_overlap():
    assert probability_of_least({1: [1.0, 1.1], 2: [5.0, 5.1]}) == {1: 1.0, 2: 0.0}


def test_pruning_keeps_an_affine_table_whole_and_nothing_of_nothing():
    points = {b: 1000.0 + 3.0 * b for b in (16, 64, 256)}
    assert prune_reference_points(points) == points
    assert prune_reference_points({}) == {}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: median_with_misses([]), "no runs"),
        (lambda: welch_log([1.0], [1.0, 2.0]), "two runs"),
        (lambda: compare_batches({}), "no batch size"),
        (lambda: olympic_mean([1.0, 2.0]), "needs more"),
        (lambda: minimum_acceptable_mean([1.0, 2.0, 3.0], submitted_runs=2), "left after dropping"),
        (lambda: seeds_needed(0.0, 0.1), "difference=0"),
        (lambda: crossing_by_luck(0, 0.5, 0.6), "questions=0"),
        (lambda: fit_log_normal([1.0, -1.0]), "values=-1 in row 2"),
    ],
)
def test_wrong_input_is_one_line(call, words):
    with pytest.raises(LawError, match=words):
        call()
