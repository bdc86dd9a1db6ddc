"""What more GPUs buy: the best batch size for each n, its time, GPU-hours and money, and where it stops
paying.

T(B, n) = S(B)/B · t(B, n). Money is n · T · price: a job pays for its GPUs as long as it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from batchscout.errors import LawError
from batchscout.laws.observations import Array, Interval
from batchscout.laws.samples import SamplesFit
from batchscout.laws.samples_law import SamplesLaw
from batchscout.laws.scale_out_law import ScaleOutFit, gpu_numbers

HOUR = 3600.0
DRAWS = 2000
PER_OCTAVE = 8
"""Batch sizes tried per doubling."""
FLAT = 0.5
"""A limit is named where it takes more than this share of what doubling would give."""


@dataclass(frozen=True, slots=True)
class Bill:
    """n GPUs for some seconds."""

    gpus: int
    seconds: float
    price_per_gpu_hour: float | None = None

    @property
    def gpu_hours(self) -> float:
        return self.gpus * self.seconds / HOUR

    @property
    def money(self) -> float | None:
        return None if self.price_per_gpu_hour is None else self.gpu_hours * self.price_per_gpu_hour

    def saved(self, share: float) -> Bill:
        """What a time shorter by `share` saves."""
        return Bill(self.gpus, share * self.seconds, self.price_per_gpu_hour)


@dataclass(frozen=True, slots=True)
class PlanRow:
    """n GPUs at their best batch size.

    working        GPUs that have a group of rollouts; the others idle
    interval       of time_to_target, at the fit's level
    speed_up       against the smallest n of the plan at its own best; efficiency: per GPU
    limit          what holds further GPUs back: "learning" (more samples), "hardware" (seconds that no GPU
                   shortens), "learning and hardware", or "" where time still falls almost as n grows
    kept_time      T at today's batch size; None where none was given
    is_front       no other n of the plan is both faster and cheaper
    """

    gpus: int
    batch_size: int
    working: int
    samples_to_target: float
    update_seconds: float
    time_to_target: float
    interval: Interval
    speed_up: float
    efficiency: float
    gpu_hours: float
    money: float | None
    limit: str
    kept_time: float | None
    is_front: bool

    @property
    def kept_bill(self) -> float | None:
        """GPU-hours more that today's batch size costs."""
        return None if self.kept_time is None else self.gpus * (self.kept_time - self.time_to_target) / HOUR


def plan_gpus(
    samples: SamplesFit | SamplesLaw,
    pace: ScaleOutFit,
    gpus: Sequence[int],
    *,
    price_per_gpu_hour: float | None = None,
    today: int | None = None,
    limits: tuple[float, float] | None = None,
    step: int | None = None,
    seed: int = 0,
) -> tuple[PlanRow, ...]:
    """One row per n.

    today   batch size in use, whose price is asked for
    limits  smallest and largest batch size considered, default: from a group to 64 times what n needs
    step    batch sizes are multiples of it, default the fit's group size
    Raises  LawError for an n below the measured ones, a price that is not positive, S that is only bounded
    """
    numbers = gpu_numbers(gpus)
    least = min(pace.measured_gpus)
    if numbers[0] < least:
        raise LawError(f"gpus={numbers[0]} lies below the measured n ({_listed(pace.measured_gpus)}); "
                       "a law of scaling out says nothing there, measure it")  # fmt: skip
    if price_per_gpu_hour is not None and not (price_per_gpu_hour > 0 and np.isfinite(price_per_gpu_hour)):
        raise LawError(f"price={price_per_gpu_hour:g}; it must be above 0")
    if isinstance(samples, SamplesFit) and samples.law is None:
        raise LawError(
            "only upper bounds of S are known, so no batch size can be computed; evaluate more often"
        )
    rows = [_best(samples, pace, n, today, limits, step, seed) for n in numbers]
    first = rows[0]
    out = []
    for n, size, s, t, time, interval, kept in rows:
        bill = Bill(n, time, price_per_gpu_hour)
        speed_up = first[4] / time
        faster = [r for r in rows if r[4] <= time and r[0] * r[4] <= n * time and r[0] != n]
        out.append(PlanRow(
            n, size, int(pace.working([size], [n])[0]), s, t, time, interval, speed_up,
            speed_up * first[0] / n, bill.gpu_hours, bill.money, _limit(samples, pace, n, size), kept,
            not faster,
        ))  # fmt: skip
    return tuple(out)


