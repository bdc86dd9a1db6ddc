"""`batchscout plan`: what n GPUs buy, from a finished sweep and, where there are any, probes at other n."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from rich import box
from rich.table import Table
from rich.text import Text

from batchscout.errors import ConfigError, LawError
from batchscout.laws.learning_rate import LearningRateFit, fit_learning_rate
from batchscout.laws.points import PointRow, best_lr_rows
from batchscout.laws.samples import SamplesFit, fit_samples
from batchscout.laws.scale_out_law import ScaleOutFit, fit_scale_out
from batchscout.laws.scale_out_plan import Bill, PlanRow, plan_gpus
from batchscout.report.numbers import NOTHING, count, digits, duration, percent, rate, time_unit
from batchscout.run.carry import COPY
from batchscout.run.finished import FinishedSweep, differences, listed_differences, read_finished
from batchscout.run.laws_part import point_row

SHARE = 0.10
"""The saving that the bill of a deadline is told for."""


@dataclass(frozen=True)
class GpuPlan:
    """What was asked, and the answer.

    rows      one per n;  lrs: learning rate of each row's batch size, None where unknown
    today     batch size in use
    """

    sweep: FinishedSweep
    samples: SamplesFit
    pace: ScaleOutFit
    rows: tuple[PlanRow, ...]
    lrs: tuple[float | None, ...]
    today: int
    price: float | None
    deadline_seconds: float | None
    budget: float | None
    warnings: tuple[str, ...]

    def is_allowed(self, row: PlanRow) -> bool:
        """Within deadline and budget, as far as they were given."""
        in_time = self.deadline_seconds is None or row.time_to_target <= self.deadline_seconds
        return in_time and (self.budget is None or (row.money is not None and row.money <= self.budget))

    def to_json(self) -> dict[str, Any]:
        """Plain values, an open end None."""
        return {
            "v": 1, "sweep": self.sweep.sweep, "target": self.sweep.target.score, "today": self.today,
            "price_per_gpu_hour": self.price, "deadline_seconds": self.deadline_seconds,
            "budget": self.budget, "measured_gpus": list(self.pace.measured_gpus),
            "warnings": list(self.warnings),
            "rows": [
                {**asdict(row), "lr": lr, "interval": list(row.interval), "kept_gpu_hours": row.kept_bill}
                for row, lr in zip(self.rows, self.lrs, strict=True)
            ],
        }  # fmt: skip


def make_plan_for_gpus(
    path: Path,
    gpus: Sequence[int],
    *,
    probes: Sequence[Path] = (),
    price: float | None = None,
    deadline_seconds: float | None = None,
    budget: float | None = None,
    today: int | None = None,
    gamma: float | Literal["free"] = 1.0,
) -> GpuPlan:
    """Read the sweep, fit its laws, answer for each n.

    probes   further sweeps (or their probes) on other numbers of the same GPUs
    price    per GPU-hour, default the sweep's own; today: batch size in use, default the recommended one
    Raises   ConfigError, SweepError or LawError, one line, for what cannot be answered
    """
    _check("price", price)
    _check("budget", budget)
    sweep = read_finished(path)
    price = price if price is not None else sweep.price or None
    if budget is not None and price is None:
        raise ConfigError("budget", f"{budget:g}", "needs a price per GPU-hour: --price 3.0")
    further = [_same(sweep, read_finished(p, needs_target=False)) for p in probes]
    points = [row for job in sweep.jobs if (row := point_row(job, sweep.target)) is not None]
    if (path / COPY).is_file():  # a sweep on a new GPU type: its samples are the source's
        source = replace(read_finished(path / COPY), target=sweep.target)
        points += [
            replace(row, update_seconds=None, sampling_seconds=None, learning_seconds=None)
            for job in source.jobs
            if (row := point_row(job, sweep.target)) is not None
        ]
    pace = _pace([sweep, *further])
    samples = _samples(points, sweep, gamma)
    today = today or _recommended(sweep, points)
    rows = plan_gpus(samples, pace, gpus, price_per_gpu_hour=price, today=today)
    outside = [row for row in rows if samples.extrapolation(row.batch_size)]
    warnings = [*pace.warnings, *samples.warnings]
    if outside:
        first, last = outside[0].batch_size, outside[-1].batch_size
        sizes = f"{first:,}–{last:,}" if first < last else f"{first:,}"
        low, high = samples.scanned
        warnings.append(
            f"batch sizes {sizes} lie outside the scanned {low:g}–{high:g}: intervals are widened there, and "
            "a larger batch may need more samples than the law says (a cliff shows only where it is measured)"
        )
    lr_law = _lr_law(points)
    return GpuPlan(
        sweep, samples, pace, rows, tuple(_lr(lr_law, points, row.batch_size) for row in rows), today, price,
        deadline_seconds, budget, tuple(dict.fromkeys(warnings)),
    )  # fmt: skip


def _check(name: str, value: float | None) -> None:
    if value is not None and not 0 < value < float("inf"):
        raise ConfigError(name, f"{value:g}", "must be a number above 0")


def _same(sweep: FinishedSweep, other: FinishedSweep) -> FinishedSweep:
    """Probes must come from the same work on the same GPUs; their target does not matter."""
    found = [d for d in differences(sweep, other) if not d[0].startswith("target")]
    if found:
        raise ConfigError("probes", other.path, f"differs from {sweep.path}: {listed_differences(found)}")
    if sweep.gpu and other.gpu and sweep.gpu != other.gpu:
        words = f"ran on {other.gpu}, the sweep on {sweep.gpu}; scaling out is about one GPU type"
        raise ConfigError("probes", other.path, words)
    return other


def _pace(sweeps: Sequence[FinishedSweep]) -> ScaleOutFit:
    sizes, gpus, seconds, sampling = [], [], [], []
    for sweep in sweeps:
        for job in sweep.jobs:
            row = point_row(job, sweep.target)
            if row is not None and row.update_seconds:
                sizes.append(row.batch_size)
                gpus.append(sweep.gpus)
                seconds.append(row.update_seconds)
                sampling.append(row.sampling_seconds)
    if not sizes:
        raise LawError(f"no job of {sweeps[0].path} tells the seconds of its updates")
    group = max(int(sweeps[0].identity.get("group_size") or 1), 1)
    parts = [s for s in sampling if s is not None]
    is_split = len(parts) == len(seconds) and all(0 < s < t for s, t in zip(parts, seconds, strict=True))
    return fit_scale_out(sizes, gpus, seconds, sampling=parts if is_split else None, group_size=group)


def _samples(points: Sequence[PointRow], sweep: FinishedSweep, gamma: float | Literal["free"]) -> SamplesFit:
    rows = [r for group in best_lr_rows(points).values() for r in group]
    rows = [r for r in rows if not (r.is_miss and r.lower is None)]
    return fit_samples(
        [r.batch_size for r in rows],
        [r.samples for r in rows],
        lower=[r.lower for r in rows],
        upper=[r.upper for r in rows],
        censored=[r.censored for r in rows],
        gamma=gamma,
        target=sweep.target.score,
    )


def _recommended(sweep: FinishedSweep, points: Sequence[PointRow]) -> int:
    answer = (sweep.result or {}).get("recommendation")
    if answer:
        return int(answer["batch_size"])
    timed = [(r.bound / r.batch_size * r.update_seconds, r.batch_size)
             for r in points if r.bound and r.update_seconds and not r.is_miss]  # fmt: skip
    return min(timed)[1]


def _lr_law(points: Sequence[PointRow]) -> LearningRateFit | None:
    rows = [r for r in points if r.lr is not None and (r.bound is not None or r.lower is not None)]
    try:
        return fit_learning_rate(
            [r.batch_size for r in rows], [r.lr or 0.0 for r in rows], [r.samples for r in rows],
            lower=[r.lower for r in rows], upper=[r.upper for r in rows], censored=[r.censored for r in rows],
        )  # fmt: skip
    except LawError:
        return None


def _lr(law: LearningRateFit | None, points: Sequence[PointRow], batch_size: int) -> float | None:
    """The law's where it has an exponent, else √ from the nearest batch size's best (Adam's rule)."""
    if law is not None and law.exponent is not None:
        return float(f"{float(law.lr([batch_size])[0]):.3g}")
    best = {b: group[0].lr for b, group in best_lr_rows(points).items() if group[0].lr is not None}
    if not best:
        return None
    near = min(best, key=lambda b: max(b / batch_size, batch_size / b))
    return float(f"{(best[near] or 0.0) * (batch_size / near) ** 0.5:.3g}")


def render(plan: GpuPlan) -> Table:
    """One row per n; ▶ is fastest of what is allowed, · lies off the front of time and money."""
    allowed = [row for row in plan.rows if plan.is_allowed(row)]
    best = min(allowed, key=lambda row: row.time_to_target, default=None)
    unit = time_unit(row.time_to_target for row in plan.rows)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    heads = (
        "", "GPUs", "batch size", "lr", f"time to target\n{unit.name}", f"90% interval\n{unit.name}",
        "speed-up", "efficiency", "GPU-hours", "money", f"with batch {plan.today}\n{unit.name}",
        "that costs", "limit",
    )  # fmt: skip
    for head in heads:
        side: Literal["left", "right"] = "left" if head == "limit" else "right"
        table.add_column(Text(head, justify=side), justify=side, no_wrap=True)
    for row, lr in zip(plan.rows, plan.lrs, strict=True):
        low, high = row.interval
        more = row.kept_bill or 0.0
        extra = money(more * plan.price) if plan.price else f"{digits(more)} GPU-h"
        time = unit.text(row.time_to_target)
        cells = [
            "▶" if row is best else "" if row.is_front else "·", f"{row.gpus:,}", f"{row.batch_size:,}",
            rate(lr), time, f"{unit.text(low)} – {unit.text(high)}", f"{digits(row.speed_up)}×",
            percent(row.efficiency), digits(row.gpu_hours), money(row.money), unit.text(row.kept_time), extra,
            _limit_words(row),
        ]  # fmt: skip
        style = "bold" if row is best else "" if plan.is_allowed(row) else "dim"
        table.add_row(*(Text(cell) for cell in cells), style=style)
    return table


def _limit_words(row: PlanRow) -> str:
    idle = row.gpus - row.working
    words = [row.limit] if row.limit else []
    return ", ".join([*words, *([f"{idle:,} idle"] if idle else [])])


def money(value: float | None) -> str:
    """`21.6M`, `930`, `4.20`."""
    if value is None:
        return NOTHING
    return digits(value) if value < 1 else f"{value:.2f}" if value < 100 else count(value)


def sentences(plan: GpuPlan) -> list[str]:
    """What to do, and what it is worth."""
    out = []
    allowed = [row for row in plan.rows if plan.is_allowed(row)]
    asked = plan.deadline_seconds is not None or plan.budget is not None
    if asked and not allowed:
        out.append("None of these numbers of GPUs meets deadline and budget.")
    elif asked:
        fast = min(allowed, key=lambda row: row.time_to_target)
        cheap = min(allowed, key=lambda row: row.gpu_hours)
        out.append(_choice("Fastest within the limits", fast))
        if cheap is not fast:
            out.append(_choice("Cheapest within the limits", cheap))
    kept = max(plan.rows, key=lambda row: row.kept_bill or 0.0)
    if kept.kept_time and kept.kept_time > 1.005 * kept.time_to_target:
        price = f" = {money((kept.kept_bill or 0) * plan.price)}" if plan.price else ""
        ratio = kept.kept_time / kept.time_to_target
        out.append(
            f"Keeping batch size {plan.today} on {kept.gpus:,} GPUs takes {ratio:.2f} times as long: "
            f"{digits(kept.kept_bill)} GPU-hours{price} more a run."
        )
    if plan.deadline_seconds is not None and plan.price is not None:
        out.append(bill_words(Bill(plan.rows[-1].gpus, plan.deadline_seconds, plan.price)))
    return out


def _choice(words: str, row: PlanRow) -> str:
    cost = f", {money(row.money)}" if row.money is not None else ""
    gpus = f"{row.gpus:,} GPU{'s' if row.gpus > 1 else ''}"
    return f"{words}: {gpus}, batch size {row.batch_size:,}, {duration(row.time_to_target)}{cost}."


def bill_words(bill: Bill) -> str:
    """`10,000 GPUs × 30 days × 3 = 21.6M; 10% less time saves 720,000 GPU-hours = 2.16M.`"""
    saved = bill.saved(SHARE)
    return (
        f"{bill.gpus:,} GPUs × {duration(bill.seconds)} × {bill.price_per_gpu_hour:g} = {money(bill.money)}; "
        f"{SHARE:.0%} less time saves {saved.gpu_hours:,.0f} GPU-hours = {money(saved.money)}."
    )
