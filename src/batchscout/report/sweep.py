"""The sweep as the report draws it: result.json's rows joined with the curves behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from batchscout.measure.curve import Curve
from batchscout.run.listener import SweepView
from batchscout.run.record import read_decisions, read_provenance, read_sweep

CLOCK_WORDS = {
    "training": "training time",
    "training_evaluation": "training and evaluation time",
    "wall": "wall time",
}


@dataclass(frozen=True, slots=True)
class Trace:
    """One job's line in the mountain: its evaluations as plain lists. seconds: the target's clock."""

    job: str
    batch_size: int
    lr: float
    samples: list[float]
    seconds: list[float]
    score: list[float]
    target: float
    samples_to_target: float | None
    time_to_target: float | None

    @property
    def is_reached(self) -> bool:
        return self.samples_to_target is not None


@dataclass(frozen=True)
class Sweep:
    """Everything a report needs. provenance: sweep.json; decisions: lines of events.jsonl."""

    view: SweepView
    provenance: Mapping[str, Any] = field(default_factory=dict)
    decisions: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def read(cls, directory: Path) -> Sweep:
        """From the files of a sweep's directory. Raises SweepError if there is no result.json."""
        return cls(read_sweep(directory), read_provenance(directory), read_decisions(directory))

    @property
    def result(self) -> dict[str, Any]:
        return self.view.result

    @property
    def target(self) -> float:
        return float(self.result["target"])

    @property
    def clock_words(self) -> str:
        return CLOCK_WORDS[self.result["clock"]]

    @property
    def best_batch(self) -> int | None:
        answer = self.result["recommendation"]
        return None if answer is None else int(answer["batch_size"])

    @property
    def curves(self) -> dict[str, Curve]:
        """By job id, for the jobs that have measured anything."""
        return {job.job_id: job.curve for job in self.view.jobs if job.curve is not None}

    def traces(self) -> list[Trace]:
        """The jobs at each batch size's best learning rate, probes aside, by batch size."""
        chosen = {(row["batch_size"], row["lr"]) for row in self.result["table"]}
        curves = self.curves
        traces = []
        for row in self.result["jobs"]:
            if (
                row["kind"] == "probe"
                or (row["batch_size"], row["lr"]) not in chosen
                or row["id"] not in curves
            ):
                continue
            trace = self._trace(row, curves[row["id"]])
            if trace.score:
                traces.append(trace)
        return sorted(traces, key=lambda trace: (trace.batch_size, trace.job))

    def _trace(self, row: Mapping[str, Any], curve: Curve) -> Trace:
        seconds = clock_seconds(curve, self.result["clock"])
        kept = [i for i, score in enumerate(curve.score.tolist()) if score == score]
        return Trace(
            job=row["id"],
            batch_size=row["batch_size"],
            lr=row["lr"],
            samples=[float(curve.samples[i]) for i in kept],
            seconds=[seconds[i] for i in kept],
            score=[float(curve.score[i]) for i in kept],
            target=self.target,
            samples_to_target=row["samples_to_target"],
            time_to_target=row["time_to_target"],
        )


def clock_seconds(curve: Curve, clock: str) -> list[float]:
    """The target's clock at each evaluation."""
    if clock == "wall":
        return [float(value) for value in curve.wall_seconds]
    seconds = curve.seconds if clock == "training" else curve.seconds + curve.evaluation_seconds
    return [float(value) for value in seconds]
