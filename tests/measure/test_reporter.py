"""The reporter on a clock that moves only when told: times, decisions and resumes to the digit."""

from __future__ import annotations

import contextlib
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchscout.errors import TrainerError
from batchscout.measure import (
    Caps,
    Curve,
    EvaluationGrid,
    Outcome,
    Reporter,
    Target,
    attempt_paths,
    read_journal,
)
from batchscout.measure.attempt import claim_attempt
from batchscout.schemas import validate


def events(reporter: Reporter, name: str | None = None) -> list[dict[str, Any]]:
    read = read_journal(reporter.attempt_dir / "journal.jsonl")
    return [e for e in read if name in (None, e["event"])]


def journals(directory: Path) -> list[list[dict[str, Any]]]:
    return [read_journal(path / "journal.jsonl") for path in attempt_paths(directory)]


def rising(samples: int) -> float:
    return min(1.0, 0.1 + samples / 100)


# the training clock


def test_phases_and_the_rest_add_up_to_the_update(job: Any) -> None:
    reporter = job.open()
    job.update(reporter, (1.0, 2.0, 0.25))
    job.clock.sleep(0.5)  # the loop between two updates is part of the next
    with reporter.reward():
        job.clock.sleep(4.0)
    with reporter.sync():
        job.clock.sleep(8.0)
    reporter.end_update(samples=8)
    first, second = events(reporter, "update")
    assert first["seconds"] == 3.25
    assert [second[f"{p}_seconds"] for p in ("sampling", "reward", "learning", "sync", "other")] == [
        1,
        4,
        2,
        8,
        0.75,
    ]
    assert second["seconds"] == 15.75
    assert (first["warmup"], second["warmup"]) == (True, False)
    assert (first["generated_samples"], second["generated_samples"]) == (10, 10)


def test_evaluation_checkpoint_and_startup_are_off_the_clock(job: Any) -> None:
    reporter = job.open(startup_seconds=5.0)
    job.clock.sleep(3.0)  # the model is built
    job.evaluate(reporter, 0.1)
    job.update(reporter)
    job.save(reporter)
    job.evaluate(reporter, 0.2)
    job.update(reporter)
    assert reporter.seconds == 6.5
    curve = Curve.from_attempts(journals(job.directory))
    assert (curve.evaluation_total_seconds, curve.checkpoint_seconds, curve.startup_seconds) == (1, 0.125, 8)
    assert curve.wall_seconds.tolist() == [8.5, 8.5 + 3.25 + 0.125 + 0.5]
    assert reporter.wall_seconds == 8 + 6.5 + 1 + 0.125


def test_startup_ends_at_the_first_phase_without_an_evaluation(job: Any) -> None:
    reporter = job.open(startup_seconds=1.0)
    job.clock.sleep(3.0)
    job.update(reporter)
    assert reporter.seconds == 3.25
    assert events(reporter, "update")[0]["startup_seconds"] == 4.0


def test_loop_without_phases_is_all_other(job: Any) -> None:
    reporter = job.open()
    for _ in range(2):
        job.clock.sleep(2.0)
        reporter.end_update(samples=8)
    assert [e["other_seconds"] for e in events(reporter, "update")] == [2, 4]


steps = st.tuples(st.sampled_from(["sampling", "reward", "learning", "sync", "idle"]), st.floats(0, 100))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(steps, max_size=6), min_size=1, max_size=5))
def test_parts_add_up_to_seconds_whatever_the_order_of_phases(make_job: Any, plan: Any) -> None:
    job = make_job()
    reporter = job.open()
    spent = 0.0
    for update in plan:
        is_started = reporter.updates > 0
        for phase, seconds in update:
            if phase == "idle":
                job.clock.sleep(seconds)
                spent += seconds if is_started else 0.0
            else:
                is_started = True
                with getattr(reporter, phase)():
                    job.clock.sleep(seconds)
                spent += seconds
        reporter.end_update(samples=1)
        last = events(reporter, "update")[-1]
        parts = [last[f"{p}_seconds"] for p in ("sampling", "reward", "learning", "sync", "other")]
        assert sum(parts) == last["seconds"]
    if any(
        phase != "idle" for phase, _ in plan[0]
    ):  # else the first update's idling counts: nothing tells it apart
        assert reporter.seconds == pytest.approx(spent)


# misuse


def test_phases_exclude_each_other(job: Any) -> None:
    reporter = job.open()
    nested = pytest.raises(TrainerError, match=r"learning\(\) inside sampling\(\)")
    with reporter.sampling(), nested, reporter.learning():
        pass
    with reporter.sampling(), pytest.raises(TrainerError, match=r"end_update\(\) inside sampling\(\)"):
        reporter.end_update(samples=8)


