"""Best batch size: the least time to target T(B) = S(B)/B · t(B), how sure it is, and what a wrong one
costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

from batchscout.errors import LawError
from batchscout.laws.observations import Array, Interval, positive
from batchscout.laws.samples import SamplesFit
from batchscout.laws.samples_law import SamplesLaw
from batchscout.laws.update_forms import UpdateSecondsLaw
from batchscout.laws.update_seconds import UpdateSecondsFit

FEW_UPDATES = 10
NEVER_BEST = 0.01
"""A batch size is told from the best one where it is faster with less than this probability."""
_BEYOND = 16.0


@dataclass(frozen=True, slots=True)
class BestBatch:
    """The answer over a candidate list, and the continuous optimum beside it.

    batch_size              the candidate with the least T (of no candidates: the continuous optimum, rounded)
    continuous_batch_size   where T is least, not rounded
    time_to_target          seconds there, updates not rounded unless asked for; `interval` at `level`
    updates_to_target       ⌈S/B⌉
    near_ties               candidates that cannot be told from the best (it among them), sorted
    probability_best        of batch_size, by joint draws from both fits; None where laws without data were
                            given
    candidates, times, relative_times, probabilities   (n,) per candidate; relative_times is the price of
                                                       taking it
    """

    batch_size: int
    continuous_batch_size: float
    time_to_target: float
    interval: Interval
    samples_to_target: float
    update_seconds: float
    throughput: float
    updates_to_target: int
    near_ties: tuple[int, ...]
    probability_best: float | None
    candidates: tuple[int, ...]
    times: tuple[float, ...]
    relative_times: tuple[float, ...]
    probabilities: tuple[float, ...] | None
    level: float
    warnings: tuple[str, ...]


def best_batch(
    samples: SamplesFit | SamplesLaw,
    update_seconds: UpdateSecondsFit | UpdateSecondsLaw,
    *,
    candidates: Sequence[int] | None = None,
    round_updates: bool = False,
    level: float = 0.9,
    draws: int = 4000,
    seed: int = 0,
) -> BestBatch:
    """The batch size with the least time to target.

    candidates     batch sizes to choose from; None: any
    round_updates  count whole updates, T = ⌈S/B⌉·t (what a run with few updates does; MLPerf's rule)
    draws, seed    of the joint posterior, for near ties and probabilities
    Returns  BestBatch. Interval: the profile-likelihood half-width of log S and Student's of log t, added in
             squares.
    Raises   LawError where S is only bounded, or a candidate is not a positive whole number.
    """
    law = samples if isinstance(samples, SamplesLaw) else samples.law
    if law is None:
        raise LawError(
            "only upper bounds of S are known, so no batch size can be computed; rank measured times instead"
        )
    pace = update_seconds if isinstance(update_seconds, UpdateSecondsLaw) else update_seconds.total.law
    wanted = None if candidates is None else _checked(candidates)
    continuous, at_edge = _continuous(law, pace, _limits(samples, wanted))
    listed = wanted or tuple(sorted({max(1, math.floor(continuous)), max(1, math.ceil(continuous))}))
    sizes = np.array(listed, dtype=np.float64)
    times = _times(law.samples(sizes), pace.seconds(sizes), sizes, round_updates)
    i = int(np.argmin(times))
    chances: tuple[float, ...] | None = None
    ties: tuple[int, ...] = (listed[i],)
    if isinstance(samples, SamplesFit) and isinstance(update_seconds, UpdateSecondsFit):
        rng = np.random.default_rng(seed)
        drawn = _times(samples.draw(sizes, draws, rng), update_seconds.total.draw(sizes, draws, rng), sizes,
                       round_updates)  # fmt: skip
        chances, ties = rank(drawn, i, listed)
    s, t = float(law.samples([sizes[i]])[0]), float(pace.seconds([sizes[i]])[0])
    return BestBatch(
        batch_size=listed[i],
        continuous_batch_size=continuous,
        time_to_target=float(times[i]),
        interval=time_interval(samples, update_seconds, sizes[i], float(times[i]), level),
        samples_to_target=s,
        update_seconds=t,
        throughput=float(sizes[i]) / t,
        updates_to_target=whole_updates(s, sizes[i]),
        near_ties=ties,
        probability_best=None if chances is None else chances[i],
        candidates=listed,
        times=tuple(float(x) for x in times),
        relative_times=tuple(float(x) for x in times / times[i]),
        probabilities=chances,
        level=level,
        warnings=_warnings(samples, listed, i, s, continuous, at_edge, candidates is not None, round_updates),
    )


def whole_updates(samples: float, batch_size: float) -> int:
    """⌈S/B⌉, an exact multiple not rounded up by the last bit."""
    return int(np.ceil(round(samples / batch_size, 9)))


def rank(drawn: Array, best: int, candidates: Sequence[int]) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """(n,) probability of being best and the near ties, from (count, n) joint draws of T."""
    counts = np.bincount(np.argmin(drawn, axis=1), minlength=len(candidates))
    beats = (drawn < drawn[:, [best]]).mean(axis=0)
    ties = tuple(sorted(c for c, p, k in zip(candidates, beats, range(len(candidates)), strict=True)
                        if k == best or p >= NEVER_BEST))  # fmt: skip
    return tuple(float(x) for x in counts / len(drawn)), ties


def price_of_wrong_batch(
    samples: SamplesFit | SamplesLaw,
    update_seconds: UpdateSecondsFit | UpdateSecondsLaw,
    batch_size: Sequence[float],
) -> tuple[float, ...]:
    """T(B)/T(best) for each batch size, against the continuous optimum: 1.12 costs 12% more time."""
    best = best_batch(samples, update_seconds, draws=2)
    law = samples if isinstance(samples, SamplesLaw) else samples.law
    assert law is not None  # best_batch has refused it
    pace = update_seconds if isinstance(update_seconds, UpdateSecondsLaw) else update_seconds.total.law
    sizes = positive("batch_size", list(batch_size))
    least = _times(law.samples([best.continuous_batch_size]), pace.seconds([best.continuous_batch_size]),
                   np.array([best.continuous_batch_size]), False)[0]  # fmt: skip
    return tuple(float(x) for x in _times(law.samples(sizes), pace.seconds(sizes), sizes, False) / least)


def time_interval(
    samples: SamplesFit | SamplesLaw,
    update_seconds: UpdateSecondsFit | UpdateSecondsLaw,
    batch_size: float,
    time: float,
    level: float,
) -> Interval:
    """Interval of T at one batch size; (None, None) where a law without data was given."""
    if isinstance(samples, SamplesLaw) or isinstance(update_seconds, UpdateSecondsLaw):
        return None, None
    centre = float(np.log(samples.samples([batch_size])[0]))
    low, high = samples.interval(batch_size, level=level)
    part = update_seconds.total
    student = stats.t.ppf(0.5 + level / 2, max(part.degrees_of_freedom, 1.0))
    pace = float(part.log_deviation([batch_size])[0] * student)

    def end(bound: float | None, sign: float) -> float | None:
        return None if bound is None else float(time * np.exp(sign * np.hypot(np.log(bound) - centre, pace)))

    return end(low, -1.0), end(high, 1.0)


def _times(samples: Array, seconds: Array, sizes: Array, round_updates: bool) -> Array:
    updates = samples / sizes
    if round_updates:
        updates = np.ceil(np.round(updates, 9))
    return np.asarray(updates * seconds)


def _limits(samples: SamplesFit | SamplesLaw, candidates: Sequence[int] | None) -> tuple[float, float]:
    if isinstance(samples, SamplesFit):
        return samples.scanned[0] / _BEYOND, samples.scanned[1] * _BEYOND
    if candidates:
        return min(candidates) / _BEYOND, max(candidates) * _BEYOND
    return 1e-3, 1e12


def _continuous(law: SamplesLaw, pace: UpdateSecondsLaw, limits: tuple[float, float]) -> tuple[float, bool]:
    """Where T is least between the limits, and whether that is at one of them."""

    def log_time(x: float) -> float:
        b = np.exp(x)
        return float(np.log(law.samples([b])[0]) - x + np.log(pace.seconds([b])[0]))

    grid = np.linspace(np.log(limits[0]), np.log(limits[1]), 400)
    sizes = np.exp(grid)
    values = np.log(law.samples(sizes)) - grid + np.log(pace.seconds(sizes))
    k = int(np.argmin(values))
    if k in (0, len(grid) - 1):
        return float(sizes[k]), True
    found = optimize.minimize_scalar(log_time, bounds=(grid[k - 1], grid[k + 1]), method="bounded",
                                     options={"xatol": 1e-9})  # fmt: skip
    return float(np.exp(found.x)), False


def _checked(candidates: Sequence[int]) -> tuple[int, ...]:
    if not len(candidates):
        raise LawError("candidates is empty; list batch sizes, or leave it out")
    for c in candidates:
        if c != int(c) or c < 1:
            raise LawError(f"candidates contains {c}; batch sizes are positive whole numbers")
    return tuple(sorted({int(c) for c in candidates}))


def _warnings(
    samples: SamplesFit | SamplesLaw,
    listed: tuple[int, ...],
    best: int,
    s: float,
    continuous: float,
    at_edge: bool,
    is_list: bool,
    round_updates: bool,
) -> tuple[str, ...]:
    out = []
    size = listed[best]
    if is_list and len(listed) > 1 and best in (0, len(listed) - 1):
        end, more = ("smallest", "smaller") if best == 0 else ("largest", "larger")
        out.append(f"best batch size {size} is the {end} one tried; add {more} ones")
    if at_edge:
        out.append(f"T has no least within ×{_BEYOND:g} of the scanned batch sizes; the continuous optimum "
                   f"{continuous:.4g} is only where the search ended")  # fmt: skip
    if isinstance(samples, SamplesFit) and (text := samples.extrapolation(size)):
        out.append(text)
    if s / size < FEW_UPDATES:
        hint = "" if round_updates else "; count whole updates (round_updates)"
        out.append(
            f"only {s / size:.2g} updates to target at batch size {size}: rounding to whole updates moves T "
            f"by 10% and more{hint}"
        )
    return tuple(out)
