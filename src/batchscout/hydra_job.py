"""One job: as a sweep of its own, or in the output directory that another sweeper or launcher gave it."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from batchscout import app
from batchscout.config import SweepConfig
from batchscout.errors import TrainerError
from batchscout.hydra_overrides import plain_config
from batchscout.hydra_request import single_request
from batchscout.measure.curve import Curve
from batchscout.measure.journal import read_journal
from batchscout.plan import check_trainer
from batchscout.run.files import read_json
from batchscout.run.job import Job, JobRecord, signature
from batchscout.run.settings import ExitCode
from batchscout.search.protocol import Proposal
from batchscout.sweep_space import Lists, make_space


def run_alone(config: DictConfig) -> tuple[ExitCode, float | None]:
    """(exit code, time_to_target in seconds). Its directory is Hydra's run directory."""
    hydra = HydraConfig.get()
    directory = Path(hydra.runtime.output_dir)
    request = single_request(
        _whole(config), list(hydra.overrides.task), directory, loader=GlobalHydra.instance().config_loader()
    )
    code = app.run(request)
    result = read_json(directory / "result.json")
    rows: list[dict[str, Any]] = result["jobs"] if result else []
    return code, rows[0]["time_to_target"] if rows else None


def remove_if_unused(directory: Path) -> None:
    """A run directory in which Hydra wrote and nothing else did: the run was refused, or a dry one."""
    if [p.name for p in directory.iterdir()] == [".hydra"]:
        shutil.rmtree(directory)


def _whole(config: DictConfig) -> DictConfig:
    """With Hydra's part, as a sweeper gets it (a task function's config lacks it)."""
    from omegaconf import OmegaConf, open_dict

    whole = OmegaConf.merge(config)
    assert isinstance(whole, DictConfig)
    with open_dict(whole):
        whole.hydra = HydraConfig.get()
    return whole


def run_in(config: DictConfig, directory: Path) -> float | None:
    """Run the job of `directory`, whose job.json is made from the config if no controller wrote one.

    Returns  time_to_target in seconds, None where the target was not reached
    Raises   TrainerError with the job's own message if it failed
    """
    from batchscout.run.worker import run_attempt

    prepare(config, directory)
    if run_attempt(str(directory)):
        end = read_journal(newest_journal(directory))[-1]
        raise TrainerError(f"{directory.name} failed: {end.get('message') or end.get('reason')}")
    return time_to_target(directory)


def prepare(config: DictConfig, directory: Path) -> None:
    """Write job.json, unless there is one. Raises ConfigError for an impossible job."""
    if (directory / "job.json").exists():
        return
    sweep = SweepConfig.from_mapping({**plain_config(config), "points": {}, "seeds": 1})
    space = make_space(sweep, Lists())
    check_trainer(sweep, space)
    proposal = Proposal("run", space.all_points()[0], space.seed0, "asked for by another sweeper")
    job = Job(
        job_id=directory.name,
        index=0,
        kind="run",
        point=proposal.point,
        seed=proposal.seed,
        signature=signature(sweep.measured_part(), proposal),
        config=sweep.job(proposal.point.batch_size, proposal.point.lr, proposal.seed).to_mapping(),
        created=time.time(),
        explanation=proposal.explanation,
    )
    JobRecord(job).save(directory.parent)


def newest_journal(directory: Path) -> Path:
    return sorted(directory.glob("attempts/*/journal.jsonl"))[-1]


def time_to_target(directory: Path) -> float | None:
    """Of the job in `directory`, by its own journals, on the clock it was asked for."""
    job = read_json(directory / "job.json") or {}
    sweep = SweepConfig.from_mapping({"target": job["config"]["target"]})
    attempts = [read_journal(path) for path in sorted(directory.glob("attempts/*/journal.jsonl"))]
    curve = Curve.from_attempts([events for events in attempts if events])
    return curve.measure(sweep.target.to_target(), ended=True).time_to_target