def test_evaluation_and_checkpoint_lie_between_updates(job: Any) -> None:
    reporter = job.open()
    with reporter.sampling():
        pass
    for call in (reporter.evaluation, reporter.checkpoint):
        with pytest.raises(TrainerError, match="inside an update; call end_update"), call():
            pass


def test_evaluation_needs_exactly_one_score(job: Any) -> None:
    reporter = job.open()
    with pytest.raises(TrainerError, match="without record"), reporter.evaluation():
        pass
    with reporter.evaluation() as evaluation:
        evaluation.record(0.1, 10)
        with pytest.raises(TrainerError, match="called twice"):
            evaluation.record(0.2, 10)
    with pytest.raises(TrainerError, match="evaluated already"), reporter.evaluation():
        pass


def test_update_without_samples_is_refused(job: Any) -> None:
    with pytest.raises(TrainerError, match="samples=0"):
        job.open().end_update(samples=0)


def test_nothing_follows_the_end(job: Any) -> None:
    reporter = job.open()
    assert not reporter.has_ended
    reporter.end(Outcome.FAILED, "exception", "boom")
    assert reporter.has_ended
    for call in (reporter.end, lambda: reporter.end_update(samples=1), reporter.resume):
        with pytest.raises(TrainerError, match="after end"):
            call()
    with pytest.raises(TrainerError, match="after end"), reporter.sampling():
        pass


def test_phase_tells_where_an_exception_came_from(job: Any) -> None:
    reporter = job.open()
    with pytest.raises(MemoryError), reporter.learning():
        raise MemoryError
    assert reporter.phase == "learning"
    with reporter.sampling():
        assert reporter.phase == "sampling"
    assert reporter.phase is None


def test_trainer_that_returns_early_has_failed(job: Any) -> None:
    reporter = job.open()
    job.update(reporter)
    with pytest.raises(TrainerError, match="should_stop"):
        reporter.stop_outcome  # noqa: B018
    reporter.end()
    assert (events(reporter, "end")[0]["outcome"], events(reporter, "end")[0]["reason"]) == (
        "failed",
        "returned_early",
    )


# evaluations


@pytest.mark.parametrize(
    ("batch", "expected"), [(8, [0, 24, 40, 64]), (40, [0, 40, 80]), (20, [0, 20, 40, 60, 80])]
)
def test_c51_grid_is_in_samples_and_rounded_up_to_whole_updates(
    job: Any, batch: int, expected: list[int]
) -> None:
    job.grid, job.target = EvaluationGrid(20), Target(2.0)
    reporter = job.open()
    for _ in range(math.ceil(64 / batch) + 1):
        if reporter.due_for_evaluation():
            job.evaluate(reporter, 0.1)
            assert not reporter.due_for_evaluation()
        if reporter.samples < 64:
            reporter.end_update(samples=batch)
    assert [e["samples"] for e in events(reporter, "evaluation")] == expected


def test_cap_asks_for_a_last_evaluation(job: Any) -> None:
    job.caps, job.grid = Caps(updates=3), EvaluationGrid(1000)
    reporter = job.run(job.open(), rising)
    assert [e["samples"] for e in events(reporter, "evaluation")] == [0, 24]
    assert reporter.stop_outcome == (Outcome.CAPPED, "caps.updates")


# stopping


def test_target_by_patience_ends_the_job(job: Any) -> None:
    reporter = job.run(job.open(), rising)
    assert [e["score"] for e in events(reporter, "evaluation")][-2:] == [0.74, 0.9]
    assert reporter.stop_outcome == (Outcome.REACHED, "target")
    reporter.end()
    assert events(reporter, "end")[0]["outcome"] == "reached"


def test_start_model_at_the_target_ends_the_job_at_once(job: Any) -> None:
    reporter = job.run(job.open(), lambda _: 0.8)
    assert reporter.updates == 0
    assert reporter.stop_outcome == (Outcome.REACHED, "start_model_at_target")
    reporter.end()
    assert "start model already scores 0.8" in events(reporter, "end")[0]["message"]


@pytest.mark.parametrize(
    ("caps", "reason", "updates"),
    [
        (Caps(samples=20), "caps.samples", 3),
        (Caps(updates=2), "caps.updates", 2),
        (Caps(seconds=9.0), "caps.seconds", 3),
    ],
)
def test_caps_end_the_job_on_raw_counts(job: Any, caps: Caps, reason: str, updates: int) -> None:
    job.caps = caps
    reporter = job.run(job.open(), lambda _: 0.1)
    assert (reporter.stop_outcome, reporter.updates) == ((Outcome.CAPPED, reason), updates)


