"""Batch-size invariance of curves over samples."""

from __future__ import annotations

import numpy as np
import pytest

from batchscout.errors import LawError
from batchscout.laws import invariance

SAMPLES = np.arange(0, 40001, 1000)


def curve(seed, shift=1.0, noise=0.02):
    """Score that saturates at 0.9; `shift` times the samples for the same score."""
    score = 0.1 + 0.8 * (1 - np.exp(-SAMPLES / (12000 * shift)))
    return SAMPLES, score + noise * np.random.default_rng(seed).standard_normal(len(SAMPLES))


def test_equal_curves_are_invariant_and_shifted_ones_are_not():
    found = invariance({
        16: [curve(i) for i in range(4)],
        64: [curve(10 + i) for i in range(4)],
        1024: [curve(20 + i, shift=1.6) for i in range(4)],
    })  # fmt: skip
    by_batch = {d.batch_size: d for d in found.distances}
    assert found.reference == 16
    assert found.invariant == (16, 64)
    assert by_batch[1024].is_invariant is False
    assert by_batch[1024].shift == pytest.approx(np.log(1.6), abs=0.06)
    assert by_batch[1024].score_distance > 5 * by_batch[64].score_distance > 0


@pytest.mark.parametrize("seeds", [1, 4])
def test_interval_holds_the_true_shift(seeds):
    hits = 0
    for k in range(25):
        found = invariance(
            {16: [curve(100 * k + i) for i in range(seeds)],
             64: [curve(100 * k + 50 + i, shift=1.2) for i in range(seeds)]}, resamples=100,
        )  # fmt: skip
        low, high = found.distances[0].interval
        hits += low - 0.01 <= np.log(1.2) <= high + 0.01
    assert hits >= 18


def test_too_noisy_to_tell_is_undecided():
    found = invariance({16: [curve(1, noise=0.25)], 64: [curve(2, noise=0.25)]}, tolerance=0.02)
    assert found.distances[0].is_invariant is None
    assert found.invariant == (16,)


def test_missing_scores_are_ignored_and_disjoint_scores_named():
    samples, score = curve(3)
    holed = score.copy()
    holed[5:9] = np.nan
    found = invariance({16: [(samples, score)], 64: [(samples, holed)]})
    assert abs(found.distances[0].shift) < 0.1
    disjoint = invariance({16: [(samples, score)], 64: [(samples, score + 5)]})
    assert disjoint.distances == ()
    assert "share no scores" in disjoint.warnings[0]


@pytest.mark.parametrize(
    ("curves", "options", "words"),
    [
        ({16: [curve(0)]}, {}, "two or more"),
        ({16: [curve(0)], 64: [curve(1)]}, {"reference": 8}, "reference=8 has no curve"),
        ({16: [curve(0)], 64: [([1, 2], [0.1, 0.2])]}, {}, "3 are needed"),
        ({16: [curve(0)], 64: [([1, 2, 3], [0.1, 0.2])]}, {}, "equal lengths"),
    ],
)
def test_wrong_curves_are_refused(curves, options, words):
    with pytest.raises(LawError, match=words):
        invariance(curves, **options)
