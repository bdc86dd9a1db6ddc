"""A controller in a process of its own is killed, ended, or loses its terminal at random instants."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import pytest
from tests.run.fake_cluster import Behaviour
from tests.run.sweeps import Sweep, settings

from batchscout.clock import RealClock
from batchscout.run.settings import ExitCode

BATCH_SIZES = tuple(8 * i for i in range(1, 21))


def make(path: Path) -> Sweep:
    sweep = Sweep(path, lambda job, attempt: Behaviour(seconds=0.2), clock=RealClock())
    sweep.cluster.step = 0.02
    return sweep


def controller(path: Path) -> None:
    make(path).run(settings(batch_sizes=BATCH_SIZES, slots=2, poll_seconds=(0.02, 0.02)))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_c43_nothing_is_lost_and_nothing_runs_twice(tmp_path: Path, number: signal.Signals) -> None:
    draw = random.Random(number)
    fork = multiprocessing.get_context("fork")  # what was imported need not be imported again
    for _ in range(10 if number is signal.SIGKILL else 3):
        process = fork.Process(target=controller, args=(tmp_path,))
        process.start()
        time.sleep(draw.uniform(0.0, 0.4))
        assert process.pid is not None
        os.kill(process.pid, number)
        process.join(20)
        assert process.exitcode is not None
    sweep = make(tmp_path)
    assert sweep.run(settings(batch_sizes=BATCH_SIZES, slots=2, poll_seconds=(0.02, 0.02))) is ExitCode.OK
    assert sorted(sweep.cluster.submits()) == sorted(f"b{b}-lr0.001-s0" for b in BATCH_SIZES)
    assert set(sweep.outcomes.values()) == {"reached"}
    assert sweep.result["status"] == "complete"
    assert {row["attempts"] for row in sweep.result["jobs"]} == {1}
