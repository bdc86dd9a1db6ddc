"""What became of an attempt, case by case."""

from __future__ import annotations

import pytest

from batchscout.run.classify import KERNEL_OOM_MARK, classify, classify_error, error_line
from batchscout.run.executor import SchedulerState, Status

START = {"event": "start"}


def ended(detail: str, exit_code: int | None = None) -> Status:
    return Status(SchedulerState.ENDED, detail, exit_code=exit_code)


def end(outcome: str, reason: str = "", message: str = "") -> dict[str, str]:
    return {"event": "end", "outcome": outcome, "reason": reason, "message": message}


@pytest.mark.parametrize(
    "detail", ["COMPLETED", "FAILED", "TIMEOUT", "CANCELLED by 0", "NODE_FAIL", "OUT_OF_MEMORY"]
)
def test_an_end_in_the_journal_stands_whatever_the_scheduler_says(detail: str) -> None:
    found = classify(ended(detail, 1), [START, end("reached")])
    assert (found.outcome, found.retryable) == ("reached", False)


def test_c17_completed_in_slurm_is_not_success() -> None:
    log = 'Traceback (most recent call last):\n  File "x.py", line 1\nValueError: no\n'
    found = classify(ended("COMPLETED", 0), [START], log)
    assert (found.outcome, found.message, found.retryable) == ("failed", "ValueError: no", False)


def test_a_process_that_vanished_without_a_word_is_run_again() -> None:
    found = classify(ended("COMPLETED", 0), [START])
    assert (found.outcome, found.reason, found.retryable) == ("preempted", "lost", True)


@pytest.mark.parametrize(
    ("detail", "reason"),
    [
        ("TIMEOUT", "time_limit"),
        ("NODE_FAIL", "node_failure"),
        ("PREEMPTED", "preempted"),
        ("BOOT_FAIL", "node_failure"),
    ],
)
def test_c06_allocations_that_are_taken_away_are_not_failures(detail: str, reason: str) -> None:
    found = classify(ended(detail, 0), [START])
    assert (found.outcome, found.reason, found.retryable) == ("preempted", reason, True)


def test_a_job_on_its_way_back_into_the_queue_waits() -> None:
    found = classify(Status(SchedulerState.REQUEUED, "PENDING (BeginTime)"), [START])
    assert (found.outcome, found.retryable) == ("preempted", True)


def test_a_time_limit_that_is_not_continued_censors_and_a_lost_node_fails() -> None:
    assert classify(ended("TIMEOUT"), [START]).given_up().outcome == "capped"
    assert classify(ended("NODE_FAIL"), [START]).given_up().outcome == "failed"
    assert classify(ended("FAILED", 137), [START]).given_up().outcome == "infeasible"


def test_a_cancellation_is_final_even_after_a_checkpoint() -> None:
    for events in ([START], [START, end("preempted", "signal")], []):
        found = classify(ended("CANCELLED by 1000"), events)
        assert (found.outcome, found.retryable) == ("cancelled", False)


def test_leaving_after_a_checkpoint_is_no_end() -> None:
    found = classify(ended("COMPLETED", 0), [START, end("preempted", "SIGUSR2")])
    assert (found.outcome, found.retryable) == ("preempted", True)


@pytest.mark.parametrize(
    ("text", "reason", "phase"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "oom_gpu", "learning"),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory.", "oom_gpu", "learning"),
        (
            "RuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62",
            "oom_gpu",
            "learning",
        ),
        ("RuntimeError: CUDA error: out of memory", "oom_gpu", "learning"),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling", "oom_gpu", "learning"),
        (
            "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
            "oom_host",
            "learning",
        ),
        ("MemoryError", "oom_host", "learning"),
        (
            "RuntimeError: [enforce fail at alloc_cpu.cpp:75] . DefaultCPUAllocator: can't allocate memory",
            "oom_host",
            "learning",
        ),
    ],
)
def test_c42_faces_of_out_of_memory_in_an_exception(text: str, reason: str, phase: str) -> None:
    found = classify_error(f"Traceback (most recent call last):\n  File\n{text}\n", phase)
    assert (found.outcome, found.reason, found.phase, found.retryable) == ("infeasible", reason, phase, False)
    assert text.splitlines()[0] in found.message
    assert f"in {phase}" in found.message


