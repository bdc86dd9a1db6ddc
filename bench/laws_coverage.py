"""Do the laws' 90% intervals cover the truth in 90% of sweeps?

    python bench/laws_coverage.py [sweeps=300] [seed=0]

Each simulated sweep has its own S_min, B_crit, γ = 1, hardware (t = a + b·B) and noise of 5–12% between
seeds, eight batch sizes from 16 to 2048 and two seeds each. The same runs are then observed in five ways:
exactly; right-censored (a cap on samples that the largest batch sizes do not meet); left-censored (a late
first evaluation that the smallest ones meet at once); bracketed by an evaluation grid; and all of these at
once. Counted: how often the interval of S_min, of B_crit and of T at the recommended batch size holds the
true value. Exit status 1 where a share is outside 85–95%.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from batchscout.laws import SamplesLaw, UpdateSecondsLaw, best_batch, fit_samples, fit_update_seconds

BATCH_SIZES = 2 ** np.arange(4, 12)
SEEDS = 2
BAND = (0.85, 0.95)


@dataclass(frozen=True)
class World:
    samples: SamplesLaw
    seconds: UpdateSecondsLaw
    noise: float


@dataclass(frozen=True)
class Observed:
    """Columns of one sweep's table."""

    samples: list[float | None]
    lower: list[float | None]
    upper: list[float | None]
    censored: list[str | None]


def world(rng: np.random.Generator) -> World:
    b_crit = float(np.exp(rng.uniform(np.log(100), np.log(800))))
    s_min = float(np.exp(rng.uniform(np.log(1e4), np.log(1e5))))
    b = float(np.exp(rng.uniform(np.log(1e-3), np.log(1e-2))))
    knee = float(np.exp(rng.uniform(np.log(20), np.log(400))))
    return World(
        SamplesLaw(s_min, b_crit), UpdateSecondsLaw("affine", knee * b, b), float(rng.uniform(0.05, 0.12))
    )


def exact(true: np.ndarray, truth: World) -> Observed:
    n = len(true)
    return Observed(list(true), [None] * n, [None] * n, [None] * n)


def right(true: np.ndarray, truth: World) -> Observed:
    cap = truth.samples.samples([700.0])[0]
    over = true > cap
    return Observed(
        [None if o else float(x) for o, x in zip(over, true, strict=True)],
        [float(cap) if o else None for o in over],
        [None] * len(true),
        ["right" if o else None for o in over],
    )


def left(true: np.ndarray, truth: World) -> Observed:
    first = truth.samples.samples([50.0])[0]
    under = true <= first
    return Observed(
        [None if u else float(x) for u, x in zip(under, true, strict=True)],
        [None] * len(true),
        [float(first) if u else None for u in under],
        ["left" if u else None for u in under],
    )


def interval(true: np.ndarray, truth: World) -> Observed:
    step = 0.25 * truth.samples.s_min
    low = np.floor(true / step) * step
    return Observed([None] * len(true), [float(x) or None for x in low], [float(x + step) for x in low],
                    ["interval"] * len(true))  # fmt: skip


def everything(true: np.ndarray, truth: World) -> Observed:
    columns = interval(true, truth)
    first, cap = truth.samples.samples([50.0])[0], truth.samples.samples([700.0])[0]
    lower, upper, censored = list(columns.lower), list(columns.upper), list(columns.censored)
    for i, x in enumerate(true):
        if x <= first:
            lower[i], upper[i], censored[i] = None, float(first), "left"
        elif x > cap:
            lower[i], upper[i], censored[i] = float(cap), None, "right"
    return Observed(columns.samples, lower, upper, censored)


KINDS: dict[str, Callable[[np.ndarray, World], Observed]] = {
    "exact": exact,
    "right-censored": right,
    "left-censored": left,
    "bracketed": interval,
    "all together": everything,
}


def holds(interval: tuple[float | None, float | None], value: float) -> bool:
    low, high = interval
    return (low is None or low <= value) and (high is None or value <= high)


def one_sweep(kind: str, rng: np.random.Generator) -> tuple[bool, bool, bool, float]:
    """Whether S_min, B_crit and T at the recommended batch size were covered; log width of S_min's
    interval."""
    truth = world(rng)
    sizes = np.repeat(BATCH_SIZES, SEEDS).astype(float)
    true = truth.samples.samples(sizes) * np.exp(truth.noise * rng.standard_normal(len(sizes)))
    seconds = truth.seconds.seconds(sizes) * np.exp(0.04 * rng.standard_normal(len(sizes)))
    seen = KINDS[kind](true, truth)
    fit = fit_samples(sizes, seen.samples, lower=seen.lower, upper=seen.upper, censored=seen.censored)
    best = best_batch(
        fit, fit_update_seconds(sizes, seconds), candidates=[int(b) for b in BATCH_SIZES], draws=2
    )
    size = float(best.batch_size)
    time_true = float(truth.samples.updates([size])[0] * truth.seconds.seconds([size])[0])
    low, high = fit.s_min_interval
    width = float(np.log(high / low)) if low and high else np.inf
    return (
        holds(fit.s_min_interval, truth.samples.s_min),
        holds(fit.b_crit_interval, truth.samples.b_crit),
        holds(best.interval, time_true),
        width,
    )


def main(sweeps: int = 300, seed: int = 0) -> int:
    print(f"share of {sweeps} simulated sweeps whose 90% interval holds the truth (seed {seed})")
    print(f"{'observed':<16}{'S_min':>8}{'B_crit':>8}{'T(best)':>9}{'S_min ±':>9}{'seconds':>9}")
    outside = 0
    for kind in KINDS:
        start = time.perf_counter()
        found = [one_sweep(kind, np.random.default_rng([seed, i])) for i in range(sweeps)]
        shares = [float(np.mean([f[k] for f in found])) for k in range(3)]
        half = float(np.expm1(np.median([f[3] for f in found]) / 2))
        spent = time.perf_counter() - start
        print(
            f"{kind:<16}{shares[0]:>8.1%}{shares[1]:>8.1%}{shares[2]:>9.1%}{half:>9.1%}{spent:>9.1f}",
            flush=True,
        )
        outside += sum(not BAND[0] <= s <= BAND[1] for s in shares)
    print(f"{outside} of {3 * len(KINDS)} shares outside {BAND[0]:.0%}–{BAND[1]:.0%}")
    return 1 if outside else 0


if __name__ == "__main__":
    options = dict(argument.split("=") for argument in sys.argv[1:])
    raise SystemExit(main(**{name: int(value) for name, value in options.items()}))
