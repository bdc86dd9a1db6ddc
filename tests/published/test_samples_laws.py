"""Fits that others printed, from their own tables."""

from __future__ import annotations

import numpy as np
import pytest

from batchscout.laws import SamplesLaw, fit_samples, fit_table, levels_of_points, twenty_percent_batch
from batchscout.laws.best import whole_updates
from batchscout.laws.points import PointRow

pytestmark = pytest.mark.published


def zhang(table, model, *, raw=False, add=()):
    name = "zhang2024_cbs_steps_measured_raw.csv" if raw else "zhang2024_cbs_steps.csv"
    rows = [(float(r["batch_size"]), float(r["steps"])) for r in table(name) if r["model"] == model]
    size, updates = np.array(sorted([*rows, *add])).T
    return size, updates


@pytest.mark.parametrize(("model", "add"), [("85M", []), ("151M", [(512.0, 12000.0)])])
def test_zhang_fit_is_reproduced_to_six_digits(table, model, add):
    printed = next(r for r in table("zhang2024_cbs_fit.csv") if r["model"] == model)
    size, updates = zhang(table, model, add=add)
    fit = fit_samples(size, size * updates)
    assert fit.s_min == pytest.approx(float(printed["b_Emin_samples"]), rel=1e-6)
    assert fit.s_min / fit.b_crit == pytest.approx(float(printed["a_Smin_steps"]), rel=1e-6)
    assert twenty_percent_batch(fit.b_crit, base_batch_size=256) == pytest.approx(
        float(printed["cbs"]), rel=1e-6
    )


def test_zhang_critical_batch_of_85m(table):
    size, updates = zhang(table, "85M")
    fit = fit_samples(size, size * updates)
    assert fit.b_crit == pytest.approx(2190.60, rel=1e-5)
    assert fit.rms == pytest.approx(0.049, abs=0.001)
    assert fit.b_crit_interval[0] < 2190 < fit.b_crit_interval[1]


@pytest.mark.parametrize(
    ("model", "updates_min", "samples_min", "batch"),
    [("85M", 1267.465, 2833081, 754.247), ("151M", 1710.250, 5649693, 967.886)],
)
def test_zhang_raw_table_moves_the_fit_by_a_percent(table, model, updates_min, samples_min, batch):
    size, updates = zhang(table, model, raw=True)
    fit = fit_samples(size, size * updates)
    assert fit.s_min == pytest.approx(samples_min, rel=1e-5)
    assert fit.s_min / fit.b_crit == pytest.approx(updates_min, rel=1e-5)
    assert twenty_percent_batch(fit.b_crit, base_batch_size=256) == pytest.approx(batch, rel=1e-5)


@pytest.mark.parametrize(("model", "gamma", "b_crit", "rms"), [("85M", 1.237, 2077, 0.037)])
def test_zhang_with_gamma_free(table, model, gamma, b_crit, rms):
    size, updates = zhang(table, model)
    fit = fit_samples(size, size * updates, gamma="free")
    assert fit.gamma == pytest.approx(gamma, abs=0.001)
    assert fit.b_crit == pytest.approx(b_crit, rel=1e-3)
    assert fit.rms == pytest.approx(rms, abs=0.001)


@pytest.mark.parametrize(
    ("model", "add", "ratio", "b_crit"),
    [("85M", [], 0.796, 2674.7), ("151M", [(512.0, 12000.0)], 0.759, 4241.2)],
)
def test_eight_times_beyond_the_scanned_range_the_interval_still_holds_the_truth(
    table, model, add, ratio, b_crit
):
    size, updates = zhang(table, model, add=add)
    kept = size <= 2048
    fit = fit_samples(size[kept], size[kept] * updates[kept])
    assert fit.b_crit == pytest.approx(b_crit, rel=1e-4)
    truth = size[-1] * updates[-1]
    predicted = fit.samples([16384])[0]
    assert predicted / truth == pytest.approx(ratio, abs=0.001)
    low, high = fit.interval(16384)
    assert low < truth < high
    assert low <= 0.7 * predicted
    assert high >= 1.3 * predicted
    assert "outside the scanned" in fit.extrapolation(16384)


