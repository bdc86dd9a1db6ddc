"""`batchscout compare`: the same work on several GPU types, side by side.

Samples do not depend on the hardware: where two sweeps measured the same setting their S must agree, and
whether they
do is tested. Sweeps of different work are refused.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text
from scipy import stats

from batchscout.errors import ConfigError, SweepError
from batchscout.laws.observations import Interval
from batchscout.laws.statistics import SEED_NOISE
from batchscout.measure.outcome import Outcome
from batchscout.report.numbers import NOTHING, count, digits, percent, rate, time_unit, times
from batchscout.report.plan import money
from batchscout.run.finished import (
    FinishedSweep,
    differences,
    listed_differences,
    read_finished,
    unknown_groups,
)
from batchscout.search.pooled import PooledPoint, best_by_batch_size, best_point, measurement, pool_points
from batchscout.search.protocol import Point

LEAST_NOISE = 0.05
DIFFERENT = 0.01
"""S is called different where equality would be rejected with this error."""


@dataclass(frozen=True)
class HardwareColumn:
    """One sweep. by_batch: the pooled point at each batch size's best lr; seconds of its updates where
    measured.

    price  per GPU-hour;  gpu_hours, money  of one run at the best point
    """

    sweep: FinishedSweep
    title: str
    best: PooledPoint
    by_batch: Mapping[int, PooledPoint]
    price: float | None

    @property
    def gpu_hours(self) -> float:
        return (self.best.time_to_target or 0.0) * self.sweep.gpus / 3600

    @property
    def money(self) -> float | None:
        return None if self.price is None else self.gpu_hours * self.price

    def time_at(self, batch_size: int) -> float | None:
        """T at this batch size's best lr, as measured."""
        point = self.by_batch.get(batch_size)
        return None if point is None else point.time_to_target


@dataclass(frozen=True)
class SameSamples:
    """Do two sweeps need the same samples? ratio: S of the second over the first, over their common settings.

    p_value  of equality at every common setting; None without a common setting
    """

    first: str
    second: str
    settings: int
    ratio: float | None
    interval: Interval
    p_value: float | None

    @property
    def is_different(self) -> bool:
        return self.p_value is not None and self.p_value < DIFFERENT

    def words(self) -> str:
        """One sentence."""
        pair = f"{self.first} and {self.second}"
        if self.ratio is None or self.p_value is None:
            return f"samples: {pair} have no reached setting (batch size, lr) in common; not checked"
        low, high = self.interval
        said = "DIFFER" if self.is_different else "agree"
        return (
            f"samples: {pair} {said} at {self.settings} common settings: ratio {self.ratio:.2f}, "
            f"90% interval {digits(low)} to {digits(high)}, p = {self.p_value:.2g}"
        )


@dataclass(frozen=True)
class GpuComparison:
    """Columns in the order given, each pair's check of S, warnings."""

    columns: tuple[HardwareColumn, ...]
    checks: tuple[SameSamples, ...]
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "v": 1,
            "target": self.columns[0].sweep.target.score,
            "sweeps": [_column_json(c) for c in self.columns],
            "same_samples": [
                {"first": c.first, "second": c.second, "settings": c.settings, "ratio": c.ratio,
                 "interval": list(c.interval), "p_value": c.p_value, "is_different": c.is_different}
                for c in self.checks
            ],
            "warnings": list(self.warnings),
        }  # fmt: skip


