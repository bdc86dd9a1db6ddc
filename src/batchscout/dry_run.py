"""What a sweep would do, in words: jobs, batch arithmetic, the most it may cost, the script for Slurm."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from batchscout.clock import RealClock
from batchscout.config import BatchArithmetic, SweepConfig
from batchscout.plan import Plan
from batchscout.report.numbers import duration, rate
from batchscout.search.protocol import Point

MANY = 8
"""Learning rates of one batch size that are still listed one by one."""


def describe(plan: Plan, directory: Path, *, is_resumed: bool = False) -> str:
    """The text that dry_run=true prints. Nothing is submitted and nothing below `directory` is written.

    is_resumed  an unfinished sweep lies there
    """
    return "\n".join([*_jobs(plan, directory, is_resumed), *_arithmetic(plan), *_cost(plan), *_script(plan)])


def _jobs(plan: Plan, directory: Path, is_resumed: bool) -> Iterator[str]:
    config, space = plan.config, plan.space
    points, seeds = len(space.all_points()), len(space.all_seeds())
    yield f"sweep      {config.name}, search={config.search.name}; nothing is submitted (dry_run=true)"
    yield f"directory  {directory}{', unfinished: goes on (fresh=true starts anew)' if is_resumed else ''}"
    kind = "" if config.search.name == "grid" else "at most "
    seeds_word = f"{seeds} seed{'s' if seeds > 1 else ''}"
    yield f"jobs       {kind}{plan.planned_jobs}, from {points} points × {seeds_word}"
    hardware = config.hardware
    where = f"{hardware.name} ({hardware.executor}), {hardware.slots} at once"
    yield f"hardware   {where}{f', {hardware.gpus} GPU each' if hardware.gpus else ''}"
    yield f"trainer    {config.trainer.name}; task {config.task.name}; model {config.model.name}"
    target = config.target
    sign = "≥" if target.direction == "max" else "≤"
    patience = f"{target.patience} evaluations in a row"
    yield f"target     score {sign} {target.score:g} in {patience}, clock={target.clock}"
    yield f"lr rule    {lr_rule(plan)}"


def lr_rule(plan: Plan) -> str:
    """Where each job's lr comes from."""
    rule = plan.config.lr_rule
    if rule.name == "fixed":
        per_batch = {
            b: sum(p.batch_size == b for p in plan.space.all_points()) for b in plan.space.batch_sizes
        }
        one = [str(b) for b, n in per_batch.items() if n == 1]
        warning = f"; only one lr is tried at batch_size {', '.join(one)}" if one else ""
        return f"fixed: as listed{warning}"
    power = {"sqrt": "√(B / {})", "linear": "B / {}"}[rule.name].format(rule.reference_batch_size)
    return f"{rule.name}: lr_reference · {power}; no lr is tried beside it"


def _arithmetic(plan: Plan) -> Iterator[str]:
    if plan.recording is not None:
        return
    config = plan.config
    yield ""
    for batch_size in plan.space.batch_sizes:
        sizes = BatchArithmetic(
            batch_size=batch_size,
            group_size=config.group_size,
            mini_batch_size=config.mini_batch_size or batch_size,
            micro_batch_size=config.micro_batch_size,
            gpus=max(1, config.hardware.gpus),
        )
        lrs = [p.lr for p in plan.space.all_points() if p.batch_size == batch_size]
        yield f"batch_size {sizes}; lr {_rates(lrs)}"
    if config.micro_batch_size is None:
        yield "           (micro_batch_size=null: the trainer chooses how much it passes at once)"


def _rates(lrs: list[float]) -> str:
    if len(lrs) > MANY:
        return f"{rate(lrs[0])} … {rate(lrs[-1])} ({len(lrs)} rates)"
    return ", ".join(rate(lr) for lr in lrs)


def _cost(plan: Plan) -> Iterator[str]:
    config, budget = plan.config, plan.settings.budget
    bounds = [f"budget.{name}={limit:g}" for name, limit in budget.limits().items()]
    yield ""
    if config.caps.seconds is not None:
        seconds = plan.planned_jobs * config.caps.seconds
        seconds = min([seconds, *([budget.seconds] if budget.seconds is not None else [])])
        gpu_hours = seconds * config.hardware.gpus / 3600
        text = f"cost       at most {duration(seconds)} on the training clock"
        if config.hardware.gpus:
            text += f" = {gpu_hours:.3g} GPU-hours"
        if config.hardware.price_per_gpu_hour and config.hardware.gpus:
            text += f" = {gpu_hours * config.hardware.price_per_gpu_hour:.2f} at the price given"
        yield f"{text}, start-up and queueing apart"
    elif plan.recording is None:
        yield "cost       open: with caps.seconds=null a job runs until it reaches the target"
    if bounds:
        yield f"budget     {', '.join(bounds)}"


def _script(plan: Plan) -> Iterator[str]:
    if plan.config.hardware.executor != "slurm":
        return
    yield ""
    yield "script     of the first job, as sbatch would get it:"
    yield sbatch_script(plan)


def sbatch_script(plan: Plan) -> str:
    """The script of the plan's first job, made in a directory that is gone afterwards."""
    point = plan.space.all_points()[0]
    with tempfile.TemporaryDirectory() as folder:
        job = _job_directory(Path(folder), plan, point)
        text = _slurm_script(plan.config, job, plan.request.home)
    return text.replace(str(job.parent.parent), "SWEEP_DIR")


def _job_directory(folder: Path, plan: Plan, point: Point) -> Path:
    from batchscout.run.job import job_id

    seed = plan.space.seed0
    job = folder.resolve() / "jobs" / job_id("run", point, seed)
    job.mkdir(parents=True)
    content = {"config": plan.settings.job_config(point, seed), "snapshot": None}
    (job / "job.json").write_text(json.dumps(content), encoding="utf-8")
    return job


def _slurm_script(config: SweepConfig, job: Path, home: Path) -> str:
    from batchscout.run.executors.slurm import SlurmExecutor

    executor = SlurmExecutor(
        config.hardware, clock=RealClock(), working_directory=home, max_requeues=config.max_requeues
    )
    return executor.script([job], name=job.name)
