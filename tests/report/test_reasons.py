"""Each decision in words: against a sweep that was made up, and one that the search itself ran on a recorded world."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.made_world import MadeWorld
from tests.run.test_killed_search import run

from batchscout.report import write_report
from batchscout.report.reasons import reasons, uncertain, why_ended
from batchscout.report.sweep import Sweep
from batchscout.run.recorded import RecordedSweep

WORLD = MadeWorld(batch_sizes=(32, 128, 512, 2048), lrs=(2e-4, 4e-4, 8e-4), s_min=8000.0)


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("searched")
    recording = RecordedSweep.read(WORLD.write(path / "world.jsonl"))
    assert run(recording, path / "sweep", "time_to_target", slots=1)
    return path / "sweep"


def test_every_job_of_a_search_says_why_it_ran_and_how_it_ended(searched: Path) -> None:
    sweep = Sweep.read(searched)
    entries = reasons(sweep.result, sweep.decisions)
    assert len(entries) == len(sweep.result["jobs"])
    assert all(entry["why"] and entry["end"] for entry in entries)
    stopped = [row for row in sweep.result["jobs"] if row["outcome"] == "stopped"]
    said = "\n".join(entry["end"] for entry in entries)
    assert stopped
    assert all(row["reason"] in said for row in stopped)
    last = [entry["change"] for entry in entries if entry["change"]]
    assert f"batch_size={sweep.result['recommendation']['batch_size']} " in " ".join(last)
    finish = next(e for e in reversed(sweep.decisions) if e["event"] == "finish")
    assert finish["explanation"] in why_ended(sweep.result, sweep.decisions)
    page = write_report(searched).read_text()
    assert "Why these jobs" in page
    assert "What is still uncertain" in page


def row(batch_size: int, lr: float = 1e-3, **keys: Any) -> dict[str, Any]:
    known = {
        "id": f"b{batch_size}-{lr:g}", "kind": "run", "batch_size": batch_size, "lr": lr, "seed": 0,
        "outcome": "reached", "reason": "", "seconds": 10.0, "time_to_target": 9.0, "attempts": 1, "start": 0.0,
    }  # fmt: skip
    return {**known, **keys}


def result(*jobs: dict[str, Any], **answer: Any) -> dict[str, Any]:
    known = {
        "batch_size": 64, "lr": 1e-3, "time_to_target": 10.0, "interval": [9.0, 12.0], "near_ties": [64],
        "probability_best": 0.99, "expected_regret": None,
    }  # fmt: skip
    table = [{"batch_size": size} for size in sorted({job["batch_size"] for job in jobs})]
    return {
        "status": "complete", "recommendation": {**known, **answer}, "jobs": list(jobs), "table": table,
        "recommendations": [],
    }  # fmt: skip


def test_uncertainty_names_ties_edges_and_what_was_only_predicted() -> None:
    said = " ".join(
        uncertain(
            result(
                row(32, outcome="capped"),
                row(64),
                row(64, 2e-3),
                row(128, kind="probe", outcome="capped"),
                near_ties=[32, 64],
                probability_best=0.7,
                expected_regret=0.021,
            )
        )
    )
    assert "Batch size 32 cannot be told from 64" in said
    assert "faster with probability 30%" in said
    assert "lose 2.1% of the time" in said
    assert "-10% to +20%" in said
    assert "One job at the recommended setting" in said
    assert "learning rate is the smallest that was tried at batch size 64" in said
    assert "batch size is the" not in said  # 32 and 128 lie on both sides
    assert "At batch size 128 only the update time" in said
    assert "At batch size 32 one learning rate" in said


def test_a_setting_that_never_ran_is_called_a_prediction() -> None:
    (said, *_) = [text for text in uncertain(result(row(32), row(128))) if "recommended setting" in text]
    assert said == "No job ran at the recommended setting: its time is a prediction."
    assert uncertain({"recommendation": None}) == ["No setting is recommended: nothing reached the target."]


def test_a_running_sweep_has_not_ended() -> None:
    assert why_ended({"status": "running"}, []) == ""
    events = [{"event": "finish", "explanation": "expected regret 0.5%"}]
    assert why_ended({"status": "complete"}, events) == "The sweep is complete: expected regret 0.5%."
    assert why_ended({"status": "exhausted"}, []) == "The sweep ended before its own rule did."
