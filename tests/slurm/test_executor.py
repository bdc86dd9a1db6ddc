"""The Slurm executor against a real Slurm."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from tests.slurm.conftest import DevCluster, ExecutorMaker
from tests.synthetic_jobs import JobMaker, events, outcome, wait_for, wait_for_updates, wait_until_ended

from batchscout.errors import LaunchError, SchedulerBusy
from batchscout.run.classify import classify
from batchscout.run.executor import SchedulerState, Submission
from batchscout.run.executors import slurm_commands
from batchscout.run.executors.slurm import SlurmExecutor
from batchscout.run.log import newest_log
from batchscout.run.snapshot import take_snapshot

pytestmark = pytest.mark.slurm


def submitted_names(cluster: DevCluster) -> list[str]:
    return cluster.run("squeue", "-h", "-a", "-t", "all", "-o", "%j").splitlines()


@pytest.mark.parametrize(("partition", "nodes"), [("gpu-a", {"a1", "a2"}), ("gpu-b", {"b1", "b2"})])
def test_a_job_runs_on_its_partition_with_its_gpu(
    make_executor: ExecutorMaker, make_job: JobMaker, partition: str, nodes: set[str]
) -> None:
    job = make_job()
    executor = make_executor(partition, threads=1)
    submission = executor.submit(job, name=f"on-{partition}-a-1")
    status = wait_until_ended(executor, submission)
    assert (status.detail, status.exit_code, outcome(job)) == ("COMPLETED", 0, "reached")
    assert status.node in nodes
    start = events(job)[0][0]
    assert start["node"] == status.node
    assert start["slurm_job_id"] == submission.handle == status.slurm_job_id
    assert 0 < start["startup_seconds"] < 10
    assert (
        f"--gres=gpu:{'a100' if partition == 'gpu-a' else 'h100'}:1"
        in (job / "log" / "submit.sh").read_text()
    )


def test_a_preempted_job_writes_a_checkpoint_is_requeued_and_goes_on(
    make_executor: ExecutorMaker, make_job: JobMaker, cluster: DevCluster
) -> None:
    low, high = make_job("low", a=0.1, s_min=600), make_job("high")
    here = {"extra": {"nodelist": "a1"}, "gres": "gpu:a100:4"}
    scavenger, owner = make_executor("scavenge", **here), make_executor("gpu-a", **here)
    first = scavenger.submit(low, name="preempt-low-1")
    wait_for_updates(low, 5)
    second = owner.submit(high, name="preempt-high-1")
    assert wait_until_ended(owner, second).detail == "COMPLETED"
    states = set()

    def is_running_again() -> bool:
        status = (scavenger.poll([first]) or {})["low"]
        states.add(status.state)
        return SchedulerState.REQUEUED in states and status.state is SchedulerState.RUNNING

    wait_for(is_running_again, 30)
    assert wait_until_ended(scavenger, first, 60).detail == "COMPLETED"
    attempts = events(low)
    assert [a[-1]["outcome"] for a in attempts] == ["preempted", "reached"]
    assert attempts[1][0]["slurm_job_id"] == first.handle, "the same Slurm job"
    before = [e for e in attempts[0] if e["event"] == "checkpoint"][-1]
    after = next(e for e in attempts[1] if e["event"] == "update")
    assert after["updates"] == before["updates"] + 1, "no update is lost or made twice"
    assert "caught SIGUSR2" in newest_log(low)


@pytest.mark.slow
def test_a_job_that_slurm_starts_again_after_its_end_is_not_run_again(
    make_executor: ExecutorMaker, make_job: JobMaker, cluster: DevCluster
) -> None:
    """As one that ends in the grace time of its preemption."""
    job = make_job()
    executor = make_executor("gpu-a")
    submission = executor.submit(job, name="ended-a-1")
    wait_until_ended(executor, submission)
    cluster.run("scontrol", "requeue", submission.handle)
    wait_for(lambda: "nothing to do" in newest_log(job), 40)
    assert wait_until_ended(executor, submission, 40).detail == "COMPLETED"
    assert [[e["outcome"] for e in a if e["event"] == "end"] for a in events(job)] == [["reached"]]


def test_a_job_killed_with_its_step_is_known_as_killed(
    make_executor: ExecutorMaker, make_job: JobMaker
) -> None:
    job = make_job(a=0.1, s_min=1e6)
    executor = make_executor("gpu-a")
    submission = executor.submit(job, name="kill-a-1")
    wait_for_updates(job, 1)
    os.kill(events(job)[0][0]["pid"], signal.SIGKILL)
    status = wait_until_ended(executor, submission)
    assert (status.detail, status.exit_code) == ("FAILED", 137)
    found = classify(status, events(job)[0], newest_log(job))
    assert (found.outcome, found.reason, found.retryable) == ("preempted", "killed", True)


def test_cancelling_ends_it_and_is_final(make_executor: ExecutorMaker, make_job: JobMaker) -> None:
    job = make_job(a=0.1, s_min=1e6)
    executor = make_executor("gpu-a")
    submission = executor.submit(job, name="cancel-a-1")
    wait_for_updates(job, 1)
    executor.cancel(submission)
    status = wait_until_ended(executor, submission)
    executor.cancel(submission)  # idempotent
    assert status.detail == "CANCELLED"
    assert classify(status, events(job)[0], newest_log(job)).outcome == "cancelled"


def test_an_exception_in_a_job_reaches_table_and_log(
    make_executor: ExecutorMaker, make_job: JobMaker
) -> None:
    job = make_job(misbehave={"fault": "runtime_error"})
    executor = make_executor("gpu-b")
    status = wait_until_ended(executor, executor.submit(job, name="raise-a-1"))
    assert (status.detail, status.exit_code) == ("FAILED", 1)
    assert events(job)[0][-1]["message"] == "RuntimeError: synthetic failure"
    assert "Traceback (most recent call last)" in newest_log(job)


@pytest.mark.parametrize(
    ("hardware", "said"),
    [
        ({"partition": "nowhere"}, "invalid partition specified"),
        ({"gres": "gpu:a100:64"}, "Requested node configuration is not available"),
        ({"gres": "gpu:v100:1"}, "Requested node configuration is not available"),
    ],
)
def test_a_refused_job_is_one_clear_error_and_leaves_nothing(
    make_executor: ExecutorMaker, make_job: JobMaker, cluster: DevCluster, hardware: dict[str, str], said: str
) -> None:
    executor = make_executor(hardware.pop("partition", "gpu-a"), **hardware)
    with pytest.raises(LaunchError, match=said) as error:
        executor.submit(make_job(), name="refused-a-1")
    assert "\n" not in str(error.value)
    assert "refused-a-1" not in cluster.run("squeue", "-h", "-o", "%j").splitlines()


@pytest.fixture
def slow_sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """sbatch answers too late, after it has submitted."""
    real = next(p for d in os.environ["PATH"].split(":") if (p := Path(d) / "sbatch").exists())
    wrapper = tmp_path / "bin" / "sbatch"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nanswer=$({real} "$@")\nsleep 30\necho "$answer"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(slurm_commands, "SUBMIT_SECONDS", 1.0)


@pytest.mark.usefixtures("slow_sbatch")
def test_c20_an_answer_that_came_too_late_is_looked_up_by_name(
    make_executor: ExecutorMaker, make_job: JobMaker, cluster: DevCluster
) -> None:
    job = make_job(a=0.1, s_min=1e6)
    executor = make_executor("gpu-a")
    with pytest.raises(SchedulerBusy, match="no answer within 1 s"):
        executor.submit(job, name="late-a-1")
    other = make_executor("gpu-a")  # after a kill -9 in that moment
    found = other.find("late-a-1")
    assert found is not None
    submission = wait_for(lambda: try_to_submit(executor, job, "late-a-1"))
    assert submission.handle == found.handle
    assert submitted_names(cluster).count("late-a-1") == 1
    executor.cancel(submission)


def try_to_submit(executor: SlurmExecutor, job: Path, name: str) -> Submission | None:
    try:
        return executor.submit(job, name=name)
    except SchedulerBusy:
        return None


def test_the_second_job_of_one_name_is_cancelled(
    make_executor: ExecutorMaker, make_job: JobMaker, cluster: DevCluster
) -> None:
    job = make_job(a=0.1, s_min=1e6)
    executor = make_executor("gpu-a")
    first = executor.submit(job, name="twice-a-1")
    twin = executor.submit(job, name="twice-a-1")

    def twin_is_gone() -> bool:
        executor.poll([first])
        return (
            cluster.run(
                "squeue", "-h", "-t", "all", "-j", f"{twin.handle},{first.handle}", "-o", "%i %t"
            ).find(f"{twin.handle} CA")
            >= 0
        )

    wait_for(twin_is_gone)
    assert cluster.run("squeue", "-h", "-j", first.handle, "-o", "%t") in ("R", "PD")
    executor.cancel(first)


def test_one_query_answers_for_all_jobs_and_a_quiet_queue_is_asked_less_and_less(
    make_executor: ExecutorMaker, make_job: JobMaker
) -> None:
    executor = make_executor("gpu-a", poll_seconds=15.0)
    submissions = [
        executor.submit(make_job(f"j{i}", a=1.0, s_min=1e6), name=f"many-j{i}-1") for i in range(4)
    ]
    wait_for(
        lambda: all(s.state is SchedulerState.RUNNING for s in (executor.poll(submissions) or {}).values())
    )
    calls = executor.slurm.calls["squeue"]
    end = time.monotonic() + 5
    while time.monotonic() < end:
        assert executor.poll(submissions) is not None
        executor.wait(0.1)
    assert executor.slurm.calls["squeue"] - calls <= 4, "1 + 1.5 + 2.25 + 3.4 s"
    assert executor.slurm.calls["sacct"] == 0
    for submission in submissions:
        executor.cancel(submission)


def test_a_job_id_that_another_cluster_gave_is_not_ours(
    make_executor: ExecutorMaker, make_job: JobMaker
) -> None:
    executor = make_executor("gpu-a")
    real = executor.submit(make_job(), name="mine-a-1")
    stale = Submission("old", real.handle, "of-another-cluster", 0.0)
    wait_until_ended(executor, real)
    assert (executor.poll([stale]) or {})["old"].state is SchedulerState.ABSENT


def test_several_jobs_share_one_allocation(make_executor: ExecutorMaker, make_job: JobMaker) -> None:
    jobs = [make_job("p1"), make_job("p2", misbehave={"fault": "oom_killed"}), make_job("p3")]
    executor = make_executor("gpu-b")
    submissions = executor.submit_group(jobs, name="probe-s-1")
    assert {s.handle for s in submissions} == {submissions[0].handle}
    wait_until_ended(executor, submissions[0])
    assert [outcome(j) for j in jobs] == ["reached", None, "reached"]
    assert len({events(j)[0][0]["pid"] for j in jobs}) == 3


def test_a_distributed_job_has_torchruns_environment_and_one_journal(
    make_executor: ExecutorMaker, make_job: JobMaker, tmp_path: Path
) -> None:
    module = tmp_path / "several.py"
    module.write_text(
        "import json, os\nfrom batchscout.train import synthetic\n"
        "NAMES = ['RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'LOCAL_WORLD_SIZE', 'NODE_RANK', 'MASTER_ADDR',\n"
        "         'MASTER_PORT']\n"
        "def train(config, reporter):\n"
        f"    with open('{tmp_path}/rank' + os.environ['RANK'], 'w') as file:\n"
        "        json.dump({n: os.environ[n] for n in NAMES}, file)\n"
        "    synthetic.train(config, reporter)\n"
    )
    job = make_job(function="several:train", a=0.02)
    executor = make_executor(
        "gpu-a", nodes=2, tasks=2, gres="gpu:a100:2", setup=(f"export PYTHONPATH={tmp_path}:$PYTHONPATH",)
    )
    status = wait_until_ended(executor, executor.submit(job, name="ranks-a-1"))
    assert (status.detail, outcome(job)) == ("COMPLETED", "reached")
    found = [json.loads((tmp_path / f"rank{r}").read_text()) for r in range(4)]
    assert [(r["LOCAL_RANK"], r["NODE_RANK"]) for r in found] == [
        ("0", "0"),
        ("1", "0"),
        ("0", "1"),
        ("1", "1"),
    ]
    assert {(r["WORLD_SIZE"], r["LOCAL_WORLD_SIZE"]) for r in found} == {("4", "2")}
    assert len({(r["MASTER_ADDR"], r["MASTER_PORT"]) for r in found}) == 1
    assert len(events(job)) == 1, "one attempt, one journal"
    assert not list(job.glob(".ranks*"))


def test_out_of_memory_on_another_rank_is_the_jobs(
    make_executor: ExecutorMaker, make_job: JobMaker, tmp_path: Path
) -> None:
    (tmp_path / "several.py").write_text(
        "import os\nfrom batchscout.train import synthetic\n"
        "def train(config, reporter):\n"
        "    if os.environ['RANK'] == '1':\n"
        "        raise RuntimeError('CUDA out of memory. Tried to allocate 2 GiB')\n"
        "    synthetic.train(config, reporter)\n"
    )
    job = make_job(function="several:train", a=0.02)
    executor = make_executor("gpu-a", tasks=2, setup=(f"export PYTHONPATH={tmp_path}:$PYTHONPATH",))
    wait_until_ended(executor, executor.submit(job, name="rank-oom-a-1"))
    end = events(job)[0][-1]
    assert (end["outcome"], end["reason"]) == ("infeasible", "oom_gpu")


def test_c21_a_queued_job_runs_the_code_of_the_snapshot_although_it_was_edited(
    make_executor: ExecutorMaker, make_job: JobMaker, cluster: DevCluster, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    code = "from batchscout.train import synthetic\ndef train(config, reporter):\n    reporter.warn('v1')\n"
    (project / "mine.py").write_text(code + "    synthetic.train(config, reporter)\n")
    take_snapshot(tmp_path / "sweep", project)
    job = make_job(function="mine:train")
    executor = make_executor("gpu-a", extra={"hold": True, "chdir": str(project)})
    submission = executor.submit(job, name="held-a-1")
    (project / "mine.py").write_text("raise RuntimeError('v2')")
    cluster.run("scontrol", "release", submission.handle)
    wait_until_ended(executor, submission)
    assert outcome(job) == "reached"
    assert [e["message"] for e in events(job)[0] if e["event"] == "warning"] == ["v1"], (
        "no import from elsewhere"
    )


def test_an_import_from_a_working_tree_is_warned_of(
    make_executor: ExecutorMaker, make_job: JobMaker, tmp_path: Path
) -> None:
    project, stray = tmp_path / "project", tmp_path / "stray"
    for path in (project, stray):
        path.mkdir()
    (stray / "mine.py").write_text(
        "from batchscout.train.synthetic import train as run\ndef train(c, r): run(c, r)\n"
    )
    (project / "sweep.py").write_text("")
    take_snapshot(tmp_path / "sweep", project)
    job = make_job(function="mine:train")
    executor = make_executor("gpu-a", setup=(f"export PYTHONPATH={stray}",))
    wait_until_ended(executor, executor.submit(job, name="stray-a-1"))
    (warning,) = [e["message"] for e in events(job)[0] if e["event"] == "warning"]
    assert warning.startswith(f"mine was imported from {stray}/mine.py, not from the sweep's snapshot")
