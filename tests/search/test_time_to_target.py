"""The search on made-up sweeps whose truth is known: what it starts, stops, continues and says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.made_world import MadeWorld
from tests.search.jobs import job
from tests.search.test_belief import BATCH_SIZES, LRS, SPACE, TARGET, flat, rising, true_samples

from batchscout.measure.outcome import Outcome
from batchscout.measure.target import Target
from batchscout.run.api import run_sweep
from batchscout.run.budget import Budget
from batchscout.run.recorded import RecordedSweep
from batchscout.run.replay import ReplayExecutor
from batchscout.run.settings import SweepSettings
from batchscout.search.new_gpu import NewGpuSearch
from batchscout.search.protocol import JobObservation, Point, Proposal, SearchContext, Space
from batchscout.search.time_to_target import TimeToTargetSearch

BEST = Point(256, LRS[4])


def search(slots: int = 1) -> TimeToTargetSearch:
    return TimeToTargetSearch(SearchContext(space=SPACE, target=TARGET, seed=0, slots=slots))


def probes() -> list[JobObservation]:
    """One update takes 0.05 s plus 0.4 ms a sample."""
    return [
        replace(
            job(b, LRS[4], scores=(0.1,), samples=2 * b, seconds=2 * (0.05 + 4e-4 * b)), job_id=f"p{b}", kind="probe",
            outcome=Outcome.CAPPED, updates_limit=2,
        )
        for b in BATCH_SIZES
    ]  # fmt: skip


def timed(one: JobObservation) -> JobObservation:
    """With the seconds that its updates take."""
    n = np.asarray(one.curve.samples)  # type: ignore[union-attr]
    b = one.point.batch_size
    return job(
        b, one.point.lr, one.seed, outcome=str(one.outcome.value), scores=tuple(one.curve.score),  # type: ignore[union-attr]
        samples=int(n[0]), seconds=float(n[-1] / b * (0.05 + 4e-4 * b)),
    )  # fmt: skip


def at(b: int, lr: float, upto: float) -> JobObservation:
    return timed(rising(b, lr, upto=upto))


def running(one: JobObservation) -> JobObservation:
    return replace(one, outcome=Outcome.RUNNING)


def true_seconds(point: Point) -> float:
    b = point.batch_size
    return true_samples(b, point.lr) / b * (0.05 + 4e-4 * b)


SEEN = [
    at(64, LRS[3], 0.7),
    at(256, LRS[4], 0.8),
    at(1024, LRS[5], 0.6),
    at(256, LRS[2], 0.6),
    at(512, LRS[6], 0.6),
]


def test_the_recommendation_and_its_ties_are_those_of_the_law() -> None:
    said = search().recommend([*probes(), *SEEN])
    assert said is not None
    assert said.interval is not None
    best = min(true_seconds(Point(b, lr)) for b in BATCH_SIZES for lr in LRS)
    assert true_seconds(said.point) < 1.15 * best
    assert said.interval[0] < true_seconds(said.point) < said.interval[1]
    # by the closed form the next batch sizes are within a tenth of the best, the smallest takes several times as long
    assert said.point.batch_size in said.near_ties
    near = {b for b in BATCH_SIZES if min(true_seconds(Point(b, lr)) for lr in LRS) < 1.03 * best}
    assert near <= set(said.near_ties)
    assert 16 not in said.near_ties


def test_a_slow_job_is_stopped_and_not_taken_up_again_at_once() -> None:
    slow = at(16, LRS[8], 0.12)
    jobs = [*probes(), *SEEN, running(slow)]
    one = search()
    reason = one.stop(running(slow), jobs)
    assert reason is not None
    answer = one.propose([*jobs[:-1], replace(slow, outcome=Outcome.STOPPED, reason=reason)])
    assert isinstance(answer, Proposal)
    assert answer.resume != slow.job_id


def test_the_fastest_job_at_the_highest_lr_is_watched_most_of_the_way_up() -> None:
    """Nothing so high has come far yet: it may be about to diverge."""
    alone = [*probes(), at(256, LRS[2], 0.6)]
    early = running(at(256, LRS[4], 0.5))
    assert search().stop(early, [*alone, early]) is None
    late = running(at(256, LRS[4], 0.85))
    assert "known" in (search().stop(late, [*alone, late]) or "")


def test_a_recommendation_on_its_way_is_given_up_when_its_score_falls() -> None:
    rise = at(256, LRS[4], 0.7)
    scores = tuple(rise.curve.score)  # type: ignore[union-attr]
    fell = tuple(max(scores) * f for f in (0.9, 0.75, 0.6, 0.5))
    verifying = replace(
        job(256, LRS[4], 1, outcome="running", scores=scores + fell, samples=2000, seconds=20.0),
        kind="verify",
    )
    assert "fallen" in (search().stop(verifying, [*probes(), *SEEN, verifying]) or "")


@pytest.mark.parametrize("slots", [1, 8])
def test_a_fresh_search_says_what_an_old_one_says(slots: int) -> None:
    jobs = [*probes(), *SEEN]
    old = search(slots)
    old.propose(jobs[:-2])
    assert old.propose(jobs) == search(slots).propose(jobs)
    assert old.recommend(jobs) == search(slots).recommend(jobs)


def test_what_a_growing_job_said_since_its_milestone_is_left_out_with_carried_jobs_too() -> None:
    """Else the belief that is kept for a milestone depends on when it was asked for, and a fresh search differs."""
    context = SearchContext(space=SPACE, target=TARGET, seed=0)
    whole = at(256, LRS[4], 0.9)

    def seen(evaluations: int) -> tuple[object, ...]:
        scores = tuple(whole.curve.score)[:evaluations]  # type: ignore[union-attr]
        one = job(256, LRS[4], 1, outcome="running", scores=scores, samples=2000, seconds=float(evaluations))
        state = NewGpuSearch(context, SEEN)._stopped(one, [*probes(), one])
        return tuple(r.evaluations for r in state.records)

    assert seen(9) == seen(11)
    assert seen(9) != seen(12)


def test_where_a_cap_ended_a_job_at_the_floor_the_next_one_is_not_another_seed_of_it() -> None:
    """It would meet the same cap."""
    jobs = probes()
    met = []
    for _ in range(3):
        said = search().propose(jobs)
        assert isinstance(said, Proposal)
        assert said.kind == "run"
        met.append(said.point.batch_size)
        capped = timed(flat(said.point.batch_size, said.point.lr, outcome="capped"))
        jobs.append(replace(capped, reason="caps.samples", job_id=f"c{len(jobs)}", seed=said.seed))
    assert len(set(met)) == 3


RISE = (0.12, 0.15, 0.2, 0.3, 0.42, 0.55, 0.66, 0.74)


def stuck(batch_size: int, lr: float, outcome: str) -> JobObservation:
    """At the floor for 40 evaluations."""
    scores = tuple(0.1 + 0.005 * ((7 * i) % 3 - 1) for i in range(40))
    return job(batch_size, lr, outcome=outcome, scores=scores, seconds=40.0)


@pytest.mark.parametrize("outcome", ["capped", "stopped", "diverged"])
@pytest.mark.parametrize("count", [1, 3, 6])
def test_jobs_at_lrs_too_high_to_rise_do_not_outvote_the_one_that_rose(outcome: str, count: int) -> None:
    """It needs some 8.5 s; a wide list of lrs makes such jobs the rule."""
    space = Space((32, 64, 128, 256), (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1), seeds=2)
    one = TimeToTargetSearch(SearchContext(space=space, target=Target(0.8)))
    flats = [stuck(b, lr, outcome) for lr in (1e-1, 3e-2) for b in (64, 256, 32)][:count]
    said = one.recommend([job(128, 3e-4, outcome="stopped", scores=RISE, seconds=8.0), *flats])
    assert said is not None
    assert said.point.lr <= 1e-3
    assert said.time_to_target < 8.5


@pytest.mark.parametrize("decades", [4, 6])
def test_a_list_of_lrs_over_many_decades_is_searched_for_a_few_best_times(
    tmp_path: Path, decades: int
) -> None:
    """Two lrs to a decade; from 2e-2 on no job leaves the floor."""
    lrs = tuple(
        float(f"{lr:.3g}") for lr in np.geomspace(4e-4 * 10**-2, 4e-4 * 10 ** (decades - 2), 2 * decades + 1)
    )
    world = WideWorld(batch_sizes=(32, 64, 128, 256), lrs=lrs, s_min=10_000.0)
    recording = RecordedSweep.read(world.write(tmp_path / "world.jsonl"))
    context = SearchContext(space=recording.space(), target=Target(recording.target), seed=0)
    executor = ReplayExecutor(recording)
    wanted = SweepSettings(
        name="wide", config={"target": {"score": recording.target}}, measured={"world": recording.world},
        job_config=lambda p, s: {"batch_size": p.batch_size, "lr": p.lr, "seed": s},
        context=context, search="time_to_target", budget=Budget(jobs=40), gpus=1, is_recorded=True,
    )  # fmt: skip
    run_sweep(wanted, tmp_path / "sweep", executor=executor, search=TimeToTargetSearch(context))
    result = json.loads((tmp_path / "sweep" / "result.json").read_text())
    found, best = result["recommendation"], world.best[0]
    assert world.time(found["batch_size"], found["lr"]) < 1.25 * best
    assert result["cost"]["seconds"] < 12 * best


class WideWorld(MadeWorld):
    def _job(self, batch: int, lr: float, seed: int) -> dict[str, Any]:
        row = super()._job(batch, min(lr, 2e-2), seed)
        if lr >= 2e-2:
            rng = np.random.default_rng([batch, seed])
            row |= {"learning_rate": lr, "status": "capped"}
            row["score"] = [rng.binomial(400, 0.1) / 400 for _ in row["score"]]
        return row


def test_jobs_without_a_score_are_borne() -> None:
    """One at a cap, one stopped before its first evaluation, one whose scores are no numbers."""
    one = TimeToTargetSearch(SearchContext(space=Space((64,), (4e-4,), seeds=4), target=Target(0.8)))
    nothing = replace(job(64, 4e-4, 0, outcome="stopped", scores=()), job_id="nothing")
    risen = [job(64, 4e-4, seed, outcome="capped", scores=RISE) for seed in (1, 2, 3)]
    answer = one.propose([nothing, *risen])
    assert isinstance(answer, Proposal)
    assert answer.resume == "nothing"
    for scores in ((), (float("nan"),) * 3):
        answer = one.propose([job(64, 4e-4, 0, outcome="capped", scores=scores)])
        assert isinstance(answer, Proposal)
        assert answer.seed != 0


@pytest.mark.parametrize(("then", "now"), [(8, 9), (12, 15), (16, 23)])
def test_a_search_that_saw_a_job_grow_says_what_a_fresh_one_says(then: int, now: int) -> None:
    """With several slots a running job counts up to its last milestone: its seconds no further than its scores."""

    def jobs(evaluations: int) -> list[JobObservation]:
        scores = tuple(np.linspace(0.1, 0.9, 40)[:evaluations])
        grown = [
            running(job(b, lr, scores=scores, seconds=evaluations * b / 64))  # exact in binary
            for b, lr in ((64, LRS[3]), (1024, LRS[5]))
        ]
        return [*SEEN, *[replace(j, seed=1, job_id=f"{j.job_id}-grown") for j in grown]]

    old = search(slots=2)
    old.propose(jobs(then))
    assert old.recommend(jobs(now)) == search(slots=2).recommend(jobs(now))
    assert old.propose(jobs(now)) == search(slots=2).propose(jobs(now))


def test_a_carried_job_outside_of_the_space_is_borne() -> None:
    carried = [job(b, 4e-4, scores=(*RISE, 0.82, 0.85)) for b in (16, 32)]
    context = SearchContext(space=Space((64, 128), (4e-4, 8e-4), seeds=2), target=Target(0.8))
    one = NewGpuSearch(context, carried)
    grown = running(job(64, 4e-4, scores=RISE[:4]))
    assert "is known" in (one.stop(grown, [grown]) or "")
    assert isinstance(one.propose([grown]), Proposal)


def test_where_no_carried_job_rose_the_search_is_an_ordinary_one() -> None:
    context = SearchContext(space=SPACE, target=TARGET, seed=0)
    one = NewGpuSearch(context, [stuck(b, LRS[8], "diverged") for b in BATCH_SIZES[1:4]])
    answer = one.propose(probes())
    assert isinstance(answer, Proposal)
    assert answer.kind == "run"
