"""Which job next: the expected regret that it removes, per second that it costs, beside what already runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from batchscout.measure.outcome import Outcome
from batchscout.search.belief import JobRecord
from batchscout.search.belief.curve_shape import height
from batchscout.search.protocol import Point
from batchscout.search.time_to_target.settings import Settings
from batchscout.search.time_to_target.state import State

Array = NDArray[np.float64]

DIVERGING_COST = 0.35
"""Best-times until a job that diverges is recognised."""
LEAST_COST = 0.02
LONGEST_WAIT = 4.0
"""Best-times; what a job that never rises is charged."""


@dataclass(frozen=True, eq=False)
class Choice:
    """A candidate.

    index   of the point;  resume: the stopped job that would go on there, else None
    gain    expected regret removed; nan where nothing has risen yet, so that only costs can be compared
    cost    expected, in best-times
    rate    what candidates are compared by, higher is better
    """

    index: int
    gain: float
    cost: float
    rate: float
    resume: JobRecord | None = None


def partial_share(state: State) -> float:
    """Share of S after which a usual job is known well enough, from the shapes believed in."""
    evidence = state.posterior.evidence
    if evidence is None:
        return 0.4
    shapes = evidence.shape.shapes
    u = np.arange(-3.5, 0.01, 0.1)
    p = height(shapes[:, None, :], u[None])
    return float(np.clip(np.exp(np.interp(0.3, np.median(p, axis=0), u)), 0.15, 0.8))


def is_grounded(state: State) -> bool:
    """Whether some job has risen as jobs do that get there: from then on others can be held against it."""
    evidence = state.posterior.evidence
    if evidence is None:
        return False
    block = evidence.block
    risen = [block.risen(r.last) for r in evidence.records]
    normal = np.log(0.05) + block.ln_wandering < evidence.shape.ln_mass.max(1)
    return any(h > 0.12 and ok and not f for h, ok, f in zip(risen, normal, evidence.fallen, strict=True))


def choose(
    state: State, settings: Settings, rng: np.random.Generator, may_go_on: Callable[[State, JobRecord], bool]
) -> Choice | None:
    """The best candidate, None where there is none.

    may_go_on  false of a stopped job that would be stopped again at once
    """
    found = candidates(state, settings, rng)
    for choice in sorted(found, key=lambda c: (-c.rate, c.index)):
        if choice.resume is None or may_go_on(state, choice.resume):
            return choice
    return None


def candidates(state: State, settings: Settings, rng: np.random.Generator) -> list[Choice]:
    """Every point that may be worth a job now: a stopped job that could go on there, else a new seed."""
    resumable = _resumable(state, settings)
    usable = [
        i for i, p in enumerate(state.points) if state.allowed[i] and (i in resumable or state.seeds_left(p))
    ]
    if not usable:
        return []
    if not is_grounded(state):
        return _until_something_rises(state, usable, resumable)
    return _worth_knowing(state, usable, resumable, settings, rng)


def _resumable(state: State, settings: Settings) -> dict[int, JobRecord]:
    """Point → its longest stopped job whose curve does not yet say S."""
    evidence = state.posterior.evidence
    if evidence is None:
        return {}
    block = evidence.block
    found: dict[int, JobRecord] = {}
    fallen = {r.job_id for r, f in zip(evidence.records, evidence.fallen, strict=True) if f}
    own = {j.job_id for j in state.jobs}
    for r in evidence.records:
        is_open = r.outcome is Outcome.STOPPED and r.job_id in own and r.job_id not in fallen
        if is_open and block.risen(r.last) < settings.least_risen:
            i = state.place[Point(r.batch_size, r.lr)]
            if i not in found or r.seconds > found[i].seconds:
                found[i] = r
    return found


def _remaining(state: State, i: int, share: float, done: float) -> Array:
    """(P,) seconds until the job at point i says S, of which `done` are spent; in the best's time."""
    view = state.prospects
    ratio = np.exp(np.clip(view.ln_seconds[:, i] - view.ln_best, -3, 4))
    return np.asarray(np.maximum(share * ratio - done / np.exp(view.ln_best), 0.1 * share * ratio))


