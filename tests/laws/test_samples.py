"""The samples law: estimates, intervals, censoring and warnings."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from batchscout.errors import LawError
from batchscout.laws import SamplesLaw, fit_samples

SIZES = 2.0 ** np.arange(4, 12)
TRUTH = SamplesLaw(20000.0, 300.0)


def noisy(seed, noise=0.08, law=TRUTH, sizes=SIZES):
    return law.samples(sizes) * np.exp(noise * np.random.default_rng(seed).standard_normal(len(sizes)))


@pytest.mark.parametrize("seed", range(4))
def test_default_is_unweighted_least_squares_in_log_space(seed):
    samples = noisy(seed)
    fit = fit_samples(SIZES, samples)
    (log_s, log_c), _ = optimize.curve_fit(
        lambda b, s, c: s + np.log1p(b / np.exp(c)),
        SIZES,
        np.log(samples),
        p0=[10.0, 6.0],
        xtol=1e-14,
        ftol=1e-14,
    )
    assert fit.s_min == pytest.approx(np.exp(log_s), rel=1e-6)
    assert fit.b_crit == pytest.approx(np.exp(log_c), rel=1e-6)
    assert fit.gamma == 1.0
    assert fit.gamma_interval == (1.0, 1.0)
    assert np.sum(np.square(fit.residuals)) == pytest.approx(
        np.sum((np.log(samples) - np.log(fit.samples(SIZES))) ** 2)
    )


def test_exact_rows_of_the_law_are_recovered():
    for gamma in (1.0, 3.0):
        law = SamplesLaw(5000.0, 200.0, gamma)
        fit = fit_samples(SIZES, law.samples(SIZES), gamma="free")
        assert (fit.s_min, fit.b_crit, fit.gamma) == pytest.approx((5000, 200, gamma), rel=1e-4)
    law = SamplesLaw(5000.0, 200.0, 1.0, b_small=40.0)
    fit = fit_samples(SIZES, law.samples(SIZES), small_batch=True)
    assert (fit.s_min, fit.b_crit, fit.b_small) == pytest.approx((5000, 200, 40), rel=1e-4)


def test_gamma_may_be_held_elsewhere():
    law = SamplesLaw(5000.0, 200.0, 2.5)
    fit = fit_samples(SIZES, law.samples(SIZES), gamma=2.5)
    assert (fit.s_min, fit.b_crit) == pytest.approx((5000, 200), rel=1e-5)


def test_many_seeds_give_students_interval_of_the_mean_far_below_b_crit():
    """With B_crit known to be far away the law is a constant, where the exact interval is Student's."""
    from scipy import stats

    from batchscout.laws.statistics import fit_log_normal

    values = np.exp(np.random.default_rng(3).normal(5, 0.2, 7))
    fit = fit_log_normal(values)
    logs = np.log(values)
    half = stats.t.ppf(0.95, 6) * logs.std(ddof=1) / np.sqrt(7)
    assert np.log(fit.median_interval) == pytest.approx([logs.mean() - half, logs.mean() + half], abs=1e-4)


def test_a_weight_is_worth_its_number_of_seeds_for_the_estimate():
    samples = noisy(1, sizes=np.repeat(SIZES, 3))
    means = np.exp(np.log(samples).reshape(-1, 3).mean(axis=1))
    each = fit_samples(np.repeat(SIZES, 3), samples)
    pooled = fit_samples(SIZES, means, weights=np.full(8, 3.0))
    assert (pooled.s_min, pooled.b_crit) == pytest.approx((each.s_min, each.b_crit), rel=1e-6)
    uneven = fit_samples(np.r_[SIZES, SIZES[0]], np.r_[samples[::3], samples[0]])
    weighted = fit_samples(SIZES, samples[::3], weights=np.r_[2.0, np.ones(7)])
    assert (weighted.s_min, weighted.b_crit) == pytest.approx((uneven.s_min, uneven.b_crit), rel=1e-6)


def test_censored_rows_are_not_taken_at_their_bound():
    """A cap at S(256): rows beyond it know only that they are beyond."""
    errors = {"censored": [], "at the cap": [], "dropped": []}
    sizes = np.repeat(SIZES, 2)
    for seed in range(12):
        samples = noisy(seed, 0.05, sizes=sizes)
        cap = TRUTH.samples([256.0])[0]
        over = samples > cap
        capped = np.minimum(samples, cap)
        kinds = ["right" if o else None for o in over]
        errors["censored"].append(np.log(fit_samples(sizes, capped, censored=kinds).samples([1024])[0]))
        errors["at the cap"].append(np.log(fit_samples(sizes, capped).samples([1024])[0]))
        errors["dropped"].append(np.log(fit_samples(sizes[~over], samples[~over]).samples([1024])[0]))
    bias = {k: np.mean(v) - np.log(TRUTH.samples([1024])[0]) for k, v in errors.items()}
    assert abs(bias["censored"]) < 0.15
    assert bias["at the cap"] < -0.3


def test_brackets_alone_give_nearly_the_exact_fit():
    samples = noisy(5)
    exact = fit_samples(SIZES, samples)
    step = 2000.0
    low = np.floor(samples / step) * step
    fit = fit_samples(SIZES, [None] * 8, lower=list(low), upper=list(low + step), censored=["interval"] * 8)
    assert fit.s_min == pytest.approx(exact.s_min, rel=0.05)
    assert fit.b_crit == pytest.approx(exact.b_crit, rel=0.15)
    assert fit.s_min_interval[0] < exact.s_min < fit.s_min_interval[1]


