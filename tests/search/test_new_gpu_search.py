"""What the search on a new GPU type proposes after its probes and first run, on a made world whose law is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.made_world import MadeWorld
from tests.search.jobs import job, made_job

from batchscout.measure.outcome import Outcome
from batchscout.measure.target import Target
from batchscout.search.new_gpu import PROBE_SHARE, NewGpuSearch
from batchscout.search.protocol import Finished, JobObservation, Point, Proposal, SearchContext, Space

OLD = MadeWorld(a=0.05)
NEW = replace(OLD, a=1.0, seed=1)  # the best batch size by the closed form: √(a B_crit / b) = 775
SATURATED = replace(OLD, a=1e-9, seed=1)  # an update's seconds grow in proportion to the batch size
CARRIED = [made_job(OLD, b, lr, s) for b in OLD.batch_sizes for lr in (2e-4, 4e-4, 8e-4) for s in (0, 1)]


@pytest.fixture
def search() -> NewGpuSearch:
    return NewGpuSearch(SearchContext(Space(NEW.batch_sizes, NEW.lrs, seeds=2), Target(NEW.target)), CARRIED)


def probe(world: MadeWorld, batch: int) -> JobObservation:
    seconds = 2 * (world.a + world.b * batch)
    seen = job(batch, 4e-4, outcome="capped", scores=(0.1,), samples=2 * batch, seconds=seconds, kind="probe")
    return replace(seen, job_id=f"probe-b{batch}", updates_limit=2)


def partial(batch: int, lr: float, share: float) -> JobObservation:
    """A verifying run on the new type, stopped at that share of its evaluations."""
    whole = made_job(NEW, batch, lr)
    assert whole.curve is not None
    seen = made_job(NEW, batch, lr, evaluations=round(share * len(whole.curve.score)))
    return replace(seen, kind="verify", outcome=Outcome.STOPPED)


def answer(search: NewGpuSearch, *jobs: JobObservation) -> Proposal | Finished | None:
    return search.propose([*(probe(NEW, b) for b in NEW.batch_sizes), *jobs])


@pytest.mark.parametrize(("batch", "lr"), [(512, 8e-4), (512, 4e-4), (1024, 4e-4), (2048, 1.6e-3)])
def test_a_run_next_to_the_recommendation_verifies_it(search: NewGpuSearch, batch: int, lr: float) -> None:
    """1024 at 8e-4 is recommended: a run within a factor of two in both says what one there would say."""
    assert NEW.best[1] == 1024
    found = answer(search, partial(batch, lr, 0.6))
    assert isinstance(found, Finished)
    assert f"verified by the run next to it, batch_size={batch} lr={lr:g}" in found.explanation


@pytest.mark.parametrize(
    ("batch", "lr", "share"), [(512, 8e-4, 0.2), (256, 8e-4, 0.6), (512, 2e-4, 0.6), (64, 4e-4, 1.0)]
)
def test_one_that_hardly_rose_or_is_further_away_does_not(
    search: NewGpuSearch, batch: int, lr: float, share: float
) -> None:
    found = answer(search, partial(batch, lr, share))
    assert isinstance(found, Proposal)
    assert (found.kind, found.point) == ("verify", Point(1024, 8e-4))


def test_the_recommendations_own_run_verifies_it(search: NewGpuSearch) -> None:
    found = answer(search, partial(1024, 8e-4, 0.6))
    assert isinstance(found, Finished)
    assert "the recommendation is verified, expected regret" in found.explanation


def test_what_an_update_takes_should_throughput_rise_no_further(search: NewGpuSearch) -> None:
    """Where it does not rise at all, the closed form is b B over the best time."""
    state = search._state([probe(SATURATED, b) for b in (32, 64)])
    for batch in (128, 512, 2048):
        expected = SATURATED.b * batch / SATURATED.best[0]
        assert search._share_if_saturated(state, batch, 64) == pytest.approx(expected, rel=0.05)
    assert search._share_if_saturated(state, 64, 64) == 0
    assert search._share_if_saturated(state, 2048, 0) == 0, "none was seen"


@pytest.mark.parametrize("seen", [(32,), (32, 64)])
def test_a_probe_above_all_seen_is_short_if_throughput_may_have_saturated(
    search: NewGpuSearch, seen: tuple[int, ...]
) -> None:
    """By its samples alone (S(512) = 54,000) three updates of 512 are 3% of a job there; here they may be 4.5% of the
    best."""
    world = replace(SATURATED, a=0.02)
    jobs = [probe(world, b) for b in seen]
    above = 0
    while isinstance(found := search.propose(jobs), Proposal) and found.kind == "probe":
        batch, updates = found.point.batch_size, found.updates_limit
        largest = max(j.point.batch_size for j in jobs)
        assert updates is not None
        if batch > largest:
            above += 1
            worst = (world.a / largest + world.b) * batch / world.best[0]
            assert updates == 1 or updates * worst <= 1.1 * PROBE_SHARE
        jobs.append(probe(world, batch))
    assert above
