"""The study: readable by Optuna, and never a number that is no time."""

from __future__ import annotations

import json
from dataclasses import replace

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from tests.track.conftest import SMALL

from batchscout.run.record import read_sweep
from batchscout.track import StudyWriter

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")


def load(directory) -> optuna.Study:
    storage = JournalStorage(JournalFileBackend(str(directory / "study.journal")))
    return optuna.load_study(study_name=None, storage=storage)


def test_only_reached_jobs_have_a_value(make):
    outcomes = {
        "b32-lr0.00014-s0": ("stopped", "its projected time exceeds the best"),
        "b1024-lr0.0008-s0": ("diverged", "parameters became NaN"),
    }
    directory, result = make(replace(SMALL, outcomes=outcomes))
    StudyWriter().on_end(read_sweep(directory))
    study = load(directory)
    by_job = {trial.user_attrs["job"]: trial for trial in study.trials}
    rows = {row["id"]: row for row in result["jobs"]}
    best = rows["b256-lr0.0004-s0"]
    assert study.best_value == best["time_to_target"]
    assert study.best_params == {"batch_size": 256, "lr": 4e-4}
    assert by_job[best["id"]].user_attrs["samples_to_target"] == best["samples_to_target"]
    stopped = by_job["b32-lr0.00014-s0"]
    assert (stopped.state, stopped.value) == (TrialState.PRUNED, None)
    assert stopped.user_attrs["time_to_target_at_least"] == rows[stopped.user_attrs["job"]]["seconds"]
    diverged = by_job["b1024-lr0.0008-s0"]
    assert (diverged.state, diverged.value) == (TrialState.FAIL, None)
    assert diverged.user_attrs["reason"] == "parameters became NaN"
    assert diverged.datetime_start is not None


def test_it_grows_with_the_jobs_and_is_rebuilt_when_it_disagrees(make):
    directory, result = make(SMALL)
    view = read_sweep(directory)
    writer = StudyWriter()
    for done in range(len(result["jobs"]) + 1):
        writer.on_change(replace(view, result={**result, "jobs": result["jobs"][:done]}))
    assert [trial.user_attrs["job"] for trial in load(directory).trials] == [
        row["id"] for row in result["jobs"]
    ]
    changed = [{**result["jobs"][0], "outcome": "stopped", "time_to_target": None}, *result["jobs"][1:]]
    writer.on_change(replace(view, result={**result, "jobs": changed}))
    states = [trial.state for trial in load(directory).trials]
    assert states == [TrialState.PRUNED, TrialState.COMPLETE, TrialState.COMPLETE]


def test_a_torn_or_foreign_file_is_replaced_by_a_new_writer(make):
    directory, result = make(SMALL)
    (directory / "study.journal").write_text('{"op_code": 0, "worker')
    StudyWriter().on_start(read_sweep(directory))
    assert len(load(directory).trials) == len(result["jobs"])


def test_scores_are_intermediate_values_at_samples(make):
    directory, result = make(SMALL)
    StudyWriter().on_end(read_sweep(directory))
    trial = load(directory).trials[0]
    path = directory / "jobs" / result["jobs"][0]["id"] / "attempts" / "001" / "journal.jsonl"
    events = [json.loads(line) for line in path.read_text().splitlines()]
    wanted = {event["samples"]: event["score"] for event in events if event["event"] == "evaluation"}
    assert trial.intermediate_values == wanted
