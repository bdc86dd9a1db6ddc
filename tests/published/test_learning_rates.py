"""Learning-rate rules against the numbers that papers and configurations print."""

from __future__ import annotations

import numpy as np
import pytest

from batchscout.errors import LawError
from batchscout.laws import (
    decay_of_half_life,
    default_rule,
    fit_lr_exponent,
    scaled_adam,
    scaled_ewma_decay,
    scaled_lr,
)

pytestmark = pytest.mark.published


def lr(rule, reference, at, size, **options):
    return scaled_lr(rule, reference, reference_batch_size=at, batch_size=size, **options)


def test_mlperf_grpo_scales_lr_by_the_square_root_and_the_clip_against_it():
    assert lr("sqrt", 1e-6, 256, 512) == pytest.approx(1.4142135624e-06, rel=1e-9)
    assert lr("sqrt", 1e-6, 256, 1024) == pytest.approx(2e-06, rel=1e-9)
    clips = [lr("sqrt", 0.125, size, 256) for size in (256, 512, 1024)]
    assert clips == pytest.approx([0.125, 0.08838834765, 0.0625], rel=1e-9)


def test_reference_points_name_their_rule(table):
    rows = [r for r in table("mlperf_rcp.csv") if r["round"] == "6.1.0"]
    deepseek = {
        float(r["bs"]): float(r["lr"].split(";")[0]) for r in rows if r["benchmark"] == "deepseekv3_671b"
    }
    assert len(deepseek) == 3
    for size, printed in deepseek.items():
        assert lr("sqrt", 2.4e-5, 16384, size) == pytest.approx(printed, rel=1e-4)
    assert lr("linear", 8e-5, 1152, 2304) == pytest.approx(1.6e-4)
    assert lr("linear", 8e-5, 1152, 4608) == pytest.approx(3.2e-4)


def test_surge_and_mccandlish_forms():
    surge = [lr("surge", 1e-6, 256, b, b_noise=1536) for b in (512, 1024, 4096)]
    assert surge == pytest.approx([1.2374e-6, 1.4e-6, 1.2727e-6], rel=1e-4)
    saturating = [lr("mccandlish", 1e-6, 256, b, b_noise=1536) for b in (512, 1024, 4096)]
    assert saturating == pytest.approx([1.75e-6, 2.8e-6, 5.09e-6], rel=1e-3)


def test_malladi_scales_betas_and_epsilon():
    assert scaled_adam(4, beta1=0.9, beta2=0.999, epsilon=1e-8) == pytest.approx((0.6, 0.996, 5e-9))
    exact = scaled_adam(4, beta1=0.9, beta2=0.999, epsilon=1e-8, half_life=True)
    assert exact == pytest.approx((0.6561, 0.996006, 5e-9), rel=1e-6)
    with pytest.raises(LawError, match="half_life"):
        scaled_adam(16, beta1=0.9, beta2=0.999, epsilon=1e-8)


def test_hilton_keeps_the_centre_of_mass():
    assert scaled_ewma_decay(0.889, 4) == pytest.approx(0.969730, abs=1e-6)
    assert scaled_ewma_decay(0.889, 1) == pytest.approx(0.889)


def test_marek_keeps_the_half_life_in_tokens():
    assert decay_of_half_life(10e6, 512 * 512) == pytest.approx(0.98199365, abs=1e-8)
    assert decay_of_half_life(10e6, 512) == pytest.approx(0.99996451, abs=1e-8)


def test_marek_best_lr_grows_far_slower_than_the_square_root(table):
    rows = [r for r in table("marek2025_lm11m_adam_best.csv") if int(r["batch_size"]) <= 256]
    size, best = (np.array([float(r[k]) for r in rows]) for k in ("batch_size", "peak_lr"))
    growth = best[-1] / best[0]
    assert growth == pytest.approx(4.16, abs=0.01)
    assert np.log(growth) / np.log(256) == pytest.approx(0.257, abs=0.001)
    assert lr("sqrt", best[0], size[0], size[-1]) / best[-1] == pytest.approx(3.85, abs=0.01)
    exponent, (low, high) = fit_lr_exponent(size, best)
    assert low < 0.257 < high
    assert high < 0.5
    assert exponent == pytest.approx(0.28, abs=0.03)


def test_the_rule_depends_on_the_optimizer(table):
    """Goyal: at 8192 with SGD, linear scaling costs nothing and √ scaling 2.5 points."""
    error = {r["rule"]: float(r["top1_err"]) for r in table("goyal2017_lr_rules.csv")}
    assert error["linear of .10"] == 23.74
    assert error["sqrt of .10"] == 26.22
    assert default_rule("SGD") == "linear"
    assert default_rule("AdamW") == "sqrt"
    assert lr("linear", 0.1, 256, 8192) == pytest.approx(3.2)
    assert lr("sqrt", 0.1, 256, 8192) == pytest.approx(0.565685, rel=1e-6)
    with pytest.raises(LawError, match="no known rule"):
        default_rule("shampoo")


def test_isocompute_anchor():
    assert lr("sqrt", 1e-6, 1024, 8192) == pytest.approx(2.82843e-6, rel=2e-6)
    assert lr("sqrt", 1e-6, 1024, 65536) == pytest.approx(8e-6, rel=1e-6)


def test_tencent_learning_rates():
    lrs = [lr("sqrt", 1e-6, 128, p) for p in (64, 256, 1024, 2048, 4096)]
    assert lrs == pytest.approx([7.0711e-7, 1.41421e-6, 2.82843e-6, 4e-6, 5.65685e-6], rel=1e-5)
