"""Where queueing and starting cost more than a probe, later probes are proposed together: they share one
allocation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.search.jobs import job

from batchscout.measure.outcome import Outcome
from batchscout.measure.target import Target
from batchscout.search.belief import UpdateTime, fit_update_time
from batchscout.search.protocol import JobObservation, Proposal, SearchContext, Space
from batchscout.search.time_to_target import TimeToTargetSearch, state

BATCH_SIZES = tuple(16 * 2**i for i in range(10))


def probe(batch_size: int, overhead: float) -> JobObservation:
    """Two updates of one second, whatever the batch size."""
    seen = job(batch_size, kind="probe", outcome="capped", seconds=2.0, scores=(0.2,), samples=2 * batch_size)
    return replace(seen, job_id=f"probe-b{batch_size}", queue_seconds=overhead, updates_limit=2)


def queued(proposal: Proposal, number: int) -> JobObservation:
    return JobObservation(
        f"q{number}", proposal.kind, proposal.point, proposal.seed, Outcome.QUEUED, "", None, 0.0
    )


def less_sure(*arguments: Any) -> UpdateTime:
    """The time of an update, with such doubts that several batch sizes are worth a probe."""
    fitted = fit_update_time(*arguments)
    return replace(fitted, cov=4 * fitted.cov)


@pytest.mark.parametrize(("overhead", "together"), [(100.0, 2), (0.5, 1)])
def test_later_probes_are_proposed_together_where_starting_is_dear(
    overhead: float, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of an update is known up to 1024; what is beyond may be best: 8192, or by a chance 4096."""
    monkeypatch.setattr(state, "fit_update_time", less_sure)
    space = Space(BATCH_SIZES, (1e-3, 2e-3), seeds=2)
    search = TimeToTargetSearch(SearchContext(space=space, target=Target(0.8)))
    jobs: list[JobObservation] = []
    while isinstance(answer := search.propose(jobs), Proposal) and answer.kind == "probe":
        jobs.append(probe(answer.point.batch_size, overhead))
    assert sorted(j.point.batch_size for j in jobs) == [16, 64, 256, 1024]
    jobs += [
        job(256, seconds=11.7, samples=1490),
        job(64, seconds=40.0),
        job(1024, seconds=6.7, samples=3350),
    ]
    proposed = []
    for number in range(4):
        answer = search.propose(jobs)
        assert isinstance(answer, Proposal)
        proposed.append(answer)
        jobs.append(queued(answer, number))
    later = [p.point.batch_size for p in proposed if p.kind == "probe"]
    assert len(later) == together
    assert later == [8192, 4096][:together]
    assert [p.kind for p in proposed[: len(later)]] == ["probe"] * len(later), "all of a group in a row"