def test_mlperf_grpo_rule_gives_its_first_evaluations():
    law = SamplesLaw(s_min=3840.0, b_crit=3840 / 2.5)
    assert law.b_crit == 1536
    assert [whole_updates(law.samples([b])[0], b) for b in (256, 512, 1024)] == [18, 10, 7]


@pytest.mark.parametrize(
    ("version", "benchmark", "s_min", "b_crit", "rms"),
    [("5.1.0", "llama31_405b", 254080, 5020.7, 0.0039), ("5.1.0", "llama31_8b", 132200, 83.935, 0.0257)],
)
def test_reference_convergence_points(table, version, benchmark, s_min, b_crit, rms):
    rows = [r for r in table("mlperf_rcp.csv") if (r["round"], r["benchmark"]) == (version, benchmark)]
    fit = fit_samples([float(r["bs"]) for r in rows], [float(r["mean"]) for r in rows])
    assert fit.s_min == pytest.approx(s_min, rel=1e-3)
    assert fit.b_crit == pytest.approx(b_crit, rel=1e-3)
    assert fit.rms == pytest.approx(rms, rel=0.02)


def test_a_narrow_range_is_flagged_though_its_residuals_are_tiny(table):
    rows = [
        r for r in table("mlperf_rcp.csv") if (r["round"], r["benchmark"]) == ("6.1.0", "deepseekv3_671b")
    ]
    fit = fit_samples([float(r["bs"]) for r in rows], [float(r["mean"]) for r in rows])
    assert fit.rms < 0.001
    assert any("range too narrow" in w and "not identified" in w for w in fit.warnings)
    assert any("below every row" in w for w in fit.warnings)


def test_critical_batch_size_depends_on_the_target(table):
    sizes = (256, 512, 1024, 2048, 8192)
    by_level = {}
    for r in table("cbs_rlvr_gsm8k_fits.csv"):
        law = SamplesLaw(float(r["S_min"]) * float(r["B_star"]), float(r["B_star"]))
        by_level[float(r["gsm8k_threshold"])] = [
            PointRow(b, samples=float(law.samples([b])[0]), update_seconds=10 + 0.01 * b) for b in sizes
        ]
    found = levels_of_points(by_level)
    crit = {x["target"]: x["samples"]["b_crit"] for x in found["levels"]}
    assert crit[0.65] / crit[0.40] == pytest.approx(10.9, abs=0.05)
    assert [x["samples"]["target"] for x in found["levels"]] == sorted(by_level)
    assert any("B_crit depends on the target" in w for w in found["warnings"])


def test_every_published_table_goes_through_fit(table):
    """57 benchmarks of MLPerf's rounds, Zhang's four tables, six levels of GSM8K: a law, or why there is none."""
    tables = {}
    for r in table("mlperf_rcp.csv"):
        tables.setdefault((r["round"], r["benchmark"]), []).append((int(r["bs"]), float(r["mean"])))
    for name in ("zhang2024_cbs_steps.csv", "zhang2024_cbs_steps_measured_raw.csv"):
        for r in table(name):
            steps = next(value for key, value in r.items() if key.startswith("steps"))
            size = int(r["batch_size"])
            tables.setdefault((name, r["model"]), []).append((size, size * float(steps)))
    for r in table("cbs_rlvr_gsm8k_fits.csv"):
        law = SamplesLaw(float(r["S_min"]) * float(r["B_star"]), float(r["B_star"]))
        sizes = [256, 512, 1024, 2048, 8192]
        tables["gsm8k", r["gsm8k_threshold"]] = list(zip(sizes, law.samples(sizes), strict=True))
    tables = {name: rows for name, rows in tables.items() if len({size for size, _ in rows}) > 1}
    assert len(tables) == 57 + 4 + 6
    for name, rows in tables.items():
        text = "batch_size,samples_to_target\n" + "".join(f"{b},{s:.12g}\n" for b, s in rows)
        found = fit_table(text)
        assert found["samples"]["rows"] == len(rows), name
        assert found["samples"]["b_crit"] or found["warnings"], name