def test_target_at_the_cap_is_reached(job: Any) -> None:
    job.caps = Caps(samples=80)
    assert job.run(job.open(), rising).stop_outcome[0] is Outcome.REACHED


def test_nan_score_diverges(job: Any) -> None:
    reporter = job.run(job.open(), lambda samples: 0.1 if samples < 32 else math.nan)
    assert reporter.stop_outcome == (Outcome.DIVERGED, "nan_score")
    assert events(reporter, "evaluation")[-1]["nonfinite"] == ["score"]


def test_trainer_reports_divergence(job: Any) -> None:
    reporter = job.open()
    job.update(reporter)
    reporter.diverged("a parameter is no longer finite")
    assert reporter.should_stop()
    reporter.end()
    end = events(reporter, "end")[0]
    assert (end["outcome"], end["message"]) == ("diverged", "a parameter is no longer finite")


def test_collapse_for_six_evaluations_diverges(job: Any) -> None:
    reporter = job.run(job.open(), lambda samples: 0.5 if samples < 64 else 0.1)
    assert reporter.stop_outcome == (Outcome.DIVERGED, "collapse")
    assert reporter.samples == 64 + 5 * 16


def test_control_file_stops_the_job(job: Any) -> None:
    reporter = job.open()
    job.update(reporter)
    assert not reporter.should_stop()
    (job.directory / "control").write_text('{"v":1,"request":"stop","reason":"projected too slow"}')
    assert reporter.should_stop()
    assert reporter.stop_outcome == (Outcome.STOPPED, "control")
    assert reporter.due_for_checkpoint()
    job.save(reporter)
    assert not reporter.due_for_checkpoint()
    reporter.end()
    assert events(reporter, "end")[0]["message"] == "projected too slow"


def test_unreadable_control_file_asks_for_nothing(job: Any) -> None:
    reporter = job.open()
    for text in ("", "{", "[]", '{"v":1}'):
        (job.directory / "control").write_text(text)
        assert not reporter.should_stop()


def test_request_to_leave_wants_a_checkpoint_and_ends_as_preempted(job: Any) -> None:
    reporter = job.open()
    job.update(reporter)
    assert not reporter.due_for_checkpoint()
    reporter.request_preemption()
    assert reporter.due_for_checkpoint()
    assert reporter.should_stop()
    assert reporter.preempted
    assert reporter.due_for_checkpoint()
    job.save(reporter)
    reporter.end()
    assert events(reporter, "end")[0]["outcome"] == "preempted"


def test_older_attempt_stops_itself_and_publishes_nothing(job: Any) -> None:
    reporter = job.open()
    job.update(reporter)
    with reporter.checkpoint() as path:
        (path / "weights").write_text("mine")
        claim_attempt(job.directory)
    assert reporter.resume_path() is None
    assert list((job.directory / "checkpoint").iterdir()) == []
    assert reporter.should_stop()
    assert reporter.stop_outcome == (Outcome.PREEMPTED, "fenced")
    assert not reporter.preempted  # nobody wants its checkpoint
    assert not reporter.due_for_checkpoint()


# checkpoints and resumes


def test_checkpoints_are_due_by_time_and_the_newest_two_stay(job: Any) -> None:
    reporter = job.open(checkpoint_every_seconds=6.0)
    saved = []
    for _ in range(8):
        job.update(reporter)
        if reporter.due_for_checkpoint():
            job.save(reporter)
            saved.append(reporter.updates)
    assert saved == [2, 4, 6, 8]
    assert sorted(p.name for p in (job.directory / "checkpoint").iterdir()) == ["6", "8"]
    assert reporter.resume_path() == job.directory / "checkpoint" / "8"


def test_failed_save_publishes_nothing(job: Any) -> None:
    reporter = job.open()
    job.update(reporter)
    with pytest.raises(OSError, match="full"), reporter.checkpoint():
        raise OSError("full")
    assert reporter.resume_path() is None


