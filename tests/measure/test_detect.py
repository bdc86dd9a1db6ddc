"""Detection on curves made by hand, to the digit, and its statistics against exact sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from scipy import stats

from batchscout.errors import CurveError
from batchscout.measure import Target, first_passage, isotonic, reached_index

T7 = Target(0.7)
AT = [0, 100, 200, 300, 400]


def test_crossing_lies_on_the_line_between_the_last_evaluation_below_and_the_next() -> None:
    crossing = first_passage(AT, [0.1, 0.5, 0.65, 0.75, 0.8], target=T7)
    assert (crossing.lower, crossing.upper, crossing.censored) == (200, 300, None)
    assert crossing.estimate == pytest.approx(250, abs=1e-9)
    assert crossing.confirmed


def test_crossing_uses_the_isotonic_fit_not_the_raw_scores() -> None:
    # .72 and .6 are pooled to .66: below; so the line runs from (200, .66) to (300, .74).
    crossing = first_passage(AT, [0.1, 0.72, 0.60, 0.74, 0.8], target=T7)
    assert (crossing.lower, crossing.upper) == (200, 300)
    assert crossing.estimate == pytest.approx(200 + 100 * 0.04 / 0.08, abs=1e-9)


def test_score_n_weighs_the_fit() -> None:
    # (.72·300 + .60·100)/400 = .69 with these weights; .66 with equal ones.
    crossing = first_passage(AT, [0.1, 0.72, 0.60, 0.74, 0.8], target=T7, score_n=[100, 300, 100, 100, 100])
    assert crossing.estimate == pytest.approx(200 + 100 * 0.01 / 0.05, abs=1e-9)


def test_c51_single_spike_is_not_reached() -> None:
    crossing = first_passage(AT, [0.1, 0.5, 0.9, 0.6, 0.65], target=T7, ended=True)
    assert (crossing.estimate, crossing.censored, crossing.lower) == (None, "right", 400)
    assert crossing.confirmed


def test_lucky_last_evaluation_neither_reaches_nor_raises_the_bound() -> None:
    crossing = first_passage(AT, [0.1, 0.5, 0.55, 0.6, 0.9], target=T7)
    assert (crossing.estimate, crossing.censored, crossing.lower) == (None, "right", 300)
    assert not crossing.confirmed


def test_two_spikes_that_are_not_in_a_row_do_not_reach() -> None:
    assert reached_index([0.1, 0.9, 0.1, 0.9], T7) is None


def test_patience_one_takes_the_first() -> None:
    assert reached_index([0.1, 0.9, 0.1], Target(0.7, patience=1)) == 1


def test_patience_three_needs_three() -> None:
    assert reached_index([0.1, 0.8, 0.8, 0.6, 0.8, 0.8, 0.8], Target(0.7, patience=3)) == 6


@pytest.mark.parametrize("score", [[0.1, 0.8, math.nan, 0.8], [math.nan] * 4, [0.8, math.nan, 0.8, math.nan]])
def test_nan_never_counts(score: list[float]) -> None:
    assert reached_index(score, T7) is None
    assert first_passage(AT[1:], score, target=T7).censored == "right"


def test_nan_is_left_out_of_the_fit() -> None:
    crossing = first_passage(AT, [0.1, 0.6, math.nan, 0.8, 0.9], target=T7)
    assert (crossing.lower, crossing.upper) == (100, 300)
    assert crossing.estimate == pytest.approx(200, abs=1e-9)


def test_reached_right_after_the_start_is_left_censored_at_the_upper_bound() -> None:
    crossing = first_passage(AT[:3], [0.1, 0.8, 0.8], target=T7)
    assert (crossing.lower, crossing.upper, crossing.estimate, crossing.censored) == (0, 100, 100, "left")


def test_reached_at_the_first_evaluation_without_one_at_zero_is_left_censored() -> None:
    crossing = first_passage([100, 200], [0.8, 0.8], target=T7)
    assert (crossing.lower, crossing.upper, crossing.estimate, crossing.censored) == (None, 100, 100, "left")


def test_start_model_at_the_target_needs_no_patience_and_has_no_estimate() -> None:
    crossing = first_passage([0], [0.7], target=T7)
    assert (crossing.estimate, crossing.upper, crossing.censored) == (None, 0, "left")


def test_direction_min_mirrors_max() -> None:
    score = np.array([0.1, 0.72, 0.60, 0.74, 0.8])
    mirrored = first_passage(AT, -score, target=Target(-0.7, direction="min"))
    assert mirrored == first_passage(AT, score, target=T7)


def test_level_beside_the_target_is_answered_from_the_same_curve() -> None:
    score = [0.1, 0.3, 0.5, 0.7, 0.9]
    assert first_passage(AT, score, target=T7, level=0.4).estimate == pytest.approx(150)
    assert first_passage(AT, score, target=T7, level=0.6).estimate == pytest.approx(250)
    assert first_passage(AT, score, target=T7, level=0.95).censored == "right"


def test_collapse_after_the_target_does_not_undo_it() -> None:
    at = [0, 100, 200, 300, 400, 500, 600]
    crossing = first_passage(at, [0.1, 0.5, 0.8, 0.8, 0.1, 0.1, 0.1], target=T7)
    assert crossing.estimate == pytest.approx(100 + 100 * 0.2 / 0.3)


def test_score_equal_to_the_target_counts_in_spite_of_rounding() -> None:
    score = [0.1, 0.1 + 0.2, 0.3]  # 0.30000000000000004
    assert reached_index(score, Target(0.30000000000000004)) == 2


def test_no_evaluation_is_right_censored_without_bound() -> None:
    crossing = first_passage([], [], target=T7)
    assert (crossing.lower, crossing.upper, crossing.censored) == (None, None, "right")


@pytest.mark.parametrize(("at", "score"), [([0, 100], [0.1]), ([0, 100, 100], [0.1, 0.2, 0.3])])
def test_curves_that_are_none_are_refused(at: list[int], score: list[float]) -> None:
    with pytest.raises(CurveError):
        first_passage(at, score, target=T7)


values = hnp.arrays(float, st.integers(1, 12), elements=st.floats(-10, 10, width=32))


def min_max(score: NDArray[np.float64], weights: NDArray[np.float64]) -> list[float]:
    """fit_i = max over a ≤ i of min over b ≥ i of the weighted mean of a…b."""
    n = len(score)
    mean = {
        (a, b): np.average(score[a : b + 1], weights=weights[a : b + 1])
        for a in range(n)
        for b in range(a, n)
    }
    return [max(min(mean[a, b] for b in range(i, n)) for a in range(i + 1)) for i in range(n)]


@settings(deadline=None)
@given(values, st.data())
def test_isotonic_equals_the_min_max_formula(score: NDArray[np.float64], data: st.DataObject) -> None:
    weights = data.draw(hnp.arrays(float, len(score), elements=st.floats(0.125, 100, width=32)))
    assert isotonic(score, weights) == pytest.approx(min_max(score, weights), abs=1e-9)
    assert isotonic(score, weights, increasing=False) == pytest.approx(
        [-x for x in min_max(-score, weights)], abs=1e-9
    )


@settings(deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.3, 0.6, 0.7, 0.71, 0.9, math.nan]), max_size=9), st.integers(1, 4))
def test_patience_rule_equals_a_plain_loop(score: list[float], patience: int) -> None:
    row, found = 0, None
    for index, value in enumerate(score):
        row = row + 1 if value >= 0.7 else 0
        if row == patience:
            found = index
            break
    assert reached_index(score, Target(0.7, patience=patience)) == found


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.integers(1, 3))
def test_crossing_is_always_inside_its_bracket(score: list[float], patience: int) -> None:
    at = np.arange(1, len(score) + 1) * 64
    crossing = first_passage(at, score, target=Target(0.5, patience=patience))
    if crossing.censored is None:
        assert crossing.estimate is not None
        assert crossing.lower is not None
        assert crossing.upper is not None
        assert crossing.lower <= crossing.estimate <= crossing.upper


def test_isotonic_refuses_what_it_cannot_fit() -> None:
    for score, weights in (([0.1, math.nan], None), ([0.1, 0.2], [1.0, 0.0]), ([0.1], [1.0, 1.0])):
        with pytest.raises(CurveError):
            isotonic(score, weights)


# n questions, true score p_t = .5 + .01 t, target .69 (true crossing at t = 19), one evaluation a step.
STEPS = np.arange(51)
TRUTH = 0.5 + 0.01 * STEPS


@pytest.mark.published
@pytest.mark.parametrize(("n", "expected"), [(64, 14.0236), (256, 17.4478), (1024, 18.9498)])
def test_first_passage_of_single_evaluations_has_the_exact_expectation(n: int, expected: float) -> None:
    """E[T] = Σ_t Π_{s≤t} (1 − q_s), the exact sum, and the detector's own mean with patience 1."""
    above = stats.binom.sf(math.ceil(0.69 * n) - 1, n, TRUTH)
    assert np.cumprod(1 - above).sum() == pytest.approx(expected, abs=1e-4)
    scores = np.random.default_rng(n).binomial(n, TRUTH, size=(2000, len(TRUTH))) / n
    found = [reached_index(score, Target(0.69, patience=1)) for score in scores]
    assert np.mean(found) == pytest.approx(expected, abs=0.3)


