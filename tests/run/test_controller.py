"""The controller on a fake cluster: what is submitted, stopped, run again, and what the exit code says."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import pytest
from tests.run.fake_cluster import Behaviour
from tests.run.sweeps import Killed, Sweep, settings

from batchscout.errors import LaunchError, SchedulerBusy, SweepLocked
from batchscout.measure.target import Target
from batchscout.report.sentence import recommendation
from batchscout.run.budget import Budget
from batchscout.run.controller import REFILL_SECONDS
from batchscout.run.listener import SweepView
from batchscout.run.settings import ExitCode
from batchscout.schemas import validate
from batchscout.search.grid import GridSearch
from batchscout.search.protocol import SearchContext

OOM = {"outcome": "infeasible", "reason": "oom_gpu", "message": "oom_gpu in sampling: CUDA out of memory"}


def raising(message: str) -> Behaviour:
    return Behaviour(seconds=1, outcome="failed", reason="exception", message=message, updates=0)


def by_batch(**behaviours: Behaviour) -> Any:
    """b128=… keyed by batch size; other jobs reach the target after 10 s."""
    return lambda job, attempt: behaviours.get(f"b{job['batch_size']}", Behaviour())


def test_grid_runs_every_point_once_and_recommends_the_fastest(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, by_batch(b128=Behaviour(seconds=5)))
    assert sweep.run(settings()) is ExitCode.OK
    result = sweep.result
    assert result["status"] == "complete"
    assert sweep.cluster.submits() == [f"b{b}-lr0.001-s0" for b in (64, 128, 256, 512)]
    assert result["recommendation"]["batch_size"] == 128
    # score rises linearly from 0.1 to 0.9 over four of five evaluations: 0.8 is met at 3.5/5 of the job
    assert result["recommendation"]["time_to_target"] == pytest.approx(3.5)
    assert result["recommendation"]["samples_to_target"] == pytest.approx(3500)
    assert [r["batch_size"] for r in result["table"]] == [64, 128, 256, 512]
    assert result["table"][0]["relative_time"] == pytest.approx(2.0)
    assert result["cost"]["seconds"] == pytest.approx(35.0)
    assert result["cost"]["gpu_hours"] == pytest.approx(35 / 3600)
    assert len(result["recommendations"]) == 4


def test_every_file_keeps_its_contract(tmp_path: Path) -> None:
    import json

    sweep = Sweep(tmp_path, by_batch(b256=Behaviour(**OOM), b64=raising("ValueError: x")))
    sweep.run(settings(target=None))
    validate("result", sweep.result)
    validate("sweep", json.loads((sweep.path / "sweep.json").read_text()))
    for path in sweep.path.glob("jobs/*/job.json"):
        validate("job", json.loads(path.read_text()))


def test_c22_a_slow_job_blocks_no_slot(tmp_path: Path) -> None:
    lasts = dict(zip((8, 16, 32, 64, 128, 256, 512, 1024), (1, 1, 1, 10, 1, 1, 1, 1), strict=True))
    sweep = Sweep(tmp_path, lambda job, attempt: Behaviour(seconds=lasts[job["batch_size"]]))
    sweep.run(settings(batch_sizes=tuple(lasts), slots=4))
    assert 10 <= sweep.result["elapsed_seconds"] <= 12


def test_c01_larger_batches_are_skipped_after_out_of_memory(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, by_batch(b4096=Behaviour(**OOM), b8192=Behaviour(**OOM)))
    assert sweep.run(settings(batch_sizes=(1024, 2048, 4096, 8192))) is ExitCode.OK
    rows = {row["batch_size"]: row for row in sweep.result["jobs"]}
    assert [rows[b]["outcome"] for b in rows] == ["reached", "reached", "infeasible", "infeasible"]
    assert rows[8192]["message"] == "skipped: known OOM at 4096"
    assert "b8192-lr0.001-s0" not in sweep.cluster.submits()


def test_c45_jobs_on_different_gpus_are_not_ranked_and_keep_their_place(tmp_path: Path) -> None:
    """The second node is ten times slower; samples stay comparable."""
    sweep = Sweep(tmp_path, by_batch(b128=Behaviour(seconds=100, gpu="OLD", node="n2")))
    target = Target(0.8, levels=(0.5,))
    assert sweep.run(settings(batch_sizes=(64, 128), target=target)) is ExitCode.OK
    result = sweep.result
    validate("result", result)
    assert (
        "jobs ran on different GPUs (H1, OLD): their times cannot be compared" in result["laws"]["warnings"]
    )
    assert (result["recommendation"], result["reason"]) == (None, "different_hardware")
    for words in (
        "(1 on H1, 1 on OLD)", "on H1 alone batch_size=64 lr=0.001 is the fastest (7 s)",
        "on OLD alone batch_size=128 lr=0.001 is the fastest (70 s)", "batchscout compare",
    ):  # fmt: skip
        assert words in result["message"]
        assert words in recommendation(result), "what a person reads"
    assert [row["relative_time"] for row in result["table"] + result["points"]] == [None] * 4
    assert {level["recommendation"] is None for level in result["levels"]} == {True}
    assert (result["laws"]["update_seconds"], result["laws"]["best"]) == (None, None)
    assert result["recommendations"][-1]["batch_size"] is None
    places = {row["batch_size"]: (row["gpu"], row["node"], row["gpus"]) for row in result["jobs"]}
    assert places == {64: ("H1", "n1", 1), 128: ("OLD", "n2", 1)}
    assert len({row["samples_to_target"] for row in result["jobs"]}) == 1
    assert [row["time_to_target"] for row in result["jobs"]] == pytest.approx([7.0, 70.0])


def test_host_memory_skips_nothing_unless_asked(tmp_path: Path) -> None:
    host = Behaviour(outcome="infeasible", reason="oom_host", message="killed")
    sweep = Sweep(tmp_path / "a", by_batch(b256=host))
    sweep.run(settings())
    assert sweep.outcomes["b512-lr0.001-s0"] == "reached"
    sweep = Sweep(tmp_path / "b", by_batch(b256=host))
    sweep.run(settings(oom_host_skips_larger=True))
    assert sweep.outcomes["b512-lr0.001-s0"] == "infeasible"


def test_out_of_memory_in_learning_runs_once_more_with_half_the_micro_batch(tmp_path: Path) -> None:
    seen: list[int | None] = []

    def behave(job: dict[str, Any], attempt: int) -> Behaviour:
        micro = job["config"].get("micro_batch_size")
        seen.append(micro)
        return Behaviour() if micro == 64 else Behaviour(**{**OOM, "message": "oom_gpu in learning: CUDA"})

    sweep = Sweep(tmp_path, behave)
    sweep.run(settings(batch_sizes=(128,)))
    assert sweep.outcomes == {"b128-lr0.001-s0": "reached"}
    assert set(seen) == {None, 64}
    assert sweep.result["jobs"][0]["attempts"] == 2


def test_c02_single_failures_are_told_and_end_nothing(tmp_path: Path) -> None:
    behave = by_batch(b128=raising("ValueError: no"), b256=raising("RuntimeError: cuda"))
    sweep = Sweep(tmp_path, behave)
    assert sweep.run(settings(batch_sizes=(64, 128, 256))) is ExitCode.OK
    messages = {row["batch_size"]: row["message"] for row in sweep.result["jobs"]}
    assert messages == {64: "", 128: "ValueError: no", 256: "RuntimeError: cuda"}
    told = [e["message"] for e in sweep.events if e["event"] == "end" and e["outcome"] == "failed"]
    assert told == ["ValueError: no", "RuntimeError: cuda"]


def test_c03_identical_failures_at_the_start_end_the_sweep(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, lambda job, attempt: raising(f"KeyError: typo at 0x{job['batch_size']}"))
    code = sweep.run(settings(batch_sizes=tuple(8 * i for i in range(1, 17))))
    assert code is ExitCode.FAILED
    assert len(sweep.cluster.submits()) == 3
    outcomes = list(sweep.outcomes.values())
    assert outcomes.count("failed") == 3
    assert outcomes.count("cancelled") == 13
    assert sweep.events[-1]["explanation"].startswith("stopped by max_failures; mend the cause")
    assert {row["reason"] for row in sweep.result["jobs"] if row["outcome"] == "cancelled"} == {
        "max_failures"
    }


def test_different_failures_end_nothing_but_all_failed_is_exit_2(tmp_path: Path) -> None:
    words = {64: "alpha", 128: "beta", 256: "gamma", 512: "delta"}
    sweep = Sweep(tmp_path, lambda job, attempt: raising(words[job["batch_size"]]))
    assert sweep.run(settings()) is ExitCode.FAILED
    assert len(sweep.cluster.submits()) == 4
    assert sweep.result["status"] == "complete"


def test_c40_a_stopped_sweep_resumes_with_all_its_jobs_after_the_fix(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, lambda job, attempt: raising("ValueError: bug") if attempt == 0 else Behaviour())
    assert sweep.run(settings(max_failures=1)) is ExitCode.FAILED
    assert sorted(sweep.outcomes.values()) == ["cancelled"] * 3 + ["failed"]
    sweep.cluster.behave = lambda job, attempt: Behaviour()
    assert sweep.run(settings(max_failures=1)) is ExitCode.OK
    assert set(sweep.outcomes.values()) == {"reached"}
    assert sweep.result["status"] == "complete"


def test_c11_diverged_and_capped_jobs_are_never_the_answer(tmp_path: Path) -> None:
    behave = by_batch(
        b64=Behaviour(seconds=1, outcome="diverged", reason="nan", peak=0.5),
        b128=Behaviour(seconds=2, outcome="capped", reason="samples", peak=0.7),
    )
    sweep = Sweep(tmp_path, behave)
    assert sweep.run(settings()) is ExitCode.OK
    result = sweep.result
    assert result["recommendation"]["batch_size"] == 256
    rows = {row["batch_size"]: row for row in result["table"]}
    assert rows[64]["time_to_target"] is None
    assert rows[128]["best_score"] == pytest.approx(0.7)


def test_nothing_reached_gives_the_highest_level_that_was(tmp_path: Path) -> None:
    behave = by_batch(
        b64=Behaviour(outcome="capped", peak=0.5),
        b128=Behaviour(outcome="capped", peak=0.6),
        b256=Behaviour(outcome="capped", peak=0.4),
        b512=Behaviour(outcome="capped", peak=0.3),
    )
    sweep = Sweep(tmp_path, behave)
    assert sweep.run(settings()) is ExitCode.OK
    result = sweep.result
    assert result["status"] == "complete"
    assert result["recommendation"] is None
    (level,) = result["levels"]
    assert level["target"] == pytest.approx(0.6)
    assert level["recommendation"]["batch_size"] == 128
    assert {row["batch_size"]: row["best_score"] for row in result["table"]}[64] == pytest.approx(0.5)


def test_c06_preemption_waits_and_counts_once(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, by_batch(b64=Behaviour(preempted_at=4)))
    sweep.run(settings(batch_sizes=(64,)))
    (row,) = sweep.result["jobs"]
    assert row["outcome"] == "reached"
    assert row["seconds"] == pytest.approx(10)
    assert sweep.cluster.submits() == ["b64-lr0.001-s0"]
    assert sweep.result["elapsed_seconds"] >= 14


def test_c04_lost_jobs_run_again_as_the_same_job_up_to_max_requeues(tmp_path: Path) -> None:
    lost = Behaviour(outcome=None, detail="NODE_FAIL")
    sweep = Sweep(tmp_path / "a", lambda job, attempt: lost if attempt == 0 else Behaviour())
    assert sweep.run(settings(batch_sizes=(64,))) is ExitCode.OK
    assert sweep.result["jobs"][0]["outcome"] == "reached"
    assert sweep.result["jobs"][0]["attempts"] == 2
    sweep = Sweep(tmp_path / "b", lambda job, attempt: lost)
    assert sweep.run(settings(batch_sizes=(64,), max_requeues=2)) is ExitCode.FAILED
    assert len(sweep.cluster.submits()) == 3
    assert sweep.result["jobs"][0]["outcome"] == "failed"


def test_c49_memory_kill_without_a_word_is_seen_at_once(tmp_path: Path) -> None:
    killed = Behaviour(seconds=5, outcome=None, detail="OUT_OF_MEMORY", exit_code=137)
    sweep = Sweep(tmp_path, by_batch(b64=killed))
    sweep.run(settings(batch_sizes=(64,)))
    (row,) = sweep.result["jobs"]
    assert (row["outcome"], row["reason"]) == ("infeasible", "oom_host")
    assert sweep.result["elapsed_seconds"] <= 8


def test_c33_a_dead_accounting_changes_no_job(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, by_batch(b64=Behaviour(seconds=2000)))
    sweep.cluster.failing_polls = itertools.chain([False], itertools.repeat(True, 120))  # for ten minutes
    sweep.cluster.step = 5.0
    assert sweep.run(settings(batch_sizes=(64,), poll_seconds=(5.0, 5.0))) is ExitCode.OK
    assert sweep.cluster.submits() == ["b64-lr0.001-s0"]
    assert sweep.outcomes == {"b64-lr0.001-s0": "reached"}


def test_c05_a_job_is_gone_only_after_two_answers_and_silence(tmp_path: Path) -> None:
    lost = Behaviour(seconds=5, outcome=None, is_lost=True)
    sweep = Sweep(tmp_path, lambda job, attempt: lost if attempt == 0 else Behaviour())
    sweep.run(settings(batch_sizes=(64,)))
    retry = next(e for e in sweep.events if e["event"] == "retry")
    assert retry["reason"] == "lost"
    assert retry["time"] - 1_000_000 >= 5 + 60  # the watchdog after its last word
    assert sweep.outcomes == {"b64-lr0.001-s0": "reached"}


def test_c20_a_busy_scheduler_gets_every_job_once(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.cluster.submit_errors = [SchedulerBusy("socket timed out")]
    sweep.cluster.forgets_answers = True  # it had taken the job
    assert sweep.run(settings()) is ExitCode.OK
    assert sorted(sweep.cluster.submits()) == sorted(set(sweep.cluster.submits()))
    sweep = Sweep(tmp_path / "refused")
    sweep.cluster.submit_errors = [SchedulerBusy("later"), SchedulerBusy("later")]
    assert sweep.run(settings()) is ExitCode.OK
    assert len(sweep.cluster.submits()) == 4


def test_refused_submissions_are_failures_with_a_reason(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.cluster.submit_errors = [LaunchError("invalid partition")] * 9
    assert sweep.run(settings()) is ExitCode.FAILED
    assert sweep.result["jobs"][0]["message"] == "invalid partition"
    assert sweep.cluster.submits() == []


def test_budget_of_jobs_ends_the_sweep_as_exhausted(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    assert sweep.run(settings(budget=Budget(jobs=2))) is ExitCode.OK
    assert sweep.result["status"] == "exhausted"
    assert sweep.events[-1]["explanation"].startswith("a budget ended")
    assert len(sweep.cluster.submits()) == 2
    assert sweep.run(settings(budget=Budget(jobs=4))) is ExitCode.OK
    assert sweep.result["status"] == "complete"
    assert len(sweep.cluster.submits()) == 4


def test_budget_of_seconds_stops_running_jobs_and_can_grow(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    assert sweep.run(settings(budget=Budget(seconds=14.0), slots=2)) is ExitCode.OK
    result = sweep.result
    assert result["status"] == "exhausted"
    assert 14 <= result["cost"]["seconds"] <= 20
    assert {row["outcome"] for row in result["jobs"]} >= {"stopped", "queued"}
    assert sweep.run(settings(budget=Budget(seconds=1000.0), slots=2)) is ExitCode.OK
    assert set(sweep.outcomes.values()) == {"reached"}


def test_a_budget_that_is_used_up_by_the_last_job_leaves_the_grid_complete(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.run(settings(budget=Budget(jobs=4)))
    assert sweep.result["status"] == "complete"


def test_gpu_hours_and_money_are_budgets_too(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.run(settings(budget=Budget(money=0.05), price_per_gpu_hour=9.0))  # 20 s
    result = sweep.result
    assert result["status"] == "exhausted"
    assert result["cost"]["money"] == pytest.approx(result["cost"]["gpu_hours"] * 9.0)
    assert 0.05 <= result["cost"]["money"] <= 0.07


@pytest.mark.parametrize("obeys", [True, False])
def test_c24_a_hopeless_job_is_stopped_and_censored(tmp_path: Path, obeys: bool) -> None:
    behave = by_batch(b512=Behaviour(seconds=100, peak=0.3, obeys=obeys, detail="TIMEOUT"))
    sweep = Sweep(tmp_path, behave)
    sweep.run(settings(search="random"))
    row = next(row for row in sweep.result["jobs"] if row["batch_size"] == 512)
    others = [r for r in sweep.result["jobs"] if r["outcome"] == "reached"]
    if others and sweep.cluster.submits()[0] != row["id"]:
        assert row["outcome"] == "stopped"
        assert row["time_to_target"] is None
        assert row["seconds"] < 60
        assert "best" in row["reason"]


def test_c25_a_second_controller_is_refused(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    refused: list[str] = []

    def second() -> None:
        if not refused:
            with pytest.raises(SweepLocked) as caught:
                sweep.run(settings())
            refused.append(str(caught.value))

    sweep.cluster.on_wait = second
    assert sweep.run(settings()) is ExitCode.OK
    assert "process" in refused[0]
    assert len(sweep.cluster.submits()) == 4


@pytest.mark.parametrize("rounds", [0, 1, 5, 22, 40])
def test_c23_c39_a_killed_controller_goes_on_where_it_was(tmp_path: Path, rounds: int) -> None:
    sweep = Sweep(tmp_path)
    count = itertools.count()

    def kill() -> None:
        if next(count) == rounds:
            raise Killed

    sweep.cluster.on_wait = kill
    wanted = settings(batch_sizes=tuple(8 * i for i in range(1, 11)), slots=2)
    with pytest.raises(Killed):
        sweep.run(wanted)
    assert len(list(sweep.path.glob("jobs/*/job.json"))) == 10  # the plan was there before the first submit
    assert sweep.run(wanted) is ExitCode.OK
    assert len(sweep.cluster.submits()) == 10
    assert len(set(sweep.cluster.submits())) == 10
    assert set(sweep.outcomes.values()) == {"reached"}
    assert len(sweep.result["recommendations"]) == 10


def test_jobs_that_ended_without_a_controller_are_imported(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.cluster.on_wait = raise_killed
    with pytest.raises(Killed):
        sweep.run(settings(slots=2))
    sweep.cluster.on_wait = lambda: None
    sweep.clock.sleep(1000)
    assert sweep.run(settings(slots=2)) is ExitCode.OK
    assert len(sweep.cluster.submits()) == 4


def raise_killed() -> None:
    raise Killed


def test_c20_a_call_that_a_killed_controller_left_on_its_way_is_waited_for(tmp_path: Path) -> None:
    """The job turns up 40 s after its controller died: it is taken up, not submitted a second time."""
    sweep = Sweep(tmp_path)
    sweep.cluster.unanswered_seconds = 90.0
    submit, late = sweep.cluster.submit, []

    def on_its_way(job_dir: Path, *, name: str) -> Any:
        late.append((sweep.clock.now() + 40, job_dir, name))
        raise Killed

    def turn_up() -> None:
        if late and sweep.clock.now() >= late[0][0]:
            _, job_dir, name = late.pop()
            submit(job_dir, name=name)

    sweep.cluster.submit = on_its_way  # type: ignore[method-assign]
    with pytest.raises(Killed):
        sweep.run(settings())
    sweep.cluster.submit = submit  # type: ignore[method-assign]
    sweep.cluster.on_wait = turn_up
    assert sweep.run(settings()) is ExitCode.OK
    assert not late
    assert sweep.cluster.submits() == [f"b{b}-lr0.001-s0" for b in (64, 128, 256, 512)]
    assert sweep.result["elapsed_seconds"] >= 40


def test_a_call_that_never_arrives_is_made_again_when_it_cannot_turn_up_any_more(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.cluster.unanswered_seconds = 90.0
    submit = sweep.cluster.submit
    sweep.cluster.submit = lambda job_dir, *, name: raise_killed()  # type: ignore[method-assign,assignment]
    with pytest.raises(Killed):
        sweep.run(settings())
    sweep.cluster.submit = submit  # type: ignore[method-assign]
    began = sweep.clock.now()
    assert sweep.run(settings()) is ExitCode.OK
    assert len(sweep.cluster.submits()) == 4
    first = next(row for row in sweep.result["jobs"] if row["batch_size"] == 64)
    assert first["submitted"] - began == pytest.approx(90, abs=1)


def test_many_submissions_do_not_keep_it_from_looking_at_what_runs(tmp_path: Path) -> None:
    """Half a second each: between two looks at most REFILL_SECONDS pass."""
    sweep = Sweep(tmp_path, lambda job, attempt: Behaviour(seconds=60))
    submit, poll, looks = sweep.cluster.submit, sweep.cluster.poll, []

    def slow(job_dir: Path, *, name: str) -> Any:
        sweep.clock.sleep(0.5)
        return submit(job_dir, name=name)

    def noted(submissions: Any) -> Any:
        looks.append(sweep.clock.now())
        return poll(submissions)

    sweep.cluster.submit, sweep.cluster.poll = slow, noted  # type: ignore[method-assign]
    sweep.run(settings(batch_sizes=tuple(range(8, 8 * 31, 8)), slots=30))
    assert len(sweep.cluster.submits()) == 30
    longest = max(b - a for a, b in itertools.pairwise(looks))
    assert longest <= REFILL_SECONDS + 0.5 + sweep.cluster.step, "the last one, and a pause"


@pytest.mark.parametrize("instant", ["before", "after"])
def test_an_unanswered_submit_is_looked_up_by_its_name(tmp_path: Path, instant: str) -> None:
    sweep = Sweep(tmp_path)
    submit = sweep.cluster.submit
    is_first = iter([True])

    def dying(job_dir: Path, *, name: str) -> Any:
        if next(is_first, False):
            if instant == "after":
                submit(job_dir, name=name)
            raise Killed
        return submit(job_dir, name=name)

    sweep.cluster.submit = dying  # type: ignore[method-assign]
    with pytest.raises(Killed):
        sweep.run(settings())
    assert sweep.run(settings()) is ExitCode.OK
    assert sorted(sweep.cluster.submits()) == sorted(set(sweep.cluster.submits()))
    assert len(sweep.cluster.submits()) == 4


def test_c43_an_interrupt_leaves_jobs_running_and_says_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = Sweep(tmp_path)

    def interrupt() -> None:
        raise KeyboardInterrupt

    sweep.cluster.on_wait = interrupt
    assert sweep.run(settings(slots=2)) is ExitCode.INTERRUPTED
    assert sweep.result["status"] == "interrupted"
    said = capsys.readouterr().err
    assert "2 jobs left running" in said
    assert "Go on with: x" in said
    assert all(row["outcome"] != "cancelled" for row in sweep.result["jobs"])
    sweep.cluster.on_wait = lambda: None
    assert sweep.run(settings(slots=2)) is ExitCode.OK
    assert len(sweep.cluster.submits()) == 4


def test_an_interrupt_while_it_starts_keeps_the_result_that_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = Sweep(tmp_path)
    sweep.run(settings())
    before = sweep.result

    def interrupt(self: Any, watched: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("batchscout.run.watch.Watch.load", interrupt)
    assert sweep.run(settings()) is ExitCode.INTERRUPTED
    assert sweep.result == before


def test_an_unchanged_finished_sweep_exits_as_it_did(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.run(settings())
    before = sweep.result
    assert sweep.run(settings()) is ExitCode.OK
    assert sweep.result == before
    assert len(sweep.cluster.submits()) == 4


def test_a_broken_listener_hurts_nothing(tmp_path: Path) -> None:
    class Broken:
        def on_start(self, view: SweepView) -> None:
            raise OSError("no server")

        on_change = on_end = on_start

        def on_event(self, event: dict[str, Any]) -> None:
            return

    sweep = Sweep(tmp_path)
    assert sweep.run(settings(), listeners=[Broken()]) is ExitCode.OK


def test_listeners_see_starts_changes_and_the_end(tmp_path: Path) -> None:
    seen: list[str] = []

    class Watching:
        def on_start(self, view: SweepView) -> None:
            seen.append("start")

        def on_change(self, view: SweepView) -> None:
            seen.append("change")

        def on_event(self, event: dict[str, Any]) -> None:
            seen.append(event["event"])

        def on_end(self, view: SweepView) -> None:
            seen.append(f"end {view.result['status']} {len(view.jobs)}")

    Sweep(tmp_path).run(settings(batch_sizes=(64,)), listeners=[Watching()])
    assert seen[0] == "begin"
    assert seen[-1] == "end complete 1"
    assert {"submit", "start", "end", "finish", "change"} <= set(seen)


def test_polling_backs_off_while_nothing_happens(tmp_path: Path) -> None:
    wanted = settings(batch_sizes=(64,), poll_seconds=(0.5, 8.0))
    waits: list[float] = []
    sweep = Sweep(tmp_path, by_batch(b64=Behaviour(seconds=1000, queue=500)))
    plain_wait = sweep.cluster.wait

    def wait(seconds: float) -> None:
        waits.append(seconds)
        plain_wait(seconds)

    sweep.cluster.wait = wait  # type: ignore[method-assign]
    sweep.cluster.step = 8.0
    sweep.run(wanted)
    assert max(waits) == 8.0
    assert min(waits) == 0.5


class Repeating:
    """Proposes the same job for ever."""

    def __init__(self, context: SearchContext) -> None:
        self._grid = GridSearch(context)
        self.stop, self.recommend = self._grid.stop, self._grid.recommend

    def propose(self, jobs: Any) -> Any:
        return self._grid.propose([])


def test_c10_a_search_that_repeats_itself_submits_nothing_twice(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    wanted = settings()
    assert sweep.run(wanted, built=Repeating(wanted.context)) is ExitCode.OK
    assert sweep.cluster.submits() == ["b64-lr0.001-s0"]
    assert sweep.result["status"] == "exhausted"


def test_c10_parallel_samplers_see_running_points(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    assert sweep.run(settings(search="tpe", slots=4, budget=Budget(jobs=12))) is ExitCode.OK
    assert sorted(sweep.cluster.submits()) == sorted(f"b{b}-lr0.001-s0" for b in (64, 128, 256, 512))
    assert sweep.result["status"] == "complete"
    assert sweep.events[-1]["explanation"] == "space exhausted after 4 jobs"


def test_hundreds_of_polls_stay_cheap(tmp_path: Path) -> None:
    started = time.perf_counter()
    sweep = Sweep(tmp_path)
    sweep.run(settings(batch_sizes=tuple(range(8, 8 * 41, 8)), slots=4))
    assert len(sweep.cluster.submits()) == 40
    assert time.perf_counter() - started < 20


@pytest.fixture(autouse=True)
def _no_disk_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a crash of the machine would do is not tested here."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