def continuous_best(samples: SamplesFit | SamplesLaw, pace: ScaleOutFit, gpus: int) -> tuple[float, float]:
    """(batch size, T) where T is least over all real batch sizes."""
    from scipy import optimize

    def time(x: float) -> float:
        return float(_law(samples).samples([np.exp(x)])[0] / np.exp(x) * pace.seconds([np.exp(x)], [gpus])[0])

    grid = np.linspace(0, np.log(1e9), 300)
    k = int(np.argmin([time(x) for x in grid]))
    found = optimize.minimize_scalar(
        time, bounds=(grid[max(k - 1, 0)], grid[min(k + 1, 299)]), method="bounded", options={"xatol": 1e-10}
    )
    return float(np.exp(found.x)), float(found.fun)


_Row = tuple[int, int, float, float, float, Interval, float | None]


def _best(
    samples: SamplesFit | SamplesLaw,
    pace: ScaleOutFit,
    n: int,
    today: int | None,
    limits: tuple[float, float] | None,
    step: int | None,
    seed: int,
) -> _Row:
    sizes = _candidates(samples, pace, n, limits, step)
    if today:
        sizes = np.union1d(sizes, [float(today)])
    s = _law(samples).samples(sizes)
    draws = pace.draw(sizes, np.full(len(sizes), n))
    t = np.median(draws, axis=0)
    times = s / sizes * t
    i = int(np.argmin(times))
    kept = float(times[int(np.searchsorted(sizes, today))]) if today else None
    interval = _interval(samples, draws[:, i], sizes[i], pace.level, seed)
    return n, int(sizes[i]), float(s[i]), float(t[i]), float(times[i]), interval, kept


def _candidates(
    samples: SamplesFit | SamplesLaw,
    pace: ScaleOutFit,
    n: int,
    limits: tuple[float, float] | None,
    step: int | None,
) -> Array:
    group = step or pace.group_size
    low, high = limits or (
        float(group),
        64.0 * max(pace.group_size * n, _law(samples).b_crit, pace.measured_rollouts[1]),
    )
    steps = max(2, int(np.log2(high / low) * PER_OCTAVE) + 1)
    grid = np.geomspace(low, high, steps)
    return np.unique(np.maximum(np.rint(grid / group), 1) * group)


def _interval(samples: SamplesFit | SamplesLaw, t: Array, size: float, level: float, seed: int) -> Interval:
    """Joint draws of S and t."""
    if isinstance(samples, SamplesLaw):
        s = samples.samples([size])
    else:
        s = samples.draw([size], DRAWS, np.random.default_rng(seed))[:, 0]
    drawn = np.resize(s, DRAWS) / size * np.resize(t, DRAWS)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _limit(samples: SamplesFit | SamplesLaw, pace: ScaleOutFit, n: int, size: int) -> str:
    """Which part of a perfect halving of T two times the GPUs would not give, at this batch size doubled or
    not."""
    law = _law(samples)
    b = float(size)
    more = float(np.log2(law.samples([2 * b])[0] / law.samples([b])[0]))  # 0: free, 1: all of the doubling
    fixed = 1 - float(np.log2(pace.seconds([b], [n])[0] / pace.seconds([b], [2 * n])[0]))
    names = [name for name, share in (("learning", more), ("hardware", fixed)) if share > FLAT]
    return " and ".join(names)


def _law(samples: SamplesFit | SamplesLaw) -> SamplesLaw:
    law = samples if isinstance(samples, SamplesLaw) else samples.law
    assert law is not None
    return law


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(str(n) for n in numbers)
