"""The laws of a sweep's rows as result.json carries them, and the ranking of batch sizes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from batchscout.laws import PointRow, SamplesLaw, UpdateSecondsLaw, laws_of_points, levels_of_points
from batchscout.laws.points import best_lr_rows

SIZES = [16, 32, 64, 128, 256, 512, 1024]
LRS = [1e-4, 2e-4, 4e-4]
SAMPLES, SECONDS = SamplesLaw(20000.0, 300.0), UpdateSecondsLaw("affine", 0.4, 0.003)


def sweep(seed=0, *, noise=0.06, law=SAMPLES, sizes=SIZES, lrs=LRS, seeds=2, best_lr=2e-4, cap=None):
    rng = np.random.default_rng(seed)
    rows = []
    for size in sizes:
        for lr in lrs:
            for s in range(seeds):
                samples = float(law.samples([size])[0] * np.exp(0.5 * np.log(lr / best_lr) ** 2))
                samples *= float(np.exp(noise * rng.standard_normal()))
                seconds = float(SECONDS.seconds([size])[0] * np.exp(0.02 * rng.standard_normal()))
                parts = {
                    "update_seconds": seconds,
                    "sampling_seconds": 0.7 * seconds,
                    "learning_seconds": 0.3 * seconds,
                }
                if cap is not None and samples > cap:
                    rows.append(PointRow(size, lr, s, None, cap, None, "right", **parts))
                else:
                    rows.append(PointRow(size, lr, s, samples, samples * 0.97, samples * 1.03, None, **parts))
    return rows


def strict(found):
    return json.loads(json.dumps(found, allow_nan=False))


def test_laws_and_ranking_of_a_grid():
    found = strict(laws_of_points(sweep(), target=0.8))
    laws, best = found["laws"], found["best"]
    assert laws["samples"]["s_min"] == pytest.approx(20000, rel=0.15)
    assert laws["samples"]["b_crit_interval"][0] < 300 < laws["samples"]["b_crit_interval"][1]
    assert laws["samples"]["target"] == 0.8
    assert set(laws["update_seconds"]) == {"total", "sampling", "learning"}
    assert laws["update_seconds"]["sampling"]["b"] == pytest.approx(0.7 * 0.003, rel=0.05)
    assert laws["learning_rate"]["exponent"] == pytest.approx(0.0, abs=0.15)
    times = SAMPLES.updates(SIZES) * SECONDS.seconds(SIZES)
    assert best["batch_size"] in (128, 256)
    assert best["lr"] == 2e-4
    assert best["interval"][0] < times.min() * 1.02
    assert best["interval"][1] > times.min()
    assert best["throughput"] == pytest.approx(best["samples_to_target"] / best["time_to_target"])
    assert sum(b["probability"] for b in best["by_batch"]) == pytest.approx(1)
    assert best["batch_size"] in best["near_ties"]
    assert 16 not in best["near_ties"]


def test_capped_batches_stay_in_the_law_and_out_of_the_ranking():
    found = strict(laws_of_points(sweep(cap=60000.0, lrs=[2e-4])))
    assert any("never reached at batch size 1024" in w for w in found["laws"]["warnings"])
    assert 1024 not in [b["batch_size"] for b in found["best"]["by_batch"]]
    low, high = found["laws"]["samples"]["b_crit_interval"]
    assert low < 300
    assert high is None or high > 300


def test_best_lr_is_by_median_with_misses_infinite():
    rows = [
        PointRow(16, 1e-4, 0, 1000.0), PointRow(16, 1e-4, 1, 1100.0), PointRow(16, 1e-4, 2, 1050.0),
        PointRow(16, 2e-4, 0, 500.0), PointRow(16, 2e-4, 1, None, 3000.0, None, "right"),
        PointRow(16, 2e-4, 2, None, None, None, "right"), PointRow(16, 2e-4, 3, None, 2.0, None, "right"),
    ]  # fmt: skip
    assert {r.lr for r in best_lr_rows(rows)[16]} == {1e-4}


def test_one_lr_and_one_batch_and_nothing_at_all_are_said_in_words():
    one_lr = laws_of_points(sweep(lrs=[2e-4]))["laws"]
    lines = [w for w in one_lr["warnings"] if "only one lr" in w]
    assert len(lines) == 1
    assert "16, 32, 64" in lines[0]
    assert one_lr["learning_rate"] is None
    one_batch = strict(laws_of_points(sweep(sizes=[64])))
    assert one_batch["laws"]["samples"] is None
    assert any(w.startswith("no samples law") for w in one_batch["laws"]["warnings"])
    assert one_batch["best"]["batch_size"] == 64
    assert one_batch["best"]["method"] == "measured times"
    nothing = strict(laws_of_points([]))
    assert nothing["best"] is None
    assert nothing["laws"]["samples"] is None
    missed = strict(laws_of_points([PointRow(16, 1e-4, 0, None, 99.0, None, "right", 1.0),
                                    PointRow(32, 1e-4, 0, None, 99.0, None, "right", 1.0)]))  # fmt: skip
    assert missed["best"] is None
    assert any("no batch size reached the target" in w for w in missed["laws"]["warnings"])


def test_c50_a_best_lr_at_the_edge_of_its_grid_is_said_with_few_batch_sizes_too():
    """The best lr of 128 is the middle one of three, that of 1024 the greatest; no law comes of it."""
    times = {128: (1.2, 1.0, 1.3), 1024: (4.0, 2.0, 1.5)}
    rows = [
        PointRow(size, lr, 0, 20_000 * t, 19_500 * t, 20_500 * t, update_seconds=0.01)
        for size, factors in times.items()
        for lr, t in zip(LRS, factors, strict=True)
    ]
    warnings = laws_of_points(rows, target=0.8)["laws"]["warnings"]
    edge = [w for w in warnings if "edge" in w]
    assert len(edge) == 1
    assert edge[0].startswith("best lr at the edge of its grid at batch size 1024; S there may be too large")


def test_a_cliff_does_not_win_by_the_laws_smoothness():
    """Where seeds show a batch size off the law, its own runs count."""
    law = SamplesLaw(20000.0, 600.0, 8.0)
    rows = sweep(law=law, seeds=3, lrs=[2e-4], noise=0.04, sizes=[64, 128, 256, 512, 1024, 2048, 4096])
    times = {
        b: float(law.updates([b])[0] * SECONDS.seconds([b])[0]) for b in (64, 128, 256, 512, 1024, 2048, 4096)
    }
    found = laws_of_points(rows)["best"]
    assert times[found["batch_size"]] < 1.05 * min(times.values())
    for row in found["by_batch"]:
        if row["batch_size"] == found["batch_size"]:
            assert row["time_to_target"] == pytest.approx(times[row["batch_size"]], rel=0.12)


def test_coarse_spacing_and_duplicates_are_warned_of():
    rows = [PointRow(b, 1e-4, 0, 1000.0 + b, 700.0, 1500.0) for b in (16, 64, 256)]
    warnings = laws_of_points([*rows, rows[0]])["laws"]["warnings"]
    assert any("too coarse" in w for w in warnings)
    assert any("duplicated rows at batch size 16" in w for w in warnings)


def test_left_censored_rows_are_ranked_by_measured_times():
    rows = [
        PointRow(b, 1e-4, s, None, None, 1000.0 + b + s, "left", 0.5 + b / 500)
        for b in (16, 256)
        for s in (0, 1)
    ]
    found = strict(laws_of_points(rows))
    assert found["best"]["method"] == "measured times"
    assert found["best"]["batch_size"] == 256
    assert found["laws"]["samples"]["s_min_interval"] == [None, pytest.approx(1016)]


def test_the_best_batch_moves_with_the_target():
    easy, hard = SamplesLaw(5000.0, 60.0), SamplesLaw(60000.0, 3000.0)
    found = strict(levels_of_points({0.8: sweep(law=hard), 0.5: sweep(law=easy, cap=50000.0)}))
    assert [x["target"] for x in found["levels"]] == [0.5, 0.8]
    first, last = (x["recommendation"]["batch_size"] for x in found["levels"])
    assert first < last
    assert any("moves from" in w and "beyond near ties" in w for w in found["warnings"])
    assert any("B_crit depends on the target" in w for w in found["warnings"])
    assert found["levels"][0]["never_reached"] == [1024]


def test_a_falling_score_goes_from_the_easiest_level_too():
    found = levels_of_points({0.8: sweep(), 0.5: sweep()}, rising=False)
    assert [x["target"] for x in found["levels"]] == [0.8, 0.5]
    assert found["warnings"] == []
