"""Closed forms against numbers worked by hand and against numeric optimisation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchscout.errors import LawError
from batchscout.laws import (
    SamplesLaw,
    accumulation_optimum,
    capped_optimum,
    flatness,
    optimum,
    power_optimum,
    roofline_optimum,
    scale_out,
    time_to_target,
    with_evaluation,
)

ONE = {"s_min": 40000.0, "b_crit": 400.0, "a": 2.0, "b": 0.02}  # 100 updates at least
WIDE = {
    "s_min": st.floats(1e2, 1e9),
    "b_crit": st.floats(1.0, 1e6),
    "a": st.floats(1e-3, 1e4),
    "b": st.floats(1e-6, 1e2),
}


def least(time):
    """Numeric minimum of T over batch sizes: five grids, each over the best cells of the last."""
    low, high = -30.0, 40.0
    for _ in range(5):
        grid = np.linspace(low, high, 4001)
        k = int(np.argmin(time(np.exp(grid))))
        low, high = grid[max(k - 2, 0)], grid[min(k + 2, 4000)]
    return math.exp(grid[k]), float(time(np.exp(grid[k : k + 1]))[0])


@pytest.mark.parametrize(
    ("updates_min", "b_crit", "a", "b", "size", "seconds"),
    [
        (100, 400, 2, 0.02, 200, 1800),
        (50, 1024, 16, 1 / 16, 512, 7200),
        (2.5, 1536, 281.86374, 0.8284201, 722.919, 6880.198),
        (1293.8268695, 2190.6003432, 0.1, 0.0004, 740.0338, 2029.0663),
    ],
)
def test_optimum_of_the_four_examples(updates_min, b_crit, a, b, size, seconds):
    found = optimum(updates_min * b_crit, b_crit, a, b)
    assert (found.batch_size, found.time_to_target) == pytest.approx((size, seconds), rel=1e-6)


@pytest.mark.parametrize(
    ("gamma", "size", "seconds"),
    [(2, 251.98421, 1320.73220), (0.5, 158.74011, 3464.34589), (1.237, 215.23989, 1595.05766)],
)
def test_optimum_of_the_general_law(gamma, size, seconds):
    found = optimum(**ONE, gamma=gamma)
    assert (found.batch_size, found.time_to_target) == pytest.approx((size, seconds), rel=1e-6)


@settings(deadline=None)
@given(**WIDE, gamma=st.floats(0.3, 6.0))
def test_optimum_is_the_numeric_one(s_min, b_crit, a, b, gamma):
    law = SamplesLaw(s_min, b_crit, gamma)
    found = optimum(s_min, b_crit, a, b, gamma=gamma)
    _, seconds = least(lambda size: law.updates(size) * (a + b * size))
    assert found.time_to_target == pytest.approx(seconds, rel=1e-7)
    here = law.updates([found.batch_size])[0] * (a + b * found.batch_size)
    assert here == pytest.approx(seconds, rel=1e-9)


@settings(deadline=None)
@given(**WIDE)
def test_optimum_for_gamma_one_in_its_printed_form(s_min, b_crit, a, b):
    found = optimum(s_min, b_crit, a, b)
    assert found.batch_size == pytest.approx(math.sqrt(a * b_crit / b), rel=1e-9)
    assert found.time_to_target == pytest.approx(
        s_min * (math.sqrt(a / b_crit) + math.sqrt(b)) ** 2, rel=1e-9
    )


@settings(deadline=None)
@given(ratio=st.floats(0.05, 20.0), **WIDE)
def test_flatness_is_the_ratio_of_times(ratio, s_min, b_crit, a, b):
    best = optimum(s_min, b_crit, a, b)
    size = ratio * best.batch_size
    here = time_to_target(s_min, b_crit, size, a + b * size)
    assert flatness(ratio, a=a, b=b, b_crit=b_crit) == pytest.approx(here / best.time_to_target, rel=1e-9)


def test_a_factor_of_two_in_batch_size_costs_an_eighth_at_most():
    assert flatness(2, a=2, b=0.02, b_crit=400) == pytest.approx(1.1111, abs=1e-4)
    assert flatness(0.5, a=2, b=0.02, b_crit=400) == pytest.approx(1.1111, abs=1e-4)
    assert flatness(4, a=2, b=0.02, b_crit=400) == pytest.approx(1.5, abs=1e-9)
    assert flatness(2, a=1, b=1, b_crit=1) == pytest.approx(1.125)


def test_scale_out_example():
    found = scale_out(**ONE, gpus=[1, 4, 16, 64])
    assert [x.batch_size for x in found] == pytest.approx([200, 400, 800, 1600])
    assert [x.time_to_target for x in found] == pytest.approx([1800, 800, 450, 312.5])
    assert [x.speed_up for x in found] == pytest.approx([1, 2.25, 4, 5.76])
    assert [x.gpu_seconds for x in found] == pytest.approx([1800, 3200, 7200, 20000])
    assert scale_out(**ONE, gpus=[10**9])[0].time_to_target == pytest.approx(200, rel=1e-3)


@settings(deadline=None)
@given(gpus=st.integers(1, 4096), **WIDE)
def test_scale_out_is_the_numeric_optimum_on_n_gpus(gpus, s_min, b_crit, a, b):
    law = SamplesLaw(s_min, b_crit)
    found = scale_out(s_min, b_crit, lambda n: a * (1 + 0.1 * math.log2(n)), b, gpus=[gpus])[0]
    fixed = a * (1 + 0.1 * math.log2(gpus))
    _, seconds = least(lambda size: law.updates(size) * (fixed + b * size / gpus))
    assert found.time_to_target == pytest.approx(seconds, rel=1e-7)
    assert found.gpu_seconds == pytest.approx(gpus * seconds, rel=1e-7)


@pytest.mark.parametrize(("largest", "seconds"), [(50, 2700), (100, 2000), (200, 1800), (500, 1800)])
def test_memory_caps_the_batch_size(largest, seconds):
    found = capped_optimum(**ONE, largest=largest)
    assert found.time_to_target == pytest.approx(seconds)
    assert found.batch_size == pytest.approx(min(largest, 200))


def test_accumulation_example_is_the_integer_argmin():
    found = accumulation_optimum(**ONE, micro_batch_size=64, micro_batch_seconds=0.5)
    assert found.batch_size == 192
    assert found.time_to_target == pytest.approx(2263.16667, abs=1e-5)


@settings(deadline=None)
@given(
    s_min=st.floats(1e3, 1e6), b_crit=st.floats(10, 1e3), a=st.floats(0.1, 5), b=st.floats(1e-3, 0.1),
    micro=st.integers(1, 64), overhead=st.floats(0.01, 2),
)  # fmt: skip
def test_accumulation_optimum_is_the_best_of_all_whole_batch_sizes(s_min, b_crit, a, b, micro, overhead):
    found = accumulation_optimum(s_min, b_crit, a, b, micro_batch_size=micro, micro_batch_seconds=overhead)
    size = np.arange(1, 4097)
    times = s_min / size * (1 + size / b_crit) * (a + overhead * np.ceil(size / micro) + b * size)
    assert found.time_to_target <= times.min() * (1 + 1e-9)
    if found.batch_size <= 4096:
        assert found.time_to_target == pytest.approx(times.min(), rel=1e-9)


def test_roofline_examples():
    one = roofline_optimum(40000, 400, 4, 0.02)
    assert (one.batch_size, one.time_to_target) == pytest.approx((200, 1200))
    two = roofline_optimum(100 * 50, 50, 1, 0.01)
    assert (two.batch_size, two.time_to_target) == pytest.approx((100, 150))


@settings(deadline=None)
@given(**WIDE)
def test_roofline_optimum_is_the_numeric_one(s_min, b_crit, a, b):
    law = SamplesLaw(s_min, b_crit)
    found = roofline_optimum(s_min, b_crit, a, b)
    _, seconds = least(lambda size: law.updates(size) * np.maximum(a, b * size))
    assert found.time_to_target == pytest.approx(seconds, rel=1e-4)
    assert found.time_to_target <= seconds * (1 + 1e-9)


def test_power_law_examples():
    assert power_optimum(400, 0.5) == pytest.approx(400)
    assert power_optimum(400, 0.25) == pytest.approx(1200)
    assert power_optimum(400, 0.6166) == pytest.approx(248.719, abs=0.001)
    assert power_optimum(1536, 0.6166) == pytest.approx(955.1, abs=0.1)
    assert power_optimum(400, 1.0) is None


@settings(deadline=None)
@given(b_crit=st.floats(1, 1e6), power=st.floats(0.05, 0.95))
def test_power_optimum_is_the_numeric_one(b_crit, power):
    law = SamplesLaw(1e4, b_crit)
    size, seconds = least(lambda size: law.updates(size) * size**power)
    best = power_optimum(b_crit, power)
    assert law.updates([best])[0] * best**power == pytest.approx(seconds, rel=1e-8)
    assert best == pytest.approx(size, rel=1e-3)


@pytest.mark.parametrize(("size", "plain", "rounded"), [(128, 1881, 1915.2), (256, 1824.5, 1851.2)])
def test_updates_rounded_to_an_evaluation_grid(size, plain, rounded):
    seconds = 2 + 0.02 * size
    assert time_to_target(40000, 400, size, seconds) == pytest.approx(plain, abs=0.1)
    assert time_to_target(40000, 400, size, seconds, updates_multiple=10) == pytest.approx(rounded, abs=1e-6)


@settings(deadline=None)
@given(ratio=st.floats(0.05, 20), gamma=st.floats(0.3, 5), b_crit=st.floats(10, 1e4))
def test_pareto_identity_of_updates_and_samples(ratio, gamma, b_crit):
    law, size = SamplesLaw(1e5, b_crit, gamma), ratio * b_crit
    updates = law.updates([size])[0] / (law.s_min / b_crit)
    samples = law.samples([size])[0] / law.s_min
    assert (updates**gamma - 1) * (samples**gamma - 1) == pytest.approx(1, rel=1e-5)


def test_evaluation_moves_the_optimum():
    by_updates = with_evaluation(2, 0.02, evaluation_seconds=20, every_updates=10)
    assert by_updates == pytest.approx((4, 0.02))
    by_samples = with_evaluation(2, 0.02, evaluation_seconds=20, every_samples=1000)
    assert by_samples == pytest.approx((2, 0.04))
    base = optimum(**ONE).batch_size
    assert optimum(40000, 400, *by_updates).batch_size > base > optimum(40000, 400, *by_samples).batch_size


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_numbers_that_are_not_positive_are_refused_by_name(bad):
    with pytest.raises(LawError, match=r"^b_crit=.*positive"):
        optimum(1.0, bad, 1.0, 1.0)
    with pytest.raises(LawError, match="every_updates"):
        with_evaluation(1.0, 1.0, evaluation_seconds=1.0)
