"""kill -9 of the controller and of real jobs at random instants, ten times in a row."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.run.sweeps import settings
from tests.synthetic_jobs import job_config

from batchscout.clock import RealClock
from batchscout.config import HardwareConfig
from batchscout.measure.curve import Curve
from batchscout.measure.journal import read_journal
from batchscout.run.api import run_sweep
from batchscout.run.executors import make_executor
from batchscout.run.record import read_sweep
from batchscout.run.settings import ExitCode, SweepSettings
from batchscout.search.factory import build_search
from batchscout.search.protocol import Point

BATCH_SIZES = (16, 32, 48, 64, 80, 96)


def wanted() -> SweepSettings:
    """Six jobs of the synthetic trainer: S ≈ 2000 rollouts, 20 to 125 updates, a checkpoint every 0.2 s."""

    def config(point: Point, seed: int) -> dict[str, Any]:
        trainer = {"s_min": 2000, "a": 0.004, "b": 0.0004}
        own: dict[str, Any] = {
            "batch_size": point.batch_size,
            "mini_batch_size": point.batch_size,
            "seed": seed,
        }
        return {
            **job_config(trainer),
            **own,
            "checkpoint_every_seconds": 0.2,
            "evaluation": {"samples": 256, "prompts": 4096},
        }

    plain = settings(batch_sizes=BATCH_SIZES, lrs=(1.414e-4,), slots=2, max_requeues=20, max_failures=6)
    return replace(plain, job_config=config, poll_seconds=(0.05, 0.2), grace_seconds=0.5)


def run(path: Path) -> ExitCode:
    asked = wanted()
    executor = make_executor(HardwareConfig(slots=2), clock=RealClock(), working_directory=path.parent)
    return run_sweep(
        asked, path, executor=executor, search=build_search("grid", asked.context), command=["x"]
    )


def running_workers(path: Path) -> list[int]:
    """Process ids that the journals of unfinished attempts tell."""
    found = []
    for journal in path.glob("jobs/*/attempts/*/journal.jsonl"):
        events = read_journal(journal)
        if events and events[-1]["event"] != "end" and Path(f"/proc/{events[0]['pid']}").exists():
            found.append(int(events[0]["pid"]))
    return found


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_jobs_and_controllers_that_die_leave_the_same_sweep(tmp_path: Path) -> None:
    path, draw = tmp_path / "test" / "now", random.Random(5)
    fork = multiprocessing.get_context("fork")
    kills = 0
    controller = fork.Process(target=run, args=(path,))
    controller.start()
    while kills < 10:
        time.sleep(draw.uniform(0.1, 0.6))
        if kills % 2:
            assert controller.pid is not None
            os.kill(controller.pid, signal.SIGKILL)
            controller.join()
            controller = fork.Process(target=run, args=(path,))
            controller.start()
            kills += 1
        elif workers := running_workers(path):
            os.kill(draw.choice(workers), signal.SIGKILL)
            kills += 1
        elif not controller.is_alive():
            break
    controller.join(60)
    assert controller.exitcode == 0
    assert run(path) is ExitCode.OK  # unchanged and finished: exits as it did
    view = read_sweep(path)
    assert view.result["status"] == "complete"
    assert [j.point.batch_size for j in view.jobs] == list(BATCH_SIZES)
    assert {j.outcome for j in view.jobs} == {"reached"}
    assert kills == 10
    assert sum(row["attempts"] for row in view.result["jobs"]) > len(BATCH_SIZES)
    for job in view.jobs:
        assert_is_one_trajectory(path / "jobs" / job.job_id, job.curve)


def assert_is_one_trajectory(directory: Path, curve: Curve | None) -> None:
    """Samples and seconds never fall, every update is there once, and each attempt had one writer."""
    assert curve is not None
    assert (curve.update_samples[1:] > curve.update_samples[:-1]).all()
    assert (curve.update_end_seconds[1:] >= curve.update_end_seconds[:-1]).all()
    assert len(curve.update_samples) == curve.total_updates
    for journal in directory.glob("attempts/*/journal.jsonl"):
        starts = [e for e in read_journal(journal) if e["event"] == "start"]
        assert len(starts) == 1
