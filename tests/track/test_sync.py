"""`sync`: one run per job and each point once, whatever happened before."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.made_sweep import Made
from tests.track.conftest import SMALL

from batchscout.errors import SweepError, TrackingError
from batchscout.track import sync
from batchscout.track.store import RunStore

#: MLflow 3.17 on SQLAlchemy 2.1 uses a loader that is to go away.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")
SERIES = (
    *("score", "train_seconds", "wall_seconds"),
    *("sampling_seconds", "reward_seconds", "learning_seconds", "sync_seconds", "other_seconds"),
)


def events(directory: Path, job: str) -> list[dict]:
    path = directory / "jobs" / job / "attempts" / "001" / "journal.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_evaluation_of_the_journals_is_one_point_of_each_series(sweep, database):
    directory, result = sweep
    report = sync(directory, database.uri)
    assert database.active_runs() == len(result["jobs"]) + 1 == report.runs
    points = database.points()
    for row in result["jobs"]:
        start = row["start"]
        wanted = {
            (e["samples"], round((start + e["wall_seconds"]) * 1000), e["score"])
            for e in events(directory, row["id"])
            if e["event"] == "evaluation"
        }
        for key in SERIES:
            found = [
                (step, stamp, value) for job, k, stamp, step, value in points if (job, k) == (row["id"], key)
            ]
            assert {(step, stamp) for step, stamp, _ in found} == {(s, t) for s, t, _ in wanted}
            assert len(found) == len(wanted)
            if key == "score":
                assert set(found) == wanted
    assert any(step == 0 and key == "score" for _, key, _, step, _ in points)


def test_syncing_again_changes_nothing(sweep, database):
    directory, _ = sweep
    first = sync(directory, database.uri)
    before = database.rows("select * from metrics order by 1, 2, 3, 4")
    second = sync(directory, database.uri)
    assert (first.points > 0, second.points) == (True, 0)
    assert database.rows("select * from metrics order by 1, 2, 3, 4") == before
    assert database.one("select count(*) from runs") == second.runs


def test_a_sync_that_was_cut_short_is_completed(sweep, database, monkeypatch):
    directory, _ = sweep
    fill = RunStore._fill
    calls = []

    def dies(self, run, entry):
        calls.append(entry.job)
        if len(calls) == 3:
            self.client.log_batch(run.info.run_id, [])
            raise OSError("connection reset")
        return fill(self, run, entry)

    monkeypatch.setattr(RunStore, "_fill", dies)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    report = sync(directory, database.uri)
    assert database.active_runs() == report.runs
    assert sync(directory, database.uri).points == 0


def test_a_dropped_answer_of_create_run_leaves_one_run_per_job(sweep, database, monkeypatch):
    from mlflow import MlflowClient

    directory, result = sweep
    create = MlflowClient.create_run
    dropped = []

    def drop_once(self, *arguments, **keywords):
        run = create(self, *arguments, **keywords)
        if len(dropped) < 2:
            dropped.append(run.info.run_id)
            raise OSError("the answer was lost")
        return run

    monkeypatch.setattr(MlflowClient, "create_run", drop_once)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    sync(directory, database.uri)
    assert len(dropped) == 2
    assert database.active_runs() == len(result["jobs"]) + 1


def test_two_runs_of_one_job_become_one(sweep, database):
    from mlflow import MlflowClient

    directory, result = sweep
    sync(directory, database.uri)
    before = database.points()
    experiment = database.one("select experiment_id from experiments where name = ?", result["sweep"])
    tags = {"batchscout.sweep": result["sweep"], "batchscout.job": result["jobs"][0]["id"]}
    MlflowClient(database.uri).create_run(str(experiment), tags=tags)
    sync(directory, database.uri)
    assert database.active_runs() == len(result["jobs"]) + 1
    assert database.points() == before


def test_a_stopped_job_that_was_continued_replaces_what_was_logged(make, database):
    job = "b32-lr0.00014-s0"
    made = replace(SMALL, batch_sizes=(32, 256))
    directory, _ = make(replace(made, outcomes={job: ("stopped", "too slow")}))
    sync(directory, database.uri)
    assert database.one("select value from tags where key = 'outcome' and value = 'stopped'") == "stopped"
    shutil.rmtree(directory / "jobs")
    directory, result = make(made)
    sync(directory, database.uri)
    assert database.active_runs() == 3
    row = next(row for row in result["jobs"] if row["id"] == job)
    assert database.value(job, "time_to_target") == pytest.approx(row["time_to_target"], rel=1e-12)
    per_step = {}
    for found, key, _, step, _ in database.points():
        per_step[found, key, step] = per_step.get((found, key, step), 0) + 1
    assert set(per_step.values()) == {1}


def test_c34_status_times_and_tags_are_the_jobs_own(make, database):
    outcomes = {
        "b32-lr0.00014-s0": ("failed", "RuntimeError: CUDA error"),
        "b256-lr0.0004-s0": ("cancelled", "max_failures"),
        "b1024-lr0.0008-s0": ("stopped", "its projected time exceeds the best"),
    }
    directory, result = make(replace(SMALL, outcomes=outcomes))
    sync(directory, database.uri)
    found = {
        row[0]: row[1:]
        for row in database.rows(
            "select t.value, r.status, r.start_time, r.end_time from runs r join tags t using (run_uuid) "
            "where t.key = 'batchscout.job'"
        )
    }
    wanted = {"failed": "FAILED", "cancelled": "KILLED", "stopped": "FINISHED"}
    for row in result["jobs"]:
        stamps = (round(row["start"] * 1000), round(row["end"] * 1000))
        assert found[row["id"]] == (wanted[row["outcome"]], *stamps)
    tags = dict(
        database.rows(
            "select a.key, a.value from tags a join tags b using (run_uuid) "
            "where b.key = 'batchscout.job' and b.value = 'b32-lr0.00014-s0'"
        )
    )
    assert tags["outcome"] == "failed"
    assert tags["reason"] == "RuntimeError: CUDA error"
    assert tags["node"] == "node1"
    assert tags["batchscout.sweep"] == result["sweep"]
    assert tags["commit"].startswith("0123456789abcdef")


def test_without_a_target_reached_there_is_no_time_to_target(make, database):
    directory, _ = make(Made(reachable=False, batch_sizes=(32, 256), lr_factors=(1.0,)))
    sync(directory, database.uri)
    keys = {key for _, key, _, _, _ in database.points()}
    assert not keys & {"time_to_target", "samples_to_target", "wall_seconds_to_target"}
    note = database.one("select value from tags where key = 'mlflow.note.content'")
    assert note.startswith("**No job reached score 0.7; the best scores were 0.64")


def test_hostile_names_are_text(make, database):
    name = "<script>alert(1)</script>'\"`\n🚀" + "x" * 10_000
    directory, result = make(replace(SMALL, name="de'mo\"/<b>now", task=name, batch_sizes=(32, 256)))
    for row in result["jobs"]:
        row["reason"] = name
    (directory / "result.json").write_text(json.dumps(result))
    report = sync(directory, database.uri)
    assert sync(directory, database.uri).points == 0
    assert database.active_runs() == report.runs == 3
    assert database.one("select value from params where key = 'task' limit 1") == name[:500]
    assert database.one("select value from tags where key = 'reason' limit 1") == name[:5000]
    assert (
        database.one("select name from experiments where experiment_id = ?", report.experiment_id)
        == "de'mo\"/<b>now"
    )


def test_the_default_database_is_the_one_of_the_runs_directory(sweep, empty_database, monkeypatch, tmp_path):
    directory, _ = sweep
    monkeypatch.chdir("/")
    (tmp_path / "runs" / "mlflow.db").write_bytes(empty_database.read_bytes())
    assert sync(directory).uri == f"sqlite:///{tmp_path}/runs/mlflow.db"


def test_what_is_no_sweep_and_what_does_not_answer_are_one_line_errors(sweep, tmp_path, monkeypatch):
    with pytest.raises(SweepError, match=r"holds no result\.json"):
        sync(tmp_path)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with pytest.raises(TrackingError, match="does not take the sweep"):
        sync(sweep[0], "http://127.0.0.1:9")
