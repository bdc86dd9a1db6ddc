"""Recorded sweeps: read to the digit, and a journal's curve comes back equal."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from batchscout.errors import CurveError
from batchscout.measure import Curve, Target
from batchscout.schemas import validate

T7 = Target(0.7)
RECORD = {
    "batch_size": 8,
    "learning_rate": 1e-3,
    "seed": 0,
    "status": "reached",
    "samples": [16, 32, 48],
    "seconds": [4.0, 9.0, 13.0],
    "sampling_seconds": [1.0, 2.0, 3.0],
    "score": [0.5, 0.8, 0.9],
}


def test_record_is_measured_to_the_digit() -> None:
    curve = Curve.from_recorded(RECORD)
    found = curve.measure(T7)
    assert found.samples_to_target == pytest.approx(16 + 16 * 0.2 / 0.3)
    assert found.time_to_target == pytest.approx(4 + 5 * 0.2 / 0.3)
    assert found.update_seconds == pytest.approx(13 / 6)
    assert found.sampling_share == pytest.approx(3 / 13)
    assert found.wall_seconds_to_target is None
    assert curve.update_samples.tolist() == [8, 16, 24, 32, 40, 48]
    assert curve.update_seconds_each.tolist() == [2, 2, 2.5, 2.5, 2, 2]
    assert curve.parts["learning"].tolist() == [1.5, 1.5, 2, 2, 1.5, 1.5]
    assert (curve.total_updates, curve.total_samples, curve.total_seconds) == (6, 48, 13)


def test_clock_of_a_recording_can_be_read_between_and_before_evaluations() -> None:
    curve = Curve.from_recorded(RECORD)
    assert [curve.seconds_at(s) for s in (0, 8, 24)] == [0, 2, 6.5]
    with pytest.raises(CurveError, match="clock=wall is not in this recording"):
        curve.seconds_at(24, "wall")


def test_job_that_never_ran_is_an_empty_curve() -> None:
    empty = {
        **RECORD,
        "status": "infeasible",
        "samples": [],
        "seconds": [],
        "sampling_seconds": [],
        "score": [],
    }
    curve = Curve.from_recorded(empty)
    assert (curve.total_updates, curve.measure(T7).censored) == (0, "right")


def test_evaluations_closer_than_an_update_keep_one_update_each() -> None:
    record = {**RECORD, "batch_size": 64, "samples": [64, 128, 192]}
    assert Curve.from_recorded(record).update_seconds_each.tolist() == [4, 5, 4]


def test_stated_update_seconds_win() -> None:
    assert Curve.from_recorded({**RECORD, "update_seconds": 1.75}).measure(T7).update_seconds == 1.75
    told = Curve.from_recorded({**RECORD, "update_seconds": [1, 3, 2.5, 2.5, 2, 2]})
    assert told.update_seconds_each.tolist() == [1, 3, 2.5, 2.5, 2, 2]


@pytest.mark.parametrize(
    "change",
    [
        {"seconds": [4.0, 9.0]},
        {"samples": [16, 16, 48]},
        {"seconds": [4.0, 3.0, 13.0]},
        {"wall_seconds": [1.0]},
    ],
)
def test_records_that_are_no_curve_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(CurveError):
        Curve.from_recorded({**RECORD, **change})


def test_record_comes_back_to_the_digit() -> None:
    curve = Curve.from_recorded(RECORD)
    again = curve.to_recorded(learning_rate=1e-3, seed=0, status="reached")
    assert {k: again[k] for k in RECORD} == RECORD


def test_journal_exported_and_replayed_measures_the_same(made: Any) -> None:
    random = np.random.default_rng(0)
    journal = made().evaluation(0.1)
    for index in range(30):
        journal.update(float(random.gamma(3)), float(random.gamma(2)), warmup=index == 0)
        journal.evaluation(min(1.0, 0.1 + index / 40 + float(random.normal(0, 0.05))), score_n=50 + index)
    journal.update(1.0)
    curve = Curve.from_attempts([journal.events])
    record = json.loads(json.dumps(curve.to_recorded(learning_rate=1e-3, seed=3, status="stopped")))
    validate("recorded", record)
    again = Curve.from_recorded(record)
    for key in (
        "samples",
        "score",
        "score_n",
        "seconds",
        "sampling_seconds",
        "evaluation_seconds",
        "wall_seconds",
    ):
        assert getattr(again, key).tolist() == getattr(curve, key).tolist()
    assert (again.total_samples, again.total_seconds) == (curve.total_samples, curve.total_seconds)
    for clock in ("training", "training_evaluation", "wall"):
        target = Target(0.7, clock=clock)
        ours, theirs = curve.measure(target), again.measure(target)
        for key in (
            "samples_to_target",
            "time_to_target",
            "wall_seconds_to_target",
            "throughput",
            "update_seconds",
        ):
            assert getattr(ours, key) == getattr(theirs, key)


def test_score_that_was_not_finite_is_null(made: Any) -> None:
    curve = Curve.from_attempts([made().evaluation(0.1).update(1).evaluation(None).events])
    record = curve.to_recorded(learning_rate=1e-3, seed=0, status="diverged")
    assert record["score"] == [0.1, None]
    assert np.isnan(Curve.from_recorded(record).score[1])


def test_only_what_the_format_knows_is_recorded(made: Any) -> None:
    curve = Curve.from_attempts([made().update(1).events])
    with pytest.raises(CurveError, match="status=failed cannot be recorded"):
        curve.to_recorded(learning_rate=1e-3, seed=0, status="failed")
    with pytest.raises(CurveError, match="batch_size is unknown"):
        Curve.from_attempts([]).to_recorded(learning_rate=1e-3, seed=0, status="capped")