@pytest.mark.published
def test_luck_of_one_evaluation_and_of_two_in_a_row() -> None:
    one = stats.binom.sf(math.ceil(0.69 * 256) - 1, 256, 0.65)
    assert one == pytest.approx(0.0919371, abs=1e-6)
    assert one**2 == pytest.approx(0.0084525, abs=1e-6)
    scores = np.random.default_rng(0).binomial(256, 0.65, size=(4000, 2)) / 256
    lucky = np.mean([reached_index(s, Target(0.69)) is not None for s in scores])
    assert lucky == pytest.approx(0.0084525, abs=0.005)


@pytest.mark.published
@pytest.mark.parametrize("n", [64, 256, 1024])
def test_isotonic_crossing_hardly_depends_on_the_noise_of_an_evaluation(n: int) -> None:
    """The first evaluation whose fit is at the target: 19.5 for every n; interpolated: the truth, 19."""
    scores = np.random.default_rng(n).binomial(n, TRUTH, size=(2500, len(TRUTH))) / n
    found = [first_passage(STEPS + 1, score, target=Target(0.69)) for score in scores]
    assert np.mean([c.upper - 1 for c in found]) == pytest.approx(19.5, abs=0.2)  # type: ignore[operator]
    assert np.mean([c.estimate - 1 for c in found]) == pytest.approx(19.0, abs=0.2)  # type: ignore[operator]
