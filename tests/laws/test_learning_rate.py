"""The learning-rate law."""

from __future__ import annotations

import numpy as np
import pytest

from batchscout.errors import LawError
from batchscout.laws import fit_learning_rate, fit_lr_exponent, scaled_lr
from batchscout.laws.learning_rate import learning_rate_to_json

SIZES = np.array([32.0, 128.0, 512.0, 2048.0])
FACTORS = 2.0 ** np.arange(-3, 4)


def sweep(seed, *, alpha=0.5, noise=0.05, curvature=0.35, optimum=None):
    """(batch sizes, lrs, samples) of a grid of lrs around each batch size's best."""
    rng = np.random.default_rng(seed)
    best = 1e-4 * (SIZES / 256) ** alpha if optimum is None else optimum
    size, lr = np.repeat(SIZES, len(FACTORS)), (best[:, None] * FACTORS).ravel() * 1.3
    level = 20000 * (1 + size / 500)
    samples = level * np.exp(curvature * np.log(lr / np.repeat(best, len(FACTORS))) ** 2)
    return size, lr, samples * np.exp(noise * rng.standard_normal(len(size)))


def test_exact_parabolas_are_recovered():
    fit = fit_learning_rate(*sweep(0, noise=0.0))
    assert fit.exponent == pytest.approx(0.5, abs=1e-6)
    assert fit.lr([256.0])[0] == pytest.approx(1e-4, rel=1e-6)
    assert fit.curvature == pytest.approx(0.35, rel=1e-6)
    assert fit.price_of_wrong_lr(2.0) == pytest.approx(np.exp(0.35 * np.log(2) ** 2), rel=1e-6)
    assert [x.lr for x in fit.by_batch] == pytest.approx(list(1e-4 * (SIZES / 256) ** 0.5), rel=1e-6)
    assert not any(x.is_at_edge for x in fit.by_batch)


def test_exponent_interval_covers_the_truth_in_nine_of_ten_sweeps():
    hits = 0
    for seed in range(60):
        low, high = fit_learning_rate(*sweep(seed)).exponent_interval
        hits += low <= 0.5 <= high
    assert 0.82 <= hits / 60 <= 0.98


@pytest.mark.parametrize(("rule", "alpha"), [("sqrt", 0.5), ("linear", 1.0), ("fixed", 0.0)])
def test_power_rules_are_told_apart(rule, alpha):
    fit = fit_learning_rate(*sweep(1, alpha=alpha))
    close = {r.rule: r.akaike for r in fit.rules}
    others = {"sqrt", "linear", "fixed"} - {rule}
    assert close[rule] < min(close[r] for r in others)


@pytest.mark.parametrize("rule", ["mccandlish", "surge"])
def test_saturating_rules_are_recognised_with_their_noise_scale(rule):
    best = np.array([
        scaled_lr(rule, 1e-4, reference_batch_size=256, batch_size=b, b_noise=300) for b in SIZES
    ])  # fmt: skip
    fit = fit_learning_rate(*sweep(2, optimum=best))
    assert fit.rules[0].rule == rule
    assert fit.rules[0].b_noise == pytest.approx(300, rel=0.4)


def test_censored_rows_move_the_optimum_away_from_where_jobs_were_stopped():
    size, lr, samples = sweep(3, noise=0.02)
    cap = 1.25 * 20000 * (1 + size / 500)
    over = samples > cap
    kinds = ["right" if o else None for o in over]
    fit = fit_learning_rate(size, lr, np.minimum(samples, cap), censored=kinds)
    assert fit.exponent == pytest.approx(0.5, abs=0.1)
    naive = fit_learning_rate(size, lr, np.minimum(samples, cap))
    assert naive.curvature < 0.6 * fit.curvature


def test_best_lr_at_the_edge_is_one_summary_line():
    size, lr, samples = sweep(4, noise=0.0)
    low = lr < 0.9e-4 * (size / 256) ** 0.5
    fit = fit_learning_rate(size[low], lr[low], samples[low])
    lines = [w for w in fit.warnings if "edge" in w]
    assert len(lines) == 1
    assert "32, 128, 512, 2048" in lines[0]


def test_one_batch_size_gives_its_optimum_and_no_exponent():
    size, lr, samples = sweep(5, noise=0.0)
    one = size == 128
    fit = fit_learning_rate(size[one], lr[one], samples[one])
    assert fit.exponent is None
    assert fit.lr([128.0])[0] == pytest.approx(1e-4 * 0.5**0.5, rel=1e-6)
    assert fit.exponent_interval == (None, None)
    assert any("one batch size only" in w for w in fit.warnings)


def test_batch_sizes_with_one_lr_take_no_part():
    size, lr, samples = sweep(6, noise=0.0)
    fit = fit_learning_rate(np.r_[size, 64.0], np.r_[lr, 1.0], np.r_[samples, 9e5])
    assert fit.exponent == pytest.approx(0.5, abs=1e-6)
    alone = next(x for x in fit.by_batch if x.batch_size == 64)
    assert alone.lr is None
    assert alone.tried == 1


def test_json_has_no_infinities():
    import json

    fit = fit_learning_rate(*sweep(7))
    assert json.loads(json.dumps(learning_rate_to_json(fit), allow_nan=False))["by_batch"][0]["tried"] == 7


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (([16, 16, 32], [1, 2], [1, 1, 1]), "of one length"),
        (([16, 32], [1, 1], [100, 200]), "no batch size has two"),
        (([16, 16, 16], [1, 2, 4], [100, 200, 150]), "no minimum"),
        (([16, 16], [1, 2], [100, 110]), "cannot tell"),
        (([16, 16], [1, -2], [100, 110]), "lr=-2 in row 2"),
    ],
)
def test_rows_that_cannot_be_fitted_say_so(columns, words):
    with pytest.raises(LawError, match=words):
        fit_learning_rate(*columns)


def test_exponent_of_named_optima():
    exponent, (low, high) = fit_lr_exponent([16, 64, 256, 1024], [1, 2, 4, 8])
    assert (exponent, low, high) == pytest.approx((0.5, 0.5, 0.5))
    with pytest.raises(LawError, match="three or more"):
        fit_lr_exponent([16, 64], [1, 2])
