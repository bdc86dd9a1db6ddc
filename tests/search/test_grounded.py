"""A model's recommendation never contradicts the jobs at its point."""

from __future__ import annotations

import pytest
from tests.search.jobs import job

from batchscout.measure.target import Target
from batchscout.search.grounded import DISAGREES, grounded
from batchscout.search.protocol import Point, Recommendation

TARGET = Target(0.8)
FLAT = (0.2, 0.3, 0.3, 0.3, 0.3)
REACHED = job(64, seconds=10)  # 8 s to the target, from 4000 samples


def answer(time: float, low: float, high: float) -> Recommendation:
    return Recommendation(REACHED.point, time, (low, high), time * 500, 500.0, (64,), 0.9, 0.01)


def test_an_answer_that_agrees_with_the_measurement_stays() -> None:
    model = answer(7.5, 7.0, 8.5)
    assert grounded(model, [REACHED], TARGET, is_end=True) is model


def test_one_seed_may_lie_outside_of_the_interval_of_the_mean() -> None:
    model = answer(6.5, 6.0, 7.0)
    assert grounded(model, [REACHED], TARGET, is_end=True) is model


@pytest.mark.parametrize(("time", "low", "high"), [(6.7e9, 3e5, 6e11), (8.0, 0.5, 1e4), (1.0, 0.9, 1.1)])
def test_an_answer_that_contradicts_the_measurement_gives_way(time: float, low: float, high: float) -> None:
    stated = grounded(answer(time, low, high), [REACHED], TARGET, is_end=False)
    assert stated is not None
    assert stated.point == REACHED.point
    assert stated.time_to_target == pytest.approx(8)
    assert stated.samples_to_target == pytest.approx(4000)
    assert stated.throughput == pytest.approx(500)
    assert stated.interval is None or stated.interval[0] <= 8 <= stated.interval[1]
    assert stated.warnings == (DISAGREES,)


def test_a_point_without_a_measurement_is_the_models_word() -> None:
    model = Recommendation(Point(128, 1e-3), 5.0, (4.0, 6.0), 2500.0, 500.0)
    assert grounded(model, [REACHED], TARGET, is_end=True) is model


def test_nothing_is_recommended_at_the_end_where_nothing_reached_the_target() -> None:
    missed = job(64, outcome="capped", seconds=10, scores=FLAT)
    model = answer(20.0, 15.0, 30.0)
    assert grounded(model, [missed], TARGET, is_end=False) is model
    assert grounded(model, [missed], TARGET, is_end=True) is None
