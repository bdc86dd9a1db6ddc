"""Best batch size, near ties, probabilities and prices."""

from __future__ import annotations

import numpy as np
import pytest

from batchscout.errors import LawError
from batchscout.laws import (
    SamplesLaw,
    UpdateSecondsLaw,
    best_batch,
    fit_samples,
    fit_update_seconds,
    optimum,
    price_of_wrong_batch,
)
from batchscout.laws.best import whole_updates

SIZES = 2.0 ** np.arange(4, 12)
CANDIDATES = [int(b) for b in SIZES]
SAMPLES, SECONDS = SamplesLaw(40000.0, 400.0), UpdateSecondsLaw("affine", 2.0, 0.02)


def fits(seed, noise=0.08, seeds=1):
    rng = np.random.default_rng(seed)
    sizes = np.repeat(SIZES, seeds)
    samples = SAMPLES.samples(sizes) * np.exp(noise * rng.standard_normal(len(sizes)))
    seconds = SECONDS.seconds(sizes) * np.exp(0.03 * rng.standard_normal(len(sizes)))
    return fit_samples(sizes, samples), fit_update_seconds(sizes, seconds)


def test_known_laws_give_the_closed_form():
    found = best_batch(SAMPLES, SECONDS)
    exact = optimum(40000, 400, 2, 0.02)
    assert found.continuous_batch_size == pytest.approx(exact.batch_size, rel=1e-5)
    assert found.batch_size == 200
    assert found.time_to_target == pytest.approx(1800)
    assert found.samples_to_target == pytest.approx(60000)
    assert found.throughput == pytest.approx(33.3333, rel=1e-5)
    assert found.updates_to_target == 300
    assert found.probability_best is None
    assert found.interval == (None, None)


def test_candidates_are_chosen_from_and_priced():
    found = best_batch(SAMPLES, SECONDS, candidates=CANDIDATES)
    assert found.batch_size in (128, 256)
    assert found.time_to_target / 1800 < 1.06
    assert min(found.relative_times) == 1.0
    assert price_of_wrong_batch(SAMPLES, SECONDS, [100, 200, 400, 800]) == pytest.approx(
        [10 / 9, 1, 10 / 9, 1.5]
    )


def test_probabilities_and_ties_follow_the_noise():
    quiet = best_batch(*fits(0, 0.02, seeds=3), candidates=CANDIDATES)
    loud = best_batch(*fits(0, 0.4), candidates=CANDIDATES)
    assert sum(quiet.probabilities) == pytest.approx(1)
    assert quiet.batch_size in quiet.near_ties
    assert set(quiet.near_ties) <= {128, 256}
    assert len(loud.near_ties) > len(quiet.near_ties)
    assert loud.probability_best < 0.95


def test_probability_of_being_best_is_calibrated():
    """Over many sweeps, the stated probabilities add up to how often the recommended batch is the best."""
    said, right = [], []
    times = SAMPLES.updates(SIZES) * SECONDS.seconds(SIZES)
    best = CANDIDATES[int(np.argmin(times))]
    for seed in range(60):
        found = best_batch(*fits(seed, 0.15), candidates=CANDIDATES, draws=1000)
        said.append(found.probability_best)
        right.append(found.batch_size == best)
    assert np.mean(said) == pytest.approx(np.mean(right), abs=0.12)


def test_the_answer_does_not_depend_on_when_it_is_asked():
    assert best_batch(*fits(1), candidates=CANDIDATES) == best_batch(*fits(1), candidates=CANDIDATES)


def test_edges_and_extrapolation_are_warned_of():
    at_edge = best_batch(SAMPLES, SECONDS, candidates=[16, 32, 64])
    assert at_edge.batch_size == 64
    assert any("largest one tried; add larger" in w for w in at_edge.warnings)
    outside = best_batch(*fits(2), candidates=[4096, 8192])
    assert any("outside the scanned" in w for w in outside.warnings)
    never_ends = best_batch(SAMPLES, UpdateSecondsLaw("affine", 1.0, 0.0), candidates=[16, 32])
    assert any("no least" in w for w in never_ends.warnings)


def test_whole_updates():
    assert whole_updates(5120.0000000001, 512) == 10
    assert whole_updates(5121, 512) == 11
    rounded = best_batch(SamplesLaw(1000.0, 400.0), SECONDS, candidates=[512], round_updates=True)
    assert rounded.time_to_target == pytest.approx(5 * SECONDS.seconds([512])[0])
    assert rounded.updates_to_target == 5
    assert any("10%" in w for w in rounded.warnings)


def test_bounds_alone_name_no_best_batch():
    fit = fit_samples([16, 32], [100, 120], censored=["left", "left"])
    with pytest.raises(LawError, match="rank measured times"):
        best_batch(fit, SECONDS)


@pytest.mark.parametrize(("candidates", "words"), [([], "empty"), ([1.5], "1.5"), ([0], "whole")])
def test_wrong_candidates_are_refused(candidates, words):
    with pytest.raises(LawError, match=words):
        best_batch(SAMPLES, SECONDS, candidates=candidates)