def compare_sweeps(paths: Sequence[Path], prices: Sequence[float] = ()) -> GpuComparison:
    """Read and compare. Raises ConfigError or SweepError, one line, saying why sweeps are not comparable."""
    if len(paths) < 2:
        raise ConfigError("sweeps", ", ".join(str(p) for p in paths) or "(none)", "must be two or more")
    if len({Path(p).resolve() for p in paths}) < len(paths):
        raise ConfigError("sweeps", ", ".join(str(p) for p in paths), "name one sweep twice")
    for price in prices:
        if not 0 < price < math.inf:
            raise ConfigError("price", f"{price:g}", "must be a number above 0")
    if prices and len(prices) != len(paths):
        words = f"must be given once for each of the {len(paths)} sweeps, in their order"
        raise ConfigError("price", ", ".join(f"{p:g}" for p in prices), words)
    sweeps = [read_finished(p) for p in paths]
    warnings = []
    for other in sweeps[1:]:
        found = differences(sweeps[0], other)
        if found:
            raise SweepError(
                f"{other.path} cannot be compared with {sweeps[0].path}: {listed_differences(found)}; "
                "only sweeps of the same work on different hardware can"
            )
        unknown = unknown_groups(sweeps[0].identity, other.identity)
        if unknown:
            warnings.append(
                f"{other.path}: its {' and '.join(unknown)} cannot be compared, one side is unknown"
            )
        if sweeps[0].commit and other.commit and sweeps[0].commit != other.commit:
            warnings.append(
                f"{other.path} ran another commit ({other.commit[:9]}, not {sweeps[0].commit[:9]})"
            )
    titles = _titles(sweeps)
    columns = tuple(
        _column(s, title, prices[i] if prices else s.price)
        for i, (s, title) in enumerate(zip(sweeps, titles, strict=True))
    )
    checks = tuple(same_samples(a, b) for a, b in combinations(columns, 2))
    warnings += [
        f"the samples of {c.first} and {c.second} differ: something besides the hardware changed"
        for c in checks
        if c.is_different
    ]
    return GpuComparison(columns, checks, tuple(dict.fromkeys(warnings)))


def _titles(sweeps: Sequence[FinishedSweep]) -> list[str]:
    names = [s.name for s in sweeps]
    if len(set(names)) == len(names):
        return names
    return [f"{name} {s.path.name.partition('.')[0]}" for name, s in zip(names, sweeps, strict=True)]


def _column(sweep: FinishedSweep, title: str, price: float | None) -> HardwareColumn:
    points = pool_points(sweep.jobs, sweep.target)
    answer = (sweep.result or {}).get("recommendation")
    best = best_point(points)
    if answer:
        point = Point(int(answer["batch_size"]), float(answer["lr"]))
        here = next((p for p in points if p.point == point), None)
        if here is not None and here.time_to_target is not None:
            best = here
        elif here is not None and answer["time_to_target"]:  # its run was stopped once its samples were known
            names = ("time_to_target", "samples_to_target", "throughput")
            best = replace(here, **{name: answer[name] for name in names})
    if best is None:
        raise SweepError(f"{sweep.path}: nothing was measured at its recommended point")
    return HardwareColumn(sweep, title, best, best_by_batch_size(points, sweep.target), price)


def same_samples(first: HardwareColumn, second: HardwareColumn) -> SameSamples:
    """Compare log S at every setting that both reached; noise between seeds pooled over both, at least 5%."""
    one, other = _log_samples(first.sweep), _log_samples(second.sweep)
    common = sorted(set(one) & set(other))
    if not common:
        return SameSamples(first.title, second.title, 0, None, (None, None), None)
    groups = [g for side in (one, other) for g in side.values() if len(g) > 1]
    freedom = sum(len(g) - 1 for g in groups)
    squares = sum(float(((np.array(g) - np.mean(g)) ** 2).sum()) for g in groups)
    # few repeats say little: they are mixed with what seeds usually do
    noise2 = max((squares + 4 * SEED_NOISE**2) / (freedom + 4), LEAST_NOISE**2)
    off = np.array([np.mean(other[p]) - np.mean(one[p]) for p in common])
    variance = np.array([noise2 * (1 / len(one[p]) + 1 / len(other[p])) for p in common])
    weight = 1 / variance
    centre, error = float((off * weight).sum() / weight.sum()), float(weight.sum() ** -0.5)
    statistic = float((off**2 / variance).sum())
    reach = 1.645 * error
    p_value = min(float(stats.chi2.sf(statistic, len(common))), float(2 * stats.norm.sf(abs(centre) / error)))
    return SameSamples(
        first.title, second.title, len(common), math.exp(centre),
        (math.exp(centre - reach), math.exp(centre + reach)), min(1.0, 2 * p_value),
    )  # fmt: skip


