from __future__ import annotations

from pathlib import Path

import pytest

from batchscout.clock import VirtualClock
from batchscout.errors import TrainerError
from batchscout.measure.journal import read_journal
from batchscout.measure.reporter import Reporter
from batchscout.measure.target import Caps, EvaluationGrid, Target
from batchscout.train.adapters import LoopCallback


def reporter_in(directory: Path, clock: VirtualClock) -> Reporter:
    return Reporter.open(
        directory,
        identity={"job": "j", "batch_size": 10, "lr": 1e-3, "seed": 0, "group_size": 2},
        target=Target(score=0.5),
        caps=Caps(updates=100),
        evaluation=EvaluationGrid(20),
        clock=clock,
        checkpoint_every_seconds=30.0,
    )


def test_a_foreign_loop_is_timed_evaluated_saved_and_stopped(tmp_path: Path) -> None:
    clock = VirtualClock()
    reporter = reporter_in(tmp_path, clock)
    callback = LoopCallback(
        reporter,
        evaluate=lambda: (reporter.samples / 100, 50),
        save=lambda directory: (directory / "model").write_text("weights"),
    )
    callback.on_train_begin()
    while not callback.is_over:
        callback.on_phase("sampling")
        clock.sleep(3)
        callback.on_phase("learning")
        clock.sleep(4)
        callback.on_update_end(samples=10, metrics={"loss": 1.0})
        clock.sleep(1)
    callback.on_train_end()
    events = read_journal(reporter.attempt_dir / "journal.jsonl")
    assert (events[-1]["outcome"], events[-1]["samples"]) == ("reached", 80)  # 0.6 and 0.8 are at the target
    last = [event for event in events if event["event"] == "update"][-1]
    assert (last["sampling_seconds"], last["learning_seconds"], last["other_seconds"]) == (24, 32, 7)
    checkpoints = sorted(tmp_path.glob("checkpoint/*/model"))
    assert checkpoints
    assert checkpoints[0].read_text() == "weights"


def test_an_unknown_phase_is_refused(tmp_path: Path) -> None:
    callback = LoopCallback(reporter_in(tmp_path, VirtualClock()), evaluate=lambda: (0.0, 1))
    with pytest.raises(TrainerError, match="phase=thinking is unknown; use one of sampling, reward"):
        callback.on_phase("thinking")
