"""What was asked for, made into what is run; what cannot work is refused here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from batchscout.config import SweepConfig
from batchscout.config.fields import build
from batchscout.errors import ConfigError
from batchscout.functions import check_exists, load
from batchscout.run.budget import Budget
from batchscout.run.carry import Carried, carry
from batchscout.run.finished import identity_of, recorded_identity
from batchscout.run.recorded import RecordedSweep
from batchscout.run.settings import SweepSettings
from batchscout.run.snapshot import commit_of
from batchscout.search.protocol import Point, SearchContext, Space
from batchscout.sweep_space import Lists, make_space, restricted

DEFAULT_SEARCH_JOBS = 40
"""Jobs of a search whose budget is left open: it ends."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A sweep as asked for.

    mapping     the composed configuration, plain
    lists       what was listed
    home        sweep.py's directory, whose code is copied for the jobs
    runs        where runs/NAME/TIME goes, unless `directory` is given
    directory   given explicitly, else None
    command     the words to type again
    typed       dotted names of what was typed
    """

    mapping: Mapping[str, Any]
    lists: Lists
    home: Path
    runs: Path
    directory: Path | None = None
    command: tuple[str, ...] = ()
    typed: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A request that passed every check."""

    request: Request
    config: SweepConfig
    space: Space
    settings: SweepSettings
    recording: RecordedSweep | None = None
    carried: Carried | None = None

    @property
    def planned_jobs(self) -> int:
        """Upper bound of the number of jobs."""
        cells = sum(self.space.has(p, s) for p in self.space.all_points() for s in self.space.all_seeds())
        if self.config.search.name in ("time_to_target", "new_gpu"):  # probes each batch size first
            cells += len(self.space.batch_sizes)
        return min(cells, self.settings.budget.jobs or cells)


def make_plan(request: Request) -> Plan:
    """Raises ConfigError, one line, for whatever cannot work; by then nothing was submitted or written."""
    request = replace(request, mapping=with_tracking_uri(request.mapping, request.runs))
    typed = build(SweepConfig, request.mapping)  # keys and types, before values are compared with each other
    recording = _recording(typed, request.home)
    carried = _carried(typed, request, recording) if typed.search.name == "new_gpu" else None
    if recording is None:
        config = SweepConfig.from_mapping(request.mapping)
        if carried is not None and request.lists.batch_size is None and request.lists.lr is None:
            config = config.replace(points=points_of(carried.sweep.points))
        space = make_space(config, request.lists)
        check_trainer(config, space)
    else:
        config = SweepConfig.from_mapping(_recorded_mapping(request, recording))
        space = restricted(recording.space(), request.lists, config, seeds_typed="seeds" in request.typed)
    if config.search.function:
        check_exists("search.function", config.search.function)
    settings = make_settings(config, space, recording)
    return Plan(
        request=request, config=config, space=space, settings=settings, recording=recording,
        carried=carried,
    )  # fmt: skip


def with_tracking_uri(mapping: Mapping[str, Any], runs: Path) -> dict[str, Any]:
    """The embedded database's address filled in, so that sweep.json says where runs were logged."""
    tracking = dict(mapping.get("tracking") or {})
    if tracking.get("name") == "embedded" and not tracking.get("uri"):
        tracking["uri"] = f"sqlite:///{runs.absolute() / 'mlflow.db'}"
    return {**mapping, "tracking": tracking}


def _recording(config: SweepConfig, home: Path) -> RecordedSweep | None:
    if config.hardware.executor != "replay":
        return None
    if not config.hardware.source:
        raise ConfigError(
            "hardware.source", "null", "must name a recorded sweep, as in hardware.source=sweep.jsonl.gz"
        )
    path = Path(config.hardware.source).expanduser()
    beside = home / path
    return RecordedSweep.read(path if path.exists() or not beside.exists() else beside)


def _carried(config: SweepConfig, request: Request, recording: RecordedSweep | None) -> Carried:
    """The finished sweep that `new_gpu.source` names, refused where its samples would be others."""
    target = config.target.to_target()
    gpu, identity = config.hardware.gpu, identity_of(config.to_mapping())
    if recording is not None:
        gpu, identity = recording.gpu, recorded_identity(recording.header)
        if "target.score" not in request.typed:
            target = replace(target, score=recording.target)
    return carry(
        config.new_gpu.source,
        identity=identity,
        target=target,
        evaluation={} if recording is not None else config.to_mapping()["evaluation"],
        gpu=gpu,
        commit=None if recording is not None else commit_of(request.home),
        accept=config.new_gpu.accept,
        directory=request.directory,
        beside=request.home,
    )


