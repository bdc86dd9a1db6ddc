"""What takes longer on a real Slurm: its time limits count in minutes, its accounting needs a database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.slurm.conftest import DevCluster, ExecutorMaker
from tests.synthetic_jobs import JobMaker, events, outcome, wait_for, wait_for_updates, wait_until_ended

from batchscout.clock import RealClock
from batchscout.config import HardwareConfig
from batchscout.run.executor import SchedulerState
from batchscout.run.executors.slurm import SlurmExecutor

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


@pytest.fixture(scope="module")
def accounting_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    found = DevCluster(tmp_path_factory.mktemp("slurm-db"))
    found.up("--accounting", "--set", "MinJobAge=2", "--set", "KillWait=2")
    yield found
    found.down()


def test_with_accounting_a_job_that_squeue_forgot_is_known_from_sacct(
    accounting_cluster: DevCluster, make_job: JobMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(accounting_cluster.conf))
    hardware = HardwareConfig(executor="slurm", partition="gpu-b", gres="gpu:h100:1", poll_seconds=2.0)
    executor = SlurmExecutor(hardware, clock=RealClock(), working_directory=tmp_path)
    jobs = [make_job("good"), make_job("bad", misbehave={"fault": "value_error"})]
    submissions = [executor.submit(job, name=f"forgotten-{job.name}-1") for job in jobs]
    wait_for(lambda: accounting_cluster.run("squeue", "-h", "-t", "all") == "", 60)
    assert wait_until_ended(executor, submissions[0], 60).detail == "COMPLETED"
    status = wait_until_ended(executor, submissions[1], 60)
    assert (status.detail, status.exit_code) == ("FAILED", 1)
    assert executor.slurm.calls["sacct"] <= 3


def test_a_time_limit_shorter_than_the_job_is_continued_in_further_allocations(
    make_executor: ExecutorMaker, make_job: JobMaker
) -> None:
    job = make_job(a=0.5, s_min=2000)  # about 65 s of updates
    executor = make_executor("gpu-a", time_limit="1", signal_seconds=20)
    submission = executor.submit(job, name="limit-a-1")
    assert wait_until_ended(executor, submission, 240).state is SchedulerState.ENDED
    assert outcome(job) == "reached"
    attempts = events(job)
    assert len(attempts) >= 2
    assert {a[-1]["outcome"] for a in attempts[:-1]} == {"preempted"}
    assert {a[0]["slurm_job_id"] for a in attempts} == {submission.handle}
    updates = [e["updates"] for a in attempts for e in a if e["event"] == "update"]
    assert updates == list(range(1, len(updates) + 1)), "no update is lost or made twice"


def test_a_requeued_job_does_not_wait_for_old_credentials_to_expire(
    make_job: JobMaker,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directory = tmp_path_factory.mktemp("slurm-default")
    cluster = DevCluster(directory)
    cluster.up(
        "--set", f"AuthInfo=socket={directory}/run/munge.sock", "--set", "KillWait=2"
    )  # cred_expire: 120 s
    try:
        monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
        hardware = HardwareConfig(executor="slurm", partition="gpu-a", gres="gpu:a100:1", poll_seconds=2.0)
        executor = SlurmExecutor(hardware, clock=RealClock(), working_directory=tmp_path)
        job = make_job(a=0.1, s_min=1000)
        submission = executor.submit(job, name="credentials-a-1")
        wait_for_updates(job, 3)
        cluster.run("scontrol", "requeue", submission.handle)
        assert wait_until_ended(executor, submission, 60).detail == "COMPLETED"
        assert [a[-1]["outcome"] for a in events(job)] == ["preempted", "reached"]
    finally:
        cluster.down()
