"""What MLflow is told of a sweep and of each of its jobs: pure records, computed from the sweep alone.

The same sweep always gives the same entries, live and from files, so that logging one again changes nothing:
MLflow ignores a metric point whose key, step, time stamp and value are all equal to one it has.
Time stamps are the job's start plus its `wall_seconds`; steps are samples.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from batchscout.measure.outcome import Outcome
from batchscout.report.numbers import rate
from batchscout.run.listener import SweepView
from batchscout.search.protocol import JobObservation
from batchscout.track.description import describe
from batchscout.track.facts import Facts
from batchscout.track.points import Point, Row, curve_points, final_points, milliseconds

SWEEP_TAG = "batchscout.sweep"
JOB_TAG = "batchscout.job"
KIND_TAG = "batchscout.kind"
DIGEST_TAG = "batchscout.digest"
JOINED_TAG = "batchscout.joined"

#: MLflow's words for how a run ended. What the search stopped on purpose finished; what broke failed.
STATUS = {
    Outcome.QUEUED: "SCHEDULED",
    Outcome.RUNNING: "RUNNING",
    Outcome.PREEMPTED: "SCHEDULED",
    Outcome.REACHED: "FINISHED",
    Outcome.CAPPED: "FINISHED",
    Outcome.STOPPED: "FINISHED",
    Outcome.DIVERGED: "FAILED",
    Outcome.INFEASIBLE: "FAILED",
    Outcome.FAILED: "FAILED",
    Outcome.CANCELLED: "KILLED",
}
SWEEP_STATUS = {
    "running": "RUNNING",
    "complete": "FINISHED",
    "exhausted": "FINISHED",
    "interrupted": "KILLED",
}
MAX_TAG = 5000  # characters; MLflow cuts at 8000 of some encodings and warns
MAX_PARAM = 500


@dataclass(frozen=True, slots=True)
class RunEntry:
    """One MLflow run: what identifies it (sweep and job; job None: the sweep's own run) and what it holds.

    is_final   nothing will be added, unless a stopped job is continued
    start, end milliseconds since the epoch; start None: not started yet
    """

    sweep: str
    job: str | None
    name: str
    status: str
    is_final: bool
    start: int | None
    end: int | None
    params: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    points: tuple[Point, ...] = ()

    @property
    def digest(self) -> str:
        """Changes when anything of the content changes."""
        content: list[Any] = [self.status, self.end, dict(self.params), dict(self.tags)]
        content.append([[p.key, p.step, p.timestamp, p.value] for p in self.points])
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def entries(view: SweepView, facts: Facts) -> Iterator[RunEntry]:
    """The sweep's own run first, then one per job that has started or ended, in the order of result.json."""
    if sweep_start(view) is not None:
        yield sweep_entry(view)
    jobs = {job.job_id: job for job in view.jobs}
    for row in view.result["jobs"]:
        if is_loggable(row):
            yield job_entry(view, row, jobs.get(row["id"]), facts=facts)


def is_loggable(row: Row) -> bool:
    """Whether the job has its run: MLflow fixes a run's start when it is made, so queued jobs wait."""
    return row["start"] is not None or Outcome(row["outcome"]).is_final


def job_entry(view: SweepView, row: Row, job: JobObservation | None, *, facts: Facts) -> RunEntry:
    """One job. row: its entry in result.json's ``jobs``.

    While a job runs only its scores are logged, and only up to its newest checkpoint (``facts.settled``): a
    restart could undo the rest, and MLflow cannot take a point back. The clocks come with the end, because
    their warm-up correction needs the whole attempt.
    """
    outcome = Outcome(row["outcome"])
    curve = None if job is None else job.curve
    start = next(
        (t for t in (row["start"], row["submitted"], row["end"]) if t is not None), sweep_start(view) or 0.0
    )
    origin = milliseconds(start)
    points: list[Point] = []
    for key in ("batch_size", "lr"):  # parameters are text to MLflow; numbers sort
        points.append(Point(key, 0, origin, float(row[key])))
    if curve is not None:
        points += curve_points(
            curve, start, upto=None if outcome.is_final else facts.settled.get(row["id"], 0)
        )
    if outcome.is_final:
        points += final_points(view, row, job, start)
    return RunEntry(
        sweep=view.sweep,
        job=row["id"],
        name=_job_name(row),
        status=STATUS[outcome],
        is_final=outcome.is_final,
        start=origin,
        end=None if row["end"] is None else milliseconds(row["end"]),
        params=job_params(view, row),
        tags=_job_tags(row, facts),
        points=tuple(dict.fromkeys(points)),
    )


def joined_entry(sweep: str, job: Row, started: float) -> RunEntry:
    """The run of a job that starts now and whose trainer logs to it: the controller does not know its start yet.

    Parameters and points wait for the journal's start event, which they must agree with.

    job      its id, kind, batch_size, lr and seed
    started  Unix seconds
    """
    return RunEntry(
        sweep=sweep,
        job=job["id"],
        name=_job_name(job),
        status=STATUS[Outcome.RUNNING],
        is_final=False,
        start=milliseconds(started),
        end=None,
        tags={KIND_TAG: job["kind"], JOINED_TAG: "true"},
    )


def sweep_entry(view: SweepView) -> RunEntry:
    """The sweep's own run: how the answer grew with the ended jobs, its cost, and the answer in words."""
    result = view.result
    start = sweep_start(view) or 0.0
    points: list[Point] = []
    for step, item in enumerate(result["recommendations"], start=1):
        when = milliseconds(start + (item["elapsed_seconds"] or 0.0))
        named = {
            "best_batch_size": item["batch_size"],
            "best_lr": item["lr"],
            "sweep_seconds": item["cost_seconds"],
        }
        points += [Point(key, step, when, float(value)) for key, value in named.items() if _is_number(value)]
    ends = [row["end"] for row in result["jobs"] if row["end"] is not None]
    is_final = result["status"] != "running"
    return RunEntry(
        sweep=view.sweep,
        job=None,
        name=f"sweep {view.sweep}",
        status=SWEEP_STATUS[result["status"]],
        is_final=is_final,
        start=milliseconds(start),
        end=milliseconds(max(ends)) if is_final and ends else None,
        params={"target": _text(result["target"]), **_names(view.config)},
        tags={
            KIND_TAG: "sweep",
            "status": result["status"],
            "clock": result["clock"],
            "mlflow.note.content": describe(view),
        },
        points=tuple(points),
    )


def sweep_start(view: SweepView) -> float | None:
    """Unix seconds of the first submission, which later extensions do not move; None before there is one."""
    times = [row[key] for row in view.result["jobs"] for key in ("submitted", "start")]
    return min((float(time) for time in times if time is not None), default=None)


def job_params(view: SweepView, row: Row) -> dict[str, str]:
    """What a person filters and groups by, as text."""
    config = view.config
    params: dict[str, Any] = {
        key: row[key] for key in ("batch_size", "lr", "seed", "gpu", "gpus", "kind", "hardware")
    }
    params["target"] = view.result["target"]
    params |= _names(config)
    for key in ("group_size", "mini_batch_size"):
        if config.get(key) is not None:
            params[key] = config[key]
    return {key: _text(value)[:MAX_PARAM] for key, value in params.items() if value is not None}


def _names(config: Mapping[str, Any]) -> dict[str, str]:
    """Names of the chosen group entries: trainer, task, model, lr_rule."""
    named = {}
    for group in ("trainer", "task", "model", "lr_rule"):
        chosen = config.get(group)
        name = chosen.get("name") if isinstance(chosen, Mapping) else chosen
        if name is not None:
            named[group] = _text(name)[:MAX_PARAM]
    return named


def _job_name(row: Row) -> str:
    kind = "" if row["kind"] == "run" else f"{row['kind']} "
    return f"{kind}B={row['batch_size']} lr={rate(row['lr'])} seed={row['seed']}"


def _job_tags(row: Row, facts: Facts) -> dict[str, str]:
    tags = {
        KIND_TAG: row["kind"],
        "outcome": row["outcome"],
        "reason": row["reason"],
        "node": row["node"],
        "slurm_job_id": row.get("slurm_job_id"),
        "attempts": row["attempts"],
        "commit": facts.commit,
    }
    return {key: _text(value)[:MAX_TAG] for key, value in tags.items() if value not in (None, "")}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _text(value: Any) -> str:
    """As people type it: 4e-04 as 0.0004, 128 as 128."""
    return f"{value:.12g}" if isinstance(value, float) else str(value)
