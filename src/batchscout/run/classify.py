"""What became of an attempt: from its journal first, then the scheduler's word, then its log.

The journal decides wherever it has a final `end` event. Without one the attempt was cut off, and the
scheduler's state says by what; the log is searched only for the faces of out-of-memory and for the
exception's line. No text of submitit is ever read, and a scheduler's COMPLETED never makes a job a success.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from batchscout.measure.outcome import InfeasibleReason, Outcome
from batchscout.run.executor import SchedulerState, Status

Phase = str  # "sampling", "reward", "learning", "sync", … as the reporter names them

KERNEL_OOM_MARK = "batchscout: kernel out-of-memory kills while this job ran:"
"""The job's wrapper prints this with a number where the task was killed: tells the kernel's kill from anyone
else's."""

# One entry a face: text of the log or of the exception, searched case-insensitively (CASES C42).
_HOST_MEMORY = (
    r"oom[-_ ]kill event",
    r"node running low on memory",  # Ray's memory monitor
    r"ray\.exceptions\.OutOfMemoryError",
    r"DefaultCPUAllocator: (can't|not enough)",
    r"\bMemoryError\b",
    r"std::bad_alloc",
    r"cannot allocate memory",
    r"exceeded (job |step )?memory limit",
    r"Out of memory: Killed process",
)
_GPU_MEMORY = (
    r"torch\.(cuda\.)?OutOfMemoryError",
    r"(CUDA|HIP|XPU)( error)?: out of memory",
    r"(CUDA|HIP|XPU) out of memory",
    r"out of memory at \S*cumem_allocator",  # vLLM waking up
    r"CUDA_ERROR_OUT_OF_MEMORY",
    r"cudaErrorMemoryAllocation",
    r"CUBLAS_STATUS_ALLOC_FAILED",
    r"No available memory for the cache blocks",
)
_GPU_IN_SAMPLING = r"cumem_allocator|wake_up|No available memory for the cache blocks"
# A fault of the machine, not of the code: the same job may well run elsewhere.
_MACHINE = (
    r"uncorrectable ECC error",
    r"GPU is lost|fallen off the bus",
    r"Stale file handle",
    r"Transport endpoint is not connected",
    r"No space left on device",
    r"Disk quota exceeded",
)
# What Slurm's own programs print when the node, not the job, was at fault; the job's code never ran, or
# vanished.
_LAUNCH = (
    r"srun: error: .*(Application|Task) launch .*failed",
    r"srun: error: Application launch failed",
    r"srun: error: Unable to (create step|confirm allocation)",
    r"srun: error: Node failure on",
    r"srun: error: .*Zero Bytes were transmitted",
    r"slurmstepd: error: (execve|_?mkdir|Unable to)",
)

# Slurm's base states (squeue %T, sacct State without "by UID") that mean that the allocation was taken away.
_TAKEN_AWAY = {
    "PREEMPTED": "preempted",
    "REQUEUED": "requeued",
    "NODE_FAIL": "node_failure",
    "BOOT_FAIL": "node_failure",
    "REVOKED": "revoked",
    "STOPPED": "stopped by the scheduler",
    "SPECIAL_EXIT": "special_exit",
    "LAUNCH_FAILED": "launch_failed",
}
_TASK_KILLED, _SCRIPT_KILLED = 137, -9


@dataclass(frozen=True, slots=True)
class Classification:
    """One attempt's end.

    outcome     final outcome of the job, or `preempted` where it only lost its allocation
    reason      a word: oom_gpu, oom_host, time_limit, node_failure, lost, killed, exception, …
    message     one line for the table
    retryable   may be run again as the same logical job; when it is not, `outcome` stands. A retryable
                `infeasible` is a suspicion (a bare kill -9): stand by it when it happens again
    phase       of the update in which memory ran out, where known
    """

    outcome: Outcome
    reason: str
    message: str
    retryable: bool = False
    phase: Phase | None = None

    def given_up(self) -> Classification:
        """What it is when it is not run again.

        A time limit censors the curve. A job that is killed whenever it runs is taken to need more host
        memory than there is: limits of containers and daemons kill without a word. Anything else is a
        failure.
        """
        if self.reason == "killed":
            message = "killed (SIGKILL) each time it ran, most likely for the memory it needs"
            return replace(_host_memory(message), phase=self.phase)
        if self.outcome is not Outcome.PREEMPTED:
            return replace(self, retryable=False)
        outcome = Outcome.CAPPED if self.reason == "time_limit" else Outcome.FAILED
        return replace(self, outcome=outcome, retryable=False)


def classify(
    status: Status | None, events: Sequence[Mapping[str, Any]], log_text: str = ""
) -> Classification:
    """What the newest attempt came to.

    status    the scheduler's last word; None where it has none
    events    the newest attempt's journal (none: it never got so far)
    log_text  the end of what the job printed; may be empty
    """
    end = next((e for e in reversed(events) if e.get("event") == "end"), None)
    if end is not None and Outcome(end["outcome"]).is_final:
        return _from_journal(end)
    if status is None or status.state is SchedulerState.ABSENT:
        return _preempted("lost", "the scheduler no longer knows it and its journal has no end")
    if status.state is not SchedulerState.ENDED:
        return _preempted("requeued", f"will run again ({status.detail or status.state.value})")
    return _from_scheduler(status, end, log_text)


