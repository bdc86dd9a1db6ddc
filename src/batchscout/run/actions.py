"""What a person does to a sweep from outside its controller: look, cancel, retry.

Jobs are only ever changed by who holds the sweep's lock. Where a live controller does, it is asked through
files in the jobs' directories.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batchscout.clock import Clock, RealClock
from batchscout.errors import SweepError
from batchscout.measure.outcome import Outcome
from batchscout.run.control import clear_cancel, clear_stop, request_cancel
from batchscout.run.executor import Executor
from batchscout.run.files import read_json
from batchscout.run.job import JobRecord, read_records
from batchscout.run.journals import JournalFiles
from batchscout.run.lock import SweepLock, describe, holder_of
from batchscout.run.log import log_paths
from batchscout.run.sweep_directory import read_sweep_record
from batchscout.run.watch import Watched

# Ends that the job itself had no part in; `retry` without force runs these again only.
INFRASTRUCTURE = (
    *("lost", "killed", "node_failure", "preempted", "requeued", "revoked", "special_exit", "launch_failed"),
    *("machine", "silent", "launch", "time_limit", "scancel", "user", "max_failures"),
)


@dataclass(frozen=True, slots=True)
class JobStatus:
    """One line of `batchscout status`."""

    job_id: str
    kind: str
    batch_size: int
    lr: float
    seed: int
    outcome: Outcome
    reason: str
    message: str
    attempts: int
    samples: int
    seconds: float
    score: float | None
    node: str | None
    submission: str | None
    queue_seconds: float
    log: Path | None


@dataclass(frozen=True, slots=True)
class SweepStatus:
    """A sweep as its files show it now. status as in result.json, None before there is one; controller in
    words."""

    sweep: str
    directory: Path
    status: str | None
    controller: str | None
    jobs: Sequence[JobStatus]
    result: dict[str, Any] | None


def status(directory: Path) -> SweepStatus:
    """Read it; asks no scheduler, so a running job is one that has said so and not yet ended.

    Raises  SweepError if `directory` holds no sweep.
    """
    directory = Path(directory)
    content, result = read_sweep_record(directory), read_json(directory / "result.json")
    holder = holder_of(directory)
    journals = JournalFiles()
    return SweepStatus(
        sweep=content["sweep"],
        directory=directory,
        status=None if result is None else result["status"],
        controller=None if holder is None else describe(holder),
        jobs=[
            _job_status(record, directory, journals)
            for record in read_records(directory / "jobs")
            if not record.is_withdrawn
        ],
        result=result,
    )


def _job_status(record: JobRecord, directory: Path, journals: JournalFiles) -> JobStatus:
    job, path = record.job, directory / "jobs" / record.job.job_id
    watched = Watched(record, path, view=journals.read(path))
    last, starts, logs = watched.view.last() or {}, watched.view.starts, log_paths(path)
    scores = [e["score"] for events in watched.view.attempts for e in events if e["event"] == "evaluation"]
    return JobStatus(
        job_id=job.job_id,
        kind=job.kind,
        batch_size=job.point.batch_size,
        lr=job.point.lr,
        seed=job.seed,
        outcome=watched.outcome,
        reason=record.reason,
        message=record.message,
        attempts=len(watched.view.attempts),
        samples=int(last.get("samples", 0)),
        seconds=float(last.get("seconds", 0.0)),
        score=scores[-1] if scores else None,
        node=starts[-1].get("node") if starts else None,
        submission=record.submissions[-1].handle if record.submissions else None,
        queue_seconds=watched.queue_seconds,
        log=logs[-1] if logs else None,
    )


def cancel(
    directory: Path,
    job_ids: Sequence[str] = (),
    *,
    executor: Executor | None = None,
    clock: Clock | None = None,
) -> list[str]:
    """Cancel jobs that are not final, all of them where none is named. Returns their ids.

    executor  needed where jobs run without a controller
    Raises    SweepError for an unknown id, or where jobs run and there is neither controller nor executor.
    """
    chosen = [r for r in _chosen(directory, job_ids) if not r.is_final]
    for record in chosen:
        request_cancel(directory / "jobs" / record.job.job_id)
    if chosen and holder_of(directory) is None:
        _cancel_alone(directory, chosen, executor, clock or RealClock())
    return [r.job.job_id for r in chosen]


def _cancel_alone(
    directory: Path, chosen: Iterable[JobRecord], executor: Executor | None, clock: Clock
) -> None:
    with SweepLock(directory):
        for record in chosen:
            current = record.current
            submission = None if current is None else current.submission(record.job.job_id)
            if current is not None and submission is None and executor is not None:
                submission = executor.find(current.name)
            if submission is not None and executor is None:
                raise SweepError(f"{record.job.job_id} runs without a controller; its executor must be given")
            if submission is not None and executor is not None:
                executor.cancel(submission)
            record.finish(Outcome.CANCELLED, "user", "cancelled on request", clock.now())
            record.save(directory / "jobs")


def retry(directory: Path, job_ids: Sequence[str] = (), *, is_forced: bool = False) -> list[str]:
    """Make ended jobs planned ones again, as further attempts of the same jobs; the next run of the sweep
    runs them.

    job_ids    these, whatever ended them; none: every job that failed or was cancelled for a reason outside
               of it
    is_forced  where none is named, also what the job itself caused (an exception, out of memory, divergence)
    Returns    their ids
    Raises     SweepLocked while a controller works on the sweep, SweepError for an unknown id or a job that
               reached
               its target.
    """
    with SweepLock(directory):
        records = _chosen(directory, job_ids)
        reached = [r.job.job_id for r in records if job_ids and r.outcome is Outcome.REACHED]
        if reached:
            raise SweepError(f"{', '.join(reached)} reached the target; there is nothing to retry")
        again = [r for r in records if r.is_final and (bool(job_ids) or _is_retried(r, is_forced))]
        for record in again:
            path = directory / "jobs" / record.job.job_id
            clear_cancel(path)
            clear_stop(path)
            record.reopen()
            record.save(directory / "jobs")
        return [r.job.job_id for r in again]


def _is_retried(record: JobRecord, is_forced: bool) -> bool:
    if record.is_withdrawn:
        return False
    if record.outcome in (Outcome.FAILED, Outcome.CANCELLED):
        return is_forced or record.reason in INFRASTRUCTURE
    return is_forced and record.outcome in (Outcome.INFEASIBLE, Outcome.DIVERGED)


def _chosen(directory: Path, job_ids: Sequence[str]) -> list[JobRecord]:
    read_sweep_record(directory)
    records = read_records(directory / "jobs")
    known = {r.job.job_id for r in records}
    unknown = [name for name in job_ids if name not in known]
    if unknown:
        raise SweepError(
            f"{', '.join(unknown)} is no job of {directory}; it has {', '.join(sorted(known)[:8])} …"
        )
    return [r for r in records if not job_ids or r.job.job_id in job_ids]
