"""What follows from the end of an attempt: the job is final, or it runs again as the same logical job."""

from __future__ import annotations

from dataclasses import dataclass

from batchscout.measure.outcome import InfeasibleReason, Outcome
from batchscout.run.classify import Classification
from batchscout.run.job import JobRecord

_SAID_BY_JOURNAL = (Outcome.REACHED, Outcome.CAPPED, Outcome.STOPPED, Outcome.DIVERGED, Outcome.INFEASIBLE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """is_final: with this outcome. Else run it again, with this micro_batch_size if one is given."""

    is_final: bool
    outcome: Outcome
    reason: str
    message: str
    micro_batch_size: int | None = None


def judge(record: JobRecord, ending: Classification, *, max_requeues: int) -> Verdict:
    """Pure: changes nothing. record is as it was while the attempt ran."""
    if record.stop is not None and ending.outcome not in _SAID_BY_JOURNAL:
        return Verdict(True, Outcome.STOPPED, record.stop, "ended by force after it did not obey")
    smaller = _smaller_micro_batch(record, ending)
    if smaller is not None:
        return Verdict(False, ending.outcome, ending.reason, ending.message, micro_batch_size=smaller)
    if ending.retryable and _times(record, ending) < _allowed(ending, max_requeues):
        return Verdict(False, ending.outcome, ending.reason, ending.message)
    last = ending.given_up()
    return Verdict(True, last.outcome, last.reason, last.message)


def _times(record: JobRecord, ending: Classification) -> int:
    """How often it was run again for such an end already."""
    return sum(s.ended is not None and s.outcome == ending.outcome.value for s in record.submissions)


def _allowed(ending: Classification, max_requeues: int) -> int:
    """A suspected out-of-memory is given one more chance, what the infrastructure did max_requeues."""
    return min(1, max_requeues) if ending.outcome is Outcome.INFEASIBLE else max_requeues


def _smaller_micro_batch(record: JobRecord, ending: Classification) -> int | None:
    """Half the rollouts per forward pass after GPU memory ran out in learning; None where that was tried, or
    cannot be.

    The result is the same for any of them, so it stays the same logical job.
    """
    is_learning = ending.reason == InfeasibleReason.OOM_GPU and ending.phase == "learning"
    if not is_learning or record.micro_batch_size is not None:
        return None
    config = record.job.config
    mini = int(config.get("mini_batch_size") or record.job.point.batch_size)
    used = int(config.get("micro_batch_size") or mini)
    return next((size for size in range(used // 2, 0, -1) if mini % size == 0), None)


def larger_is_infeasible(record: JobRecord, *, oom_host_counts: bool) -> bool:
    """The job shows that its batch size and all larger ones do not fit."""
    if record.outcome is not Outcome.INFEASIBLE or record.is_skipped:
        return False
    return record.reason == InfeasibleReason.OOM_GPU or (
        oom_host_counts and record.reason == InfeasibleReason.OOM_HOST
    )
