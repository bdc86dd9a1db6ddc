"""The MLPerf GRPO scan: three batch sizes, six seeds, every run at the target by its first evaluation."""

from __future__ import annotations

import numpy as np
import pytest

from batchscout.laws import (
    SamplesLaw,
    best_batch,
    compare_batches,
    fit_samples,
    fit_table,
    fit_update_seconds,
    invariance,
    olympic_mean,
    optimum,
    probability_of_least,
    welch_log,
)

pytestmark = pytest.mark.published

RULE = SamplesLaw(3840.0, 1536.0)


@pytest.fixture
def runs(table):
    return table("mlperf_grpo_runs.csv")


def times(runs, column):
    return {b: [float(r[column]) for r in runs if int(r["gbs"]) == b] for b in (256, 512, 1024)}


def as_table(runs, *, censored, column):
    """The runs as a user would give them to `batchscout fit`."""
    lines = ["batch_size,seed,samples_to_target,censored,update_seconds"]
    for r in runs:
        updates = float(r["samples_at_first_eval"]) / float(r["gbs"])
        lines.append(
            f"{r['gbs']},{r['seed']},{r['samples_at_first_eval']},{censored},{float(r[column]) / updates}"
        )
    return "\n".join(lines) + "\n"


def test_mean_run_seconds(runs):
    means = {b: np.mean(t) for b, t in times(runs, "run_s").items()}
    assert means == pytest.approx({256: 9668.571, 512: 8376.870, 1024: 9022.730}, abs=0.001)
    olympic = {b: olympic_mean(t) for b, t in times(runs, "run_s").items()}
    assert olympic == pytest.approx({256: 9666.65475, 512: 8420.35575, 1024: 8971.26725}, abs=0.01)


@pytest.mark.parametrize(
    ("column", "chance", "p"), [("run_s", 0.999, 0.0364), ("train_phase_s", 0.995, 0.0454)]
)
def test_512_is_best_with_1024_in_the_tie_set_evaluation_included_or_not(runs, column, chance, p):
    measured = times(runs, column)
    assert probability_of_least(measured)[512] == pytest.approx(chance, abs=0.01)
    assert welch_log(measured[512], measured[1024]) == pytest.approx(p, abs=0.0001)
    found = compare_batches(measured)
    assert found.batch_size == 512
    assert found.near_ties == (512, 1024)
    assert compare_batches(measured, level=0.95).near_ties == (512,)
    # Student's draws do not share the bootstrap's overconfidence with six runs.
    assert 0.9 < found.probability[512] < probability_of_least(measured)[512]


def test_left_censored_rows_give_bounds_that_hold_the_rule(runs):
    fit = fit_samples(
        [float(r["gbs"]) for r in runs],
        [float(r["samples_at_first_eval"]) for r in runs],
        censored=["left"] * len(runs),
    )
    assert fit.law is None
    assert fit.s_min is None
    assert fit.s_min_interval == (None, 4608.0)
    assert fit.b_crit_interval == (None, None)
    assert fit.interval(512) == (None, 5120.0)
    assert any("left-censored" in w for w in fit.warnings)


def test_the_naive_fit_is_biased(runs):
    fit = fit_samples([256, 512, 1024], [4608, 5120, 7168])
    assert (fit.s_min, fit.b_crit) == pytest.approx((3653, 1106), rel=1e-3)
    assert fit.s_min / fit.b_crit == pytest.approx(3.30, abs=0.01)
    every_run = fit_samples(
        [float(r["gbs"]) for r in runs], [float(r["samples_at_first_eval"]) for r in runs]
    )
    assert every_run.s_min_interval[1] < RULE.s_min, (
        "as exact rows, the rule's S_min lies outside the interval"
    )