def test_all_large_batches_censored_leave_b_crit_bounded_above_only():
    sizes = np.array([16.0, 32.0, 64.0, 128.0, 256.0])
    fit = fit_samples(
        sizes, [20000, 20100, 19900, None, None], lower=[None] * 3 + [40000, 90000],
        censored=[None] * 3 + ["right"] * 2, noise=0.05,
    )  # fmt: skip
    assert fit.b_crit_interval[1] < 256
    one = fit_samples([16, 64], [1000, None], lower=[None, 1000], censored=[None, "right"], noise=0.1)
    assert one.s_min_interval[0] is None


def test_flat_samples_bound_b_crit_from_below():
    fit = fit_samples(SIZES, 1000 * np.exp(0.02 * np.array([1, -1, 1, -1, -1, 1, -1, 1])))
    assert fit.b_crit_interval[0] > 2048
    assert fit.b_crit_interval[1] is None
    assert any("B_crit" in w for w in fit.warnings)
    assert fit.s_min == pytest.approx(1000, rel=0.05)


def test_samples_proportional_to_the_batch_size_leave_s_min_open_below():
    fit = fit_samples(SIZES, 100 * SIZES)
    assert fit.s_min is None
    assert fit.s_min_interval[0] is None
    assert fit.b_crit is None
    assert fit.b_crit_interval[0] is None
    assert fit.b_crit_interval[1] < 16
    assert any("add smaller ones" in w for w in fit.warnings)


def test_samples_that_fall_with_the_batch_size_are_not_described():
    fit = fit_samples(SIZES, 1e6 / SIZES)
    assert any("does not describe" in w for w in fit.warnings)


def test_two_rows_get_intervals_from_an_assumed_noise():
    fit = fit_samples([16, 512], [1000, 3000])
    assert fit.samples([16, 512]) == pytest.approx([1000, 3000], rel=1e-4)
    assert any("assume 10% noise" in w for w in fit.warnings)
    assert fit.s_min_interval[0] < 1000 < fit.s_min_interval[1]


def test_a_cliff_is_named_and_not_switched_to():
    cliff = SamplesLaw(20000.0, 600.0, 8.0)
    sizes = np.repeat(SIZES, 2)
    fit = fit_samples(sizes, noisy(2, 0.03, law=cliff, sizes=sizes))
    assert fit.gamma == 1.0
    assert any("γ free" in w and "keeps its own form" in w for w in fit.warnings)
    free = fit_samples(sizes, noisy(2, 0.03, law=cliff, sizes=sizes), gamma="free")
    assert free.gamma > 3
    assert not any("γ free" in w for w in free.warnings)


def test_small_batch_noise_is_named():
    law = SamplesLaw(20000.0, 400.0, 1.0, b_small=60.0)
    fit = fit_samples(SIZES, noisy(3, 0.03, law=law))
    assert any("small-batch term" in w for w in fit.warnings)


def test_coarse_evaluations_are_warned_of():
    samples = noisy(4)
    fit = fit_samples(SIZES, [None] * 8, lower=list(samples * 0.7), upper=list(samples * 1.3),
                      censored=["interval"] * 8)  # fmt: skip
    assert any("spacing is too coarse" in w for w in fit.warnings)


def test_intervals_widen_outside_the_scanned_range():
    fit = fit_samples(SIZES, noisy(6))
    inside = np.log(np.divide(*reversed(fit.interval(2048))))
    outside = np.log(np.divide(*reversed(fit.interval(2048 * 8))))
    assert outside > inside + 2 * 0.35
    assert fit.extrapolation(256) is None
    assert "measure there" in fit.extrapolation(8)
    drawn = fit.draw([16384.0], 4000, np.random.default_rng(0))
    low, high = np.quantile(drawn / fit.samples([16384.0]), [0.05, 0.95])
    assert low < 0.71
    assert high > 1.3


def test_draws_agree_with_the_profile_intervals():
    fit = fit_samples(SIZES, noisy(7))
    drawn = fit.draw([64.0, 1024.0], 20000, np.random.default_rng(0))
    for i, size in enumerate((64.0, 1024.0)):
        assert np.quantile(drawn[:, i], [0.05, 0.95]) == pytest.approx(fit.interval(size), rel=0.03)


def test_higher_levels_are_wider():
    narrow, wide = (fit_samples(SIZES, noisy(8), level=level) for level in (0.5, 0.99))
    assert wide.b_crit_interval[0] < narrow.b_crit_interval[0] < narrow.b_crit < narrow.b_crit_interval[1]
    assert narrow.b_crit_interval[1] < wide.b_crit_interval[1]


def test_the_target_is_carried():
    assert fit_samples(SIZES, noisy(9), target=0.8).target == 0.8


@pytest.mark.parametrize(
    ("sizes", "samples", "options", "words"),
    [
        ([16, 16], [1, 2], {}, "needs at least two"),
        ([16, 32], [1], {}, "of one length"),
        ([16, -32], [1, 2], {}, "batch_size=-32 in row 2"),
        ([16, 32], [1, 0], {}, "samples_to_target=0 in row 2"),
        ([16, 32], [1, 2], {"gamma": -1}, "gamma=-1"),
        ([16, 32], [1, 2], {"gamma": "loose"}, "gamma=loose"),
        ([16, 32], [1, 2], {"censored": ["right", "right"]}, "no batch size reached the target"),
    ],
)
def test_rows_that_cannot_be_fitted_say_so(sizes, samples, options, words):
    with pytest.raises(LawError, match=words):
        fit_samples(sizes, samples, **options)


def test_a_fit_that_is_only_bounded_refuses_to_predict():
    fit = fit_samples([16, 32], [100, 120], censored=["left", "left"])
    assert fit.interval(16) == (None, 100.0)
    assert fit.interval(64) == (None, None)
    with pytest.raises(LawError, match="only upper bounds"):
        fit.samples([16])
