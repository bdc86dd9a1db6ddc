"""Which of the measured batch sizes reaches the target soonest, and how sure that is.

With a samples law: joint draws of S from the law's posterior; where several seeds show that batch sizes
scatter about the law by more than the seeds do, each one's own mean is weighed against the law by the two
variances. Without one (all rows left-censored, one batch size): the measured times alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from batchscout.laws.best import FEW_UPDATES, rank
from batchscout.laws.observations import Array, Interval
from batchscout.laws.samples import SamplesFit
from batchscout.laws.statistics import SEED_NOISE, compare_batches
from batchscout.laws.update_seconds import UpdateSecondsFit

DRAWS = 4000
LAW_ERROR = 0.03
"""Log-scale error of the samples law itself at one batch size, at least: about Zhang et al. 2024's five
tables, whose
noise is small, the law scatters by 4–5% (docs/laws.md)."""
_LEAST_SPREAD = 0.005


@dataclass(frozen=True, slots=True)
class Ranking:
    """batch_sizes, samples, times, intervals, probabilities: (n,) per batch size that reached the target."""

    batch_size: int
    batch_sizes: tuple[int, ...]
    samples: tuple[float, ...]
    times: tuple[float, ...]
    intervals: tuple[Interval, ...]
    probabilities: tuple[float, ...]
    near_ties: tuple[int, ...]
    method: str
    warnings: tuple[str, ...]


def rank_by_law(
    samples: Mapping[int, Sequence[float]],
    seconds: Mapping[int, Sequence[float | None]],
    law: SamplesFit,
    pace: UpdateSecondsFit,
    *,
    level: float = 0.9,
    round_updates: bool = False,
    seed: int = 0,
) -> Ranking:
    """Rank batch sizes by the law and their own rows.

    samples   batch size → (seeds,) S of the runs that reached the target
    seconds   batch size → seconds per update of those runs; where none is known the pace's law is used
    """
    sizes = tuple(sorted(samples))
    b = np.array(sizes, dtype=np.float64)
    rng = np.random.default_rng(seed)
    shift, shift_error = _own_deviation(samples, law, sizes)
    draws = law.draw(b, DRAWS, rng) * np.exp(shift + shift_error * rng.standard_normal((DRAWS, len(b))))
    t, t_draws = _update_seconds(seconds, pace, sizes, rng)
    centre = law.samples(b) * np.exp(shift)
    times, drawn = _times(centre, b, round_updates) * t, _times(draws, b, round_updates) * t_draws
    best = int(np.argmin(times))
    chances, ties = rank(drawn, best, sizes)
    tail = (1 - level) / 2
    ends = np.quantile(drawn, [tail, 1 - tail], axis=0).T
    intervals: tuple[Interval, ...] = tuple((float(x), float(y)) for x, y in ends)
    return Ranking(
        sizes[best],
        sizes,
        tuple(float(x) for x in centre),
        tuple(float(x) for x in times),
        intervals,
        chances,
        ties,
        "samples law and each batch size's own runs",
        _warnings(sizes, best, centre, round_updates),
    )


def rank_by_times(
    samples: Mapping[int, Sequence[float]],
    seconds: Mapping[int, Sequence[float | None]],
    pace: UpdateSecondsFit,
    *,
    level: float = 0.9,
    round_updates: bool = False,
    seed: int = 0,
) -> Ranking:
    """Rank batch sizes by their measured times alone (arguments as rank_by_law)."""
    sizes = tuple(sorted(samples))
    groups: dict[int, Array] = {}
    for size in sizes:
        known = [x for x in seconds[size] if x is not None]
        each = np.array(known if len(known) == len(samples[size]) else [float(pace.seconds([size])[0])])
        groups[size] = _times(np.array(samples[size]), np.array([float(size)]), round_updates) * each
    found = compare_batches(groups, seed=seed)
    best = sizes.index(found.batch_size)
    centre = np.array([float(np.exp(np.mean(np.log(samples[s])))) for s in sizes])
    return Ranking(
        found.batch_size,
        sizes,
        tuple(float(x) for x in centre),
        tuple(found.means[s] for s in sizes),
        tuple(found.interval(s, level) for s in sizes),
        tuple(found.probability[s] for s in sizes),
        found.near_ties,
        "measured times",
        _warnings(sizes, best, centre, round_updates),
    )


def _own_deviation(
    samples: Mapping[int, Sequence[float]], law: SamplesFit, sizes: tuple[int, ...]
) -> tuple[Array, Array]:
    """(n,) how far each batch size is believed to lie from the law (log), and the error of that belief.

    The law's lack of fit τ² is the scatter of the batch sizes' means about it beyond what their seeds
    explain, and at least LAW_ERROR²; a batch size's own mean then has weight τ²/(τ² + noise²/seeds).
    """
    logs = [np.log(np.array(samples[s])) for s in sizes]
    counts = np.array([len(x) for x in logs])
    freedom = int((counts - 1).sum())
    off = np.array([x.mean() for x in logs]) - np.log(law.samples(np.array(sizes, dtype=np.float64)))
    pure, lack = max(law.noise, 0.2 * SEED_NOISE) ** 2, LAW_ERROR**2
    if freedom >= 2 and len(sizes) >= 4:
        pure = max(sum(float(((x - x.mean()) ** 2).sum()) for x in logs) / freedom, (0.2 * SEED_NOISE) ** 2)
        between = float((counts * off**2).sum() / (len(sizes) - 2))
        lack = max(lack, (between - pure) / float(counts.mean()))
    share = lack / (lack + pure / counts)
    return share * off, np.sqrt(lack * (1 - share))


def _update_seconds(
    seconds: Mapping[int, Sequence[float | None]],
    pace: UpdateSecondsFit,
    sizes: tuple[int, ...],
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """(n,) seconds per update and (DRAWS, n) draws: a batch size's own mean where measured, else the
    law's."""
    b = np.array(sizes, dtype=np.float64)
    value, drawn = pace.seconds(b), pace.total.draw(b, DRAWS, rng)
    for i, size in enumerate(sizes):
        own = np.array([x for x in seconds.get(size, ()) if x is not None], dtype=np.float64)
        if len(own):
            value[i] = own.mean()
            noise = max(
                float(own.std(ddof=1) / own.mean()) if len(own) > 2 else pace.total.spread, _LEAST_SPREAD
            )
            drawn[:, i] = value[i] * np.exp(min(noise, 0.5) / np.sqrt(len(own)) * rng.standard_normal(DRAWS))
    return value, drawn


def _times(samples: Array, sizes: Array, round_updates: bool) -> Array:
    """Updates to target."""
    updates = samples / sizes
    return np.asarray(np.ceil(np.round(updates, 9)) if round_updates else updates)


def _warnings(sizes: tuple[int, ...], best: int, samples: Array, round_updates: bool) -> tuple[str, ...]:
    out = []
    if len(sizes) > 1 and best in (0, len(sizes) - 1):
        end, more = ("smallest", "smaller") if best == 0 else ("largest", "larger")
        out.append(f"best batch size {sizes[best]} is the {end} that reached the target; try {more} ones")
    updates = samples[best] / sizes[best]
    if updates < FEW_UPDATES:
        hint = "" if round_updates else "; count whole updates"
        out.append(
            f"only {updates:.2g} updates to target at batch size {sizes[best]}: rounding to whole updates "
            f"moves T by 10% and more{hint}"
        )
    return tuple(out)
