"""Recorded sweeps: one file of JSON lines that holds what a sweep measured, to be replayed or passed on
(DESIGN §4).

Line 1 is the header, every further line one job's curve. Probes are not recorded: a replay makes them from
the curves.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from batchscout.errors import ConfigError, SweepError
from batchscout.measure.outcome import Outcome
from batchscout.run.listener import SweepView
from batchscout.run.record import read_sweep
from batchscout.search.protocol import JobObservation, Point, Space

STATUSES = (Outcome.REACHED, Outcome.CAPPED, Outcome.STOPPED, Outcome.DIVERGED, Outcome.INFEASIBLE)
SERIES = ("samples", "seconds", "sampling_seconds", "score")
OPTIONAL = ("score_n", "evaluation_seconds", "wall_seconds")


@dataclass(frozen=True, slots=True)
class RecordedJob:
    """One cell: its end and its evaluations. record is the line itself, as Curve.from_recorded reads it."""

    point: Point
    seed: int
    outcome: Outcome
    record: Mapping[str, Any]

    @property
    def evaluations(self) -> int:
        return len(self.record["samples"])

    @property
    def total(self) -> tuple[int, float] | None:
        """(samples, seconds) at its last update, where that came after the last evaluation."""
        samples = self.record.get("total_samples")
        return None if not samples else (int(samples), float(self.record["total_seconds"]))

    def first(self, evaluations: int, *, is_whole: bool) -> dict[str, Any]:
        """The line as it would be had the job ended after so many evaluations (is_whole: as it did end)."""
        if is_whole:
            return dict(self.record)
        cut = {name: self.record[name][:evaluations] for name in (*SERIES, *OPTIONAL) if name in self.record}
        left_out = ("total_samples", "total_seconds", "update_seconds")
        return {**{k: v for k, v in self.record.items() if k not in left_out}, **cut}


@dataclass(frozen=True, slots=True)
class RecordedSweep:
    """A whole file. Unknown identity (gpu, trainer, …) is None."""

    world: str
    target: float
    batch_sizes: tuple[int, ...]
    lrs: tuple[float, ...]
    seeds: tuple[int, ...]
    gpus: int
    jobs: Mapping[tuple[Point, int], RecordedJob]
    gpu: str | None = None
    startup_seconds: float = 0.0
    header: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> RecordedSweep:
        """Raises ConfigError if there is no such file, SweepError naming the line if it is not a recorded
        sweep."""
        lines = _lines(Path(path))
        number, header = next(lines, (0, None))
        if header is None:
            raise SweepError(f"{path} is empty; a recorded sweep begins with its header line")
        try:
            return cls._build(header, _jobs(path, lines))
        except (KeyError, TypeError, ValueError) as error:
            raise SweepError(
                f"{path} line {number}: no header of a recorded sweep ({_fault(error)})"
            ) from error

    @classmethod
    def _build(cls, header: Mapping[str, Any], jobs: dict[tuple[Point, int], RecordedJob]) -> RecordedSweep:
        return cls(
            world=str(header["world"]),
            target=float(header["target"]),
            batch_sizes=tuple(sorted(int(b) for b in header["batch_sizes"])),
            lrs=tuple(sorted(float(lr) for lr in header["learning_rates"])),
            seeds=tuple(sorted(int(s) for s in header["seeds"])),
            gpus=int(header["gpus"] or 0),
            jobs=jobs,
            gpu=header.get("gpu"),
            startup_seconds=float(header.get("startup_seconds") or 0.0),
            header=header,
        )

    def space(self) -> Space:
        """What a search may propose: the header's lists, the cells that the file has."""
        listed = set(self.batch_sizes), set(self.lrs), set(self.seeds)
        cells = frozenset(
            (p, s) for p, s in self.jobs if p.batch_size in listed[0] and p.lr in listed[1] and s in listed[2]
        )
        return Space(
            batch_sizes=self.batch_sizes,
            lrs=self.lrs,
            seeds=self.seeds[-1] - self.seeds[0] + 1,
            seed0=self.seeds[0],
            points=tuple(sorted({p for p, _ in cells})),
            available=cells,
        )


