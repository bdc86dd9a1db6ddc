"""The gradient noise scale on problems whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from batchscout.errors import LawError
from batchscout.laws import gradient_squares, noise_scale


def quadratic(seed, updates, *, groups, group_size=8, dimensions=50, within=0.0):
    """Gradients of ½|θ|² at a known θ with a known Σ; `within` is the share of noise common to a group."""
    rng = np.random.default_rng(seed)
    mean = np.linspace(0.1, 1.0, dimensions)
    deviation = np.linspace(1.0, 4.0, dimensions)
    own = np.sqrt(1 - within) * rng.standard_normal((updates, groups, dimensions)) / np.sqrt(group_size)
    shared = np.sqrt(within) * rng.standard_normal((updates, groups, dimensions))
    gradients = mean + deviation * (own + shared)
    square, trace = float(mean @ mean), float((deviation**2).sum())
    return np.array([gradient_squares(g) for g in gradients]).T, square, trace


@pytest.mark.parametrize(("groups", "group_size"), [(2, 8), (16, 8), (16, 1)])
def test_estimates_are_unbiased_within_their_standard_error(groups, group_size):
    updates = 4000
    (small, big), square, trace = quadratic(0, updates, groups=groups, group_size=group_size)
    found = noise_scale(group_size, groups * group_size, small, big)
    each_square = (groups * big - small) / (groups - 1)
    each_trace = (small - big) / (1 / group_size - 1 / (groups * group_size))
    assert abs(found.gradient_square - square) < 3 * each_square.std() / np.sqrt(updates)
    assert abs(found.trace - trace) < 3 * each_trace.std() / np.sqrt(updates)
    assert found.interval[0] < trace / square < found.interval[1]


def test_fieller_interval_covers_the_truth_in_nine_of_ten():
    hits = 0
    for seed in range(300):
        (small, big), square, trace = quadratic(seed, 20, groups=8)
        low, high = noise_scale(8, 64, small, big).interval
        hits += (low is None or low <= trace / square) and (high is None or trace / square <= high)
    assert 0.85 <= hits / 300 <= 0.95


def test_an_average_of_ratios_would_be_biased():
    (small, big), square, trace = quadratic(1, 400, groups=4)
    found = noise_scale(8, 32, small, big)
    assert found.b_noise == pytest.approx(trace / square, rel=0.15)
    ratios = [noise_scale(8, 32, [s], [b]).b_noise for s, b in zip(small, big, strict=True)]
    assert any(r is None for r in ratios)


def test_pairs_of_batch_sizes_agree():
    """The same gradients split into groups of 1, 2 and 4 give one noise scale."""
    rng = np.random.default_rng(2)
    mean = np.linspace(0.1, 1.0, 40)
    gradients = mean + 3 * rng.standard_normal((2000, 16, 40))
    found = []
    for size in (1, 2, 4):
        grouped = gradients.reshape(2000, 16 // size, size, 40).mean(axis=2)
        small, big = np.array([gradient_squares(g) for g in grouped]).T
        found.append(noise_scale(size, 16, small, big).b_noise)
    assert found == pytest.approx([9 * 40 / float(mean @ mean)] * 3, rel=0.05)


def test_groups_are_the_independent_unit():
    """With noise shared inside a group, rollouts taken as independent would understate tr Σ."""
    (small, big), square, trace = quadratic(3, 2000, groups=8, within=0.5)
    found = noise_scale(8, 64, small, big)
    assert found.trace == pytest.approx(trace * (0.5 + 0.5 * 8), rel=0.05)
    assert found.gradient_square == pytest.approx(square, rel=0.1)


def test_a_gradient_lost_in_noise_is_unresolved():
    found = noise_scale(8, 128, [84.0, 80.0], [5.0, 4.9])
    assert found.b_noise is None
    assert found.interval == (None, None)
    assert "unresolved" in found.warnings[0]
    weak = noise_scale(8, 128, [80.0, 90.0, 70.0], [5.0, 8.0, 4.0])
    assert weak.interval[1] is None
    assert any("no upper bound" in w for w in weak.warnings)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((8, 8, [1], [1]), "0 < small < big"),
        ((8, 16, [1, 2], [1]), "one of each"),
        ((8, 16, [1], [float("nan")]), "NaN"),
        ((8, 16, [-1], [1]), "negative"),
        ((8, 16, [], []), "one of each"),
    ],
)
def test_wrong_pairs_are_refused(arguments, words):
    with pytest.raises(LawError, match=words):
        noise_scale(*arguments)
    with pytest.raises(LawError, match="two groups"):
        gradient_squares([[1.0, 2.0]])