def _log_samples(sweep: FinishedSweep) -> dict[Point, list[float]]:
    out: dict[Point, list[float]] = defaultdict(list)
    for job in sweep.jobs:
        if job.kind == "probe" or job.outcome is not Outcome.REACHED:
            continue
        found = measurement(job, sweep.target)
        if found is not None and found.samples_to_target and found.censored is None:
            out[job.point].append(math.log(found.samples_to_target))
    return out


def render(comparison: GpuComparison) -> list[Table]:
    """What each type does at its best, and seconds per update and T at every batch size."""
    return [_best_table(comparison), _batch_table(comparison)]


def _best_table(comparison: GpuComparison) -> Table:
    columns = comparison.columns
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    unit = time_unit(c.best.time_to_target for c in columns)
    for head in ("", *(c.title for c in columns)):
        table.add_column(Text(head, justify="right"), justify="right" if head else "left", no_wrap=True)
    fastest = min(c.best.time_to_target or math.inf for c in columns)

    def row(name: str, *cells: str) -> None:
        table.add_row(name, *cells)

    row("best batch size", *(f"{c.best.point.batch_size:,}" for c in columns))
    row("lr", *(rate(c.best.point.lr) for c in columns))
    row(f"time to target ({unit.name})", *(unit.text(c.best.time_to_target) for c in columns))
    row("time ÷ fastest", *(times((c.best.time_to_target or 0.0) / fastest) for c in columns))
    row("throughput there (samples/s)", *(digits(c.best.throughput) for c in columns))
    row("sampling share", *(percent(c.best.sampling_share) for c in columns))
    row("GPUs", *(str(c.sweep.gpus) for c in columns))
    row("GPU-hours to target", *(digits(c.gpu_hours) for c in columns))
    row("price per GPU-hour", *(NOTHING if c.price is None else f"{c.price:g}" for c in columns))
    row("money to target", *(money(c.money) for c in columns))
    for other in columns:
        size = other.best.point.batch_size
        row(f"with batch {size:,} of {other.title}", *(_price_of(c, size) for c in columns))
    return table


def _price_of(column: HardwareColumn, batch_size: int) -> str:
    time = column.time_at(batch_size)
    if batch_size == column.best.point.batch_size:
        return "its own"
    if time is None or not column.best.time_to_target:
        return "not measured"
    return f"{time / column.best.time_to_target - 1:+.0%} time"


def _batch_table(comparison: GpuComparison) -> Table:
    columns = comparison.columns
    sizes = sorted({b for c in columns for b in c.by_batch})
    update = time_unit(p.update_seconds for c in columns for p in c.by_batch.values())
    unit = time_unit(p.time_to_target for c in columns for p in c.by_batch.values())
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("batch size", justify="right")
    for what in (f"update ({update.name})", "samples/s", f"time to target ({unit.name})"):
        for c in columns:
            table.add_column(Text(f"{what}\n{c.title}", justify="right"), justify="right", no_wrap=True)
    for size in sizes:
        points = [c.by_batch.get(size) for c in columns]
        table.add_row(
            f"{size:,}",
            *(NOTHING if p is None else update.text(p.update_seconds) for p in points),
            *(
                NOTHING if p is None or not p.update_seconds else count(size / p.update_seconds)
                for p in points
            ),
            *(NOTHING if p is None else unit.text(p.time_to_target) for p in points),
        )
    return table


def _column_json(c: HardwareColumn) -> dict[str, Any]:
    return {
        "sweep": c.sweep.sweep, "title": c.title, "hardware": c.sweep.hardware, "gpu": c.sweep.gpu,
        "gpus": c.sweep.gpus, "batch_size": c.best.point.batch_size, "lr": c.best.point.lr,
        "time_to_target": c.best.time_to_target, "samples_to_target": c.best.samples_to_target,
        "throughput": c.best.throughput, "gpu_hours": c.gpu_hours, "price_per_gpu_hour": c.price,
        "money": c.money,
        "by_batch": [
            {"batch_size": b, "lr": p.point.lr, "update_seconds": p.update_seconds,
             "sampling_share": p.sampling_share, "time_to_target": p.time_to_target}
            for b, p in sorted(c.by_batch.items())
        ],
    }  # fmt: skip
