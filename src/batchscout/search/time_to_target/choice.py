"""Which job next: the expected regret that it removes, per second that it costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from batchscout.search.time_to_target.settings import Settings
from batchscout.search.time_to_target.state import State

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Choice:
    """A candidate: point index, expected regret removed, expected cost in best-times."""

    index: int
    gain: float
    cost: float


def partial_share(state: State, settings: Settings) -> float:
    """Share of S after which a usual job is known well enough, from the shapes believed in."""
    evidence = state.posterior.evidence
    if evidence is None:
        return 0.4
    from batchscout.search.belief.curve_shape import height

    shapes = evidence.shape.shapes
    u = np.arange(-3.5, 0.01, 0.1)
    p = height(shapes[:, None, :], u[None])
    mean_p = np.median(p, axis=0)
    return float(np.clip(np.exp(np.interp(0.3, mean_p, u)), 0.15, 0.8))


def is_grounded(state: State) -> bool:
    """Whether some job has risen as jobs do that get there: from then on others can be held against it."""
    evidence = state.posterior.evidence
    if evidence is None:
        return False
    block = evidence.block
    risen = [(r.last - block.start) / block.scale for r in evidence.records]
    normal = np.log(0.05) + block.ln_wandering < evidence.shape.ln_mass.max(1)
    return any(h > 0.12 and ok and not f for h, ok, f in zip(risen, normal, evidence.fallen, strict=True))


def choose(state: State, settings: Settings, rng: np.random.Generator) -> Choice | None:
    """The best candidate, None where there is none."""
    view, context = state.prospects, state.context
    mean = view.mean_regret
    usable = [i for i, p in enumerate(state.points) if state.allowed[i] and state.seeds_left(p)]
    if not usable:
        return None
    hopeful = [i for i in usable if (view.regret[:, i] < 0.6).mean() > 0.03] or usable
    hopeful = sorted(hopeful, key=lambda i: (-float((view.regret[:, i] < 0.3).mean()), i))[
        : settings.candidates
    ]
    columns = np.argsort(mean, kind="stable")[:48]
    loss = view.regret[:, columns]
    now = mean.min()
    noise = state.posterior.noise
    cost_ratio = np.exp(np.clip(view.ln_seconds - view.ln_best[:, None], -3, 4))
    share = partial_share(state, settings)
    best_seconds = float(np.exp(np.median(view.ln_best)))
    overhead = context.overhead_seconds / best_seconds
    draws = len(noise)
    if not is_grounded(state):
        # nothing has risen yet: what can be compared is only how good each point may be
        i = min(usable, key=lambda i: (float(mean[i]), i))
        return Choice(i, float("nan"), share * float(np.mean(cost_ratio[:, i])))
    z = np.sort(rng.normal(size=settings.fantasies))
    # a slow job is stopped against what the best is known to take, not against what it takes
    slack = np.exp(np.clip(np.quantile(view.ln_best, 0.85) - view.ln_best, 0, 4))
    options = []
    for i in hopeful:
        value = view.ln_samples[:, i] + 3.0 * (view.diverges[:, i] > 0.5)
        var = noise**2 + settings.known_sd**2
        pick = rng.permutation(draws)[: settings.fantasies]
        y = value[pick] + z * np.sqrt(var[pick])
        w = np.exp(-0.5 * (y[:, None] - value[None]) ** 2 / var[None]) / np.sqrt(var)[None] + 1e-9
        w /= w.sum(1, keepdims=True)
        gain = float(now - (w @ loss).min(1).mean())
        diverges = view.diverges[:, i]
        spent = np.minimum(share * cost_ratio[:, i], 1.3 * share * settings.hopeless * slack)
        cost = float(((1 - diverges) * spent + diverges * 0.35).mean()) + overhead + 0.02
        options.append(Choice(i, gain, cost))
    return max(options, key=lambda c: (max(c.gain, 1e-5) / c.cost, -c.index))