def export_sweep(directory: Path) -> list[str]:
    """The recorded form of a sweep directory, line by line (no line ends). Jobs without a result are left
    out.

    Raises  SweepError if it holds no result.
    """
    view = read_sweep(directory)
    jobs = [job for job in view.jobs if job.kind != "probe" and job.outcome in STATUSES]
    return [json.dumps(line, allow_nan=False) for line in (_header(view, jobs), *map(_record, _sorted(jobs)))]


def _sorted(jobs: list[JobObservation]) -> list[JobObservation]:
    return sorted(jobs, key=lambda job: (job.point, job.seed))


def _header(view: SweepView, jobs: list[JobObservation]) -> dict[str, Any]:
    rows = view.result["jobs"]
    startups = [row["startup_seconds"] for row in rows if row["startup_seconds"]]
    identity = {
        "gpu": next((row["gpu"] for row in rows if row["gpu"]), None),
        **{group: (view.config.get(group) or {}).get("name") for group in ("trainer", "model", "task")},
        "startup_seconds": round(sum(startups) / len(startups), 3) if startups else None,
    }
    return {
        "world": view.sweep,
        "target": view.result["target"],
        "batch_sizes": sorted({job.point.batch_size for job in jobs}),
        "learning_rates": sorted({job.point.lr for job in jobs}),
        "seeds": sorted({job.seed for job in jobs}),
        "gpus": max((row["gpus"] or 0 for row in rows), default=0),
        **{name: value for name, value in identity.items() if value},
    }


def _record(job: JobObservation) -> dict[str, Any]:
    point = job.point
    if job.curve is not None:
        line = job.curve.to_recorded(learning_rate=point.lr, seed=job.seed, status=job.outcome.value)
        return {
            key: value for key, value in line.items() if key != "wall_seconds"
        }  # includes waiting; not replayed
    identity = {"batch_size": point.batch_size, "learning_rate": point.lr, "seed": job.seed}
    return {**identity, "status": job.outcome.value, **{name: [] for name in SERIES}}


def _lines(path: Path) -> Iterator[tuple[int, Any]]:
    if not path.is_file():
        raise ConfigError(
            "hardware.source", path, "must name a recorded sweep (batchscout export SWEEP_DIR makes one)"
        )
    with path.open("rb") as file:
        is_packed = file.read(2) == b"\x1f\x8b"
    try:
        with gzip.open(path, "rt", encoding="utf-8") if is_packed else path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, json.loads(line, parse_constant=lambda word: None)  # NaN
    except (OSError, EOFError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise SweepError(f"{path} is not a recorded sweep: {error}") from error


def _jobs(path: Path, lines: Iterator[tuple[int, Any]]) -> dict[tuple[Point, int], RecordedJob]:
    jobs: dict[tuple[Point, int], RecordedJob] = {}
    for number, content in lines:
        cell, job = _job(path, number, content)
        if cell in jobs:
            raise SweepError(
                f"{path} line {number}: a second job at batch_size={cell[0].batch_size} lr={cell[0].lr:g} "
                f"seed={cell[1]}; leave one out"
            )
        jobs[cell] = job
    return jobs


def _fault(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _job(path: Path, number: int, content: Any) -> tuple[tuple[Point, int], RecordedJob]:
    try:
        point = Point(int(content["batch_size"]), float(content["learning_rate"]))
        seed, outcome = int(content["seed"]), Outcome(content["status"])
        lengths = {len(content[name]) for name in SERIES}
    except (KeyError, TypeError, ValueError) as error:
        raise SweepError(f"{path} line {number}: no job of a recorded sweep ({_fault(error)})") from error
    if outcome not in STATUSES:
        raise SweepError(f"{path} line {number}: status {outcome} is not one of {', '.join(STATUSES)}")
    if len(lengths) != 1:
        raise SweepError(f"{path} line {number}: {', '.join(SERIES)} differ in length")
    for name in SERIES:
        values = [v for v in content[name] if v is not None or name != "score"]
        if not all(isinstance(value, (int, float)) and math.isfinite(value) for value in values):
            raise SweepError(f"{path} line {number}: {name} must be numbers; only a score may be null")
        if name != "score" and any(later < earlier for earlier, later in pairwise(values)):
            raise SweepError(f"{path} line {number}: {name} decreases; it must be cumulative")
    if len(set(content["samples"])) < len(content["samples"]):
        raise SweepError(f"{path} line {number}: two evaluations at the same samples; leave one out")
    return (point, seed), RecordedJob(point, seed, outcome, content)
