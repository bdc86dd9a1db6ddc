"""Commands that change something: cancel, retry, resume, sync."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from batchscout.cli.find import find_job, find_sweep, split
from batchscout.cli.script import print_json
from batchscout.home import HOME, home

if TYPE_CHECKING:
    from batchscout.run.executor import Executor


def sync_sweep(words: str | None, uri: str | None, *, json_output: bool = False) -> None:
    from batchscout.track.sync import sync

    done = sync(find_sweep(words), uri)
    if json_output:
        print_json(asdict(done))
        return
    print(f"{done.runs} runs in {done.uri} ({done.points} points were new)")
    for link in done.links:
        print(f"mlflow   {link}")
    if done.study is not None:
        print(f"study    {done.study}")


def serve_pages(sweeps: Sequence[str], port: int | None, uri: str | None) -> int:
    from batchscout.track.ui import serve

    directories = [find_sweep(words) for words in sweeps] or [find_sweep(None)]
    return serve(directories, port=port, uri=uri)


def cancel_jobs(words: Sequence[str]) -> None:
    from batchscout.run.actions import cancel

    sweep, jobs = split(words)
    ids = cancel(sweep, [find_job(sweep, job).name for job in jobs], executor=_executor(sweep))
    print(f"cancelled: {', '.join(ids)}" if ids else "nothing to cancel: every job has ended")


def _executor(sweep: Path) -> Executor | None:
    """What reaches the sweep's jobs where no controller runs."""
    from batchscout.clock import RealClock
    from batchscout.config import SweepConfig
    from batchscout.run.executors import make_executor
    from batchscout.run.sweep_directory import read_sweep_record

    hardware = SweepConfig.from_mapping(read_sweep_record(sweep)["config"]).hardware
    if hardware.executor not in ("local", "slurm"):
        return None
    return make_executor(hardware, clock=RealClock())


def retry_jobs(words: Sequence[str], *, is_forced: bool, is_run: bool) -> int:
    """Returns the exit code: that of the sweep where it goes on."""
    from batchscout.run.actions import retry

    sweep, jobs = split(words)
    ids = retry(sweep, [find_job(sweep, job).name for job in jobs], is_forced=is_forced)
    print(f"planned again: {', '.join(ids)}" if ids else "nothing to retry; name jobs, or use --force")
    return resume_sweep(str(sweep), ()) if ids and is_run else 0


def resume_sweep(words: str, typed: Sequence[str]) -> int:
    """Returns the exit code of the sweep."""
    from hydra.errors import OverrideParseException

    from batchscout import app
    from batchscout.errors import ConfigError
    from batchscout.resume import resume_request

    directory = find_sweep(words)
    runs = next((p for p in directory.parents if p.name == "runs"), None)
    if HOME not in os.environ and runs is not None:
        os.environ[HOME] = str(runs.parent)
    sys.path.insert(0, str(home()))  # as `python sweep.py` would: the trainer lies beside it
    try:
        request = resume_request(directory, typed)
    except OverrideParseException as error:
        advice = "cannot be read as key=value; quote values with ( ) , or spaces"
        raise ConfigError("word", error.override, advice) from error
    return app.run(request)
