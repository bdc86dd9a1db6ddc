"""What a person does to a sweep from outside of its controller."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from tests.run.fake_cluster import Behaviour
from tests.run.sweeps import Killed, Sweep, settings

from batchscout.errors import SweepError, SweepLocked
from batchscout.measure.outcome import Outcome
from batchscout.run.actions import cancel, retry, status
from batchscout.run.settings import ExitCode

RAISES = Behaviour(seconds=1, outcome="failed", reason="exception", message="ValueError: x", updates=0)
OOM = Behaviour(seconds=1, outcome="infeasible", reason="oom_gpu", message="oom_gpu in sampling: CUDA")


def killed_after(sweep: Sweep, rounds: int) -> None:
    count = itertools.count()

    def kill() -> None:
        if next(count) == rounds:
            raise Killed

    sweep.cluster.on_wait = kill


def test_status_needs_no_controller(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    killed_after(sweep, 3)
    with pytest.raises(Killed):
        sweep.run(settings(slots=2))
    seen = status(sweep.path)
    assert seen.sweep == "test/now"
    assert seen.controller is None
    assert [job.outcome for job in seen.jobs] == [
        Outcome.RUNNING,
        Outcome.RUNNING,
        Outcome.QUEUED,
        Outcome.QUEUED,
    ]
    assert seen.jobs[0].node == "n1"
    assert seen.jobs[0].score == pytest.approx(0.1)


def test_status_of_no_sweep_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(SweepError, match="runs/NAME/TIME"):
        status(tmp_path)


def test_cancelling_beside_a_controller_ends_jobs_and_keeps_the_rest(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    told: list[str] = []

    def on_wait() -> None:
        if not told:
            told.extend(cancel(sweep.path, ["b64-lr0.001-s0", "b512-lr0.001-s0"]))

    sweep.cluster.on_wait = on_wait
    assert sweep.run(settings()) is ExitCode.OK
    assert told == ["b64-lr0.001-s0", "b512-lr0.001-s0"]
    assert sweep.outcomes == {
        "b64-lr0.001-s0": "cancelled",
        "b128-lr0.001-s0": "reached",
        "b256-lr0.001-s0": "reached",
        "b512-lr0.001-s0": "cancelled",
    }
    assert "b512-lr0.001-s0" not in sweep.cluster.submits()


def test_cancelling_without_a_controller_needs_the_executor(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    killed_after(sweep, 3)
    with pytest.raises(Killed):
        sweep.run(settings(slots=2))
    with pytest.raises(SweepError, match="executor"):
        cancel(sweep.path, ["b64-lr0.001-s0"])
    assert len(cancel(sweep.path, executor=sweep.cluster, clock=sweep.clock)) == 4
    assert {job.outcome for job in status(sweep.path).jobs} == {Outcome.CANCELLED}
    sweep.cluster.on_wait = lambda: None
    assert sweep.run(settings(slots=2)) is ExitCode.OK
    assert len(sweep.cluster.submits()) == 2


def test_an_unknown_job_is_named(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.run(settings())
    with pytest.raises(SweepError, match="b7"):
        cancel(sweep.path, ["b7"])


def test_c16_retry_takes_what_the_infrastructure_did_and_the_rest_when_forced(tmp_path: Path) -> None:
    lost = Behaviour(seconds=1, outcome=None, detail="NODE_FAIL", updates=0)
    bad = {64: lost, 128: RAISES, 512: OOM}
    sweep = Sweep(tmp_path, lambda job, attempt: bad.get(job["batch_size"], Behaviour()))
    sweep.run(settings(max_requeues=0))
    before = {job.job_id: (job.outcome, job.reason) for job in status(sweep.path).jobs}
    assert before["b64-lr0.001-s0"] == (Outcome.FAILED, "node_failure")
    assert before["b512-lr0.001-s0"] == (Outcome.INFEASIBLE, "oom_gpu")
    assert retry(sweep.path) == ["b64-lr0.001-s0"]
    sweep.cluster.behave = lambda job, attempt: Behaviour()
    sweep.run(settings(max_requeues=0))
    assert sweep.outcomes["b64-lr0.001-s0"] == "reached"
    assert sweep.outcomes["b128-lr0.001-s0"] == "failed"
    assert retry(sweep.path, is_forced=True) == ["b128-lr0.001-s0", "b512-lr0.001-s0"]
    sweep.run(settings(max_requeues=0))
    assert set(sweep.outcomes.values()) == {"reached"}


def test_c29_a_retry_is_a_further_attempt_of_the_same_job(tmp_path: Path) -> None:
    sweep = Sweep(
        tmp_path, lambda job, attempt: RAISES if attempt == 0 and job["batch_size"] == 64 else Behaviour()
    )
    sweep.run(settings())
    assert retry(sweep.path, ["b64-lr0.001-s0"]) == ["b64-lr0.001-s0"]
    assert sweep.run(settings()) is ExitCode.OK
    row = sweep.result["jobs"][0]
    assert (row["id"], row["outcome"], row["attempts"]) == ("b64-lr0.001-s0", "reached", 2)
    assert len(sweep.result["jobs"]) == 4


def test_what_reached_the_target_is_not_retried(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.run(settings())
    with pytest.raises(SweepError, match="reached the target"):
        retry(sweep.path, ["b64-lr0.001-s0"])
    assert retry(sweep.path) == []


def test_retry_waits_for_the_controller_to_leave(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    refused: list[bool] = []

    def on_wait() -> None:
        with pytest.raises(SweepLocked):
            retry(sweep.path)
        refused.append(True)

    sweep.cluster.on_wait = on_wait
    sweep.run(settings(batch_sizes=(64,)))
    assert refused
