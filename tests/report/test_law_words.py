"""The fitted laws in words."""

from __future__ import annotations

from batchscout.laws import PointRow, SquaredNorms, laws_of_points, predicted_b_crit
from batchscout.report.law_words import law_words


def test_noise_scale_best_batch_and_the_kind_of_every_interval_are_said() -> None:
    sizes = (16, 32, 64, 128, 256, 512)
    noise = (1.03, 0.98, 1.01, 1.02, 0.97, 1.0)
    rows = [
        PointRow(b, lr=1e-3, samples=3e4 * (1 + b / 300) * f, update_seconds=0.1 + 0.001 * b)
        for b, f in zip(sizes, noise, strict=True)
    ]
    found = laws_of_points(rows, target=0.7)
    norms = [SquaredNorms(128, 8, 128, 84.0 + x, 9.0 + x / 16) for x in (-2.0, 0.0, 2.0)]
    scale = predicted_b_crit(norms, found["laws"]["samples"])
    words = dict(
        law_words({"target": 0.7, "laws": {**found["laws"], "best": found["best"], "noise_scale": scale}})
    )
    assert words["gradient noise scale, which predicts b_crit (b_noise)"].startswith("160 rollouts")
    assert words["predicted against measured"].startswith("gradients predict b_crit=160, measured is ")
    assert "the best with probability" in words["best batch size by the laws"]
    kinds = words["how the 90% intervals were found"]
    assert "samples law: profile likelihood" in kinds
    assert "noise scale: Fieller's" in kinds


def test_an_unresolved_law_gives_its_bounds_and_no_law_nothing() -> None:
    samples = {
        "s_min": None,
        "s_min_interval": [None, 100.0],
        "b_crit": None,
        "b_crit_interval": [None, None],
    }
    words = dict(law_words({"target": 0.7, "laws": {"samples": samples}}))
    assert words["least samples to target, at small batches (s_min)"] == (
        "not resolved (90% interval: at most 100)"
    )
    assert law_words({"target": 0.7, "laws": {"samples": None}}) == []
