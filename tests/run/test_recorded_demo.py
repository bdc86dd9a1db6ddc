"""The committed record of a real demo sweep, replayed by the public command."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from batchscout import schemas

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "tests" / "recordings" / "demo.jsonl.gz"


def rows():
    with gzip.open(RECORD, "rt") as file:
        header, *jobs = [json.loads(line) for line in file]
    return header, jobs


def second_in_a_row(job, target):
    """Seconds at the second of two evaluations in a row at the target, None where there are none: the plain
    rule without interpolation, an upper bound of time-to-target."""
    score = job["score"]
    hits = (i for i in range(1, len(score)) if min(score[i - 1], score[i]) >= target)
    return next((job["seconds"][i] for i in hits), None)


@pytest.fixture(scope="module")
def replayed(tmp_path_factory):
    directory = tmp_path_factory.mktemp("replay") / "sweep"
    words = ["sweep=grid", "hardware=replay", f"hardware.source={RECORD}", f"hydra.sweep.dir={directory}"]
    command = [sys.executable, str(ROOT / "sweep.py"), "-m", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads((directory / "result.json").read_text())


def test_the_replay_runs_every_recorded_job_and_costs_what_they_cost(replayed):
    schemas.validate("result", replayed)
    _, jobs = rows()
    assert replayed["status"] == "complete"
    assert len(replayed["jobs"]) == len(jobs) == 16
    assert replayed["cost"]["seconds"] == sum(job["seconds"] for job in replayed["jobs"])
    assert replayed["cost"]["seconds"] == pytest.approx(sum(j["seconds"][-1] for j in jobs))


def test_the_replay_finds_the_interior_optimum_that_the_record_shows(replayed):
    header, jobs = rows()
    times = {}
    for job in jobs:
        time = second_in_a_row(job, header["target"])
        if time is not None:
            times[job["batch_size"]] = min(time, times.get(job["batch_size"], time))
    best = min(times, key=times.get)
    assert replayed["recommendation"]["batch_size"] == best
    assert replayed["recommendation"]["time_to_target"] <= times[best]
    smallest, largest = min(header["batch_sizes"]), max(header["batch_sizes"])
    assert smallest < best < largest
    for edge in (smallest, largest):  # not reached within the cap is slower still
        least = [j["seconds"][-1] for j in jobs if j["batch_size"] == edge]
        assert times.get(edge, min(least)) > 1.3 * times[best]