def test_memory_that_runs_out_when_vllm_wakes_up_ran_out_in_sampling() -> None:
    assert classify_error("CUDA Error: out of memory at cumem_allocator.cpp:119").phase == "sampling"


def test_the_phase_is_read_back_from_the_journal() -> None:
    message = classify_error("torch.OutOfMemoryError: CUDA out of memory.", "learning").message
    assert classify(ended("FAILED", 1), [START, end("infeasible", "oom_gpu", message)]).phase == "learning"


def test_c42_c49_killed_for_host_memory_as_the_scheduler_says_it() -> None:
    for events in ([], [START]):
        found = classify(ended("OUT_OF_MEMORY", 125), events)
        assert (found.outcome, found.reason, found.retryable) == ("infeasible", "oom_host", False)


def test_c42_a_bare_exit_code_137_is_suspected_to_be_host_memory() -> None:
    found = classify(ended("FAILED", 137), [START])
    assert (found.outcome, found.reason, found.retryable) == ("infeasible", "oom_host", True)


def test_a_batch_script_that_is_killed_too_was_killed_from_outside() -> None:
    for status in (ended("FAILED", -9), ended("KILLED")):
        found = classify(status, [START])
        assert (found.outcome, found.reason, found.retryable) == ("preempted", "killed", True)


def test_the_kernels_own_count_tells_its_kill_from_anybody_elses() -> None:
    by_kernel = classify(ended("FAILED", 137), [START], f"…\n{KERNEL_OOM_MARK} 1\n")
    assert (by_kernel.reason, by_kernel.retryable) == ("oom_host", False)
    by_somebody = classify(ended("FAILED", 137), [START], f"…\n{KERNEL_OOM_MARK} 0\n")
    assert (by_somebody.outcome, by_somebody.reason, by_somebody.retryable) == ("preempted", "killed", True)


def test_c42_a_job_that_is_killed_whenever_it_runs_needs_too_much_memory() -> None:
    found = classify(ended("FAILED", 137), [START], f"{KERNEL_OOM_MARK} 0").given_up()
    assert (found.outcome, found.reason, found.retryable) == ("infeasible", "oom_host", False)


def test_a_node_that_failed_during_the_launch_is_not_the_jobs_fault() -> None:
    log = (
        "srun: error: Task launch for StepId=6.0 failed on node a1: Zero Bytes were transmitted\n"
        "srun: error: Application launch failed: Zero Bytes\nsrun: Job step aborted\n"
    )
    found = classify(ended("FAILED", 141), [], log)
    assert (found.outcome, found.reason, found.retryable) == ("preempted", "launch_failed", True)


def test_slurms_note_of_an_oom_kill_counts() -> None:
    log = "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=3.0."
    assert classify(ended("FAILED", 137), [START], log).reason == "oom_host"


def test_c33_no_word_of_the_scheduler_is_no_failure() -> None:
    for status in (None, Status(SchedulerState.ABSENT)):
        found = classify(status, [START])
        assert (found.outcome, found.retryable) == ("preempted", True)


def test_a_faulty_machine_is_worth_another_try() -> None:
    found = classify_error("RuntimeError: CUDA error: uncorrectable ECC error encountered")
    assert (found.outcome, found.reason, found.retryable) == ("failed", "machine", True)


def test_the_line_that_names_the_exception_is_the_last_tracebacks_first() -> None:
    text = (
        "Traceback (most recent call last):\n  File a\nKeyError: 1\n\nDuring handling of this exception:\n\n"
        "Traceback (most recent call last):\n  File b\n    x()\nValueError: two\nlines of message\nlater\n"
    )
    assert error_line(text) == "ValueError: two"
    assert error_line("just this\n\n") == "just this"
    assert error_line("") == "ended without a word"
