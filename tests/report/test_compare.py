"""`batchscout compare`: two hardware types on made sweeps, the check that S is the same, and the refusals."""

from __future__ import annotations

import json
from math import sqrt

import pytest
from tests.made_sweep import Made, make_sweep

from batchscout.errors import ConfigError, SweepError
from batchscout.report.compare import compare_sweeps, render

SLOW, FAST = Made(seeds=2), Made(seeds=2, name="demo/fast", a=0.02, price=5.0)


def made(path, what):
    make_sweep(path, what)
    return path


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    base = tmp_path_factory.mktemp("compare")
    return made(base / "slow", SLOW), made(base / "fast", FAST)


def test_each_types_best_batch_and_money_follow_from_its_own_update_seconds(pair):
    found = compare_sweeps(pair)
    assert [c.best.point.batch_size for c in found.columns] == [256, 128]  # √(a B_crit / b) = 231, 115
    for column, what in zip(found.columns, (SLOW, FAST), strict=True):
        batch = column.best.point.batch_size
        samples = what.s_min * (1 + batch / what.b_crit) * 1.015
        assert column.best.time_to_target == pytest.approx(
            samples / batch * (what.a + what.b * batch), rel=0.05
        )
        assert column.money == pytest.approx(what.price * column.best.time_to_target / 3600)


def test_same_samples_agree(pair):
    check = compare_sweeps(pair).checks[0]
    assert check.settings == 16
    assert check.ratio == pytest.approx(1.0, abs=0.01)
    assert not check.is_different


def test_another_critical_batch_size_is_found(pair, tmp_path):
    other = made(tmp_path / "other", Made(seeds=2, b_crit=100.0, price=None))
    check = compare_sweeps([pair[0], other]).checks[0]
    assert check.is_different
    assert check.ratio > sqrt(2)
    assert "DIFFER" in check.words()


def test_prices_are_taken_in_order(pair):
    found = compare_sweeps(pair, [1.0, 2.0])
    assert [c.price for c in found.columns] == [1.0, 2.0]


def test_comparison_is_strict_json_and_renders(pair):
    found = compare_sweeps(pair)
    assert [s["batch_size"] for s in json.loads(json.dumps(found.to_json(), allow_nan=False))["sweeps"]] == [
        256,
        128,
    ]
    assert [t.row_count for t in render(found)] == [12, 8]


def test_one_sweep_alone_is_one_error(pair):
    with pytest.raises(ConfigError, match="must be two or more"):
        compare_sweeps(pair[:1])


def test_the_same_sweep_twice_is_one_error(pair):
    with pytest.raises(ConfigError, match="twice"):
        compare_sweeps([pair[0], pair[0]])


def test_another_target_is_refused(pair, tmp_path):
    other = made(tmp_path / "other", Made(target=0.6))
    with pytest.raises(SweepError, match=r"cannot be compared .* target\.score 0\.7 and 0\.6"):
        compare_sweeps([pair[0], other])


def test_another_task_is_refused(pair, tmp_path):
    other = made(tmp_path / "other", Made(task="sorting"))
    with pytest.raises(SweepError, match=r"task\.name addition and sorting"):
        compare_sweeps([pair[0], other])


def test_unfinished_sweep_is_refused(pair, tmp_path):
    other = made(tmp_path / "other", Made(status="interrupted"))
    with pytest.raises(SweepError, match="is interrupted, not finished"):
        compare_sweeps([pair[0], other])


def test_zero_price_is_one_error(pair):
    with pytest.raises(ConfigError, match=r"^price=0 must be a number above 0$"):
        compare_sweeps(pair, [0.0, 2.0])
