"""What result.json's laws say beyond the laws themselves: noise scale, levels, flips."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.run.fake_cluster import Behaviour
from tests.run.sweeps import Sweep, settings

from batchscout.laws import SquaredNorms, predicted_b_crit
from batchscout.measure.outcome import Outcome
from batchscout.measure.target import Target
from batchscout.run.journals import JournalView
from batchscout.run.laws_part import laws_of_jobs, squared_norms
from batchscout.schemas import validate


def watched(batch_size: int, *attempts: list[dict[str, Any]], outcome: Outcome = Outcome.REACHED) -> Any:
    record = SimpleNamespace(job=SimpleNamespace(point=SimpleNamespace(batch_size=batch_size)))
    return SimpleNamespace(record=record, outcome=outcome, view=JournalView(list(attempts)))


def update(number: int, small: float | None = 84.0, big: float = 9.0) -> dict[str, Any]:
    metrics = {
        "gradient_square_small": small,
        "gradient_square_big": big,
        "noise_scale_small_size": 8,
        "noise_scale_big_size": 128,
    }
    return {"event": "update", "updates": number, "metrics": metrics}


def test_norms_come_from_the_journals_once_each() -> None:
    plain = {"event": "update", "updates": 2, "metrics": {"reward": 0.5}}
    jobs = [
        watched(128, [update(1), plain], [update(1), update(3, small=None)]),
        watched(256, [update(1)], outcome=Outcome.DIVERGED),
        watched(512, [{"event": "start"}, {"event": "update", "updates": 1}]),
    ]
    assert squared_norms(jobs) == [SquaredNorms(128, 8, 128, 84.0, 9.0)]


def test_the_predicted_b_crit_is_held_against_the_measured_one() -> None:
    norms = [SquaredNorms(128, 8, 128, 84.0 + x, 9.0 + x / 16) for x in (-2.0, 0.0, 2.0)]
    samples = {"b_crit": 200.0, "b_crit_interval": [100.0, 400.0], "target": 0.7}
    found = predicted_b_crit(norms, samples)
    assert found is not None
    assert found["b_noise"] == pytest.approx(160)  # |G|² = 4, tr Σ = 640
    assert found["pairs"] == 3
    assert found["by_batch"][0]["batch_size"] == 128
    assert found["b_crit_ratio"] == pytest.approx(0.8)
    assert found["comparison"] == (
        "gradients predict b_crit=160, measured is 200 at target 0.7: they agree within their intervals"
    )
    far = predicted_b_crit(norms, {"b_crit": 1600.0, "b_crit_interval": [1000.0, None], "target": 0.7})
    assert far is not None
    assert far["comparison"].endswith("the prediction is a factor 10 below it")
    alone = predicted_b_crit(norms, None)
    assert alone is not None
    assert alone["comparison"].endswith("none was measured to hold against it")
    assert predicted_b_crit([], samples) is None


def test_noise_scale_enters_the_laws_and_its_warning_theirs() -> None:
    laws = laws_of_jobs([], Target(0.8), [SquaredNorms(128, 8, 128, 84.0, 5.0)])
    assert laws["noise_scale"]["b_noise"] is None
    assert any("unresolved" in warning for warning in laws["warnings"])
    assert laws_of_jobs([], Target(0.8))["noise_scale"] is None


def test_levels_say_who_never_reached_them_and_where_the_answer_moves(tmp_path: Path) -> None:
    def behave(job: dict[str, Any], attempt: int) -> Behaviour:
        size = job["config"]["batch_size"]
        if size == 512:  # fast, but it never gets to the target
            return Behaviour(seconds=4, peak=0.7, outcome="capped")
        return Behaviour(seconds=10 + 1000 / size)

    sweep = Sweep(tmp_path, behave)
    sweep.run(settings(target=Target(0.8, levels=(0.5,))))
    result = sweep.result
    validate("result", result)
    (level,) = result["levels"]
    assert level["recommendation"]["batch_size"] == 512
    assert level["never_reached"] == []
    assert level["samples"]["target"] == 0.5
    assert result["recommendation"]["batch_size"] == 256
    assert any("moves from 512 at target 0.5 to 256 at 0.8" in w for w in result["laws"]["warnings"])
    again = Sweep(tmp_path / "hard", behave)
    again.run(settings(target=Target(0.6, levels=(0.8, 0.95))))
    assert [(x["target"], x["never_reached"]) for x in again.result["levels"]] == [
        (0.8, [512]),
        (0.95, [64, 128, 256, 512]),
    ]