@pytest.mark.parametrize("column", ["run_s", "train_phase_s"])
def test_the_table_recommends_512_with_left_censoring_respected(runs, column):
    found = fit_table(as_table(runs, censored="left", column=column))
    assert found["samples"]["s_min"] is None
    assert found["samples"]["s_min_interval"] == [None, 4608.0]
    best = found["recommendation"]
    assert best["batch_size"] == 512
    assert best["near_ties"] == [512, 1024]
    low, high = best["interval"]
    assert low < np.mean(times(runs, column)[512]) < high


def test_update_seconds_and_the_best_batch_of_the_rule():
    pace = fit_update_seconds([256, 512, 1024], [477.1558, 731.1901, 1121.7742])
    assert pace.total.a == pytest.approx(281.8637, rel=1e-5)
    assert pace.total.b == pytest.approx(0.8284201, rel=1e-5)
    continuous = best_batch(RULE, pace)
    assert continuous.continuous_batch_size == pytest.approx(722.919, rel=1e-5)
    assert continuous.time_to_target == pytest.approx(6880.2, rel=1e-4)
    exact = optimum(RULE.s_min, RULE.b_crit, 281.86374, 0.8284201)
    assert (exact.batch_size, exact.time_to_target) == pytest.approx((722.919, 6880.198), rel=1e-6)


def test_whole_updates_decide_between_512_and_1024(runs):
    pace = fit_update_seconds([256, 512, 1024], [477.1558, 731.1901, 1121.7742])
    smooth = best_batch(RULE, pace, candidates=[256, 512, 1024])
    assert smooth.times[1:] == pytest.approx((7060, 7064), abs=1)
    whole = best_batch(RULE, pace, candidates=[256, 512, 1024], round_updates=True)
    assert whole.times == pytest.approx((8890.9, 7060.1, 7911.5), abs=0.5)
    measured = [np.mean(t) for t in times(runs, "train_phase_s").values()]
    assert measured == pytest.approx([8588.8, 7311.9, 7852.4], abs=0.1)
    assert whole.times == pytest.approx(measured, rel=0.04)
    assert whole.batch_size == 512
    assert best_batch(RULE, pace, candidates=[512, 1024], round_updates=True).updates_to_target == 10


def test_few_updates_are_warned_of():
    pace = fit_update_seconds([256, 512, 1024], [477.1558, 731.1901, 1121.7742])
    found = best_batch(RULE, pace, candidates=[1024, 2048])
    assert any("updates to target" in w and "10%" in w for w in found.warnings)


def test_policy_training_is_affine_in_the_batch_size(table):
    steps = [r for r in table("mlperf_grpo_steps.csv") if int(r["step"]) >= 2]
    size = np.array([float(r["gbs"]) for r in steps])
    means = [np.mean([float(r["policy_s"]) for r in steps if float(r["gbs"]) == b]) for b in (256, 512, 1024)]
    assert means == pytest.approx([69.1, 127.8, 243.0], abs=0.1)
    pace = fit_update_seconds(
        size,
        [float(r["train_step_s"]) for r in steps],
        learning=[float(r["policy_s"]) for r in steps],
        sampling=[float(r["exposed_gen_s"]) for r in steps],
    )
    assert pace.learning.b == pytest.approx(0.226, abs=0.002)
    assert pace.learning.a == pytest.approx(11.4, abs=1.0)


def test_training_reward_over_samples_shifts_as_the_rule_says(table):
    curves = {}
    for r in table("mlperf_grpo_steps.csv"):
        runs = curves.setdefault(int(r["gbs"]), {})
        # A step's reward belongs to the policy before its update.
        runs.setdefault(r["seed"], []).append(((int(r["step"]) - 1) * int(r["gbs"]), float(r["reward"])))
    found = invariance(
        {b: [tuple(np.array(run).T) for run in seeds.values()] for b, seeds in curves.items()}, tolerance=0.35
    )
    by_batch = {d.batch_size: d for d in found.distances}
    low, high = by_batch[512].interval
    assert low < np.log(RULE.samples([512])[0] / RULE.samples([256])[0]) < high
    assert by_batch[512].is_invariant
    assert by_batch[1024].is_invariant is False
    assert found.invariant == (256, 512)
