"""A finished sweep as others build on it: its jobs, what they measured, on which hardware.

From a sweep directory or from an exported file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from batchscout.errors import SweepError
from batchscout.measure.curve import Curve
from batchscout.measure.outcome import Outcome
from batchscout.measure.target import Target
from batchscout.run.record import read_provenance, read_sweep
from batchscout.run.recorded import RecordedSweep
from batchscout.search.protocol import JobObservation, Point

FINISHED = ("complete", "exhausted")
GROUPS = ("trainer", "task", "model")
MACHINE_KEYS = ("threads", "device", "sampling_micro_batch_size", "check", "prepare",
                "noise_scale_every", "noise_scale_samples")  # fmt: skip
"""Trainer parameters that say how a machine is used or what else is measured, not what is learnt."""
UNKNOWN = "recorded"
"""The name that a replay gives to what its recording does not tell."""


@dataclass(frozen=True)
class FinishedSweep:
    """What a finished sweep leaves to others.

    identity   dotted name → value of everything that enters S; a name that is unknown is absent
    evaluation spacing and prompts of the evaluations, {} where unknown
    gpu, gpus  model (None: unknown) and number per job, at least 1
    price      per GPU-hour, None where none was given
    points     every setting that it might have run
    """

    path: Path
    sweep: str
    status: str
    target: Target
    identity: Mapping[str, Any]
    evaluation: Mapping[str, Any]
    jobs: tuple[JobObservation, ...]
    hardware: str
    gpu: str | None
    gpus: int
    price: float | None
    commit: str | None
    points: tuple[Point, ...] = ()
    result: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """How it is called beside others."""
        return f"{self.gpu or self.hardware}" + (f" ×{self.gpus}" if self.gpus > 1 else "")

    @property
    def reached(self) -> int:
        return sum(job.outcome is Outcome.REACHED and job.kind != "probe" for job in self.jobs)


def read_finished(path: Path, *, needs_target: bool = True) -> FinishedSweep:
    """A sweep directory, or a file from `batchscout export`.

    needs_target  refuse a sweep in which no job reached the target
    Raises        SweepError: no sweep, not finished, nothing reached; ConfigError: no such file
    """
    path = Path(path)
    found = _from_directory(path) if path.is_dir() else _from_export(path)
    if found.status not in FINISHED:
        raise SweepError(f"{path} is {found.status}, not finished; let it end (batchscout resume {path})")
    if needs_target and not found.reached and not found.result.get("recommendation"):
        raise SweepError(
            f"{path}: no job reached the target {found.target.score:g}, so S is unknown; "
            "lower the target or raise the caps there first"
        )
    return found


def differences(one: FinishedSweep, other: FinishedSweep) -> list[tuple[str, Any, Any]]:
    """(name, here, there) of everything that enters S and is known of both to differ; target first."""
    out: list[tuple[str, Any, Any]] = []
    for name in ("score", "direction"):
        here, there = getattr(one.target, name), getattr(other.target, name)
        if here != there:
            out.append((f"target.{name}", here, there))
    return out + identity_differences(one.identity, other.identity)


def identity_differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Of what both tell: where one side knows only a group's name (an export), the names alone are
    compared."""
    out = []
    for name in sorted({*one, *other}):
        group = name.partition(".")[0]
        known = [sum(k.partition(".")[0] == group for k in side) for side in (one, other)]
        is_told = min(known) > 1 or (min(known) == 1 and name in one and name in other)
        if is_told and one.get(name) != other.get(name):
            out.append((name, one.get(name), other.get(name)))
    return out


def unknown_groups(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[str, ...]:
    """trainer, task or model that one side does not tell."""
    return tuple(g for g in GROUPS if not all(f"{g}.name" in side for side in (one, other)))


def identity_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Everything of a resolved configuration that enters S, by dotted name; of a replay the names alone."""
    if (config.get("hardware") or {}).get("executor") == "replay":
        names = {group: (config.get(group) or {}).get("name") for group in GROUPS}
        return {f"{g}.name": name for g, name in names.items() if name not in (None, "", UNKNOWN)}
    out: dict[str, Any] = {}
    for group in GROUPS:
        content = config.get(group) or {}
        if content.get("name") in (None, "", UNKNOWN):
            continue
        kept = {k: v for k, v in content.items() if group != "trainer" or k not in MACHINE_KEYS}
        out |= {f"{group}.{key}": value for key, value in kept.items() if value is not None}
    if "trainer.function" in out:
        out |= {key: config[key] for key in ("group_size", "mini_batch_size") if config.get(key)}
    return out


def recorded_identity(header: Mapping[str, Any]) -> dict[str, Any]:
    """What the header of a recorded sweep tells: names, where it does."""
    return {f"{group}.name": header[group] for group in GROUPS if header.get(group)}


def _from_directory(path: Path) -> FinishedSweep:
    view = read_sweep(path)
    config, record = view.config, read_provenance(path)
    hardware = config.get("hardware") or {}
    target = dict(config.get("target") or {})
    rows = view.result["jobs"]
    gpus = max((row["gpus"] or 0 for row in rows), default=0) or int(hardware.get("gpus") or 0)
    return FinishedSweep(
        path=path,
        sweep=view.sweep,
        status=view.result["status"],
        target=Target(
            score=float(view.result["target"]),
            direction=target.get("direction", "max"),
            patience=int(target.get("patience", 2)),
            clock=view.result["clock"],
        ),
        identity=identity_of(config),
        evaluation=dict(config.get("evaluation") or {}),
        jobs=tuple(view.jobs),
        hardware=str(hardware.get("name") or "unknown"),
        gpu=next((row["gpu"] for row in rows if row["gpu"]), None) or hardware.get("gpu"),
        gpus=max(gpus, 1),
        price=hardware.get("price_per_gpu_hour"),
        commit=(record.get("git") or {}).get("commit"),
        points=tuple(Point(int(b), float(lr)) for b, lr in (record.get("lists") or {}).get("points") or ()),
        result=view.result,
    )


def _from_export(path: Path) -> FinishedSweep:
    recording = RecordedSweep.read(path)
    header = recording.header
    identity = recorded_identity(header)
    return FinishedSweep(
        path=path,
        sweep=recording.world,
        status="complete",
        target=Target(score=recording.target),
        identity=identity,
        evaluation={},
        jobs=tuple(_recorded_jobs(recording)),
        hardware=path.name.partition(".")[0],
        gpu=recording.gpu,
        gpus=max(recording.gpus, 1),
        price=None,
        commit=header.get("commit"),
        points=tuple(Point(b, lr) for b in recording.batch_sizes for lr in recording.lrs),
    )


def _recorded_jobs(recording: RecordedSweep) -> list[JobObservation]:
    out = []
    for (point, seed), job in sorted(recording.jobs.items(), key=lambda item: item[0]):
        curve = Curve.from_recorded(dict(job.record))
        out.append(JobObservation(
            job_id=f"b{point.batch_size}-lr{point.lr:g}-s{seed}", kind="run", point=point, seed=seed,
            outcome=job.outcome, reason="recorded", curve=curve if job.evaluations else None,
            seconds=float(curve.total_seconds) if job.evaluations else 0.0,
        ))  # fmt: skip
    return out


def listed_differences(found: Sequence[tuple[str, Any, Any]]) -> str:
    """`target.score 0.8 and 0.7, trainer.clip 0.2 and 0.3`."""
    return ", ".join(f"{name} {here} and {there}" for name, here, there in found)
