"""What follows from the end of an attempt."""

from __future__ import annotations

from typing import Any

import pytest

from batchscout.measure.outcome import Outcome
from batchscout.run.budget import Budget, Spending
from batchscout.run.classify import Classification
from batchscout.run.failures import face
from batchscout.run.job import Attempted, Job, JobRecord, free_id, job_id, signature
from batchscout.run.verdict import judge, larger_is_infeasible
from batchscout.search.protocol import Point, Proposal

LOST = Classification(Outcome.PREEMPTED, "node_failure", "gone", retryable=True)
LEARNING = Classification(Outcome.INFEASIBLE, "oom_gpu", "no memory", phase="learning")


def record(config: dict[str, Any] | None = None, *, lost: int = 0, **more: Any) -> JobRecord:
    job = Job("b96-lr0.001-s0", 0, "run", Point(96, 1e-3), 0, "0" * 16, config or {}, created=0.0)
    gone = [Attempted(f"n{i}", 0.0, i, "h", 0.0, ended=1.0, outcome="preempted") for i in range(lost)]
    return JobRecord(job, [*gone, Attempted("now", 2.0, lost, "h", 2.0)], **more)


def test_a_final_end_is_final() -> None:
    verdict = judge(record(), Classification(Outcome.REACHED, "target", ""), max_requeues=3)
    assert (verdict.is_final, verdict.outcome) == (True, Outcome.REACHED)


@pytest.mark.parametrize(("lost", "is_final"), [(0, False), (2, False), (3, True)])
def test_infrastructure_is_retried_max_requeues_times(lost: int, is_final: bool) -> None:
    verdict = judge(record(lost=lost), LOST, max_requeues=3)
    assert verdict.is_final is is_final
    assert verdict.outcome is (Outcome.FAILED if is_final else Outcome.PREEMPTED)


def test_a_time_limit_that_is_not_retried_censors() -> None:
    ending = Classification(Outcome.PREEMPTED, "time_limit", "", retryable=True)
    assert judge(record(), ending, max_requeues=0).outcome is Outcome.CAPPED


def test_an_exception_is_never_retried() -> None:
    assert judge(record(), Classification(Outcome.FAILED, "exception", "x"), max_requeues=9).is_final


@pytest.mark.parametrize(
    ("config", "smaller"),
    [({}, 48), ({"mini_batch_size": 32}, 16), ({"micro_batch_size": 6}, 3), ({"micro_batch_size": 3}, 1)],
)
def test_memory_in_learning_halves_the_micro_batch_to_a_divisor(config: dict[str, Any], smaller: int) -> None:
    verdict = judge(record(config), LEARNING, max_requeues=3)
    assert (verdict.is_final, verdict.micro_batch_size) == (False, smaller)


def test_memory_in_learning_is_tried_once_more_only() -> None:
    assert judge(record(micro_batch_size=48), LEARNING, max_requeues=3).is_final
    assert judge(record({"micro_batch_size": 1}), LEARNING, max_requeues=3).is_final


def test_memory_in_sampling_is_final() -> None:
    ending = Classification(Outcome.INFEASIBLE, "oom_gpu", "", phase="sampling")
    assert judge(record(), ending, max_requeues=3).is_final


def test_a_bare_kill_is_given_one_more_chance() -> None:
    suspicion = Classification(Outcome.INFEASIBLE, "oom_host", "killed", retryable=True)
    first = record()
    assert not judge(first, suspicion, max_requeues=3).is_final
    first.update_current(ended=3.0, outcome="infeasible")
    first.submissions.append(Attempted("again", 4.0, 1, "h", 4.0))
    assert judge(first, suspicion, max_requeues=3).is_final


def test_a_stopped_job_that_had_to_be_killed_is_stopped() -> None:
    ending = Classification(Outcome.CANCELLED, "scancel", "")
    verdict = judge(record(stop="too slow"), ending, max_requeues=3)
    assert (verdict.outcome, verdict.reason) == (Outcome.STOPPED, "too slow")
    reached = Classification(Outcome.REACHED, "target", "")
    assert judge(record(stop="too slow"), reached, max_requeues=3).outcome is Outcome.REACHED


def test_only_gpu_memory_says_something_of_larger_batches() -> None:
    def ended(reason: str) -> JobRecord:
        return record(outcome=Outcome.INFEASIBLE, reason=reason)

    assert larger_is_infeasible(ended("oom_gpu"), oom_host_counts=False)
    assert not larger_is_infeasible(ended("arithmetic"), oom_host_counts=True)
    assert not larger_is_infeasible(ended("oom_host"), oom_host_counts=False)
    assert larger_is_infeasible(ended("oom_host"), oom_host_counts=True)


def test_failures_are_the_same_but_for_numbers() -> None:
    def failed(message: str) -> JobRecord:
        return record(outcome=Outcome.FAILED, reason="exception", message=message)

    assert face(failed("KeyError: 'x' at 0x7f12")) == face(failed("KeyError: 'x' at 0x8a"))
    assert face(failed("batch 64 lr 1e-3")) == face(failed("batch 128 lr 2.5e-4"))
    assert face(failed("KeyError: 'x'")) != face(failed("KeyError: 'y'"))


def test_a_record_comes_back_from_its_file_as_it_was() -> None:
    before = record({"trainer": {"name": "a"}}, lost=1, stop="slow", reason="x", message="y")
    assert JobRecord.from_mapping(before.to_mapping()) == before


def test_signatures_tell_settings_apart_and_not_why_they_are_run() -> None:
    measured = {"model": "a"}

    def of(
        kind: Any = "run", size: int = 64, lr: float = 1e-3, seed: int = 0, limit: int | None = None
    ) -> str:
        return signature(measured, Proposal(kind, Point(size, lr), seed, "why", updates_limit=limit))

    assert of() == of(kind="verify")
    probes = [of("probe", limit=n) for n in (3, 4)]
    assert len({of(), of(size=128), of(lr=2e-3), of(seed=1), *probes}) == 6
    assert of() != signature({"model": "b"}, Proposal("run", Point(64, 1e-3), 0, "why"))


def test_ids_are_readable_and_unique() -> None:
    assert job_id("run", Point(128, 4e-4), 0) == "b128-lr0.0004-s0"
    assert job_id("verify", Point(128, 4e-4), 1) == "b128-lr0.0004-s1"
    assert job_id("probe", Point(128, 4e-4), 0) == "probe-b128"
    assert free_id("probe-b128", {"probe-b128", "probe-b128-2"}) == "probe-b128-3"


def test_budgets_know_what_is_used_up() -> None:
    budget = Budget(jobs=3, seconds=10.0)
    assert Spending(seconds=9.9).exceeded(budget) is None
    assert "budget.seconds=10" in (Spending(seconds=10.0).exceeded(budget) or "")
    assert Spending(jobs=3).has_no_job_left(budget)
    assert not Spending(jobs=3).has_no_job_left(Budget())
    assert Budget().with_default_jobs(7) == Budget(jobs=7)
    assert budget.with_default_jobs(7) == budget
    assert budget.shrunk_fields(Budget(jobs=4, seconds=9.0, money=1.0)) == ["seconds", "money"]
    assert budget.shrunk_fields(Budget()) == []
