"""What is read out of Slurm's answers, and how often it is asked, without a Slurm."""

from __future__ import annotations

from collections import Counter

import pytest

from batchscout.clock import VirtualClock
from batchscout.run.executor import SchedulerState
from batchscout.run.executors.slurm_queue import SlurmQueue, parse_sacct, parse_squeue


class FakeSlurm:
    """Answers from a dictionary by program; None is a failure."""

    user = "me"

    def __init__(self, **answers: str | None) -> None:
        self.answers = {
            "squeue": "",
            "sacct": "",
            "scontrol": "AccountingStorageType = accounting_storage/slurmdbd",
        }
        self.answers |= answers  # type: ignore[arg-type]
        self.calls: Counter[str] = Counter()

    def query(self, *command: str, timeout: float = 0.0) -> str | None:
        self.calls[command[0]] += 1
        return self.answers[command[0]]


def row(
    slurm_id: str, state: str, *, reason: str = "None", code: int = 0, restarts: int = 0, name: str = "n"
) -> str:
    return f"{slurm_id}|{state}|{reason}|a1|{code}|{restarts}|{name}"


def queue(slurm: FakeSlurm, clock: VirtualClock | None = None) -> SlurmQueue:
    return SlurmQueue(slurm, clock or VirtualClock(1000.0))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "state", "detail"),
    [
        (row("7", "PENDING", reason="Resources"), "pending", "PENDING (Resources)"),
        (row("7", "PENDING", reason="BeginTime", restarts=1), "requeued", "PENDING (BeginTime)"),
        (row("7", "RUNNING"), "running", "RUNNING"),
        (row("7", "COMPLETING"), "completing", "COMPLETING"),
        (row("7", "REQUEUED"), "requeued", "REQUEUED"),
        (row("7", "SUSPENDED"), "running", "SUSPENDED"),
        (row("7", "COMPLETED"), "ended", "COMPLETED"),
        (row("7", "OUT_OF_MEMORY", code=125), "ended", "OUT_OF_MEMORY"),
    ],
)
def test_states_of_slurm_become_ours(line: str, state: str, detail: str) -> None:
    status = parse_squeue(line)["7"].to_status()
    assert (status.state, status.detail, status.node) == (state, detail, "a1")


@pytest.mark.parametrize(("wait_status", "code"), [(0, 0), (3 << 8, 3), (137 << 8, 137), (9, -9), (15, -15)])
def test_the_exit_code_tells_a_killed_task_from_a_killed_script(wait_status: int, code: int) -> None:
    assert parse_squeue(row("7", "FAILED", code=wait_status))["7"].exit_code == code


def test_a_running_job_has_no_exit_code_and_names_may_hold_the_separator() -> None:
    found = parse_squeue(row("7", "RUNNING", name="a|b") + "\nsqueue: some warning\n")
    assert found["7"].exit_code is None
    assert found["7"].name == "a|b"
    assert list(found) == ["7"]


def test_sacct_says_how_a_forgotten_job_ended_and_nothing_of_running_ones() -> None:
    found = parse_sacct(
        "3|CANCELLED by 0|0:15|a1\n4|RUNNING|0:0|a1\n5|FAILED|137:0|b2\n6|NODE_FAIL|1:0|None assigned\n"
    )
    assert {i: (s.detail, s.exit_code, s.node) for i, s in found.items()} == {
        "3": ("CANCELLED", -15, "a1"),
        "5": ("FAILED", 137, "b2"),
        "6": ("NODE_FAIL", 1, None),
    }


@pytest.mark.parametrize(
    "reason", ["launch failed requeued held", "launch_failed_requeued_held", "JobHoldMaxRequeue"]
)
def test_a_job_that_slurm_itself_holds_is_told_from_one_that_a_person_holds(reason: str) -> None:
    assert parse_squeue(row("7", "PENDING", reason=reason, restarts=1))["7"].is_held_after_failed_launch
    assert not parse_squeue(row("7", "PENDING", reason="JobHeldUser"))["7"].is_held_after_failed_launch


def test_a_quiet_queue_is_asked_down_to_every_15_seconds_and_a_change_brings_it_back() -> None:
    clock, slurm = VirtualClock(1000.0), FakeSlurm(squeue=row("7", "RUNNING"))
    asked = queue(slurm, clock)
    for _ in range(600):
        assert asked.refresh()
        clock.sleep(0.5)
    assert 20 + 5 <= slurm.calls["squeue"] <= 32, "300 s: one each 15 s, and the first few"
    before = slurm.calls["squeue"]
    asked.hurry()
    for _ in range(4):
        asked.refresh()
        clock.sleep(0.5)
    assert slurm.calls["squeue"] - before >= 1


def test_c33_failed_queries_say_nothing_and_are_repeated_less_and_less() -> None:
    clock, slurm = VirtualClock(1000.0), FakeSlurm(squeue=row("7", "RUNNING"))
    asked = queue(slurm, clock)
    assert asked.refresh()
    slurm.answers["squeue"] = None
    clock.sleep(20)
    before = slurm.calls["squeue"]
    for _ in range(600):
        assert not asked.refresh()
        clock.sleep(1)
    assert slurm.calls["squeue"] - before <= 15, "2, 4, 8, … 60 s"
    slurm.answers["squeue"] = row("7", "COMPLETED")
    clock.sleep(60)
    assert asked.refresh()
    assert asked.statuses({"7": "n"})["7"].detail == "COMPLETED"


def test_an_empty_answer_is_an_absent_job_and_sacct_is_asked_once_for_all() -> None:
    clock, slurm = VirtualClock(1000.0), FakeSlurm(sacct="7|COMPLETED|0:0|a1\n")
    asked = queue(slurm, clock)
    assert asked.refresh()
    found = asked.statuses({"7": "n", "8": "m"})
    assert (found["7"].state, found["7"].detail) == (SchedulerState.ENDED, "COMPLETED")
    assert found["8"].state is SchedulerState.ABSENT
    for _ in range(20):
        clock.sleep(1)
        asked.refresh()
        asked.statuses({"7": "n", "8": "m"})
    assert slurm.calls["sacct"] == 1, "at most each 30 s"


def test_c33_a_site_without_accounting_is_asked_for_it_once() -> None:
    clock = VirtualClock(1000.0)
    slurm = FakeSlurm(scontrol="AccountingStorageType = accounting_storage/none")
    asked = queue(slurm, clock)
    for _ in range(5):
        clock.sleep(60)
        asked.refresh()
        assert asked.statuses({"7": "n"})["7"].state is SchedulerState.ABSENT
    assert (slurm.calls["sacct"], slurm.calls["scontrol"]) == (0, 1)


def test_c06_preempted_is_a_state_on_the_way_back_until_it_stays() -> None:
    clock, slurm = VirtualClock(1000.0), FakeSlurm(squeue=row("7", "PREEMPTED"))
    asked = queue(slurm, clock)
    asked.refresh()
    assert asked.statuses({"7": "n"})["7"].state is SchedulerState.REQUEUED
    clock.sleep(100)
    asked.refresh()
    status = asked.statuses({"7": "n"})["7"]
    assert (status.state, status.detail) == (SchedulerState.ENDED, "PREEMPTED")


def test_the_same_number_under_another_name_is_another_clusters_job() -> None:
    asked = queue(FakeSlurm(squeue=row("7", "COMPLETED", name="theirs")))
    asked.refresh()
    assert asked.statuses({"7": "ours"})["7"].state is SchedulerState.ABSENT
