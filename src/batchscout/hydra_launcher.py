"""The launcher as other sweepers see it: `launch` submits where `hardware=NAME` says, and waits for all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hydra.core.utils import JobReturn, JobStatus
from hydra.types import HydraContext
from omegaconf import DictConfig, open_dict

from batchscout.clock import RealClock
from batchscout.config import SweepConfig
from batchscout.errors import TrainerError
from batchscout.home import home
from batchscout.hydra_files import write_job_files
from batchscout.hydra_job import newest_journal, prepare, time_to_target
from batchscout.hydra_overrides import plain_config
from batchscout.measure.journal import read_journal
from batchscout.run.executor import Executor, SchedulerState, Submission
from batchscout.run.executors import make_executor
from batchscout.run.snapshot import take_snapshot

POLL_SECONDS = 1.0


def launch(
    job_overrides: Sequence[Sequence[str]],
    initial_job_idx: int,
    *,
    hydra_context: HydraContext,
    config: DictConfig,
) -> list[JobReturn]:
    """Every job's return, in order; return_value is its time_to_target, None where it was not reached.

    All jobs are checked before the first one is submitted. Raises ConfigError.
    """
    jobs = [
        _prepared(overrides, number, hydra_context, config)
        for number, overrides in enumerate(job_overrides, start=initial_job_idx)
    ]
    if not jobs:
        return []
    first = jobs[0][1].cfg
    assert first is not None
    sweep = SweepConfig.from_mapping({**plain_config(first), "points": {}})
    root = jobs[0][0].parent.parent
    take_snapshot(root, home())
    executor = make_executor(
        sweep.hardware, clock=RealClock(), working_directory=home(), max_requeues=sweep.max_requeues
    )
    _run_all(executor, [directory for directory, _ in jobs])
    return [_finished(directory, job) for directory, job in jobs]


def _prepared(
    overrides: Sequence[str], number: int, hydra_context: HydraContext, config: DictConfig
) -> tuple[Path, JobReturn]:
    job_config = hydra_context.config_loader.load_sweep_config(config, list(overrides))
    with open_dict(job_config):
        job_config.hydra.job.id = f"{job_config.hydra.job.name}_{number}"
        job_config.hydra.job.num = number
    directory = Path(str(job_config.hydra.sweep.dir)).absolute() / str(job_config.hydra.sweep.subdir)
    prepare(job_config, directory)
    write_job_files(directory, job_config, {})
    returned = JobReturn()
    returned.overrides, returned.cfg = overrides, job_config
    returned.working_dir = str(directory)
    return directory, returned


def _run_all(executor: Executor, directories: Sequence[Path]) -> None:
    """As many at once as there are slots."""
    waiting, live = list(directories), dict[str, Submission]()
    while waiting or live:
        while waiting and len(live) < executor.slots:
            directory = waiting.pop(0)
            live[directory.name] = executor.submit(
                directory, name=f"{directory.parent.parent.name}-{directory.name}"
            )
        statuses = executor.poll(list(live.values())) or {}
        ended = [j for j, s in statuses.items() if s.state in (SchedulerState.ENDED, SchedulerState.ABSENT)]
        for job_id in ended:
            del live[job_id]
        if live and not ended:
            executor.wait(POLL_SECONDS)
    executor.close()


def _finished(directory: Path, job: JobReturn) -> JobReturn:
    events = (
        read_journal(newest_journal(directory)) if list(directory.glob("attempts/*/journal.jsonl")) else []
    )
    end = events[-1] if events and events[-1]["event"] == "end" else {}
    if end and end["outcome"] != "failed":
        job.return_value, job.status = time_to_target(directory), JobStatus.COMPLETED
    else:
        message = end.get("message") or f"it ended without a word; see {directory / 'log'}"
        job.return_value, job.status = TrainerError(f"{directory.name} failed: {message}"), JobStatus.FAILED
    return job
