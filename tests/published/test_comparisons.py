"""Comparisons of times, and the rules of benchmarks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from batchscout.laws import (
    algoperf_score,
    algoperf_time,
    compare_batches,
    compute_to_score,
    crossing_by_luck,
    expected_first_crossing,
    fit_log_normal,
    larger_batch_wins,
    minimum_acceptable_mean,
    minimum_mean,
    noise_scale,
    olympic_mean,
    performance_profile,
    prune_reference_points,
    seeds_needed,
)
from batchscout.laws.likelihood import log_likelihood
from batchscout.laws.observations import observations

pytestmark = pytest.mark.published


def reference_runs(table, benchmark, size):
    rows = [
        r
        for r in table("mlperf_rcp.csv")
        if (r["round"], r["benchmark"], r["bs"]) == ("5.1.0", benchmark, size)
    ]
    return [float(x) for x in rows[0]["to_converge"].split()]


def test_minimum_acceptable_mean_of_reference_points(table):
    large = reference_runs(table, "llama31_405b", "1152")
    assert olympic_mean(large) == pytest.approx(313344)
    assert np.std(large) == pytest.approx(10641.7202, abs=1e-4)
    assert minimum_acceptable_mean(large, submitted_runs=3) == pytest.approx(285344.14, abs=0.01)
    small = reference_runs(table, "llama31_8b", "32")
    assert olympic_mean(small) == pytest.approx(178858.667, abs=0.001)
    assert minimum_acceptable_mean(small, submitted_runs=10) == pytest.approx(173649.765, abs=0.01)
    speed_up = olympic_mean(small) / minimum_acceptable_mean(small, submitted_runs=10)
    assert speed_up == pytest.approx(1.029997, abs=1e-6)
    bert = minimum_mean(2843989.333, 116600.106, reference_runs=18, submitted_runs=8)
    assert bert == pytest.approx(2759222.794, rel=1e-6)
    assert 2843989.333 / bert == pytest.approx(1.030721, abs=1e-6)


def test_reference_point_above_the_line_between_its_neighbours_is_pruned():
    assert list(prune_reference_points({128: 10, 256: 20, 512: 20})) == [128, 512]
    assert list(prune_reference_points({64: 30, 128: 10, 256: 12, 512: 16})) == [128, 256, 512]


def test_algoperf_takes_misses_into_the_median():
    assert algoperf_time([(10, 12, None), (None, 9, 15), (None, None, None)]) == 10
    assert algoperf_time([(None,), (None,), (3,)]) is None


@pytest.mark.parametrize(
    ("ratios", "score"), [((1, 2, 1.5), 0.83333), ((2, 1, 1), 0.88889), ((None, 4, 3), 0.11111)]
)
def test_algoperf_profile_scores(ratios, score):
    assert algoperf_score(ratios) == pytest.approx(score, abs=1e-5)
    grid = np.linspace(1, 4, 30001)
    area = np.trapezoid(performance_profile(ratios, grid), grid) / 3
    assert area == pytest.approx(score, abs=1e-3)


def test_censored_log_normal_terms():
    mean, sigma = np.array([math.log(130)]), 0.3

    def term(value, **columns):
        return float(log_likelihood(observations("t", [value], **columns), mean, sigma)[0])

    assert sum(term(t) for t in (100, 120, 150)) == pytest.approx(0.3233267, abs=1e-6)
    assert term(200, censored=["right"]) == pytest.approx(-2.5834998, abs=1e-6)
    assert term(80, censored=["left"]) == pytest.approx(-2.9413845, abs=1e-6)
    between = term(None, lower=[120], upper=[140], censored=["interval"])
    assert between == pytest.approx(-1.5957911, abs=1e-6)


def test_censored_log_normal_median():
    values = [100, 120, 150, 180]
    fit = fit_log_normal([*values, 200, 200], censored=[None] * 4 + ["right"] * 2)
    assert fit.median == pytest.approx(165.621, rel=1e-5)
    assert fit.sigma == pytest.approx(0.365389, rel=1e-4)
    naive = fit_log_normal(values)
    assert naive.median == pytest.approx(134.164, rel=1e-5)
    assert naive.sigma == pytest.approx(0.2223, abs=1e-4)
    assert fit_log_normal([*values, 200, 200]).median == pytest.approx(153.262, rel=1e-5)


def test_first_crossing_by_luck():
    assert crossing_by_luck(256, 0.65, 0.69) == pytest.approx(0.0919371, abs=1e-7)
    assert crossing_by_luck(256, 0.65, 0.69, evaluations=5) == pytest.approx(0.38258, abs=1e-5)
    assert crossing_by_luck(256, 0.67, 0.69, evaluations=10) == pytest.approx(0.94762, abs=1e-5)
    assert crossing_by_luck(251, 0.65, 174 / 251) == pytest.approx(0.084395, abs=1e-6)
    assert crossing_by_luck(100, 0.65, 0.69) == pytest.approx(0.23311, abs=1e-5)


@pytest.mark.parametrize(("questions", "expected"), [(64, 14.0236), (256, 17.4478), (1024, 18.9498)])
def test_expected_first_crossing_is_too_early_for_few_questions(questions, expected):
    scores = np.minimum(0.5 + 0.01 * np.arange(60), 1.0)
    assert expected_first_crossing(scores, questions, 0.69) == pytest.approx(expected, abs=1e-4)


def test_seeds_that_a_five_percent_difference_needs():
    assert seeds_needed(0.05, 0.05) == 16


def test_noise_scale_from_two_batch_sizes():
    found = noise_scale(8, 128, [84.0], [9.0])
    assert (found.gradient_square, found.trace, found.b_noise) == (4.0, 640.0, 160.0)


def test_scalerl_inverse():
    curve = {"start": 0.2, "ceiling": 0.6, "midpoint": 1000, "steepness": 2}
    assert compute_to_score(0.4, **curve) == pytest.approx(1000)
    assert compute_to_score(0.5, **curve) == pytest.approx(1732.0508, abs=1e-4)
    assert compute_to_score(0.55, **curve) == pytest.approx(2645.7513, abs=1e-4)
    assert compute_to_score(0.6, **curve) == math.inf
    assert compute_to_score(0.9, **curve) == math.inf


def test_tencent_interior_optimum_excludes_2048(table):
    hours = {
        int(r["prompts"]): float(r["time_h"])
        for r in table("tencent2608_29296_grpo_time.csv")
        if r["lr_rule"] != "fixed"
    }
    found = compare_batches({b: [t] for b, t in hours.items()})
    assert found.batch_size == 1024
    assert 1 - hours[1024] / hours[128] == pytest.approx(0.2924, abs=1e-4)
    assert 2048 not in found.near_ties


def test_tencent_decision_rule_rejects_the_fixed_lr():
    wins, ratio = larger_batch_wins(1.176, 1.67)
    assert not wins
    assert ratio == pytest.approx(1.42, abs=0.001)
