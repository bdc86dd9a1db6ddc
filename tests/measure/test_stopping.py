"""Divergence: collapse is for k evaluations in a row, far below what the job had been."""

from __future__ import annotations

import math

import pytest

from batchscout.measure import Outcome, Target
from batchscout.measure.stopping import Evaluated, by_divergence

UP, DOWN = Target(0.8), Target(0.2, direction="min")


def evaluated(scores: list[float]) -> list[Evaluated]:
    return [Evaluated(16 * i, i, score, 100) for i, score in enumerate(scores)]


@pytest.mark.parametrize(
    ("scores", "target", "is_diverged"),
    [
        ([], UP, False),
        ([0.1] * 20, UP, False),  # slow, not collapsed
        ([0.4, *[0.19] * 6], UP, True),  # below half of the first
        ([0.4, *[0.19] * 5], UP, False),  # five only
        ([0.4, *[0.19] * 5, 0.21, *[0.19] * 5], UP, False),  # not in a row
        ([0.1, 0.6, *[0.17] * 6], UP, True),  # below 0.3 of the best
        ([0.1, 0.6, *[0.19] * 6], UP, False),
        ([0.0, *[0.0] * 20], UP, False),  # nothing to fall from
        ([-0.5, *[-0.9] * 20], UP, False),  # rewards below 0 give no bound
        ([0.3, math.nan], UP, True),
        ([0.3, math.inf], UP, True),
        ([4.0, 1.0, *[3.5] * 6], DOWN, False),  # beyond best / 0.3, not beyond twice the first
        ([4.0, 1.0, *[8.5] * 6], DOWN, True),
    ],
)
def test_collapse_rule(scores: list[float], target: Target, is_diverged: bool) -> None:
    stop = by_divergence(evaluated(scores), target)
    assert (stop is not None) is is_diverged
    assert stop is None or stop.outcome is Outcome.DIVERGED


def test_number_of_evaluations_can_be_chosen() -> None:
    assert by_divergence(evaluated([0.4, 0.1, 0.1]), UP, 2) is not None
