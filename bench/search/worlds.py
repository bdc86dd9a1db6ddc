"""Recorded worlds of our own making: what a search is judged on besides worlds it has never seen.

A world is a full table of jobs (batch size × lr × seed) in the format of a recorded sweep, and its truth. Each draws
its sample law, lr form, curve shape, noise, divergence and step-time law independently, so that no single family is
learnt by heart; ``FAMILIES`` names what is special about each, ``OFF_FAMILIES`` those that the belief is not built for.
The evaluation spacing is drawn without looking at any point's own samples-to-target: it must not carry information.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

FAMILIES = (
    "hyperbola", "general_exponent", "steep_cliff", "small_batch_penalty", "roofline", "long_tail_steps",
    "lr_turns_down", "lr_saturates", "gompertz_curve", "weibull_curve", "power_curve", "lopsided_lr",
    "noisy_seeds", "wandering_score",
)  # fmt: skip
OFF_FAMILIES = ("u_shaped", "two_optima", "plateau")
BATCH_SIZES = tuple(2**k for k in range(4, 14))


@dataclass
class World:
    """One table of jobs and what is true of it.

    rows   (batch_size, lr, seed) → record of the recorded-sweep format
    truth  (batch_size, lr) → expected seconds to target; absent where it diverges, is infeasible or far beyond
    """

    name: str
    family: str
    header: dict[str, Any]
    rows: dict[tuple[int, float, int], dict[str, Any]]
    truth: dict[tuple[int, float], float]
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def best(self) -> float:
        return min(self.truth.values())

    def regret(self, batch_size: int, lr: float) -> float:
        """Relative time lost by taking this point; 9 where it never arrives."""
        seconds = self.truth.get((batch_size, lr))
        return seconds / self.best - 1 if seconds else 9.0


def load_worlds(directory: Path, truth_file: Path, *, twins: bool = False) -> list[World]:
    """Worlds recorded elsewhere, with their truth."""
    truth = json.loads(truth_file.read_text())
    pattern = "world????-gpu2.jsonl.gz" if twins else "world????.jsonl.gz"
    worlds = []
    for path in sorted(directory.glob(pattern)):
        name = path.name.removesuffix(".jsonl.gz")
        with gzip.open(path, "rt") as file:
            lines = [json.loads(line) for line in file]
        rows = {(r["batch_size"], r["learning_rate"], r["seed"]): r for r in lines[1:]}
        seconds = {
            (p["batch_size"], p["learning_rate"]): p["time_to_target"]
            for p in truth[name]["points"]
            if p["time_to_target"]
        }
        worlds.append(World(name, truth[name]["family"], lines[0], rows, seconds))
    return worlds


# ── curve shapes: score at u = ln(n / S); each is exactly `target` at u = 0 ──────────────────────────────────────


def draw_shape(rng: np.random.Generator, kind: str, target: float) -> Any:
    low = rng.uniform(0.02, min(0.3, 0.45 * target))
    high = rng.uniform(target + 0.04, min(1.0, target + 0.22))
    share = (target - low) / (high - low)
    if kind == "logistic":
        width = rng.uniform(0.28, 0.6)
        rise = lambda u: 1 / (1 + np.exp(-(u / width + np.log(share / (1 - share)))))  # noqa: E731
    elif kind == "gompertz":
        rate = rng.uniform(1.2, 2.4)
        rise = lambda u: np.exp(np.log(share) * np.exp(-rate * u))  # noqa: E731
    elif kind == "weibull":
        power = rng.uniform(1.0, 2.2)
        rise = lambda u: 1 - np.exp(np.log1p(-share) * np.exp(power * u))  # noqa: E731
    elif kind == "power":
        power = rng.uniform(1.5, 3.0)
        knee = (1 / (1 - share)) ** (1 / power) - 1
        rise = lambda u: 1 - (1 + knee * np.exp(1.5 * u)) ** -power  # noqa: E731
    else:  # plateau: half-way up the score rests for a while
        width, gap = rng.uniform(0.12, 0.2), rng.uniform(0.8, 1.2)
        half = share * 0.5

        def rise(u: Any) -> Any:
            first = half / (1 + np.exp(-(u + gap) / width))
            second = (1 - half) / (1 + np.exp(-(u / width + np.log((share - half) / (1 - share)))))
            return first + second

    return lambda u: low + (high - low) * rise(np.clip(u, -12, 6)), low


def draw_world(seed: int, family: str, *, points_per_octave: int = 1) -> World:
    """One world of a family; equal arguments give an equal world."""
    rng = np.random.default_rng([seed, (FAMILIES + OFF_FAMILIES).index(family)])
    batches = np.array(BATCH_SIZES[rng.integers(0, 2) : len(BATCH_SIZES) - rng.integers(0, 2)])
    target = float(rng.choice([0.5, 0.65, 0.75, 0.8]))
    samples_law, facts = _draw_samples_law(rng, family)
    step_law = _draw_step_law(rng, family)
    lr_law, edge_octaves, width_grid = _draw_lr_law(rng, family)
    best_lr = 10 ** rng.uniform(-5.5, -2.5)
    grid_shift = rng.normal(0, 0.16 * width_grid)
    octaves = np.arange(width_grid) - (width_grid - 1) / 2 + grid_shift + rng.uniform(-0.5, 0.5)
    lrs = [float(f"{best_lr * 2**o:.3g}") for o in octaves]
    kind = {
        "gompertz_curve": "gompertz",
        "weibull_curve": "weibull",
        "power_curve": "power",
        "plateau": "plateau",
    }.get(family, str(rng.choice(["logistic", "logistic", "gompertz", "weibull", "power"])))
    shape, low = draw_shape(rng, kind, target)
    feasible = int(rng.choice([1024, 2048, 4096, 16384]))

    lower = np.array([samples_law(b) for b in batches])
    seconds_each = np.array([step_law(b) for b in batches])
    base = lower * seconds_each / batches
    allowed = batches <= feasible
    anchor = batches[allowed][np.argmin(base[allowed])]
    smin = float(lower.min())
    # the offsets of a point from the best lr of its batch, in octaves (lr_law is anchored at batch 256)
    distance = {(b, lr): np.log2(lr / best_lr) - lr_law.shift(b) for b in batches for lr in lrs}
    seed_noise = rng.uniform(0.12, 0.17) if family == "noisy_seeds" else rng.uniform(0.02, 0.1)
    score_n = int(rng.choice([128, 256, 512, 1000]))
    wander = rng.uniform(0.015, 0.03) if family == "wandering_score" else rng.choice([0.0, 0.006])
    spacing = smin * np.exp(rng.uniform(np.log(0.03), np.log(0.12)))
    edge = rng.uniform(*edge_octaves)
    fates = rng.choice(["bump", "late", "stuck"], p=[0.5, 0.35, 0.15])

    truth: dict[tuple[int, float], float] = {}
    samples_at: dict[tuple[int, float], float] = {}
    for b, s0, sec in zip(batches, lower, seconds_each, strict=True):
        for lr in lrs:
            d = distance[b, lr]
            samples = s0 * lr_law.penalty(d)
            samples_at[b, lr] = samples
            if b <= feasible and d < edge:
                truth[int(b), lr] = float(samples * sec / b)
    if not truth:
        return draw_world(seed + 100_003, family)
    best = min(truth.values())
    truth = {point: value for point, value in truth.items() if value < 40 * best}
    cap_seconds = best * rng.uniform(8, 16)
    rows = {}
    for b, sec in zip(batches, seconds_each, strict=True):
        for lr in lrs:
            for s in range(3):
                record = {"batch_size": int(b), "learning_rate": lr, "seed": s}
                if b > feasible:
                    record |= {
                        "status": "infeasible",
                        "samples": [],
                        "seconds": [],
                        "sampling_seconds": [],
                        "score": [],
                    }
                else:
                    noise = seed_noise * (
                        rng.standard_t(4) / 1.4 if family == "noisy_seeds" else rng.normal()
                    )
                    diverges = distance[b, lr] + rng.normal(0, 0.12) > edge
                    record |= _draw_job(
                        rng, int(b), float(sec), samples_at[b, lr] * np.exp(noise), shape, low, target,
                        spacing=spacing, cap_seconds=cap_seconds, score_n=score_n, wander=wander,
                        fate=str(fates) if diverges else None, smin=smin,
                    )  # fmt: skip
                rows[int(b), lr, s] = record
    header = {
        "world": f"{family}{seed}", "target": target, "batch_sizes": [int(b) for b in batches],
        "learning_rates": lrs, "seeds": [0, 1, 2], "gpus": 1,
    }  # fmt: skip
    facts |= {
        "anchor": int(anchor),
        "edge": edge,
        "seed_noise": seed_noise,
        "curve": kind,
        "fate": str(fates),
    }
    return World(f"{family}{seed}", family, header, rows, truth, facts)


def _draw_job(
    rng: Any, batch: int, sec: float, samples_to_target: float, shape: Any, low: float, target: float, *,
    spacing: float, cap_seconds: float, score_n: int, wander: float, fate: str | None, smin: float,
) -> dict[str, Any]:  # fmt: skip
    """One job's record, ended as the product would end it: two evaluations in a row, collapse, or the cap."""
    updates_each = max(1, int(np.ceil(spacing / batch)))
    turn = np.exp(rng.uniform(np.log(0.1), np.log(0.8)))
    # a bump stays below the target: a job that arrives there has arrived, whatever comes after
    height = min(rng.uniform(0.05, 0.5), 0.85 * (target - low))
    scale = smin * np.exp(rng.uniform(np.log(0.05), np.log(0.5)))
    fall = rng.uniform(0.35, 1.0)
    n, clock, drift = 0, 0.0, 0.0
    samples, seconds, sampling, score = [], [], [], []
    status, above, peak, below = "capped", 0, 0.0, 0
    while clock < cap_seconds and len(score) < 400:
        n += updates_each * batch
        clock += float(updates_each * sec * np.exp(rng.normal(0, 0.05) / np.sqrt(updates_each)))
        u = np.log(n / samples_to_target)
        p = float(shape(u))
        if fate == "bump":
            x = np.log(n / scale)
            p = low * np.exp(-0.05 * max(x, 0) ** 2) + height * np.exp(-0.5 * (x / fall) ** 2)
        elif fate == "late" and u > np.log(turn):
            p = float(shape(np.log(turn))) * np.exp(-fall * 2.5 * (u - np.log(turn)))
        elif fate == "stuck":
            p = low * np.exp(-0.1 * max(0.0, np.log(n / scale)))
        drift = 0.7 * drift + wander * rng.normal()
        p = float(np.clip(p + drift, 0, 1))
        y = rng.binomial(score_n, p) / score_n
        samples.append(n), seconds.append(clock), sampling.append(0.6 * clock), score.append(y)
        above = above + 1 if y >= target else 0
        if above == 2:
            status = "reached"
            break
        peak = max(peak, y)
        below = below + 1 if y < max(0.5 * score[0], 0.3 * peak) else 0
        if fate and (below >= 6 or (len(score) > 25 and fate != "late")):
            status = "diverged"
            break
    return {
        "status": status, "samples": samples, "seconds": [round(x, 4) for x in seconds],
        "sampling_seconds": [round(x, 4) for x in sampling], "score": [round(x, 4) for x in score],
    }  # fmt: skip


