"""`batchscout plan`: numbers from arithmetic on a made sweep, and one line for each mistake."""

from __future__ import annotations

import json
from math import sqrt

import pytest
from tests.made_sweep import Made, make_sweep

from batchscout.errors import ConfigError, LawError, SweepError
from batchscout.laws.scale_out_plan import Bill
from batchscout.report.figures.plan import gpu_plan
from batchscout.report.figures.theme import LIGHT, to_png
from batchscout.report.plan import bill_words, make_plan_for_gpus, render, sentences

MADE = Made(seeds=2)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "2026-09-21T13-33-20"
    make_sweep(path, MADE)
    return path


def closed_form(n):
    """(batch size, T) of S_min (√a/√B_crit + √(b/n))², S of the best lr, mean of seeds 0 and 3%."""
    s_min = MADE.s_min * sqrt(1.03)
    return sqrt(n * MADE.a * MADE.b_crit / MADE.b), s_min / MADE.b_crit * (
        sqrt(MADE.a) + sqrt(MADE.b * MADE.b_crit / n)
    ) ** 2


@pytest.mark.parametrize("n", [1, 4, 16])
def test_best_batch_and_time_follow_the_laws_of_the_sweep(sweep, n):
    row = make_plan_for_gpus(sweep, [n]).rows[0]
    batch, time = closed_form(n)
    assert row.batch_size == pytest.approx(batch, rel=0.15)  # the least is flat
    assert row.time_to_target == pytest.approx(time, rel=0.03)
    low, high = row.interval
    assert low < time < high


def test_money_is_gpu_hours_times_price(sweep):
    row = make_plan_for_gpus(sweep, [8], price=3.0).rows[0]
    assert row.gpu_hours == pytest.approx(8 * row.time_to_target / 3600)
    assert row.money == pytest.approx(3 * row.gpu_hours)


def test_the_sweeps_own_price_counts_where_none_is_given(sweep):
    row = make_plan_for_gpus(sweep, [8]).rows[0]
    assert row.money == pytest.approx(MADE.price * row.gpu_hours)


def test_keeping_todays_batch_costs_more_the_more_gpus_there_are(sweep):
    plan = make_plan_for_gpus(sweep, [1, 8, 64], price=3.0, today=128)
    kept = [row.kept_bill for row in plan.rows]
    assert kept == sorted(kept)
    assert "Keeping batch size 128 on 64 GPUs takes" in "\n".join(sentences(plan))


def test_deadline_and_budget_choose_the_fastest_and_the_cheapest(sweep):
    plan = make_plan_for_gpus(sweep, [1, 8, 64], price=3600.0, deadline_seconds=8.0, budget=30.0)
    assert [plan.is_allowed(row) for row in plan.rows] == [False, True, False]  # too slow, right, too dear
    assert sentences(plan)[0].startswith("Fastest within the limits: 8 GPUs")


def test_bill_of_the_example_is_spelt_out():
    words = bill_words(Bill(10_000, 30 * 86400.0, 3.0))
    assert words == ("10,000 GPUs × 30 days × 3 = 21.6M; 10% less time saves 720,000 GPU-hours = 2.16M.")


def test_plan_from_one_number_of_gpus_says_that_communication_is_unknown(sweep):
    assert any("communication is unknown" in w for w in make_plan_for_gpus(sweep, [8]).warnings)


def test_batch_sizes_beyond_the_scanned_ones_are_told(sweep):
    assert any("outside the scanned 16–2048" in w for w in make_plan_for_gpus(sweep, [10_000]).warnings)


def test_plan_is_strict_json_and_draws(sweep):
    plan = make_plan_for_gpus(sweep, [1, 8, 64, 512], price=3.0, deadline_seconds=30 * 86400.0)
    text = json.dumps(plan.to_json(), allow_nan=False)
    assert len(json.loads(text)["rows"]) == 4
    assert render(plan).row_count == 4
    assert to_png(gpu_plan(plan, LIGHT)).startswith(b"\x89PNG")


def test_zero_price_is_one_error(sweep):
    with pytest.raises(ConfigError, match=r"^price=0 must be a number above 0$"):
        make_plan_for_gpus(sweep, [8], price=0.0)


def test_budget_without_a_price_is_one_error(tmp_path):
    make_sweep(tmp_path / "s", Made(price=None))
    with pytest.raises(ConfigError, match="budget=100 needs a price"):
        make_plan_for_gpus(tmp_path / "s", [8], budget=100.0)


def test_unfinished_sweep_is_one_error(tmp_path):
    make_sweep(tmp_path / "s", Made(status="running"))
    with pytest.raises(SweepError, match="is running, not finished"):
        make_plan_for_gpus(tmp_path / "s", [8])


def test_sweep_that_never_reached_the_target_is_one_error(tmp_path):
    make_sweep(tmp_path / "s", Made(reachable=False))
    with pytest.raises(SweepError, match=r"no job reached the target 0\.7"):
        make_plan_for_gpus(tmp_path / "s", [8])


def test_directory_without_a_sweep_is_one_error(tmp_path):
    with pytest.raises(SweepError, match=r"no result\.json"):
        make_plan_for_gpus(tmp_path, [8])


def test_gpus_below_the_measured_number_are_one_error(tmp_path):
    make_sweep(tmp_path / "s", Made())
    result = json.loads((tmp_path / "s" / "result.json").read_text())
    for row in result["jobs"]:
        row["gpus"] = 8
    (tmp_path / "s" / "result.json").write_text(json.dumps(result))
    with pytest.raises(LawError, match=r"gpus=4 lies below the measured n \(8\)"):
        make_plan_for_gpus(tmp_path / "s", [4, 64])