def points_of(points: Sequence[Point]) -> dict[str, list[float]]:
    """As `points` of the configuration lists them."""
    out: dict[str, list[float]] = {}
    for point in sorted(points):
        out.setdefault(str(point.batch_size), []).append(point.lr)
    return out


def _recorded_mapping(request: Request, recording: RecordedSweep) -> dict[str, Any]:
    """The header's identity and target instead of the configuration's; nothing of a trainer is checked."""
    mapping, header = request.mapping, recording.header
    target = dict(mapping.get("target") or {})
    if "target.score" not in request.typed:
        target["score"] = recording.target
    return {
        **mapping,
        **{group: {"name": str(header.get(group) or "recorded")} for group in ("trainer", "task", "model")},
        "target": target,
        "hardware": {**mapping["hardware"], "gpu": recording.gpu, "gpus": recording.gpus},
        "lr_rule": {"name": "fixed"},
        **dict.fromkeys(("lr", "lr_reference", "mini_batch_size", "micro_batch_size")),
        "group_size": 1,
        "points": {},
        "caps": {},
    }


def check_trainer(config: SweepConfig, space: Space) -> None:
    """The trainer's function must exist, and its own check must accept every point."""
    trainer = config.trainer
    if not trainer.function:
        raise ConfigError("trainer.function", "(missing)", "must be given, as in my_package.my_trainer:train")
    check_exists("trainer.function", trainer.function)
    if trainer.check is None:
        return
    check = load("trainer.check", trainer.check)
    for point in space.all_points():
        job = config.job(point.batch_size, point.lr, space.seed0).to_mapping()
        try:
            check(job)
        except ConfigError:
            raise
        except Exception as error:  # boundary: a check of one's own says no in its own way
            words = f"{type(error).__name__}: {error}".splitlines()[0]
            where = f"batch_size={point.batch_size} lr={point.lr:g}"
            raise ConfigError("trainer.check", trainer.check, f"refuses {where}: {words}") from error


def make_settings(config: SweepConfig, space: Space, recording: RecordedSweep | None) -> SweepSettings:
    """What the controller gets."""
    hardware = config.hardware
    budget = Budget(**{name: getattr(config.budget, name) for name in Budget.__dataclass_fields__})
    is_search = config.search.name != "grid"
    overhead = (
        hardware.startup_seconds + hardware.queue_seconds + (recording.startup_seconds if recording else 0)
    )
    timing = {
        name: value
        for name, value in (
            (
                "poll_seconds",
                (min(0.2, hardware.poll_seconds), hardware.poll_seconds) if hardware.poll_seconds else None,
            ),
            ("watchdog_seconds", hardware.watchdog_seconds),
        )
        if value is not None
    }
    return SweepSettings(
        name=config.name,
        config=config.to_mapping(),
        measured=config.measured_part(),
        job_config=_JobConfigOf(config),
        context=SearchContext(
            space=space,
            target=config.target.to_target(),
            seed=config.search.seed,
            tolerance=config.search.tolerance,
            slots=hardware.slots,
            group_size=config.group_size,
            overhead_seconds=overhead,
            job_cap_seconds=config.caps.seconds,
            job_cap_samples=config.caps.samples,
        ),
        search=config.search.name,
        budget=budget.with_default_jobs(DEFAULT_SEARCH_JOBS) if is_search else budget,
        caps=config.caps.to_caps(),
        hardware=hardware.name,
        gpu=hardware.gpu,
        gpus=hardware.gpus,
        price_per_gpu_hour=hardware.price_per_gpu_hour,
        max_failures=config.max_failures,
        max_requeues=config.max_requeues,
        is_recorded=recording is not None,
        **timing,  # type: ignore[arg-type]
    )


@dataclass(frozen=True, slots=True)
class _JobConfigOf:
    """(point, seed) → one job's configuration, JSON-able."""

    config: SweepConfig

    def __call__(self, point: Point, seed: int) -> dict[str, Any]:
        return self.config.job(point.batch_size, point.lr, seed).to_mapping()