def test_resumed_attempt_counts_on(job: Any) -> None:
    first = job.run(job.open(startup_seconds=1.0), lambda s: 0.1 + s / 1000, updates=4)
    job.save(first)
    job.update(first)  # lost
    job.clock.sleep(500)  # killed here; queued
    second = job.open(startup_seconds=2.0)
    assert second.resume_path() == job.directory / "checkpoint" / "4"
    second.resume()
    assert (second.samples, second.updates, second.seconds) == (32, 4, 13.0)
    job.run(second, lambda s: 0.1 + s / 1000, updates=6)
    resume = events(second, "resume")[0]
    assert (resume["from_updates"], resume["path"], resume["sampling_seconds"]) == (4, "checkpoint/4", 4.0)
    assert [e["warmup"] for e in events(second, "update")] == [True, False]
    curve = Curve.from_attempts(journals(job.directory))
    assert curve.samples.tolist() == [0, 16, 32, 48]
    assert curve.update_samples.tolist() == [8, 16, 24, 32, 40, 48]
    assert (curve.total_seconds, curve.lost_seconds) == (6 * 3.25, 3.25)
    # wall: start-ups 1 + 2, seven updates, four evaluations, one checkpoint; the queue is not allocated time
    assert second.wall_seconds == 3 + 7 * 3.25 + 4 * 0.5 + 0.125


def test_evaluations_before_a_resume_count_for_patience(job: Any) -> None:
    first = job.open()
    for score in (0.1, 0.5, 0.8):
        job.evaluate(first, score)
        job.update(first)
    job.save(first)
    second = job.open()
    second.resume()
    assert not second.should_stop()
    job.evaluate(second, 0.8)
    assert second.should_stop()
    assert second.stop_outcome == (Outcome.REACHED, "target")


def test_evaluation_due_at_the_checkpoint_is_made_up_for(job: Any) -> None:
    first = job.open()
    job.evaluate(first, 0.1)
    job.update(first)
    job.update(first)
    job.save(first)  # 16 samples, not yet evaluated
    second = job.open()
    second.resume()
    assert second.due_for_evaluation()
    job.evaluate(second, 0.2)
    assert Curve.from_attempts(journals(job.directory)).samples.tolist() == [0, 16]


def test_target_reached_by_a_dead_attempt_ends_the_next_at_once(job: Any) -> None:
    first = job.open()
    job.evaluate(first, 0.1)
    job.update(first)
    job.save(first)
    for score in (0.8, 0.8):
        job.evaluate(first, score)
        job.update(first)
    second = job.open()
    assert second.should_stop()
    second.end()
    assert (events(second, "end")[0]["outcome"], events(second, "end")[0]["reason"]) == ("reached", "target")


def test_attempt_that_starts_anew_replaces_the_checkpoints_of_older_ones(job: Any) -> None:
    first = job.run(job.open(), lambda _: 0.1, updates=4)
    job.save(first)
    second = job.run(job.open(), lambda _: 0.1, updates=2)
    job.save(second)
    third = job.open()
    assert third.resume_path() == job.directory / "checkpoint" / "2"
    third.resume()
    job.run(third, lambda _: 0.1, updates=3)
    curve = Curve.from_attempts(journals(job.directory))
    assert (curve.total_updates, curve.lost_seconds) == (3, 4 * 3.25)


def test_attempt_resumes_past_one_that_started_anew_and_never_saved(job: Any) -> None:
    first = job.run(job.open(), lambda _: 0.1, updates=4)
    job.save(first)
    job.run(job.open(), lambda _: 0.1, updates=2)
    third = job.open()
    third.resume()
    job.update(third)
    curve = Curve.from_attempts(journals(job.directory))
    assert (curve.total_updates, curve.lost_seconds) == (5, 2 * 3.25)


def test_checkpoint_at_the_same_update_replaces_the_older(job: Any) -> None:
    first = job.run(job.open(), lambda _: 0.1, updates=2)
    job.save(first)
    second = job.open()
    second.resume()
    with second.checkpoint() as path:
        (path / "weights").write_text("second")
    assert (second.resume_path() / "weights").read_text() == "second"
    assert [p.name for p in (job.directory / "checkpoint").iterdir()] == ["2"]


def test_leftovers_of_an_attempt_that_died_while_it_saved_are_removed(job: Any) -> None:
    first = job.open()
    job.update(first)
    (job.directory / "checkpoint" / ".1-001.tmp").mkdir(parents=True)
    second = job.open()
    assert second.resume_path() is None
    job.update(second)
    job.save(second)
    assert [p.name for p in (job.directory / "checkpoint").iterdir()] == ["1"]