def _draw_samples_law(rng: Any, family: str) -> tuple[Any, dict[str, Any]]:
    smin = np.exp(rng.uniform(np.log(4e3), np.log(1.2e5)))
    b_crit = np.exp(rng.uniform(np.log(48), np.log(4000)))
    gamma = np.exp(rng.normal(0, 0.45)) if family == "general_exponent" else 1.0
    small = 0.0
    if family == "small_batch_penalty" or rng.random() < 0.15:
        small = np.exp(rng.uniform(np.log(8), np.log(120)))
    cliff, cliff_power = np.inf, 1.0
    if family == "steep_cliff":
        cliff, cliff_power = b_crit * rng.uniform(0.7, 1.4), rng.uniform(1.6, 3.0)
    turn = np.exp(rng.uniform(np.log(64), np.log(1024)))

    def law(batch: float) -> float:
        if family == "u_shaped":  # falls towards `turn`, rises after it, both steeply
            return float(smin * (1 + 0.6 * np.abs(np.log2(batch / turn)) ** 1.5))
        value = smin * (1 + (batch / b_crit) ** gamma) ** (1 / gamma) * (1 + small / batch)
        return float(value * (1 + (batch / cliff) ** (2 * cliff_power)) ** 0.5)

    return law, {"smin": smin, "b_crit": b_crit, "gamma": gamma}


