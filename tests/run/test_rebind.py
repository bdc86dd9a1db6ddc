"""Late binding: a place in the queue runs what is worth most when it starts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.run.fake_cluster import Behaviour
from tests.run.sweeps import Killed, Sweep, settings

from batchscout.run import rebind
from batchscout.run.binding import bound_to, claim, give
from batchscout.run.budget import Budget
from batchscout.run.settings import ExitCode
from batchscout.run.submit import Submitter
from batchscout.run.sweep_directory import SweepDirectory
from batchscout.search.pooled import recommend_measured
from batchscout.search.protocol import Finished, JobObservation, Point, Proposal, Recommendation

A, B, C, D = 64, 128, 256, 512


class ChangesItsMind:
    """64, then 128 while nothing has ended; afterwards 512 comes first and 128 last."""

    binds_late = True
    watches_curves = False

    def __init__(self, before: Sequence[int] = (A, B, C, D), after: Sequence[int] = (D, C, B)) -> None:
        self._before, self._after = before, after

    def propose(self, jobs: Sequence[JobObservation]) -> Proposal | Finished | None:
        has_ended = any(j.is_final for j in jobs)
        used = {j.point.batch_size for j in jobs}
        left = [b for b in (self._after if has_ended else self._before) if b not in used]
        if left:
            return Proposal("run", Point(left[0], 1e-3), 0, f"prefers {left[0]}")
        return None if any(not j.is_final for j in jobs) else Finished("all done")

    def stop(self, job: JobObservation, jobs: Sequence[JobObservation]) -> str | None:
        return None

    def recommend(self, jobs: Sequence[JobObservation]) -> Recommendation | None:
        from batchscout.measure.target import Target

        return recommend_measured(jobs, Target(0.8))


def waits(job: dict[str, Any], attempt: int) -> Behaviour:
    """64 runs at once; whatever is submitted for another batch size waits for 100 s."""
    return Behaviour(seconds=10) if job["batch_size"] == A else Behaviour(seconds=10, queue=100)


def make(path: Path, behave: Callable[..., Behaviour] = waits) -> Sweep:
    sweep = Sweep(path, behave)
    sweep.cluster.binds_late = True
    return sweep


def submissions(sweep: Sweep, batch_size: int) -> list[dict[str, Any]]:
    path = sweep.path / "jobs" / f"b{batch_size}-lr0.001-s0" / "job.json"
    found: list[dict[str, Any]] = json.loads(path.read_text())["submissions"]
    return found


def assert_all_ran_once(sweep: Sweep) -> None:
    rows = {row["batch_size"]: row for row in sweep.result["jobs"]}
    assert {b: row["outcome"] for b, row in rows.items()} == dict.fromkeys((A, B, C, D), "reached")
    assert {row["attempts"] for row in rows.values()} == {1}
    assert len(sweep.cluster.submits()) == 4, "four jobs, four submissions: none for nothing"
    names = [s["name"] for b in rows for s in submissions(sweep, b) if s["outcome"] != "rebound"]
    assert len(set(names)) == 4


def test_a_pending_place_is_given_to_what_is_better_by_then(tmp_path: Path) -> None:
    sweep = make(tmp_path)
    assert sweep.run(settings(slots=2), built=ChangesItsMind()) is ExitCode.OK
    assert_all_ran_once(sweep)
    assert sweep.cluster.submits() == [f"b{b}-lr0.001-s0" for b in (A, B, C, B)]
    (given, own), (taken,) = submissions(sweep, B), submissions(sweep, D)
    assert taken["name"] == given["name"]
    assert taken["handle"] == given["handle"]
    assert (given["outcome"], given["reason"]) == ("rebound", "b512-lr0.001-s0")
    assert own["name"] != given["name"]
    (event,) = [e for e in sweep.events if e["event"] == "rebind"]
    assert (event["job"], event["instead_of"]) == ("b512-lr0.001-s0", "b128-lr0.001-s0")
    assert event["submission"] == given["name"]
    rows = {row["batch_size"]: row for row in sweep.result["jobs"]}
    assert rows[D]["start"] - rows[D]["submitted"] == pytest.approx(100, abs=1), (
        "it kept its age in the queue"
    )
    assert rows[D]["queue_seconds"] == pytest.approx(100, abs=1)
    assert rows[B]["queue_seconds"] == pytest.approx(100, abs=1), "of its own submission only"


def test_a_withdrawn_job_costs_nothing_of_the_budget_and_is_no_row(tmp_path: Path) -> None:
    sweep = make(tmp_path)
    sweep.run(settings(slots=2, budget=Budget(jobs=3)), built=ChangesItsMind())
    assert {row["batch_size"] for row in sweep.result["jobs"]} == {A, C, D}
    assert len(sweep.cluster.submits()) == 3
    record = json.loads((sweep.path / "jobs" / "b128-lr0.001-s0" / "job.json").read_text())
    assert (record["outcome"], record["reason"]) == ("cancelled", "withdrawn")
    assert record["message"] == "its place in the queue was given to b512-lr0.001-s0"


def test_what_has_started_meanwhile_keeps_its_place(tmp_path: Path) -> None:
    sweep = make(tmp_path)
    is_first = iter([True])

    def start_first(*arguments: Any) -> bool:
        directory, name, job_id = arguments
        if next(is_first, False):
            assert claim(directory, name) == directory, "the worker is faster"
        return give(directory, name, job_id)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rebind, "give", start_first)
        assert sweep.run(settings(slots=2), built=ChangesItsMind()) is ExitCode.OK
    assert_all_ran_once(sweep)
    assert [len(submissions(sweep, b)) for b in (A, B, C, D)] == [1, 1, 1, 1]


def test_a_search_that_does_not_change_its_mind_changes_nothing(tmp_path: Path) -> None:
    sweep = make(tmp_path)
    sweep.run(settings(slots=2), built=ChangesItsMind(after=(A, B, C, D)))
    assert_all_ran_once(sweep)
    assert not [e for e in sweep.events if e["event"] == "rebind"]


def test_a_grid_runs_in_its_order(tmp_path: Path) -> None:
    sweep = make(tmp_path)
    sweep.run(settings(slots=2))
    assert_all_ran_once(sweep)
    assert not [e for e in sweep.events if e["event"] == "rebind"]


@pytest.mark.parametrize("instant", ["before", "spare", "given", "taken", "withdrawn"])
def test_a_controller_killed_while_it_rebinds_goes_on(
    tmp_path: Path, instant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = make(tmp_path)
    saved, spare, save_job = [], Submitter.spare, SweepDirectory.save_job

    def die_at_save(self: SweepDirectory, record: Any) -> Path:
        path = save_job(self, record)
        saved.append(record)
        is_it = {
            "taken": record.job.point.batch_size == D and record.submissions,
            "withdrawn": record.is_withdrawn,
        }
        if is_it.get(instant) and record.submissions:
            raise Killed
        return path

    def die_around_spare(self: Submitter, *arguments: Any) -> Any:
        if instant == "before":
            raise Killed
        found = spare(self, *arguments)
        if instant == "spare":
            raise Killed
        return found

    def die_after_give(*arguments: Any) -> bool:
        assert give(*arguments)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(SweepDirectory, "save_job", die_at_save)
        patch.setattr(Submitter, "spare", die_around_spare)
        if instant == "given":
            patch.setattr(rebind, "give", die_after_give)
        with pytest.raises(Killed):
            sweep.run(settings(slots=2), built=ChangesItsMind())
    if instant in ("given", "taken"):
        sweep.clock.sleep(1000)  # it has started and ended meanwhile
    assert sweep.run(settings(slots=2), built=ChangesItsMind()) is ExitCode.OK
    assert_all_ran_once(sweep)


def test_worker_and_controller_settle_it_once(tmp_path: Path) -> None:
    x, y = tmp_path / "x", tmp_path / "y"
    x.mkdir()
    y.mkdir()
    assert bound_to(x, "s-1") is None
    assert claim(x, "s-1") == x
    assert claim(x, "s-1") == x, "started again by the scheduler: the same job"
    assert not give(x, "s-1", "y")
    assert give(x, "s-2", "y")
    assert give(x, "s-2", "y"), "asked twice"
    assert claim(x, "s-2") == y
    assert bound_to(x, "s-2") == "y"
    assert bound_to(y, "s-2") == "y"


def test_a_place_may_be_given_on(tmp_path: Path) -> None:
    for name in "xyz":
        (tmp_path / name).mkdir()
    assert give(tmp_path / "x", "a/b", "y")
    assert give(tmp_path / "y", "a/b", "z")
    assert claim(tmp_path / "x", "a/b") == tmp_path / "z"


@pytest.fixture(autouse=True)
def _no_disk_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a crash of the machine would do is not tested here."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
