"""What one value alone cannot say: which values are impossible together, in a sweep and in one job."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from batchscout.config.fields import unknown_choice
from batchscout.config.groups import SEARCHES
from batchscout.errors import ConfigError

if TYPE_CHECKING:
    from batchscout.config.groups import TargetConfig, TaskConfig
    from batchscout.config.sweep import JobConfig, SweepConfig


def check_sweep(config: SweepConfig) -> None:
    """Raises ConfigError for values of a sweep that contradict each other."""
    if not re.fullmatch(r"\w[\w.+-]*", config.name):
        fitting = re.sub(r"[^\w.+-]+", "-", config.name).strip("-.") or "sweep"
        raise ConfigError("name", config.name, f"must be a folder's name, as in name={fitting}")
    check_target(config.target, config.task)
    _check_lr_rule(config)
    _check_search(config)
    _check_hardware(config)
    _check_tracking(config)


def check_job(job: JobConfig) -> None:
    """Raises ConfigError with the nearest right values where a job's batch arithmetic is impossible."""
    check_batch(job.batch_size, job.group_size)
    mini = job.mini_batch_size or job.batch_size
    if job.batch_size % mini:
        fitting = _divisors(job.batch_size, mini, job.group_size)
        advice = f"does not divide batch_size={job.batch_size}; use one of {fitting}"
        raise ConfigError("mini_batch_size", mini, advice)
    if job.micro_batch_size and job.micro_batch_size < mini and mini % job.micro_batch_size:
        raise ConfigError(
            "micro_batch_size",
            job.micro_batch_size,
            f"does not divide mini_batch_size={mini}; use one of {_divisors(mini, job.micro_batch_size, 1)}",
        )


def check_batch(batch_size: int, group_size: int) -> None:
    """batch_size counts rollouts, group_size of them per prompt."""
    if batch_size % group_size:
        below = batch_size // group_size * group_size
        near = " or ".join(str(b) for b in (below, below + group_size) if b)
        raise ConfigError(
            "batch_size",
            batch_size,
            f"is not a multiple of group_size={group_size} (it counts rollouts, not prompts); use {near}",
        )


def check_target(target: TargetConfig, task: TaskConfig) -> None:
    """Target and levels must be scores that the task can give."""
    if not task.score_range:
        return
    if len(task.score_range) != 2:
        raise ConfigError("task.score_range", list(task.score_range), "must be [lowest, highest]")
    low, high = task.score_range
    names = [("target.score", target.score), *(("target.levels", level) for level in target.levels)]
    for name, score in names:
        if not low <= score <= high:
            percent = score / 100
            near = percent if high == 1 and 1 < score <= 100 else min(max(score, low), high)
            raise ConfigError(
                name,
                f"{score:g}",
                f"is outside the range of this task's score, {low:g} to {high:g}; did you mean {near:g}?",
            )


def _check_lr_rule(config: SweepConfig) -> None:
    rule = config.lr_rule
    if rule.name == "fixed":
        if config.lr_reference is not None:
            raise ConfigError(
                "lr_reference",
                config.lr_reference,
                "is only read by lr_rule=sqrt or linear; with lr_rule=fixed type lr=…",
            )
        return
    if rule.reference_batch_size is None:
        raise ConfigError("lr_rule.reference_batch_size", "null", f"must be given where lr_rule={rule.name}")
    if config.lr is not None:
        raise ConfigError(
            "lr",
            config.lr,
            f"contradicts lr_rule={rule.name}, which computes it; type lr_reference={config.lr:g} or "
            "lr_rule=fixed",
        )


def _check_search(config: SweepConfig) -> None:
    if config.search.name not in SEARCHES and config.search.function is None:
        raise unknown_choice("search", config.search.name, SEARCHES)
    if config.search.name == "time_to_target" and not config.search.stops_jobs:
        raise ConfigError(
            "search.stops_jobs", "false", "is for search=tpe, gp or random; this one must stop jobs"
        )
    for name, path in (
        ("search.function", config.search.function),
        ("trainer.function", config.trainer.function or None),
        ("trainer.check", config.trainer.check),
    ):
        if path is not None and not _is_dotted(path):
            raise ConfigError(name, path, "must look like package.module:function")


def _is_dotted(path: str) -> bool:
    module, colon, function = path.partition(":")
    return bool(colon) and function.isidentifier() and all(part.isidentifier() for part in module.split("."))


def _check_hardware(config: SweepConfig) -> None:
    hardware = config.hardware
    _ = hardware.time_limit_minutes
    if hardware.executor == "replay" and not hardware.source:
        raise ConfigError(
            "hardware.source",
            "null",
            "must name a recorded sweep (.jsonl or .jsonl.gz) where hardware=replay",
        )
    if hardware.gpus % (hardware.nodes * hardware.tasks) and hardware.gpus:
        raise ConfigError(
            "hardware.gpus",
            hardware.gpus,
            f"must be a multiple of hardware.nodes × hardware.tasks = {hardware.nodes * hardware.tasks}",
        )


def _check_tracking(config: SweepConfig) -> None:
    tracking = config.tracking
    if tracking.name == "server" and not tracking.uri:
        raise ConfigError(
            "tracking.uri", "null", "must name the server where tracking=server, as in http://host:5000"
        )
    if tracking.trainer_joins and tracking.name == "none":
        raise ConfigError("tracking.trainer_joins", "true", "needs tracking=embedded or tracking=server")
    if tracking.trainer_joins and tracking.name == "embedded" and config.hardware.executor == "slurm":
        raise ConfigError(
            "tracking.trainer_joins",
            "true",
            "needs a server that the nodes reach: tracking=server tracking.uri=http://host:5000",
        )
    for name, address, otherwise in (
        ("tracking.uri", tracking.uri, "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"),
        ("tracking.study", tracking.study, "~/.pgpass or PGPASSWORD"),
    ):
        secret = urlsplit(address).password if address else None
        if address and secret:
            shown = address.replace(secret, "…")
            advice = f"must not hold a password, which sweep.json and the report would show; use {otherwise}"
            raise ConfigError(name, shown, advice)
    if tracking.study is not None and "://" not in tracking.study:
        raise ConfigError(
            "tracking.study",
            tracking.study,
            "must be an SQL address, as in postgresql+psycopg://user@host/database",
        )


def _divisors(number: int, near: int, step: int) -> str:
    """Up to four divisors of `number` that are multiples of `step`, those nearest to `near`."""
    found = [d for d in range(step, number + 1, step) if number % d == 0]
    return ", ".join(str(d) for d in sorted(sorted(found, key=lambda d: abs(d - near))[:4]))