def _draw_step_law(rng: Any, family: str) -> Any:
    b = np.exp(rng.uniform(np.log(3e-4), np.log(1e-2)))
    knee = np.exp(rng.uniform(np.log(16), np.log(2500)))
    a = b * knee
    if family == "roofline":
        return lambda batch: max(a, b * batch)
    if family == "long_tail_steps":
        tail = rng.uniform(0.15, 0.6)
        return lambda batch: a * (1 + tail * np.log(batch) / np.log(256)) + b * batch
    power = rng.choice([1.0, 1.0, 2.0])
    return lambda batch: (a**power + (b * batch) ** power) ** (1 / power)


@dataclass(frozen=True)
class LrLaw:
    """lr_opt(B) as a shift in octaves from batch 256, and what a distance from it costs."""

    shift: Any
    penalty: Any


def _draw_lr_law(rng: Any, family: str) -> tuple[LrLaw, tuple[float, float], int]:
    exponent = rng.uniform(0.2, 0.75)
    knee = np.exp(rng.uniform(np.log(300), np.log(6000)))
    turns = {"lr_turns_down": 2.0, "lr_saturates": 1.0}.get(family, float(rng.choice([0.0, 0.0, 1.0])))
    raw = lambda batch: exponent * (np.log2(batch) - turns * np.log2(1 + batch / knee))  # noqa: E731
    curvature = np.exp(rng.uniform(np.log(0.07), np.log(0.5)))
    tilt = np.exp(rng.normal(0.2, 0.7 if family == "lopsided_lr" else 0.25))
    form = str(rng.choice(["square", "square", "cosh", "absolute"]))

    def penalty(d: float) -> float:
        c = curvature * (tilt if d > 0 else 1.0)
        if family == "two_optima":
            return float(1 + min(curvature * d**2, 0.12 + curvature * (d + 4.0) ** 2))
        if form == "cosh":
            return float(np.cosh(np.sqrt(2 * c) * d))
        if form == "absolute":
            return float(1 + c * abs(d) ** 1.6)
        return float(1 + c * d**2)

    return LrLaw(lambda batch: raw(batch) - raw(256.0), penalty), (1.2, 4.5), int(rng.choice([7, 9, 9]))