def classify_error(text: str, phase: Phase | None = None) -> Classification:
    """What an exception in a job means; `text` is its traceback or at least its last line.

    phase is the reporter's when it was raised. Used inside the job (then the journal says it) and on logs.
    """
    face = memory_face(text)
    line = error_line(text)
    if face is None:
        if any(re.search(p, text, re.IGNORECASE) for p in _MACHINE):
            return Classification(Outcome.FAILED, "machine", line, retryable=True)
        return Classification(Outcome.FAILED, "exception", line)
    if phase not in ("sampling", "learning"):
        phase = "sampling" if re.search(_GPU_IN_SAMPLING, text) else phase
    where = f" in {phase}" if phase else ""
    return Classification(Outcome.INFEASIBLE, face.value, f"{face.value}{where}: {line}", phase=phase)


def memory_face(text: str) -> InfeasibleReason | None:
    """oom_gpu or oom_host where the text shows one of the faces of out-of-memory, else None.

    The host's faces come first: Ray's and Python's errors carry the same class names as torch's.
    """
    if any(re.search(p, text, re.IGNORECASE) for p in _HOST_MEMORY[:4]):
        return InfeasibleReason.OOM_HOST
    if any(re.search(p, text, re.IGNORECASE) for p in _GPU_MEMORY):
        return InfeasibleReason.OOM_GPU
    if any(re.search(p, text, re.IGNORECASE) for p in _HOST_MEMORY[4:]):
        return InfeasibleReason.OOM_HOST
    return None


def error_line(text: str) -> str:
    """The line of the last traceback that names the exception (its first one, if the message has several)."""
    lines = text.rstrip().splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
    if starts:
        for line in lines[starts[-1] + 1 :]:
            if line and not line[0].isspace():
                return line.strip()
    said = [line.strip() for line in lines if line.strip()]
    return said[-1] if said else "ended without a word"


def _from_journal(end: Mapping[str, Any]) -> Classification:
    outcome = Outcome(end["outcome"])
    reason, message = end.get("reason") or "", end.get("message") or ""
    retryable = outcome is Outcome.FAILED and reason == "machine"
    return Classification(outcome, reason, message, retryable, phase=_phase_in(message))


def _phase_in(message: str) -> Phase | None:
    found = re.match(r"oom_\w+ in (\w+):", message)
    return found[1] if found else None


def _from_scheduler(status: Status, end: Mapping[str, Any] | None, log_text: str) -> Classification:
    detail = status.detail.split()[0] if status.detail else ""  # "CANCELLED by 0" → CANCELLED
    if detail == "OUT_OF_MEMORY":
        return _host_memory("the kernel killed it for memory (OUT_OF_MEMORY)")
    if detail in ("TIMEOUT", "DEADLINE"):
        return _preempted("time_limit", "its time limit ended it")
    if detail in _TAKEN_AWAY:
        return _preempted(_TAKEN_AWAY[detail], f"its allocation was taken away ({detail})")
    if end is not None:  # it said itself that it was told to go, and its checkpoint is written
        if detail == "CANCELLED":
            return Classification(Outcome.CANCELLED, "scancel", "cancelled in the scheduler")
        return _preempted(end.get("reason") or "preempted", end.get("message") or "told to leave")
    if detail == "CANCELLED":
        return Classification(Outcome.CANCELLED, "scancel", "cancelled in the scheduler")
    if detail == "LAUNCH_REFUSED":
        return Classification(Outcome.FAILED, "launch", error_line(log_text))
    if status.exit_code == _SCRIPT_KILLED or detail == "KILLED":
        return _preempted("killed", "killed from outside with its batch script (SIGKILL)")
    if status.exit_code == _TASK_KILLED:
        return _from_kill(log_text)
    return _from_exit(status, log_text)


def _from_kill(log_text: str) -> Classification:
    """Ended by SIGKILL: by the kernel for memory, or by somebody."""
    kills = re.findall(re.escape(KERNEL_OOM_MARK) + r" (\d+)", log_text)
    if memory_face(log_text) is not None:
        return classify_error(log_text)
    if kills and int(kills[-1]) > 0:
        return _host_memory("the kernel killed it for memory")
    if kills:
        return _preempted("killed", "killed from outside (SIGKILL)")
    message = "killed (SIGKILL), which is what the kernel does when host memory runs out"
    return Classification(Outcome.INFEASIBLE, InfeasibleReason.OOM_HOST.value, message, retryable=True)


def _from_exit(status: Status, log_text: str) -> Classification:
    has_traceback = "Traceback (most recent call last)" in log_text
    if status.exit_code in (0, None) and status.detail in ("COMPLETED", "") and not has_traceback:
        return _preempted(
            "lost", "its process vanished: the scheduler says COMPLETED, the journal has no end"
        )
    if has_traceback or memory_face(log_text) is not None:
        return classify_error(log_text)
    if any(re.search(p, log_text) for p in _LAUNCH):
        return _preempted("launch_failed", error_line(log_text))
    code = "" if status.exit_code is None else f", exit code {status.exit_code}"
    return Classification(
        Outcome.FAILED,
        "exit",
        f"ended without an end event ({status.detail or 'ended'}{code}): {error_line(log_text)}",
    )


def _preempted(reason: str, message: str) -> Classification:
    return Classification(Outcome.PREEMPTED, reason, message, retryable=True)


def _host_memory(message: str) -> Classification:
    return Classification(Outcome.INFEASIBLE, InfeasibleReason.OOM_HOST.value, message)
