"""Scaling out: the closed forms, the fit over (batch size, GPUs), and a cluster simulated event by event."""

from __future__ import annotations

import numpy as np
import pytest
from tests.laws.scale_out_simulation import trial

from batchscout.errors import LawError
from batchscout.laws import SamplesLaw, fit_samples
from batchscout.laws import scale_out as closed_form
from batchscout.laws.scale_out_law import ScaleOutForm, exact_scale_out, fit_scale_out
from batchscout.laws.scale_out_plan import Bill, continuous_best, plan_gpus

B_CRIT = 400.0
LAW = SamplesLaw(100 * B_CRIT, B_CRIT)  # 100 updates at least
PACE = exact_scale_out(2.0, 0.02)
CLOSED = {1: (200, 1800.0), 4: (400, 800.0), 16: (800, 450.0), 64: (1600, 312.5)}


@pytest.mark.parametrize(("gpus", "batch", "seconds"), [(n, *v) for n, v in CLOSED.items()])
def test_best_batch_and_time_are_the_closed_forms(gpus, batch, seconds):
    assert continuous_best(LAW, PACE, gpus)[0] == pytest.approx(batch, rel=1e-6)
    assert continuous_best(LAW, PACE, gpus)[1] == pytest.approx(seconds, rel=1e-12)


def test_speed_up_and_gpu_seconds_are_the_closed_forms():
    rows = plan_gpus(LAW, PACE, [1, 4, 16, 64], step=200, limits=(200, 3200))
    assert [r.batch_size for r in rows] == [200, 400, 800, 1600]
    assert [r.speed_up for r in rows] == pytest.approx([1, 2.25, 4, 5.76], rel=1e-12)
    assert [3600 * r.gpu_hours for r in rows] == pytest.approx([1800, 3200, 7200, 20000], rel=1e-12)


def test_no_number_of_gpus_beats_the_bound():
    row = plan_gpus(LAW, PACE, [10**9])[0]
    assert row.time_to_target == pytest.approx(202, rel=1e-3)  # 100 updates, each with one rollout a rank
    assert row.limit == "learning and hardware"


def test_closed_form_with_a_growing_communication_is_met():
    pace = exact_scale_out(2.0, 0.02, communication_seconds=0.5, form="tree")
    for row in closed_form(100 * B_CRIT, B_CRIT, lambda n: 2.0 + 0.5 * np.log2(n), 0.02, gpus=[1, 8, 64]):
        assert continuous_best(LAW, pace, row.gpus)[1] == pytest.approx(row.time_to_target, rel=1e-9)


def test_the_bill_of_ten_thousand_gpus():
    month = Bill(10_000, 30 * 86400.0, 3.0)
    assert month.money == pytest.approx(21.6e6, rel=1e-12)
    assert month.saved(0.10).gpu_hours == pytest.approx(720_000, rel=1e-12)
    assert month.saved(0.10).money == pytest.approx(2.16e6, rel=1e-12)


def rows_of(form, coefficients, noise=0.0, seed=0, gpus=(1, 2, 4, 8)):
    rng = np.random.default_rng(seed)
    b, n = (x.ravel() for x in np.meshgrid([64.0, 256.0, 1024.0, 4096.0], np.array(gpus, float)))
    t = form.seconds(b, n, np.array(coefficients)) * np.exp(noise * rng.standard_normal(len(b)))
    return b, n, t


@pytest.mark.parametrize("name", ["none", "ring", "tree"])
def test_noiseless_rows_give_back_their_own_form_at_the_measured_pairs(name):
    form = ScaleOutForm(name)
    b, n, t = rows_of(form, [2.0, 0.02, 0.5][: form.parameters])
    assert fit_scale_out(b, n, t).seconds(b, n) == pytest.approx(t, rel=0.02)


def test_interval_widens_with_every_doubling_beyond_the_measured_gpus():
    b, n, t = rows_of(ScaleOutForm("tree"), [2.0, 0.02, 0.3], noise=0.02)
    fit = fit_scale_out(b, n, t)
    widths = [np.log(high / low) for low, high in (fit.interval(8192, g) for g in (8, 16, 64, 512, 4096))]
    assert widths == sorted(widths)
    assert widths[0] < 0.1 < widths[-1]


def test_true_time_on_eight_times_the_gpus_lies_in_the_interval_for_every_form():
    inside = 0
    for seed in range(12):
        name = ("none", "ring", "tree")[seed % 3]
        form = ScaleOutForm(name, tail=seed % 2 == 0)
        coefficients = [2.0, 0.02, *([] if name == "none" else [0.4]), *([0.2] if form.tail else [])]
        b, n, t = rows_of(form, coefficients, noise=0.02, seed=seed)
        low, high = fit_scale_out(b, n, t).interval(4096, 64)
        inside += low <= form.seconds(np.array([4096.0]), np.array([64.0]), np.array(coefficients))[0] <= high
    assert inside >= 10


def test_ranks_without_a_group_of_rollouts_do_not_shorten_the_update():
    pace = exact_scale_out(2.0, 0.02, group_size=8)
    assert float(pace.working(128, 64)) == 16
    assert pace.seconds([128], [64])[0] == pace.seconds([128], [16])[0]


def test_one_measured_number_of_gpus_is_told():
    b, n, t = rows_of(ScaleOutForm(), [2.0, 0.02], gpus=(4,))
    fit = fit_scale_out(b, n, t)
    assert "lower bounds" in fit.warnings[0]
    with pytest.raises(LawError, match=r"gpus=2 lies below the measured n \(4\)"):
        plan_gpus(LAW, fit, [2, 8])


def test_price_must_be_above_zero():
    with pytest.raises(LawError, match="price=0; it must be above 0"):
        plan_gpus(LAW, PACE, [8], price_per_gpu_hour=0.0)


def test_keeping_todays_batch_costs_what_it_takes_longer():
    row = plan_gpus(LAW, PACE, [64], today=200, price_per_gpu_hour=3.0)[0]
    assert row.kept_time == pytest.approx(618.75, rel=1e-12)  # 300 updates of 2.0625 s
    assert row.kept_bill == pytest.approx(64 * (618.75 - row.time_to_target) / 3600)


def test_only_rows_that_none_beats_in_time_and_money_are_on_the_front():
    rows = plan_gpus(
        LAW, exact_scale_out(2.0, 0.02, communication_seconds=0.005, form="linear"), [1, 4, 16, 64, 1024]
    )
    assert [r.is_front for r in rows] == [True, True, True, True, False]


def test_interval_of_the_plan_holds_the_uncertainty_of_the_samples():
    sizes = np.repeat([64.0, 256.0, 1024.0, 4096.0], 2)
    noise = np.exp(0.1 * np.random.default_rng(0).standard_normal(8))
    row = plan_gpus(fit_samples(sizes, LAW.samples(sizes) * noise), PACE, [16])[0]
    low, high = row.interval
    assert low < row.time_to_target < high
    assert high / low > 1.05


@pytest.mark.parametrize("seed", [3, 11])
def test_event_simulation_at_64_gpus_is_predicted_from_8(seed):
    _, ratio, width = trial(seed)
    assert 0.6 < ratio < 1.6
    assert width < 4


@pytest.mark.slow
def test_event_simulation_lies_in_the_interval_in_most_cases():
    inside = sum(trial(seed)[0] for seed in range(40))
    assert inside >= 33
