"""Real processes of this machine."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from tests.synthetic_jobs import JobMaker, events, outcome, wait_for, wait_for_updates, wait_until_ended

from batchscout.clock import RealClock
from batchscout.config import HardwareConfig
from batchscout.run.classify import classify
from batchscout.run.executor import SchedulerState, Submission
from batchscout.run.executors.local import LocalExecutor
from batchscout.run.log import newest_log


@pytest.fixture
def executor(tmp_path: Path) -> LocalExecutor:
    return LocalExecutor(HardwareConfig(), clock=RealClock(), working_directory=tmp_path)


def started_pid(job: Path) -> int:
    """Of the worker, once its journal says so."""

    def pid() -> int | None:
        found = [e["pid"] for attempt in events(job)[-1:] for e in attempt if e["event"] == "start"]
        return int(found[-1]) if found else None

    return int(wait_for(lambda: (job / "attempts").exists() and pid()))


def test_a_job_runs_to_its_target_in_a_process_of_its_own(
    executor: LocalExecutor, make_job: JobMaker
) -> None:
    job = make_job()
    before = time.perf_counter()
    submission = executor.submit(job, name="s-a-1")
    assert time.perf_counter() - before < 0.5, "submitting must not wait for the job"
    assert executor.poll([submission])["a"].state is SchedulerState.RUNNING
    status = wait_until_ended(executor, submission)
    assert (status.detail, status.exit_code) == ("COMPLETED", 0)
    assert outcome(job) == "reached"
    start = events(job)[0][0]
    assert start["pid"] != os.getpid()
    assert 0 < start["startup_seconds"] < 10
    executor.close()


def test_waiting_ends_when_a_job_ends_and_only_once(executor: LocalExecutor, make_job: JobMaker) -> None:
    executor.submit(make_job(), name="s-a-1")
    before = time.perf_counter()
    executor.wait(30)
    assert time.perf_counter() - before < 15
    before = time.perf_counter()
    executor.wait(0.3)
    assert time.perf_counter() - before >= 0.29
    executor.close()


def test_an_exception_is_a_failure_with_its_line_in_the_journal_and_its_traceback_in_the_log(
    executor: LocalExecutor, make_job: JobMaker
) -> None:
    job = make_job(misbehave={"fault": "value_error"})
    status = wait_until_ended(executor, executor.submit(job, name="s-a-1"))
    assert status.exit_code == 1
    end = events(job)[0][-1]
    assert (end["outcome"], end["message"]) == ("failed", "ValueError: synthetic failure")
    assert "Traceback (most recent call last)" in newest_log(job)
    found = classify(status, events(job)[0], newest_log(job))
    assert not found.retryable
    executor.close()


def test_a_killed_job_is_known_as_killed_and_may_run_again(
    executor: LocalExecutor, make_job: JobMaker
) -> None:
    job = make_job(a=5.0)
    submission = executor.submit(job, name="s-a-1")
    os.kill(started_pid(job), signal.SIGKILL)
    status = wait_until_ended(executor, submission)
    assert status.exit_code == 137
    found = classify(status, events(job)[0], newest_log(job))
    assert (found.outcome, found.reason, found.retryable) == ("preempted", "killed", True)
    executor.close()


def test_a_job_whose_whole_session_is_killed_may_run_again(
    executor: LocalExecutor, make_job: JobMaker
) -> None:
    job = make_job(a=5.0)
    submission = executor.submit(job, name="s-a-1")
    os.killpg(os.getpgid(started_pid(job)), signal.SIGKILL)
    status = wait_until_ended(executor, submission)
    assert (status.detail, status.exit_code) == ("KILLED", None)
    assert classify(status, events(job)[0], newest_log(job)).retryable
    executor.close()


def test_cancelling_lets_the_job_write_its_checkpoint(executor: LocalExecutor, make_job: JobMaker) -> None:
    job = make_job(a=0.2, s_min=1e6)
    submission = executor.submit(job, name="s-a-1")
    wait_for_updates(job, 1)
    executor.cancel(submission)
    executor.cancel(submission)  # idempotent
    assert wait_until_ended(executor, submission).detail == "CANCELLED"
    assert outcome(job) == "preempted"
    assert [e["event"] for e in events(job)[0]].count("checkpoint") == 1
    executor.close()


def test_cancelling_ends_a_job_that_ignores_it(
    executor: LocalExecutor, make_job: JobMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("batchscout.run.executors.local.KILL_SECONDS", 0.3)
    job = make_job(s_min=1e6, misbehave={"ignores_stop": True})
    submission = executor.submit(job, name="s-a-1")
    started_pid(job)
    executor.cancel(submission)
    assert wait_until_ended(executor, submission).detail == "CANCELLED"
    executor.close()


def test_a_job_is_found_again_by_another_controller_by_its_name_and_by_its_handle(
    executor: LocalExecutor, make_job: JobMaker, tmp_path: Path
) -> None:
    job = make_job(a=0.2, s_min=1e6)
    submission = executor.submit(job, name="s-a-1")
    started_pid(job)
    other = LocalExecutor(HardwareConfig(), clock=RealClock(), working_directory=tmp_path)
    found = other.find("s-a-1")
    assert found is not None
    assert (found.job_id, found.handle) == ("a", submission.handle)
    assert other.find("s-a-2") is None
    assert other.poll([submission])["a"].state is SchedulerState.RUNNING
    other.cancel(found)
    assert wait_until_ended(other, found).detail == "CANCELLED"
    assert other.find("s-a-1") is None
    executor.close()


def test_c43_jobs_outlive_their_controller_and_its_terminal(make_job: JobMaker) -> None:
    job = make_job(s_min=2000)
    code = (
        "import sys; from pathlib import Path; from batchscout.clock import RealClock\n"
        "from batchscout.config import HardwareConfig\n"
        "from batchscout.run.executors.local import LocalExecutor\n"
        "e = LocalExecutor(HardwareConfig(), clock=RealClock(), working_directory=Path('/'))\n"
        "print(e.submit(Path(sys.argv[1]), name='s-a-1').handle, flush=True); sys.stdin.read()"
    )
    controller = subprocess.Popen(
        [sys.executable, "-c", code, str(job)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert controller.stdout is not None
    assert controller.stdin is not None
    handle = controller.stdout.readline().strip()
    os.killpg(controller.pid, signal.SIGINT)  # Ctrl-C goes to the terminal's process group
    os.killpg(controller.pid, signal.SIGKILL)
    controller.communicate()
    executor = LocalExecutor(HardwareConfig(), clock=RealClock(), working_directory=job)
    status = wait_until_ended(executor, Submission("a", handle, "s-a-1", 0.0))
    assert (status.detail, outcome(job)) == ("COMPLETED", "reached")


def test_a_requeued_job_that_had_ended_is_not_run_again(
    executor: LocalExecutor, make_job: JobMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    from batchscout.run import worker

    job = make_job()
    wait_until_ended(executor, executor.submit(job, name="s-a-1"))
    assert worker.run_attempt(str(job), after=0) == 0  # what a requeueing scheduler does
    assert len(events(job)) == 1
    assert worker.run_attempt(str(job), after=1) == 0  # a new submission: continued or retried on purpose
    assert len(events(job)) == 2
    executor.close()


def test_several_jobs_share_one_submission_and_one_crash_ends_only_itself(
    executor: LocalExecutor, make_job: JobMaker
) -> None:
    jobs = [make_job("p1"), make_job("p2", misbehave={"fault": "oom_killed"}), make_job("p3")]
    submissions = executor.submit_group(jobs, name="probe-s-1")
    assert [s.job_id for s in submissions] == ["p1", "p2", "p3"]
    assert len({s.handle for s in submissions}) == 1
    wait_until_ended(executor, submissions[-1])
    assert [outcome(j) for j in jobs] == ["reached", None, "reached"]
    executor.close()


def test_slots_that_exceed_the_cores_are_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        LocalExecutor(HardwareConfig(slots=4096, threads=2), clock=RealClock(), working_directory=tmp_path)
    assert "slow each other's clocks" in caplog.text


def test_each_slot_gets_gpus_of_its_own(
    make_job: JobMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("batchscout.run.executors.local.visible_gpus", lambda: ("0", "1", "3"))
    executor = LocalExecutor(HardwareConfig(slots=3), clock=RealClock(), working_directory=tmp_path)
    submissions = [executor.submit(make_job(n, a=5.0), name=f"s-{n}") for n in ("a", "b", "c")]

    def visible(submission: Submission) -> str | None:  # None while exec has not set it up
        return psutil.Process(int(submission.handle.split("|")[1])).environ().get("CUDA_VISIBLE_DEVICES")

    assert [wait_for(lambda s=s: visible(s)) for s in submissions] == ["0", "1", "3"]
    for submission in submissions:
        executor.cancel(submission)
    executor.close()
