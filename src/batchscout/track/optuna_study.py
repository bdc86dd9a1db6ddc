"""The sweep as an Optuna study, for `optuna-dashboard` and for anyone's own analysis.

One trial per finished job. value = time_to_target in seconds, and only where the target was reached: a
censored job is PRUNED without a value (its bound is an attribute), a diverged or broken one FAIL. Derived
from the jobs: it is rebuilt whenever it does not agree with them, and nobody reads it to decide anything.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from batchscout.errors import TrackingError
from batchscout.measure.outcome import Outcome
from batchscout.run.listener import SweepView
from batchscout.search.protocol import JobObservation

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial

log = logging.getLogger("batchscout.track")

STATE = {
    Outcome.REACHED: "COMPLETE",
    Outcome.CAPPED: "PRUNED",
    Outcome.STOPPED: "PRUNED",
    Outcome.DIVERGED: "FAIL",
    Outcome.INFEASIBLE: "FAIL",
    Outcome.FAILED: "FAIL",
    Outcome.CANCELLED: "FAIL",
}
LONGEST_TEXT = 2000  # characters of a reason


class StudyWriter:
    """A Listener that keeps the study up to date. storage: an Optuna URL; None: ``study.journal``."""

    def __init__(self, storage: str | None = None) -> None:
        self._storage = storage
        self._written: list[str] = []  # of each trial, what it was made from

    def on_start(self, view: SweepView) -> None:
        self.on_change(view)

    def on_change(self, view: SweepView) -> None:
        try:
            self.write(view)
        except (
            TrackingError,
            OSError,
        ) as error:  # derived data: the sweep goes on, the next change tries again
            log.warning("study not written: %s", error)

    def on_event(self, event: dict[str, Any]) -> None:
        """Decisions are in the sweep's directory."""

    def on_end(self, view: SweepView) -> None:
        self.on_change(view)

    def write(self, view: SweepView) -> None:
        """Bring the study up to the view. Raises TrackingError, OSError."""
        rows = [row for row in view.result["jobs"] if Outcome(row["outcome"]).is_final]
        wanted = _fingerprints(rows)
        if wanted == self._written:
            return
        kept = len(self._written)
        is_longer = kept > 0 and wanted[:kept] == self._written
        first = kept if is_longer else 0
        self._written = []  # what a failure leaves is made anew
        write_study(view, rows, first=first, storage=self._storage)
        self._written = wanted


def write_study(
    view: SweepView,
    rows: Sequence[Mapping[str, Any]] | None = None,
    *,
    first: int = 0,
    storage: str | None = None,
) -> None:
    """Write the trials of finished jobs from the ``first`` on; with 0 the study is made anew.

    Raises  TrackingError if the storage does not take them.
    """
    import optuna
    from optuna.exceptions import OptunaError
    from sqlalchemy.exc import SQLAlchemyError

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if rows is None:
        rows = [row for row in view.result["jobs"] if Outcome(row["outcome"]).is_final]
    jobs = {job.job_id: job for job in view.jobs}
    space = _space(rows)
    place: BaseStorage | None = None
    try:
        place = _open(view.directory, storage, anew=first == 0)
        if first == 0 and storage is not None:
            names = [study.study_name for study in optuna.get_all_study_summaries(place)]
            if view.sweep in names:
                optuna.delete_study(study_name=view.sweep, storage=place)
        study = optuna.create_study(
            storage=place, study_name=view.sweep, direction="minimize", load_if_exists=True
        )
        for row in rows[first:]:
            study.add_trial(_trial(row, jobs.get(row["id"]), space))
    except (OptunaError, SQLAlchemyError, ValueError, ImportError) as error:  # no driver for that address
        raise TrackingError(f"{storage or view.directory / 'study.journal'}: {error}") from error
    finally:
        _close(place)


def _close(place: BaseStorage | None) -> None:
    """Give a database its connections back."""
    from optuna.storages import RDBStorage

    if isinstance(place, RDBStorage):
        place.remove_session()
        place.engine.dispose()


def _open(directory: Path, storage: str | None, *, anew: bool) -> BaseStorage:
    """A journal file that only this process writes (the sweep's lock sees to that), or what the URL names."""
    from optuna.storages import JournalStorage, RDBStorage
    from optuna.storages.journal import JournalFileBackend

    if storage is not None:
        return RDBStorage(storage)
    path = directory / "study.journal"
    if anew:
        path.unlink(missing_ok=True)
    return JournalStorage(JournalFileBackend(str(path), lock_obj=cast(Any, _NoLock())))


class _NoLock:
    """Optuna's lock files outlive a killed process; the sweep's own lock already keeps other writers out."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        return None


def _trial(
    row: Mapping[str, Any], job: JobObservation | None, space: dict[str, BaseDistribution]
) -> FrozenTrial:
    """One finished job. Intermediate values are its scores at samples."""
    from optuna.trial import TrialState, create_trial

    state = TrialState[STATE[Outcome(row["outcome"])]]
    value = row["time_to_target"] if state is TrialState.COMPLETE else None
    if value is None and state is TrialState.COMPLETE:
        state = TrialState.PRUNED  # reached, but another clock or level left it without a time
    scores = {}
    if job is not None and job.curve is not None:
        pairs = zip(job.curve.samples.tolist(), job.curve.score.tolist(), strict=True)
        scores = {int(samples): score for samples, score in pairs if math.isfinite(score)}
    trial = create_trial(
        state=state,
        value=value,
        params={"batch_size": row["batch_size"], "lr": row["lr"]},
        distributions=space,
        user_attrs=_attributes(row),
        intermediate_values=scores,
    )
    for name, key in (("datetime_start", "start"), ("datetime_complete", "end")):
        if row[key] is not None:
            setattr(trial, name, datetime.fromtimestamp(row[key]))
    return trial


def _attributes(row: Mapping[str, Any]) -> dict[str, Any]:
    """What the trial's number leaves out; a bound says what a censored job proves."""
    names = ("id", "kind", "seed", "outcome", "samples", "seconds", "samples_to_target")
    attributes = {("job" if name == "id" else name): row[name] for name in names}
    attributes["reason"] = (row["reason"] or "")[:LONGEST_TEXT]
    if row["time_to_target"]:
        attributes["throughput"] = row["samples_to_target"] / row["time_to_target"]
    elif Outcome(row["outcome"]) in (Outcome.CAPPED, Outcome.STOPPED):
        attributes["time_to_target_at_least"] = row["seconds"]
        attributes["samples_to_target_at_least"] = row["samples"]
    return attributes


def _space(rows: Sequence[Mapping[str, Any]]) -> dict[str, BaseDistribution]:
    """Ranges that hold all jobs, on log scales."""
    from optuna.distributions import FloatDistribution, IntDistribution

    batches = [row["batch_size"] for row in rows] or [1]
    lrs = [row["lr"] for row in rows] or [1.0]
    return {
        "batch_size": IntDistribution(min(batches), max(batches), log=True),
        "lr": FloatDistribution(min(lrs), max(lrs), log=True),
    }


def _fingerprints(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """One per trial; changes with its result, and with the ranges, which Optuna keeps in each."""
    ranges = [
        pick((row[key] for row in rows), default=None) for key in ("batch_size", "lr") for pick in (min, max)
    ]
    keys = ("id", "outcome", "samples", "time_to_target")
    return [json.dumps([ranges, *(row[key] for key in keys)]) for row in rows]
