"""Replays of recorded sweeps: costs are exact, files agree with memory, slots run in parallel."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from batchscout.errors import ConfigError, SweepError
from batchscout.measure.target import Target
from batchscout.run.api import run_sweep
from batchscout.run.budget import Budget
from batchscout.run.record import read_sweep
from batchscout.run.recorded import RecordedSweep, export_sweep
from batchscout.run.replay import ReplayExecutor
from batchscout.run.settings import ExitCode, SweepSettings
from batchscout.schemas import validate
from batchscout.search.factory import build_search
from batchscout.search.pooled import pool_points
from batchscout.search.protocol import (
    Finished,
    JobObservation,
    Point,
    Proposal,
    Recommendation,
    SearchContext,
)

HEADER = {
    "world": "made",
    "target": 0.8,
    "batch_sizes": [16, 64, 256],
    "learning_rates": [1e-3, 2e-3],
    "seeds": [0, 1],
    "gpus": 2,
    "gpu": "H1",
}


def row(
    batch_size: int, lr: float, seed: int, *, each: float, count: int = 8, status: str = "reached"
) -> dict[str, Any]:
    """Evaluations every 512 samples, score rising by a tenth each, `each` seconds between them."""
    indices = range(1, count + 1)
    return {
        "batch_size": batch_size,
        "learning_rate": lr,
        "seed": seed,
        "status": status,
        "samples": [512 * i for i in indices],
        "seconds": [round(each * i, 4) for i in indices],
        "sampling_seconds": [round(0.6 * each * i, 4) for i in indices],
        "score": [round(0.1 + 0.1 * i, 4) for i in indices],
    }


def rows() -> list[dict[str, Any]]:
    """64 at 1e-3 is the fastest; 256 at 2e-3 diverges; seed 1 is absent for 16 and 256 at 1e-3."""
    return [
        row(16, 1e-3, 0, each=3.1),
        row(16, 2e-3, 0, each=4.3),
        row(16, 2e-3, 1, each=4.1),
        row(64, 1e-3, 0, each=1.1),
        row(64, 1e-3, 1, each=1.3),
        row(64, 2e-3, 0, each=1.7),
        row(64, 2e-3, 1, each=1.9, count=5, status="capped"),
        row(256, 1e-3, 0, each=2.3),
        row(256, 2e-3, 0, each=0.7, count=4, status="diverged"),
        row(256, 2e-3, 1, each=0.7, count=4, status="stopped"),
    ]


@pytest.fixture
def recording(tmp_path: Path) -> RecordedSweep:
    return write(tmp_path / "made.jsonl.gz", HEADER, rows())


def write(path: Path, header: dict[str, Any], lines: list[dict[str, Any]]) -> RecordedSweep:
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(line) + "\n" for line in (header, *lines))
    return RecordedSweep.read(path)


def replay(
    recording: RecordedSweep,
    directory: Path,
    search: Any = "grid",
    *,
    slots: int = 1,
    budget: Budget | None = None,
    startup: float | None = None,
) -> dict[str, Any]:
    context = SearchContext(space=recording.space(), target=Target(recording.target), slots=slots, seed=3)
    built = build_search(search, context) if isinstance(search, str) else search
    wanted = SweepSettings(
        name="replay",
        config={"target": {"score": recording.target}},
        measured={"world": recording.world},
        job_config=lambda p, s: {"batch_size": p.batch_size, "lr": p.lr, "seed": s},
        context=context,
        search=search if isinstance(search, str) else "own",
        budget=budget or Budget(jobs=50),
        gpus=recording.gpus,
        is_recorded=True,
    )
    executor = ReplayExecutor(recording, slots=slots, startup_seconds=startup)
    assert run_sweep(wanted, directory, executor=executor, search=built) is ExitCode.OK
    result: dict[str, Any] = json.loads((directory / "result.json").read_text())
    validate("result", result)
    assert sum(job["seconds"] for job in result["jobs"]) == result["cost"]["seconds"]
    return result


class Scripted:
    """Proposes a list, stops what it is told to."""

    def __init__(self, proposals: list[Proposal], stop_after: dict[str, int] | None = None) -> None:
        self._proposals, self._stop_after = proposals, stop_after or {}

    def propose(self, jobs: Any) -> Proposal | Finished | None:
        done = [(j.job_id, j.outcome) for j in jobs]
        for proposal in self._proposals:
            if proposal.resume is not None:
                if (proposal.resume, "stopped") in done and self._stop_after.pop(proposal.resume, None):
                    return proposal
            elif (proposal.kind, proposal.point, proposal.seed) not in [
                (j.kind, j.point, j.seed) for j in jobs
            ]:
                return proposal
        return None if any(not j.is_final for j in jobs) else Finished("the list is done")

    def stop(self, job: JobObservation, jobs: Any) -> str | None:
        after = self._stop_after.get(job.job_id)
        is_due = after is not None and job.curve is not None and len(job.curve.samples) >= after
        return "enough" if is_due else None

    def recommend(self, jobs: Any) -> Recommendation | None:
        return None


def test_a_grid_costs_what_the_recording_cost(recording: RecordedSweep, tmp_path: Path) -> None:
    result = replay(recording, tmp_path / "a")
    spent = sum(line["seconds"][-1] for line in rows())
    assert result["cost"]["seconds"] == pytest.approx(spent)
    assert result["elapsed_seconds"] == pytest.approx(spent)
    assert result["cost"]["gpu_hours"] == pytest.approx(2 * spent / 3600)
    assert result["status"] == "complete"
    assert len(result["jobs"]) == 10  # absent cells are not there
    assert result["recommendation"]["batch_size"] == 64
    assert result["recommendation"]["lr"] == 1e-3
    # score 0.8 is met at the seventh evaluation: 7 × 1.1 s and 7 × 1.3 s
    assert result["recommendation"]["time_to_target"] == pytest.approx(7 * 1.2)
    assert result["recommendation"]["samples_to_target"] == pytest.approx(7 * 512)


def test_slots_run_in_parallel_on_the_virtual_clock(recording: RecordedSweep, tmp_path: Path) -> None:
    one = replay(recording, tmp_path / "a")
    four = replay(recording, tmp_path / "b", slots=4)
    assert four["cost"]["seconds"] == pytest.approx(one["cost"]["seconds"])
    longest = max(line["seconds"][-1] for line in rows())
    assert longest <= four["elapsed_seconds"] <= one["cost"]["seconds"] / 4 + longest


def test_startup_seconds_delay_and_are_told_but_are_no_training(
    recording: RecordedSweep, tmp_path: Path
) -> None:
    plain = replay(recording, tmp_path / "a")
    slow = replay(recording, tmp_path / "b", startup=20.0)
    assert slow["cost"]["seconds"] == pytest.approx(plain["cost"]["seconds"])
    assert slow["elapsed_seconds"] == pytest.approx(plain["elapsed_seconds"] + 10 * 20)
    assert {job["startup_seconds"] for job in slow["jobs"]} == {20.0}
    assert slow["cost"]["gpu_hours"] == pytest.approx(2 * slow["elapsed_seconds"] / 3600)


def test_a_probe_costs_its_updates_and_shows_no_score(recording: RecordedSweep, tmp_path: Path) -> None:
    probe = Proposal("probe", Point(64, 1e-3), 0, "time", updates_limit=4)
    result = replay(recording, tmp_path / "a", Scripted([probe]))
    (job,) = result["jobs"]
    assert job["id"] == "probe-b64"
    assert job["updates"] == 4
    assert job["seconds"] == pytest.approx(4 * 64 / 512 * 1.1)
    assert job["time_to_target"] is None
    (point,) = result["points"]
    assert point["best_score"] is None
    assert point["update_seconds"] == pytest.approx(64 / 512 * 1.1)
    assert point["sampling_share"] == pytest.approx(0.6)


def test_a_stopped_job_costs_what_it_ran_and_going_on_costs_the_rest(
    recording: RecordedSweep, tmp_path: Path
) -> None:
    job_id = "b64-lr0.001-s0"
    run = Proposal("run", Point(64, 1e-3), 0, "try")
    stopped = replay(recording, tmp_path / "a", Scripted([run], {job_id: 3}))
    (job,) = stopped["jobs"]
    assert (job["outcome"], job["reason"]) == ("stopped", "enough")
    assert job["seconds"] == pytest.approx(3 * 1.1)
    assert job["samples"] == 3 * 512
    resumed = Proposal("verify", Point(64, 1e-3), 0, "go on", resume=job_id)
    whole = replay(recording, tmp_path / "b", Scripted([run, resumed], {job_id: 3}), startup=5.0)
    (job,) = whole["jobs"]
    assert job["outcome"] == "reached"
    assert job["attempts"] == 2
    assert job["kind"] == "verify"  # what it was gone on with for, which a search asks when it may stop
    assert job["seconds"] == pytest.approx(8 * 1.1)
    assert whole["elapsed_seconds"] == pytest.approx(8 * 1.1 + 2 * 5)
    assert job["time_to_target"] == pytest.approx(7 * 1.1)
    assert job["lost_seconds"] == 0


def test_a_recorded_stop_can_be_gone_on_with_but_brings_nothing(
    recording: RecordedSweep, tmp_path: Path
) -> None:
    job_id = "b256-lr0.002-s1"
    run = Proposal("run", Point(256, 2e-3), 1, "try")
    resumed = Proposal("run", Point(256, 2e-3), 1, "go on", resume=job_id)
    result = replay(recording, tmp_path / "a", Scripted([run, resumed], {job_id: 99}))
    (job,) = result["jobs"]
    assert job["seconds"] == pytest.approx(4 * 0.7)
    assert job["attempts"] == 2
    assert (job["outcome"], job["reason"]) == ("capped", "recorded")


def test_infeasible_cells_cost_nothing_and_skip_larger_ones(tmp_path: Path) -> None:
    lines = [
        row(16, 1e-3, 0, each=1.0),
        {**row(64, 1e-3, 0, each=1, count=0), "status": "infeasible"},
        row(256, 1e-3, 0, each=1),
    ]
    recording = write(tmp_path / "oom.jsonl.gz", HEADER, lines)
    result = replay(recording, tmp_path / "a")
    outcomes = {job["batch_size"]: (job["outcome"], job["message"]) for job in result["jobs"]}
    assert outcomes[64][0] == "infeasible"
    assert outcomes[256] == ("infeasible", "skipped: known OOM at 64")
    assert result["cost"]["seconds"] == 8.0


def test_budget_seconds_ends_a_replay_where_it_is_used_up(recording: RecordedSweep, tmp_path: Path) -> None:
    result = replay(recording, tmp_path / "a", budget=Budget(seconds=20.0))
    assert result["status"] == "exhausted"
    assert 20.0 <= result["cost"]["seconds"] <= 20.0 + 3.1  # at the next evaluation


@pytest.mark.parametrize("search", ["random", "tpe"])
def test_replays_repeat_to_the_letter(recording: RecordedSweep, tmp_path: Path, search: str) -> None:
    first = replay(recording, tmp_path / "a", search, slots=2)
    second = replay(recording, tmp_path / "b", search, slots=2)
    assert {**first, "sweep": ""} == {**second, "sweep": ""}
    assert len({job["id"] for job in first["jobs"]}) == len(first["jobs"]) == 10


def test_files_tell_the_same_as_memory(recording: RecordedSweep, tmp_path: Path) -> None:
    result = replay(recording, tmp_path / "a", slots=2)
    view = read_sweep(tmp_path / "a")
    from_files = pool_points(view.jobs, Target(0.8))
    for point, told in zip(from_files, result["points"], strict=True):
        assert point.time_to_target == told["time_to_target"]
        assert point.samples_to_target == told["samples_to_target"]
        assert point.update_seconds == pytest.approx(told["update_seconds"])
        assert point.sampling_share == pytest.approx(told["sampling_share"])
    for path in (tmp_path / "a").glob("jobs/*/attempts/*/journal.jsonl"):
        for line in path.read_text().splitlines():
            validate("journal", json.loads(line))


def test_a_killed_replay_goes_on(
    recording: RecordedSweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    whole = replay(recording, tmp_path / "a")
    calls = iter(range(100))
    plain = ReplayExecutor.wait

    def wait(self: ReplayExecutor, seconds: float) -> None:
        if next(calls) == 4:
            raise Killed
        plain(self, seconds)

    monkeypatch.setattr(ReplayExecutor, "wait", wait)
    with pytest.raises(Killed):
        replay(recording, tmp_path / "b")
    resumed = replay(recording, tmp_path / "b")
    assert resumed["cost"]["seconds"] == pytest.approx(whole["cost"]["seconds"])
    assert [j["outcome"] for j in resumed["jobs"]] == [j["outcome"] for j in whole["jobs"]]
    assert len(resumed["recommendations"]) == 10


def test_what_is_exported_replays_to_the_same(recording: RecordedSweep, tmp_path: Path) -> None:
    first = replay(recording, tmp_path / "a")
    lines = export_sweep(tmp_path / "a")
    for line in lines:
        validate("recorded", json.loads(line))
    (tmp_path / "again.jsonl").write_text("\n".join(lines) + "\n")
    again = RecordedSweep.read(tmp_path / "again.jsonl")
    assert again.world == first["sweep"]
    assert (again.target, again.gpus, again.gpu, again.seeds) == (0.8, 2, "H1", (0, 1))
    originals = sorted(rows(), key=lambda r: (r["batch_size"], r["learning_rate"], r["seed"]))
    for line, original in zip(lines[1:], originals, strict=True):
        told = json.loads(line)
        assert told["sampling_seconds"] == pytest.approx(original["sampling_seconds"])
        exact = {"sampling_seconds": original["sampling_seconds"]}
        assert {key: told[key] for key in original} | exact == original
    second = replay(again, tmp_path / "b")
    for ours, theirs in zip(second["table"], first["table"], strict=True):
        assert ours["time_to_target"] == theirs["time_to_target"]
        assert ours["update_seconds"] == pytest.approx(theirs["update_seconds"])
    assert second["cost"] == first["cost"]


GOOD = row(16, 1e-3, 0, each=1.0)


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        ([], "empty"),
        (["{"], "not a recorded sweep"),
        (['{"target": 0.8}'], "header"),
        ([json.dumps(HEADER), '{"batch_size": 16}'], "line 2"),
        ([json.dumps(HEADER), json.dumps({**GOOD, "status": "won"})], "line 2"),
        ([json.dumps(HEADER), json.dumps({**GOOD, "score": [0.1]})], "differ in length"),
        (
            [
                json.dumps(HEADER),
                json.dumps({**GOOD, "seconds": GOOD["seconds"][::-1]}),
            ],
            "decreases",
        ),
        ([json.dumps(HEADER), json.dumps(GOOD), json.dumps(GOOD)], "line 3: a second job at batch_size=16"),
        ([json.dumps(HEADER), json.dumps({**GOOD, "seconds": [None] * 8})], "seconds must be numbers"),
        ([json.dumps(HEADER), json.dumps({**GOOD, "score": ["high"] * 8})], "score must be numbers"),
        ([json.dumps(HEADER), json.dumps({**GOOD, "samples": [512] * 8})], "two evaluations at the same"),
        ([json.dumps(HEADER), json.dumps({k: GOOD[k] for k in GOOD if k != "score"})], "'score' is missing"),
    ],
)
def test_a_broken_recording_is_one_clear_error(tmp_path: Path, lines: list[str], word: str) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(SweepError, match=word):
        RecordedSweep.read(path)


def test_a_score_that_is_no_number_never_counts(tmp_path: Path) -> None:
    """NaN as Python's json writes it, in the place of the second of two evaluations at the target."""
    made = {**GOOD, "score": [0.1, 0.3, 0.85, float("nan"), 0.85, 0.3, 0.85, 0.9]}
    path = tmp_path / "nan.jsonl"
    path.write_text(json.dumps(HEADER) + "\n" + json.dumps(made))
    result = replay(RecordedSweep.read(path), tmp_path / "a")
    (job,) = result["jobs"]
    assert 512 * 6 < job["samples_to_target"] <= 512 * 7
    validate("result", result)


def test_a_missing_recording_names_the_field(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"hardware\.source"):
        RecordedSweep.read(tmp_path / "none.jsonl.gz")