def test_half_a_checkpoint_that_a_death_left_while_it_was_removed_is_none(job: Any) -> None:
    """Seen: `checkpoint/4` without its reporter.json made every later attempt fail."""
    first = job.open()
    for _ in range(2):
        job.update(first)
        job.save(first)
    (job.directory / "checkpoint" / "1" / "reporter.json").unlink()
    second = job.open()
    assert second.resume_path() == job.directory / "checkpoint" / "2"
    second.resume()
    for _ in range(2):
        job.update(second)
        job.save(second)
    assert sorted(p.name for p in (job.directory / "checkpoint").iterdir()) == ["3", "4"]


@pytest.mark.parametrize("call", range(1, 30))
def test_a_death_at_any_step_of_publishing_leaves_a_checkpoint_to_resume_from(
    job: Any, call: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call-th operation on the file system is the last one that is done."""

    class Death(BaseException):
        pass

    first = job.open()
    for _ in range(2):
        job.update(first)
        job.save(first)
    job.update(first)
    done = iter(range(1, 1000))

    def dying(function: Any) -> Any:
        def step(*words: Any, **more: Any) -> Any:
            if next(done) > call:
                raise Death
            return function(*words, **more)

        return step

    for name in ("rename", "mkdir", "unlink", "rmdir", "fsync"):
        monkeypatch.setattr(os, name, dying(getattr(os, name)))
    with contextlib.suppress(Death):
        job.save(first)
    monkeypatch.undo()
    second = job.open()
    path = second.resume_path()
    assert path is not None
    assert path.name in ("2", "3")
    second.resume()
    job.update(second)
    job.save(second)
    assert second.resume_path() == job.directory / "checkpoint" / str(second.updates)


def test_resume_comes_first_and_needs_a_checkpoint(job: Any) -> None:
    with pytest.raises(TrainerError, match="no checkpoint"):
        job.open().resume()
    reporter = job.open()
    job.update(reporter)
    job.save(reporter)
    with pytest.raises(TrainerError, match="before the first"):
        reporter.resume()


def test_preempted_before_the_first_update_goes_on(job: Any) -> None:
    first = job.open()
    job.evaluate(first, 0.1)
    first.request_preemption()
    assert first.should_stop()
    job.save(first)
    first.end()
    second = job.open()
    second.resume()
    assert not second.due_for_evaluation()
    job.update(second)
    curve = Curve.from_attempts(journals(job.directory))
    assert (curve.samples.tolist(), curve.total_updates) == ([0], 1)


# files


def test_every_line_keeps_the_contract(job: Any) -> None:
    first = job.run(job.open(), rising, updates=4)
    job.save(first)
    second = job.open(startup_seconds=3.0)
    second.resume()
    second.warn("the CPU is shared")
    job.run(second, lambda _: math.nan)
    second.end()
    lines = [
        line
        for path in attempt_paths(job.directory)
        for line in (path / "journal.jsonl").read_text().splitlines()
    ]
    names = set()
    for line in lines:
        event = json.loads(line)
        validate("journal", event)
        names.add(event["event"])
    assert names == {"start", "update", "evaluation", "checkpoint", "resume", "end", "warning"}


def test_identity_and_place_are_in_the_start_event(job: Any) -> None:
    start = events(job.open(startup_seconds=2.5))[0]
    assert (start["job"], start["attempt"], start["batch_size"], start["lr"]) == ("b8", 1, 8, 1e-3)
    assert (start["startup_seconds"], start["wall_seconds"]) == (2.5, 2.5)
    assert start["host"]
    assert start["pid"] > 0


plans = st.lists(st.tuples(st.integers(1, 5), st.booleans(), st.integers(0, 3)), min_size=1, max_size=5)


@settings(max_examples=30, deadline=None)
@given(plans)
def test_samples_and_seconds_grow_whatever_is_killed(make_job: Any, plan: Any) -> None:
    """Attempts of some updates, some saved, some of the work lost: joined they are one unbroken job."""
    job = make_job()
    for updates, is_saved, lost in plan:
        reporter = job.open()
        if reporter.resume_path() is not None:
            reporter.resume()
        job.run(reporter, lambda _: 0.1, updates=reporter.updates + updates)
        if is_saved:
            job.save(reporter)
        for _ in range(lost):
            job.update(reporter)
    curve = Curve.from_attempts(journals(job.directory))
    counts = curve.update_samples / 8
    assert counts.tolist() == list(range(1, len(counts) + 1))
    assert curve.total_seconds == 3.25 * curve.total_updates
    assert curve.samples.tolist() == list(range(0, curve.total_samples + 1, 16))[: len(curve.samples)]
    everything = sum(e["event"] == "update" for journal in journals(job.directory) for e in journal)
    assert curve.lost_seconds == 3.25 * (everything - curve.total_updates)