def _limits(state: State) -> Array:
    """(n,) ln of the samples after which a cap has ended a job at the same batch size, else infinite."""
    most = {
        b: max(
            (
                r.ln_last
                for r in state.own
                if r.batch_size == b and r.outcome is Outcome.CAPPED and len(r.score)
            ),
            default=np.inf,
        )
        for b in state.batch_sizes
    }
    return np.array([most[int(b)] for b in state.batch])


def _until_something_rises(state: State, usable: list[int], resumable: dict[int, JobRecord]) -> list[Choice]:
    """Nothing can be compared yet: the job that most shortens the wait for the first one that rises."""
    share, view = partial_share(state), state.prospects
    limit = _limits(state)

    def wait(i: int, done: float) -> Array:
        fails = np.where(view.ln_samples[:, i] + np.log(share) > limit[i], 1.0, view.diverges[:, i])
        return np.asarray(
            (1 - fails) * np.minimum(_remaining(state, i, share, done), LONGEST_WAIT) + fails * LONGEST_WAIT
        )

    running = np.full(len(view.ln_best), LONGEST_WAIT)
    for job in state.running_jobs:
        running = np.minimum(running, wait(state.place[job.point], state.spent(job)[1]))
    found = []
    for i in usable:
        own = wait(i, resumable[i].seconds if i in resumable else 0.0)
        cost = float(own.mean())
        found.append(Choice(i, float("nan"), cost, -float(np.minimum(running, own).mean()), resumable.get(i)))
    return found


def _worth_knowing(
    state: State,
    usable: list[int],
    resumable: dict[int, JobRecord],
    settings: Settings,
    rng: np.random.Generator,
) -> list[Choice]:
    view, context = state.prospects, state.context
    hopeful = [i for i in usable if (view.regret[:, i] < 0.6).mean() > 0.03] or usable
    hopeful = sorted(hopeful, key=lambda i: (-float((view.regret[:, i] < 0.3).mean()), i))
    hopeful = hopeful[: settings.candidates]
    loss = view.regret[:, np.argsort(view.mean_regret, kind="stable")[:48]]
    noise = state.posterior.noise
    share = partial_share(state)
    overhead = context.overhead_seconds / float(np.exp(np.median(view.ln_best)))
    pick = rng.permutation(len(noise))[: settings.fantasies]
    z = rng.permutation(np.sort(rng.normal(size=settings.fantasies)))

    def told(i: int, extra: float = 0.0) -> Array:
        """(fantasies, P) ln weight of each draw once a job at i has said its S."""
        value = view.ln_samples[:, i] + 3.0 * (view.diverges[:, i] > 0.5)
        var = noise**2 + settings.known_sd**2 + extra**2
        y = value[pick] + z * np.sqrt(var[pick])
        return np.asarray(-0.5 * ((y[:, None] - value[None]) ** 2 / var + np.log(var)))

    before = np.zeros((len(pick), len(noise)))
    for job in state.running_jobs:  # as if they had ended; each seen through a wider noise, lest none is left
        z = rng.permutation(z)
        before += told(state.place[job.point], 0.15)

    def left(ln_weight: Array) -> float:
        w = np.exp(ln_weight - ln_weight.max(1, keepdims=True)) + 1e-9
        w /= w.sum(1, keepdims=True)
        return float((w @ loss).min(1).mean())

    now = left(before) if state.running_jobs else float(view.mean_regret.min())
    z = np.sort(z)
    # a slow job is stopped against what the best is known to take, not against what it takes
    slack = np.exp(np.clip(np.quantile(view.ln_best, 0.85) - view.ln_best, 0, 4))
    found = []
    for i in hopeful:
        gain = now - left(before + told(i))
        diverges = view.diverges[:, i]
        done = resumable[i].seconds if i in resumable else 0.0
        spent = np.minimum(_remaining(state, i, share, done), 1.3 * share * settings.hopeless * slack)
        cost = float(((1 - diverges) * spent + diverges * DIVERGING_COST).mean()) + overhead + LEAST_COST
        found.append(Choice(i, gain, cost, max(gain, 1e-5) / cost, resumable.get(i)))
    return found
