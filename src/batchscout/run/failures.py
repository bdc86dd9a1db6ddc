"""When a fault common to all jobs ends the sweep early, and what of it runs again on resume (CASES C03,
C40)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from batchscout.measure.outcome import Outcome
from batchscout.run.job import JobRecord
from batchscout.run.watch import Watched

POLICY = "max_failures"


def common_failure(jobs: Sequence[Watched], max_failures: int) -> str | None:
    """The failure that every job so far ended with, if there are `max_failures` of them; None otherwise.

    A single job that ended in another way, or is evaluated beyond its start, shows that the fault is not a
    common one.
    """
    ended = [w.record for w in jobs if w.record.is_final and not w.record.is_skipped]
    if len(ended) < max_failures or any(r.outcome is not Outcome.FAILED for r in ended):
        return None
    if any(w.curve is not None and any(s > 0 for s in w.curve.samples) for w in jobs):
        return None
    faces = {face(r) for r in ended}
    return ended[0].message or ended[0].reason if len(faces) == 1 else None


def face(record: JobRecord) -> tuple[str, str]:
    """What makes two failures the same one: reason and message without their numbers."""
    return record.reason, re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?(e-?\d+)?", "#", record.message)


def to_run_again(records: Sequence[JobRecord], *, was_stopped: bool) -> list[JobRecord]:
    """On resume: the jobs that the policy cancelled, and those whose identical failure made it do so."""
    cancelled = [r for r in records if r.outcome is Outcome.CANCELLED and r.reason == POLICY]
    if not was_stopped:
        return []
    return [*(r for r in records if r.outcome is Outcome.FAILED), *cancelled]
