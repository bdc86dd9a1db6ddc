"""A trainer that logs to MLflow itself writes into its job's run: how its process learns which run that is.

The worker opens no connection. While the sweep's tracker keeps `SWEEP_DIR/joins/tracking.json`, a job that starts
leaves `joins/JOB.request` there and waits a little for `joins/JOB.json`, the environment that names its run.
Without an answer (MLflow or the controller is down) the trainer gets a database of its own, so that it neither
waits for a dead server nor writes into a run that is not its own. All of it is start-up, off the training clock.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from batchscout.run.files import read_json, write_json
from batchscout.run.ranks import rank

log = logging.getLogger("batchscout.worker")

FOLDER = "joins"
TRACKING = "tracking.json"
WAIT_SECONDS = 30.0  # for an answer; then the job starts without one
LOOK_SECONDS = 0.2  # between two looks at first, growing to LONGEST_LOOK_SECONDS
LONGEST_LOOK_SECONDS = 2.0
VARIABLES = ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_RUN_ID")


def request_path(sweep: Path, job: str) -> Path:
    """What a job that starts writes."""
    return sweep / FOLDER / f"{job}.request"


def answer_path(sweep: Path, job: str) -> Path:
    """What the tracker answers."""
    return sweep / FOLDER / f"{job}.json"


@contextmanager
def joined_run(job_directory: Path) -> Iterator[None]:
    """The process's environment names the job's MLflow run, in sweeps whose trainers log themselves.

    Of a job of several processes the first one joins.
    """
    sweep = job_directory.parent.parent
    tracking = None if rank() > 0 else read_json(sweep / FOLDER / TRACKING)
    if tracking is None:
        yield
        return
    variables = _ask(sweep, job_directory.name, tracking["uri"])
    if variables is None:
        own = job_directory / "mlflow.db"
        log.warning("no answer about this job's MLflow run; what its trainer logs goes to %s", own)
        variables = {"MLFLOW_TRACKING_URI": f"sqlite:///{own}"}
    before = {name: os.environ.pop(name, None) for name in VARIABLES}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)  # MLflow takes its own run's id out
            if value is not None:
                os.environ[name] = value


def _ask(sweep: Path, job: str, uri: str) -> Mapping[str, str] | None:
    """The answer for this tracking URI, None where none comes in time."""
    deadline = time.monotonic() + WAIT_SECONDS
    pause = LOOK_SECONDS
    started = time.time()
    while True:
        answer: dict[str, Any] | None = read_json(answer_path(sweep, job))
        if answer is not None and answer["uri"] == uri:
            environment: dict[str, str] = answer["environment"]
            return environment
        if time.monotonic() >= deadline:
            return None
        # written each time: a change of our own makes a network file system look at the folder anew
        write_json(request_path(sweep, job), {"v": 1, "uri": uri, "time": started}, is_durable=False)
        time.sleep(pause)
        pause = min(1.5 * pause, LONGEST_LOOK_SECONDS)
