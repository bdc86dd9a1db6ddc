"""The censored likelihood against a general optimiser."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from batchscout.errors import LawError
from batchscout.laws.likelihood import log_likelihood, maximise
from batchscout.laws.observations import observations
from batchscout.laws.regression import regress


def mixed_rows(seed=0, n=12, weights=False):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    value = np.exp(5 + 0.7 * x + 0.3 * rng.standard_normal(n))
    kinds = [(None, "right", "left", "interval")[i % 4] for i in range(n)]
    rows = observations(
        "y", [float(v) for v in value], lower=[float(v) * 0.8 for v in value],
        upper=[float(v) * 1.2 for v in value], censored=kinds,
        weights=rng.uniform(0.5, 3, n) if weights else None,
    )  # fmt: skip
    return rows, x


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_newton_finds_the_maximum_that_a_general_optimiser_finds(seed, weights):
    rows, x = mixed_rows(seed, weights=weights)
    offsets = np.stack([0.7 * x, 0.0 * x])
    found = maximise(rows, offsets)
    for k in range(2):
        best = optimize.minimize(
            lambda p, k=k: -log_likelihood(rows, p[0] + offsets[k], float(np.exp(p[1]))).sum(),
            [5.0, -1.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000},
        )  # fmt: skip
        assert found.log_likelihood[k] == pytest.approx(-best.fun, abs=1e-6)
        assert found.location[k] == pytest.approx(best.x[0], abs=1e-4)
        assert found.noise[k] == pytest.approx(np.exp(best.x[1]), rel=1e-3)
        assert 3 <= found.information[k] <= 12


@pytest.mark.parametrize("seed", range(3))
def test_regression_finds_the_maximum_that_a_general_optimiser_finds(seed):
    rows, x = mixed_rows(seed, n=24)
    design = np.column_stack([np.ones_like(x), x])
    found = regress(rows, design)
    best = optimize.minimize(
        lambda p: -log_likelihood(rows, design @ p[:2], float(np.exp(p[2]))).sum(),
        [5.0, 0.5, -1.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 8000},
    )  # fmt: skip
    assert found.log_likelihood == pytest.approx(-best.fun, abs=1e-6)
    assert found.coefficients == pytest.approx(best.x[:2], abs=1e-4)


def test_exact_rows_are_least_squares():
    rng = np.random.default_rng(1)
    value, offset = np.exp(rng.normal(size=9)), rng.normal(size=9)
    rows = observations("y", value)
    found = maximise(rows, offset[None])
    residual = np.log(value) - offset
    assert found.location[0] == pytest.approx(residual.mean())
    assert found.noise[0] == pytest.approx(residual.std())
    assert found.information[0] == 9
    held = maximise(rows, offset[None], location=np.array([0.3]), noise=0.5)
    assert held.log_likelihood[0] == pytest.approx(log_likelihood(rows, offset + 0.3, 0.5).sum())


def test_a_narrow_bracket_is_an_exact_row():
    value = np.exp(np.random.default_rng(2).normal(size=8))
    exact = maximise(observations("y", value), np.zeros((1, 8)))
    narrow = observations("y", [None] * 8, lower=list(value * 0.9999), upper=list(value * 1.0001),
                          censored=["interval"] * 8)  # fmt: skip
    found = maximise(narrow, np.zeros((1, 8)))
    assert found.location[0] == pytest.approx(exact.location[0], abs=1e-5)
    assert found.noise[0] == pytest.approx(exact.noise[0], rel=1e-3)
    assert found.information[0] == pytest.approx(8, abs=0.01)


def test_far_tails_stay_finite():
    rows = observations("y", [1e-30, 1e30, 1.0], censored=["left", "right", None])
    found = maximise(rows, np.zeros((1, 3)))
    assert np.isfinite(found.log_likelihood[0])
    assert np.isfinite(found.location[0])


@pytest.mark.parametrize("side", ["left", "right"])
def test_rows_bounded_on_one_side_only_have_no_maximum(side):
    with pytest.raises(LawError, match=f"all rows are {side}-censored"):
        maximise(observations("y", [1.0, 2.0], censored=[side, side]), np.zeros((1, 2)))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"values": [1.0, float("nan")]}, "y=nan in row 2"),
        ({"values": [1.0, 0.0]}, "y=0 in row 2"),
        ({"values": [1.0, None]}, "y is missing in row 2"),
        ({"values": [1.0, 2.0], "censored": [None, "both"]}, "censored=both in row 2"),
        ({"values": [1.0, None], "censored": [None, "right"]}, "missing in row 2"),
        ({"values": [1.0, None], "censored": [None, "interval"]}, "upper is missing in row 2"),
        (
            {"values": [1.0, None], "lower": [0, 3.0], "upper": [0, 2.0], "censored": [None, "interval"]},
            "swap",
        ),
        ({"values": [1.0, 2.0], "lower": [None, -1.0]}, "lower=-1 in row 2"),
        ({"values": [1.0, 2.0], "upper": [None]}, "upper has 1 rows"),
        ({"values": [1.0, 2.0], "weights": [1.0]}, "weights has 1 rows"),
        ({"values": [1.0, 2.0], "weights": [1.0, -1.0]}, "weights=-1 in row 2"),
    ],
)
def test_wrong_rows_are_named(columns, words):
    values = columns.pop("values")
    with pytest.raises(LawError, match=words):
        observations("y", values, **columns)
