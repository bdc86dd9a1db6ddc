"""The update-seconds law: forms, parts, tokens, pauses."""

from __future__ import annotations

import numpy as np
import pytest

from batchscout.errors import LawError
from batchscout.laws import UpdateSecondsLaw, fit_update_seconds, summarise_update_seconds

SIZES = 2.0 ** np.arange(4, 12)
LAWS = {
    "affine": UpdateSecondsLaw("affine", 0.2, 0.002),
    "roofline": UpdateSecondsLaw("roofline", 0.5, 0.002),
    "hinge": UpdateSecondsLaw("hinge", 0.5, 0.002, knee=180.0),
    "long_tail": UpdateSecondsLaw("long_tail", 0.1, 0.001, c=0.3),
    "power": UpdateSecondsLaw("power", 0.0, 0.0, c=0.1, power=0.6),
}


def noisy(law, seed=0, noise=0.02, sizes=SIZES):
    return law.seconds(sizes) * np.exp(noise * np.random.default_rng(seed).standard_normal(len(sizes)))


@pytest.mark.parametrize("form", LAWS)
def test_each_form_recovers_itself_and_is_chosen_when_asked(form):
    seconds = noisy(LAWS[form])
    fit = fit_update_seconds(SIZES, seconds, form=form)
    assert fit.seconds(SIZES) == pytest.approx(LAWS[form].seconds(SIZES), rel=0.06)
    chosen = fit_update_seconds(SIZES, seconds, form="auto")
    assert chosen.seconds(SIZES) == pytest.approx(LAWS[form].seconds(SIZES), rel=0.06)


@pytest.mark.parametrize("form", ["roofline", "hinge", "long_tail", "power"])
def test_affine_stays_and_the_better_form_is_named(form):
    fit = fit_update_seconds(SIZES, noisy(LAWS[form]))
    assert fit.total.law.form == "affine"
    assert any("AICc prefers the" in w for w in fit.warnings)


def test_affine_is_least_squares_in_the_errors_that_are_asked_for():
    seconds = noisy(LAWS["affine"], noise=0.1)
    absolute = fit_update_seconds(SIZES, seconds, errors="absolute").total
    assert (absolute.b, absolute.a) == pytest.approx(np.polyfit(SIZES, seconds, 1))
    relative = fit_update_seconds(SIZES, seconds).total
    assert relative.errors == "relative"
    assert (relative.b, relative.a) == pytest.approx(np.polyfit(SIZES, seconds, 1, w=1 / seconds))
    assert sum(relative.residuals) == pytest.approx(sum(seconds - relative.seconds(SIZES)))


def test_intervals_cover_the_truth_in_nine_of_ten_fits():
    hits = np.zeros(2)
    for seed in range(150):
        fit = fit_update_seconds(SIZES, noisy(LAWS["affine"], seed, 0.05)).total
        for i, (interval, truth) in enumerate(((fit.a_interval, 0.2), (fit.b_interval, 0.002))):
            low, high = interval
            hits[i] += (low is None or low <= truth) and truth <= high
    assert np.all((hits / 150 > 0.84) & (hits / 150 < 0.96))


def test_negative_parts_are_bounded_at_zero():
    fit = fit_update_seconds([16, 32, 64, 128], [0.1, 0.25, 0.6, 1.3])
    assert fit.total.a == 0
    assert any("a is at its bound 0" in w for w in fit.warnings)
    flat = fit_update_seconds([16, 32, 64, 128], [1.3, 1.2, 1.1, 1.0])
    assert flat.total.b == 0
    assert flat.total.law.saturation_batch() is None


def test_parts_are_fitted_apart_and_a_zero_part_is_left_out():
    sampling, learning = 0.5 + 0.0005 * SIZES, 0.02 + 0.002 * SIZES
    fit = fit_update_seconds(SIZES, sampling + learning, sampling=sampling, learning=learning)
    assert (fit.sampling.a, fit.sampling.b) == pytest.approx((0.5, 0.0005))
    assert (fit.learning.a, fit.learning.b) == pytest.approx((0.02, 0.002))
    alone = fit_update_seconds(SIZES, learning, sampling=np.zeros(8), learning=learning)
    assert alone.sampling is None
    assert any("sampling_seconds is zero" in w for w in alone.warnings)


def test_tokens_explain_responses_that_grow():
    """Longer responses at large batches: seconds follow tokens, not rollouts."""
    tokens = np.array([100, 120, 150, 180, 220, 260, 300, 350.0])
    seconds = 0.3 + 2e-5 * SIZES * tokens
    fit = fit_update_seconds(SIZES, seconds, tokens=tokens)
    assert fit.total.a == pytest.approx(0.3)
    assert fit.total.b_per_token == pytest.approx(2e-5)
    assert fit.total.b == pytest.approx(2e-5 * tokens.mean())
    assert max(np.abs(fit.total.residuals)) < 1e-9


def test_throughput_and_saturation():
    law = LAWS["affine"]
    assert law.throughput([100.0])[0] == pytest.approx(100 / 0.4)
    assert law.saturation_batch() == pytest.approx(100)  # the knee a/b
    assert law.saturation_batch(0.9) == pytest.approx(900)
    assert LAWS["roofline"].saturation_batch() == pytest.approx(125)
    assert LAWS["power"].saturation_batch() is None
    size = LAWS["long_tail"].saturation_batch(0.8)
    assert LAWS["long_tail"].throughput([size])[0] == pytest.approx(0.8 / 0.001, rel=1e-6)
    with pytest.raises(LawError, match="share=1"):
        law.saturation_batch(1.0)


def test_one_batch_size_is_taken_as_proportional_with_a_warning():
    fit = fit_update_seconds([64, 64], [1.0, 1.2])
    assert fit.seconds([128])[0] == pytest.approx(2.2)
    assert any("one batch size only" in w for w in fit.warnings)


def test_two_batch_sizes_pass_through_both():
    fit = fit_update_seconds([64, 256], [1.0, 2.0])
    assert fit.seconds([64, 256]) == pytest.approx([1.0, 2.0])
    assert any("as many rows as parameters" in w for w in fit.warnings)


def test_long_tails_stay_and_pauses_are_replaced_and_counted():
    seconds = np.r_[np.full(24, 1.0) + np.tile([-0.01, 0.01], 12), 3.0, 60.0]
    summary = summarise_update_seconds(seconds)
    assert summary.pauses == 1
    assert summary.median == pytest.approx(1.01)
    assert summary.mean == pytest.approx((24 + 3 + summary.median) / 26)
    few = summarise_update_seconds([1.0, 1.0, 60.0])
    assert few.pauses == 0
    assert few.mean == pytest.approx(62 / 3)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"seconds": [1, 0]}, "update_seconds=0 in row 2"),
        ({"seconds": [1, float("nan")]}, "update_seconds=nan in row 2"),
        ({"seconds": [1]}, "update_seconds has 1 rows"),
        ({"seconds": [1, 2], "learning": [1, -1]}, "learning_seconds=-1 in row 2"),
        ({"seconds": [1, 2], "tokens": [0, 1]}, "tokens=0 in row 1"),
    ],
)
def test_wrong_rows_are_named(columns, words):
    with pytest.raises(LawError, match=words):
        fit_update_seconds([16, 32], **columns)
