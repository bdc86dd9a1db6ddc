"""One sweep, one set of numbers: MLflow, result.json, the table, the report's data and the CSV files."""

from __future__ import annotations

import csv
import io
import json

import pytest

from batchscout.report import table
from batchscout.report.data_files import data_files
from batchscout.report.sweep import Sweep
from batchscout.run.record import read_sweep
from batchscout.search.pooled import measurement
from batchscout.track import sync
from batchscout.track.points import target_of

#: MLflow 3.17 on SQLAlchemy 2.1 uses a loader that is to go away.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")

SHARED = (
    *(
        "samples_to_target",
        "time_to_target",
        "wall_seconds_to_target",
        "updates",
        "attempts",
        "queue_seconds",
    ),
    *("startup_seconds", "warmup_seconds", "evaluation_seconds", "lost_seconds", "batch_size", "lr"),
)


def test_every_place_shows_the_same_number(sweep, database):
    directory, result = sweep
    sync(directory, database.uri)
    files = data_files(Sweep.read(directory))
    csv_rows = {row["id"]: row for row in csv.DictReader(io.StringIO(files["jobs.csv"]))}
    embedded = {row["id"]: row for row in json.loads(files["result.json"])["jobs"]}
    written = {row["id"]: row for row in json.loads((directory / "result.json").read_text())["jobs"]}
    shown = {line[0]: line for line in table.cells(result["table"])[1]}
    for row in result["jobs"]:
        job = row["id"]
        for key in SHARED:
            assert database.value(job, key) == row[key] == float(csv_rows[job][key]) == embedded[job][key]
            assert written[job][key] == row[key]
        assert database.value(job, "cost_seconds") == row["seconds"] + row["lost_seconds"]
        assert shown[str(row["batch_size"])][2] == f"{row['time_to_target']:#.3g}"


def test_the_rates_in_mlflow_are_those_that_are_pooled_into_the_result(sweep, database):
    directory, result = sweep
    sync(directory, database.uri)
    view = read_sweep(directory)
    rows = {row["id"]: row for row in result["jobs"]}
    for job in view.jobs:
        found = measurement(job, target_of(view))
        for key in ("throughput", "update_seconds", "sampling_share"):
            assert database.value(job.job_id, key) == getattr(found, key)
        row, point = (
            rows[job.job_id],
            next(p for p in result["points"] if p["batch_size"] == job.point.batch_size),
        )
        assert database.value(job.job_id, "throughput") == pytest.approx(point["throughput"], rel=1e-9)
        quotient = row["samples_to_target"] / row["time_to_target"]
        assert database.value(job.job_id, "throughput") == pytest.approx(quotient, rel=1e-9)
        assert database.value(job.job_id, "sampling_share") == pytest.approx(0.55, rel=1e-9)


def test_the_last_point_of_each_clock_is_the_jobs_total(sweep, database):
    directory, result = sweep
    sync(directory, database.uri)
    for row in result["jobs"]:
        assert database.value(row["id"], "train_seconds") == pytest.approx(row["seconds"], rel=1e-9)
        parts = ("sampling", "reward", "learning", "sync", "other")
        total = sum(database.value(row["id"], f"{part}_seconds") for part in parts)
        assert total == pytest.approx(row["seconds"], rel=1e-9)
