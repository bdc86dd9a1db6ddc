"""The check whether S is on the new GPU type what the source sweep says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from tests.made_world import MadeWorld
from tests.search.jobs import made_job

from batchscout.measure.outcome import Outcome
from batchscout.measure.target import Target
from batchscout.search.belief import Belief, JobRecord, record_of
from batchscout.search.protocol import Space
from batchscout.search.transfer import ODDS, _ln_normal, check_transfer, power

WORLD = MadeWorld(b_crit=300.0)
TARGET = Target(WORLD.target)
SOURCE = [(b, lr) for b in (32, 128, 256, 512, 2048) for lr in (2e-4, 4e-4, 8e-4)]


def observed(world: MadeWorld, batch: int, lr: float, seed: int = 0) -> JobRecord:
    return record_of(made_job(world, batch, lr, seed), TARGET)


@pytest.fixture(scope="module")
def belief() -> Belief:
    return Belief(Space(WORLD.batch_sizes, WORLD.lrs, seeds=2), TARGET, 0)


@pytest.fixture(scope="module")
def carried() -> list[JobRecord]:
    return [observed(WORLD, b, lr) for b, lr in SOURCE]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_same_law_passes_with_other_seeds(belief, carried, seed):
    there = replace(WORLD, seed=seed)
    found = check_transfer(belief, carried, [observed(there, b, lr) for b, lr in [(512, 8e-4), (2048, 8e-4)]])
    assert not found.is_failed
    assert found.odds < 1.5
    assert all(abs(c.deviations) < 2.5 for c in found.checks)
    assert found.checks[0].expected == pytest.approx(WORLD.samples(512, 8e-4), rel=0.15)


@pytest.mark.parametrize("factor", [0.25, 4.0])
def test_another_critical_batch_size_fails_where_it_shows(belief, carried, factor):
    there = replace(WORLD, b_crit=factor * WORLD.b_crit, seed=5)
    found = check_transfer(belief, carried, [observed(there, 1024, 8e-4)])
    assert found.is_failed
    assert found.odds > 100 * ODDS
    assert np.sign(found.checks[0].deviations) == np.sign(1 - factor)
    assert "the transfer failed" in found.warnings()[-1]


def test_another_level_fails(belief, carried):
    found = check_transfer(belief, carried, [observed(replace(WORLD, s_min=45_000.0, seed=5), 64, 2e-4)])
    assert found.is_failed


def test_a_larger_critical_batch_size_does_not_show_far_below_it_and_power_says_so(belief, carried):
    """ln of (1 + B/300) over (1 + B/1200): 0.08 at 32, 0.87 at 1024."""
    small = [observed(replace(WORLD, b_crit=1200.0, seed=5), 32, 2e-4)]
    assert not check_transfer(belief, carried, small).is_failed
    at = np.array([64.0, 1024.0])
    now, then = power(belief, carried, small, at, np.log2([2e-4, 8e-4]), 0.12)
    assert now[1] < 2
    assert then[1, 0] < 5
    assert then[1, 1] > 16


def test_nothing_is_checked_without_jobs_or_without_a_source(belief, carried):
    assert check_transfer(belief, carried, []).odds == 1
    assert check_transfer(belief, [], [observed(WORLD, 512, 8e-4)]).checks == ()


def test_a_job_that_has_hardly_risen_is_left_out(belief, carried):
    record = observed(WORLD, 512, 8e-4)
    part = replace(
        record, score=record.score[:2], ln_samples=record.ln_samples[:2], count=record.count[:2],
        ln_crossing=None, outcome=Outcome.STOPPED, key=("part",),
    )  # fmt: skip
    assert check_transfer(belief, carried, [part]).checks == ()


def test_density_is_the_normal_one():
    cov = np.array([[0.5, 0.2], [0.2, 0.3]])
    a, b = np.array([0.3, -1.0]), np.array([0.1, 0.4])
    exact = stats.multivariate_normal(cov=cov)
    assert _ln_normal(a, cov) - _ln_normal(b, cov) == pytest.approx(exact.logpdf(a) - exact.logpdf(b))
