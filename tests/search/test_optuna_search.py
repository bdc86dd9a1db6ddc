"""Searches around Optuna's samplers, by ask and tell over a made-up landscape."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest
from optuna.trial import TrialState
from tests.search.jobs import job

from batchscout.errors import ConfigError, SearchError
from batchscout.measure.target import Target
from batchscout.search.factory import build_search
from batchscout.search.grid import GridSearch
from batchscout.search.optuna_search import OptunaSearch
from batchscout.search.protocol import Finished, JobObservation, Point, Proposal, SearchContext, Space

SPACE = Space(tuple(2**i for i in range(4, 13)), tuple(10 ** (-5 + i / 4) for i in range(13)))
FLAT = (0.2, 0.3, 0.3, 0.3, 0.3)


def context(space: Space = SPACE, seed: int = 0) -> SearchContext:
    return SearchContext(space=space, target=Target(0.8), seed=seed)


def seconds(point: Point) -> float:
    """Fastest at batch 256, lr 1e-3: every factor of two in batch or lr costs 15 %."""
    away = abs(math.log2(point.batch_size / 256)) + abs(math.log2(point.lr / 1e-3))
    return 10.0 * 1.15**away


def run(search: Any, number: int) -> list[JobObservation]:
    jobs: list[JobObservation] = []
    while len(jobs) < number:
        answer = search.propose(jobs)
        if not isinstance(answer, Proposal):
            break
        jobs.append(job(answer.point.batch_size, answer.point.lr, answer.seed, seconds=seconds(answer.point)))
    return jobs


@pytest.mark.parametrize("name", ["random", "tpe"])
def test_no_cell_is_proposed_twice_until_the_space_is_exhausted(name: str) -> None:
    small = Space((64, 128, 256), (1e-3, 2e-3), seeds=2)
    search = build_search(name, context(small))
    jobs = run(search, 99)
    assert len({(j.point, j.seed) for j in jobs}) == len(jobs) == 12
    answer = search.propose(jobs)
    assert isinstance(answer, Finished)
    assert answer.explanation == "space exhausted after 12 jobs"


@pytest.mark.parametrize("name", ["random", "tpe"])
def test_the_same_jobs_get_the_same_answer_from_a_new_search(name: str) -> None:
    jobs = run(build_search(name, context()), 10)
    answers = [build_search(name, context()).propose(jobs) for _ in range(2)]
    assert answers[0] == answers[1]
    others = {str(build_search(name, context(seed=s)).propose([])) for s in range(4)}
    assert len(others) > 1


@pytest.mark.parametrize("name", ["tpe", "gp"])
def test_samplers_learn_where_it_is_fast(name: str) -> None:
    random = [seconds(j.point) for j in run(build_search("random", context()), 20)]
    learnt = [seconds(j.point) for j in run(build_search(name, context()), 20)]
    assert statistics.median(learnt[8:]) < 0.8 * statistics.median(random[8:])
    assert min(learnt) < 10 * 1.15**1.5


def test_running_jobs_are_not_proposed_again() -> None:
    small = Space((64, 128, 256, 512), (1e-3,))
    search = build_search("tpe", context(small))
    running = [job(b, outcome="running", scores=()) for b in (64, 128, 256)]
    answer = search.propose(running)
    assert isinstance(answer, Proposal)
    assert answer.point.batch_size == 512


def test_what_the_sampler_is_told_is_never_infinite_and_misses_are_beyond_all_times() -> None:
    search = OptunaSearch(context())
    jobs = [
        job(16, seconds=10),
        job(32, seconds=100),
        job(64, outcome="capped", seconds=20, scores=FLAT),
        job(128, outcome="capped", seconds=20, scores=(0.2, 0.4, 0.5, 0.6, 0.7)),
        job(256, outcome="diverged", seconds=1, scores=(0.2, math.nan)),
        job(512, outcome="infeasible", seconds=0, scores=()),
        job(1024, outcome="failed", seconds=0, scores=()),
        job(2048, outcome="running", seconds=5, scores=FLAT),
        job(4096, kind="probe"),
    ]
    trials = search.trials(jobs)
    states = [t.state for t in trials]
    assert states == [TrialState.COMPLETE] * 6 + [TrialState.FAIL, TrialState.RUNNING]
    values = [t.value for t in trials[:6]]
    assert values[:2] == pytest.approx([math.log(8), math.log(80)])
    assert all(math.isfinite(v) and v > math.log(100) for v in values[2:])
    assert values[3] < values[2]  # it came nearer to the target


def test_cells_that_are_absent_are_never_proposed() -> None:
    cells = frozenset({(Point(16, 1e-3), 0), (Point(64, 2e-3), 1)})
    space = Space((16, 64), (1e-3, 2e-3), seeds=2, available=cells)
    jobs = run(build_search("random", context(space)), 9)
    assert {(j.point, j.seed) for j in jobs} == cells


def test_a_single_setting_needs_no_sampler() -> None:
    jobs = run(build_search("tpe", context(Space((64,), (1e-3,), seeds=3))), 9)
    assert [j.seed for j in jobs] == [0, 1, 2]


def test_an_empty_space_is_refused() -> None:
    with pytest.raises(SearchError, match="empty"):
        build_search("random", context(Space((), (1e-3,))))


def test_c24_a_job_beyond_the_best_is_stopped() -> None:
    search = build_search("random", context())
    best = job(64, seconds=10)  # reached after 8 s
    slow = job(128, outcome="running", seconds=11, scores=FLAT)
    assert "beyond 1.25 times the best, 8 s" in (search.stop(slow, [best, slow]) or "")
    assert search.stop(slow, [slow]) is None  # nothing to compare with
    young = job(128, outcome="running", seconds=4, scores=FLAT)
    assert search.stop(young, [best, young]) is None


def test_a_projection_stops_what_is_far_from_the_target_in_time() -> None:
    search = build_search("random", context())
    best = job(64, seconds=10)
    creeping = job(128, outcome="running", seconds=7, scores=(0.1, 0.12, 0.14, 0.16, 0.18, 0.2, 0.22))
    assert "projected" in (search.stop(creeping, [best, creeping]) or "")
    rising = job(128, outcome="running", seconds=7, scores=(0.1, 0.1, 0.2, 0.4, 0.55, 0.7))
    assert search.stop(rising, [best, rising]) is None


def test_nothing_is_stopped_where_that_is_switched_off() -> None:
    search = build_search("random", context(), {"stops_jobs": False})
    slow = job(128, outcome="running", seconds=50, scores=FLAT)
    assert search.stop(slow, [job(64, seconds=10), slow]) is None


def test_a_grid_plans_seed_by_seed_and_small_batches_first() -> None:
    search = GridSearch(context(Space((64, 128), (1e-3, 2e-3), seeds=2)))
    planned = [(p.point.batch_size, p.point.lr, p.seed) for p in search.plan()]
    assert planned[:4] == [(64, 1e-3, 0), (64, 2e-3, 0), (128, 1e-3, 0), (128, 2e-3, 0)]
    assert len(planned) == 8
    done = [job(b, lr, s) for b, lr, s in planned]
    assert isinstance(search.propose(done), Finished)
    assert isinstance(search.propose(done[:-1]), Proposal)


def test_any_sampler_of_optuna_can_be_named() -> None:
    options = {"sampler": "optuna.samplers:QMCSampler"}
    path = "batchscout.search.optuna_search:OptunaSearch"
    jobs = run(build_search("mine", context(), options, function=path), 5)
    assert len(jobs) == 5


def test_unknown_searches_name_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="grid, random, tpe, gp, new_gpu, time_to_target"):
        build_search("nonsense", context())
    with pytest.raises(ConfigError, match="does not take"):
        build_search("grid", context(), {"width": 3})
