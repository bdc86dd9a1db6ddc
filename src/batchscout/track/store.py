"""One sweep's runs in MLflow: found by tags, written once, replaced only when the sweep contradicts them.

Every call here may take as long as MLflow takes, and raises TrackingError; the tracker's thread bears that.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from batchscout.errors import TrackingError
from batchscout.report.table import to_csv
from batchscout.run.listener import SweepView
from batchscout.track.entry import DIGEST_TAG, JOB_TAG, JOINED_TAG, SWEEP_TAG, RunEntry
from batchscout.track.location import database_path
from batchscout.track.points import Point

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

ARTIFACTS_TAG = "batchscout.artifacts"
BATCH = 1000  # metrics in one request: MLflow's limit

#: Set where the user has not: MLflow's defaults wait 246 s for a dead server and report usage.
ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # a repeated create-run makes a second run
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # two lines a job would bury the live view
}


class RunStore:
    """The runs of one sweep behind one tracking URI."""

    def __init__(self, uri: str, sweep: str) -> None:
        self.uri = uri
        self.sweep = sweep
        self.experiment_id: str | None = None
        self._client: MlflowClient | None = None
        self._runs: dict[str | None, Run] = {}  # by job id; None is the sweep's own run
        self._logged: dict[str, set[Point]] = {}  # by run id, of runs that still grow
        self._own: set[str] = set()  # run ids made here and growing since: what they hold is known
        self._is_stale = True
        self._lock = threading.RLock()  # the tracker's thread and MlflowTracker.environment

    @property
    def client(self) -> MlflowClient:
        """Connect on first use; importing MLflow takes two seconds, a new database four."""
        if self._client is None:
            for name, value in ENVIRONMENT.items():
                os.environ.setdefault(name, value)
            from mlflow import MlflowClient

            for noisy in ("alembic", "mlflow.store.db.utils", "mlflow.tracking._tracking_service.client"):
                logging.getLogger(noisy).setLevel(logging.WARNING)
            path = database_path(self.uri)
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._client = MlflowClient(tracking_uri=self.uri)
        return self._client

    def open(self) -> str:
        """Find or make the sweep's experiment, read its runs, and return the experiment's id."""
        with _talking(self.uri), self._lock:
            if self.experiment_id is None:
                self.experiment_id = self._experiment()
            if self._is_stale:
                self._read_runs()
            return self.experiment_id

    def write(self, entry: RunEntry) -> int:
        """Bring one run up to the entry and return how many metric points were sent; 0: unchanged."""
        with _talking(self.uri), self._lock:
            self.open()
            run = self._runs.get(entry.job)
            if run is not None and run.data.tags.get(DIGEST_TAG) == entry.digest:
                self._keep_end(run, entry)
                return 0
            if run is not None and self._is_contradicted(run, entry):
                self.client.delete_run(run.info.run_id)
                run = None
            run = run or self._create(entry)
            return self._fill(run, entry)

    def join(self, entry: RunEntry) -> str:
        """Make the run of a job whose trainer logs to it, unless it is there, and return its id."""
        with _talking(self.uri), self._lock:
            self.open()
            run = self._runs.get(entry.job)
            if run is None:
                run = self._create(entry)
                self._fill(run, entry)
            elif JOINED_TAG not in run.data.tags:
                self.client.set_tag(run.info.run_id, JOINED_TAG, entry.tags[JOINED_TAG])
            return str(run.info.run_id)

    def look_again(self) -> None:
        """Read the runs anew at the next call: trainers wrote to them, too."""
        self._is_stale = True

    def write_all(self, entries: Sequence[RunEntry]) -> int:
        """All entries, after a fresh look at what is there; returns the number of metric points sent."""
        self.look_again()
        return sum(self.write(entry) for entry in entries)

    def upload_report(self, view: SweepView) -> None:
        """The report, its figures and the tables as artifacts of the sweep's own run, when they changed."""
        texts = {f"{name}.csv": to_csv(view.result[name]) for name in ("table", "points", "jobs")}
        files = [view.directory / name for name in ("report.html", "result.json")]
        files = [path for path in files if path.is_file()] + sorted(
            (view.directory / "figures").glob("*.png")
        )
        digest = hashlib.sha256("".join(texts.values()).encode())
        for path in files:
            digest.update(path.read_bytes())
        with _talking(self.uri), self._lock:
            self.open()
            run = self._runs.get(None)
            if run is None or run.data.tags.get(ARTIFACTS_TAG) == digest.hexdigest():
                return
            run_id = run.info.run_id
            for name, text in texts.items():
                self.client.log_text(run_id, text, f"tables/{name}")
            for path in files:
                self.client.log_artifact(run_id, str(path), "figures" if path.suffix == ".png" else None)
            self.client.set_tag(run_id, ARTIFACTS_TAG, digest.hexdigest())
            self._runs[None] = self.client.get_run(run_id)

    def set_experiment_tags(self, tags: dict[str, str]) -> None:
        """Tags of the sweep's experiment (description, views)."""
        with _talking(self.uri), self._lock:
            experiment_id = self.open()
            there = self.client.get_experiment(experiment_id).tags
            for key, value in tags.items():
                if there.get(key) != value:
                    self.client.set_experiment_tag(experiment_id, key, value)

    def run_id(self, job: str | None) -> str | None:
        """The run of a job (None: of the sweep), as far as it is known here."""
        run = self._runs.get(job)
        return None if run is None else run.info.run_id

    def _experiment(self) -> str:
        experiment = self.client.get_experiment_by_name(self.sweep)
        if experiment is None:
            database = database_path(self.uri)
            place = None if database is None else (database.parent / "mlartifacts" / self.sweep).as_uri()
            return self.client.create_experiment(self.sweep, place, tags={SWEEP_TAG: self.sweep})
        if experiment.lifecycle_stage == "deleted":
            self.client.restore_experiment(experiment.experiment_id)
        return experiment.experiment_id

    def _read_runs(self) -> None:
        """Index the sweep's runs by job. Of two for one job (an answer was lost) the fuller stays."""
        self._runs = {}
        for run in self._search():
            job = run.data.tags.get(JOB_TAG)
            other = self._runs.get(job)
            if other is None:
                self._runs[job] = run
                continue
            keep, drop = (run, other) if _weight(run) > _weight(other) else (other, run)
            self._runs[job] = keep
            self.client.delete_run(drop.info.run_id)
        self._is_stale = False

    def _search(self) -> Iterator[Run]:
        """All of the sweep's runs. Filtered here: a name with quotes does not fit MLflow's filter."""
        token = None
        order = ["attributes.start_time"]
        while True:
            page = self.client.search_runs(
                [str(self.experiment_id)], "", max_results=1000, order_by=order, page_token=token
            )
            yield from (run for run in page if run.data.tags.get(SWEEP_TAG) == self.sweep)
            token = page.token
            if not token:
                return

    def _create(self, entry: RunEntry) -> Run:
        self._is_stale = True  # until the answer is here nobody knows whether the run exists
        identity = {SWEEP_TAG: entry.sweep, **({JOB_TAG: entry.job} if entry.job is not None else {})}
        run = self.client.create_run(str(self.experiment_id), entry.start, identity, entry.name)
        self._is_stale = False
        self._runs[entry.job] = run
        self._own.add(run.info.run_id)
        return run

    def _fill(self, run: Run, entry: RunEntry) -> int:
        """Points, parameters, tags, then the end, then the digest: whatever is cut short is done again."""
        from mlflow.entities import Metric, Param, RunTag

        run_id = run.info.run_id
        known = self._logged.setdefault(run_id, set())
        new = [point for point in entry.points if point not in known]
        metrics = [Metric(p.key, p.value, p.timestamp, p.step, run_id=run_id) for p in new]
        params = [Param(key, value) for key, value in self._new_params(run, entry)]
        tags = [RunTag(key, value) for key, value in entry.tags.items() if run.data.tags.get(key) != value]
        for first in range(0, max(len(metrics), 1), BATCH):
            batch = metrics[first : first + BATCH]
            if batch or params or tags:
                self.client.log_batch(run_id, batch, params, tags, synchronous=True)
            params, tags = [], []
        known.update(new)
        if entry.is_final:
            self.client.set_terminated(run_id, entry.status, entry.end)
            self.client.set_tag(run_id, DIGEST_TAG, entry.digest)
            self._logged.pop(run_id)
            self._own.discard(run_id)
        else:
            if DIGEST_TAG in run.data.tags:  # a stopped job goes on
                self.client.delete_tag(run_id, DIGEST_TAG)
            if run.info.status != entry.status:
                self.client.update_run(run_id, entry.status)
        self._runs[entry.job] = self.client.get_run(run_id)
        return len(new)

    def _new_params(self, run: Run, entry: RunEntry) -> list[tuple[str, str]]:
        """What is not there yet. MLflow refuses a second value, and in a joined run the trainer comes first:
        ours wait for the end, and a name that it used is its own."""
        if JOINED_TAG not in run.data.tags:
            return [(key, value) for key, value in entry.params.items() if run.data.params.get(key) != value]
        if not entry.is_final:
            return []
        taken = self.client.get_run(run.info.run_id).data.params
        return [(key, value) for key, value in entry.params.items() if key not in taken]

    def _keep_end(self, run: Run, entry: RunEntry) -> None:
        """A trainer's own `end_run` may come after the job's end was logged; status and end are the job's."""
        if entry.end is not None and (run.info.status, run.info.end_time) != (entry.status, entry.end):
            self.client.set_terminated(run.info.run_id, entry.status, entry.end)
            self._runs[entry.job] = self.client.get_run(run.info.run_id)

    def _is_contradicted(self, run: Run, entry: RunEntry) -> bool:
        """Whether the run holds points that the sweep does not have (a stopped job went on from earlier).

        MLflow cannot take a point back, so such a run is made anew; one that a trainer also logs to is kept.
        """
        if not entry.is_final or run.info.run_id in self._own or JOINED_TAG in run.data.tags:
            return False
        keys = {point.key for point in entry.points}
        if any(key not in keys for key in run.data.metrics):
            return False
        points = set(entry.points)
        for key in run.data.metrics:
            for metric in self.client.get_metric_history(run.info.run_id, key):
                if Point(key, metric.step, metric.timestamp, metric.value) not in points:
                    return True
        return False


def _weight(run: Run) -> tuple[bool, int, int]:
    """Fullness: finished writing, number of metrics, number of tags."""
    return DIGEST_TAG in run.data.tags, len(run.data.metrics), len(run.data.tags)


@contextmanager
def _talking(uri: str) -> Iterator[None]:
    """Every way in which MLflow fails to answer becomes a TrackingError."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, SQLAlchemyError, OSError) as error:  # requests' errors are OSErrors
        lines = str(error).splitlines() or [type(error).__name__]
        raise TrackingError(f"{uri} does not take the sweep: {lines[0][:300]}") from error
