"""What a job's process makes of its trainer; without a process of its own."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.synthetic_jobs import JobMaker, events, job_maker, outcome

from batchscout.clock import RealClock
from batchscout.errors import InfeasibleError
from batchscout.measure.reporter import Reporter
from batchscout.run.executors.debug import DebugExecutor
from batchscout.run.worker import run_attempt
from batchscout.train import synthetic

TRAINERS = "tests.run.test_worker"


@pytest.fixture
def make_job(tmp_path: Path) -> JobMaker:
    return job_maker(tmp_path)


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trainers below are found by name, as a user's are."""
    monkeypatch.setitem(sys.modules, TRAINERS, sys.modules[__name__])


def does_not_fit(config: Mapping[str, Any], reporter: Reporter) -> None:
    raise InfeasibleError("arithmetic", "64 rollouts cannot be shared by 7 GPUs")


def signals_itself(config: Mapping[str, Any], reporter: Reporter) -> None:
    """As a preemption does, in the middle of an update."""
    with reporter.sampling():
        os.kill(os.getpid(), signal.SIGTERM)
    reporter.end_update(samples=16)
    assert reporter.should_stop()
    with reporter.checkpoint() as path:
        (path / "x").write_text("saved")


def returns_early(config: Mapping[str, Any], reporter: Reporter) -> None:
    return


def runs_out_of_memory_in_sampling(config: Mapping[str, Any], reporter: Reporter) -> None:
    with reporter.sampling():
        raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")


def end_of(job: Path) -> dict[str, Any]:
    return events(job)[-1][-1]


def test_a_batch_that_cannot_run_here_is_infeasible(make_job: JobMaker) -> None:
    job = make_job(function=f"{TRAINERS}:does_not_fit")
    assert run_attempt(str(job)) == 0
    assert (end_of(job)["outcome"], end_of(job)["reason"]) == ("infeasible", "arithmetic")


def test_a_signal_ends_the_job_after_a_checkpoint(make_job: JobMaker) -> None:
    job = make_job(function=f"{TRAINERS}:signals_itself")
    before = signal.getsignal(signal.SIGTERM)
    assert run_attempt(str(job)) == 0
    assert [e["event"] for e in events(job)[0]] == ["start", "update", "checkpoint", "end"]
    assert end_of(job)["outcome"] == "preempted"
    assert signal.getsignal(signal.SIGTERM) is before, "handlers are the caller's again"


def test_out_of_memory_names_the_phase(make_job: JobMaker) -> None:
    job = make_job(function=f"{TRAINERS}:runs_out_of_memory_in_sampling")
    run_attempt(str(job))
    assert end_of(job)["reason"] == "oom_gpu"
    assert end_of(job)["message"].startswith("oom_gpu in sampling: RuntimeError: CUDA out of memory")


def test_a_trainer_that_cannot_be_imported_is_a_failure_in_the_journal(make_job: JobMaker) -> None:
    job = make_job(function="no_such_package.trainer:train")
    assert run_attempt(str(job)) == 1
    assert end_of(job)["outcome"] == "failed"
    assert "no_such_package" in end_of(job)["message"]


def test_a_trainer_that_returns_before_it_may_has_failed(make_job: JobMaker) -> None:
    job = make_job(function=f"{TRAINERS}:returns_early")
    run_attempt(str(job))
    assert end_of(job)["outcome"] == "failed"


def test_a_probe_ends_after_its_updates(make_job: JobMaker) -> None:
    job = make_job(s_min=1e6, extra={"updates_limit": 3})
    run_attempt(str(job))
    assert (end_of(job)["outcome"], end_of(job)["updates"]) == ("capped", 3)


def test_a_job_goes_on_from_its_checkpoint(make_job: JobMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    job, whole = make_job("a"), make_job("whole")
    with monkeypatch.context() as patch:
        patch.setattr(synthetic.SyntheticJob, "update", _preempted_after(5))
        run_attempt(str(job))
    run_attempt(str(job))
    run_attempt(str(whole))
    assert [a[-1]["outcome"] for a in events(job)] == ["preempted", "reached"]
    scores = [[e["score"] for a in events(j) for e in a if e["event"] == "evaluation"] for j in (job, whole)]
    assert scores[0] == scores[1], "the same as in one piece"


def _preempted_after(updates: int) -> Any:
    real = synthetic.SyntheticJob.update

    def update(self: synthetic.SyntheticJob, reporter: Reporter) -> None:
        real(self, reporter)
        if reporter.updates == updates:
            reporter.request_preemption()

    return update


def test_the_debug_executor_runs_jobs_in_this_process(make_job: JobMaker) -> None:
    job = make_job()
    executor = DebugExecutor(clock=RealClock())
    submission = executor.submit(job, name="s-a-1")
    status = executor.poll([submission])["a"]
    assert (status.state, status.detail, outcome(job)) == ("ended", "COMPLETED", "reached")
    assert events(job)[0][0]["pid"] == os.getpid()
    assert executor.find("s-a-1") is None
