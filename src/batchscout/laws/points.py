"""The laws of a sweep or table as plain JSON values: result.json's `laws`, and which batch size they favour.

Of several learning rates at a batch size only the best one's rows enter the samples law: the one with the
least median of S over seeds, misses infinite.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np

from batchscout.errors import LawError
from batchscout.laws.learning_rate import (
    LearningRateFit,
    edge_warning,
    fit_learning_rate,
    learning_rate_to_json,
)
from batchscout.laws.observations import Interval
from batchscout.laws.ranking import Ranking, rank_by_law, rank_by_times
from batchscout.laws.samples import SamplesFit, fit_samples
from batchscout.laws.samples_checks import COARSE_SPACING, spacing_warning
from batchscout.laws.statistics import median_with_misses
from batchscout.laws.update_seconds import PartFit, UpdateSecondsFit, fit_update_seconds

Json = dict[str, Any]
Fit = TypeVar("Fit")


@dataclass(frozen=True, slots=True)
class PointRow:
    """One job of a sweep, or one row of a table.

    samples         samples_to_target; None where the target was not reached
    lower, upper    bounds on it (the evaluations around the target, the samples at a cap), None where open
    censored        None exact, "right" (capped, stopped, diverged), "left", "interval" (use the bounds alone)
    …_seconds       means over the job's updates that are not warm-up
    tokens          tokens per rollout
    """

    batch_size: int
    lr: float | None = None
    seed: int | None = None
    samples: float | None = None
    lower: float | None = None
    upper: float | None = None
    censored: str | None = None
    update_seconds: float | None = None
    sampling_seconds: float | None = None
    learning_seconds: float | None = None
    tokens: float | None = None

    @property
    def is_miss(self) -> bool:
        return self.censored == "right"

    @property
    def bound(self) -> float | None:
        """S, or the bound that stands for it in a table of times."""
        return self.samples if self.samples is not None else self.upper


def laws_of_points(
    rows: Sequence[PointRow],
    *,
    target: float | None = None,
    gamma: float | Literal["free"] = 1.0,
    level: float = 0.9,
    round_updates: bool = False,
    seed: int = 0,
) -> Json:
    """The laws of measured rows, and which batch size they favour.

    Returns  {"laws": {"samples": {…} | None, "update_seconds": {…} | None, "learning_rate": {…} | None,
             "warnings": […]}, "best": {…} | None}, strict JSON; an open interval's end is None.
             best: batch_size, lr, time_to_target, interval, samples_to_target, throughput, near_ties,
             probability_best, by_batch [{batch_size, lr, time_to_target, interval, probability}], method.
             Nothing here raises for rows that say too little: a warning tells why a law is None.
    """
    warnings: list[str] = []
    chosen = best_lr_rows(rows)
    usable = [r for group in chosen.values() for r in group]
    warnings += _coverage_warnings(rows, chosen)
    samples = _attempt(lambda: _samples(usable, target, gamma, level), warnings, "samples law")
    pace = _attempt(lambda: _pace(rows, level), warnings, "update-seconds law")
    lr_law = _attempt(lambda: _learning_rate(rows, level), warnings, "learning-rate law", quiet=True)
    warnings += _edge_warnings(rows, chosen) if lr_law is None else []  # else the law tells
    for found in (samples, pace, lr_law):
        warnings += [] if found is None else found.warnings
    ranking = _rank(chosen, samples, pace, level=level, round_updates=round_updates, seed=seed)
    warnings += [] if ranking is None else ranking.warnings
    laws = {
        "samples": None if samples is None else samples_to_json(samples),
        "update_seconds": None if pace is None else update_seconds_to_json(pace),
        "learning_rate": None if lr_law is None else learning_rate_to_json(lr_law),
        "warnings": list(dict.fromkeys(warnings)),
    }
    return {"laws": laws, "best": None if ranking is None else ranking_to_json(ranking, chosen)}


def best_lr_rows(rows: Sequence[PointRow]) -> dict[int, list[PointRow]]:
    """Batch size → rows at its best lr: least median S over seeds, misses infinite, then the most hits."""
    out: dict[int, list[PointRow]] = {}
    for size in sorted({r.batch_size for r in rows}):
        by_lr: dict[float | None, list[PointRow]] = {}
        for r in rows:
            if r.batch_size == size and (r.bound is not None or r.lower is not None):
                by_lr.setdefault(r.lr, []).append(r)
        if by_lr:
            out[size] = min(by_lr.values(), key=_order)
    return out


def _order(group: Sequence[PointRow]) -> tuple[bool, float, float]:
    hits = [None if r.is_miss else r.bound for r in group]
    median = median_with_misses(hits)
    reached = [h for h in hits if h is not None]
    middle = float(np.median(reached)) if reached else float("inf")
    return median is None, middle if median is None else median, -len(reached) / len(group)


def _attempt(
    make: Callable[[], Fit | None], warnings: list[str], name: str, *, quiet: bool = False
) -> Fit | None:
    """The fit, or None with the reason among the warnings; a law that was not asked for stays silent."""
    try:
        return make()
    except LawError as error:
        if not quiet:
            warnings.append(f"no {name}: {error}")
        return None


def _samples(
    rows: Sequence[PointRow], target: float | None, gamma: float | Literal["free"], level: float
) -> SamplesFit:
    if not rows:
        raise LawError("no row says at which samples the target was reached")
    known = [r for r in rows if not (r.is_miss and r.lower is None and r.samples is None)]
    return fit_samples(
        [r.batch_size for r in known],
        [r.samples for r in known],
        lower=[r.lower for r in known],
        upper=[r.upper for r in known],
        censored=[r.censored for r in known],
        gamma=gamma,
        level=level,
        target=target,
    )


def _pace(rows: Sequence[PointRow], level: float) -> UpdateSecondsFit | None:
    timed = [r for r in rows if r.update_seconds is not None]
    if not timed:
        return None
    columns: dict[str, list[float] | None] = {}
    for name in ("sampling_seconds", "learning_seconds", "tokens"):
        values = [getattr(r, name) for r in timed]
        columns[name] = None if any(v is None for v in values) else values
    return fit_update_seconds(
        [r.batch_size for r in timed],
        [r.update_seconds for r in timed if r.update_seconds is not None],
        sampling=columns["sampling_seconds"],
        learning=columns["learning_seconds"],
        tokens=columns["tokens"],
        level=level,
    )


def _learning_rate(rows: Sequence[PointRow], level: float) -> LearningRateFit:
    known = [r for r in rows if r.lr is not None and (r.bound is not None or r.lower is not None)]
    return fit_learning_rate(
        [r.batch_size for r in known],
        [r.lr for r in known if r.lr is not None],
        [r.samples for r in known],
        lower=[r.lower for r in known],
        upper=[r.upper for r in known],
        censored=[r.censored for r in known],
        level=level,
    )


def _rank(
    chosen: Mapping[int, Sequence[PointRow]],
    samples: SamplesFit | None,
    pace: UpdateSecondsFit | None,
    *,
    level: float,
    round_updates: bool,
    seed: int,
) -> Ranking | None:
    if pace is None:
        return None
    hits = {b: [r for r in group if not r.is_miss and r.bound] for b, group in chosen.items()}
    hits = {b: group for b, group in hits.items() if len(group) * 2 > len(chosen[b])}
    if not hits:
        return None
    measured = {b: [float(r.bound or 0.0) for r in group] for b, group in hits.items()}
    timed = {b: [r.update_seconds for r in group if r.update_seconds] for b, group in hits.items()}
    if samples is None or samples.law is None:
        return rank_by_times(measured, timed, pace, level=level, round_updates=round_updates, seed=seed)
    return rank_by_law(measured, timed, samples, pace, level=level, round_updates=round_updates, seed=seed)


def _coverage_warnings(rows: Sequence[PointRow], chosen: Mapping[int, Sequence[PointRow]]) -> list[str]:
    """One summary line each: batch sizes that never reached, single learning rates, coarse spacing,
    repeats."""
    out = []
    missed = [b for b, group in chosen.items() if all(r.is_miss for r in group)]
    if missed and len(missed) < len(chosen):
        out.append(f"target never reached at batch size {_listed(missed)}; only lower bounds of S there")
    lrs = {b: {r.lr for r in rows if r.batch_size == b and r.lr is not None} for b in chosen}
    single = [b for b, values in lrs.items() if len(values) == 1]
    if single and any(lrs.values()):
        out.append(f"only one lr was tried at batch size {_listed(single)}: S there may be that of a poor lr")
    widest = max(
        (r for group in chosen.values() for r in group if r.censored is None and r.lower and r.upper),
        key=lambda r: float(r.upper or 1) / float(r.lower or 1),
        default=None,
    )
    if (
        widest is not None
        and widest.lower
        and widest.upper
        and widest.upper > widest.lower * np.exp(COARSE_SPACING)
    ):
        out.append(spacing_warning(widest.batch_size, widest.lower, widest.upper))
    repeats = sorted({r.batch_size for r, count in Counter(rows).items() if count > 1})
    if repeats:
        out.append(
            f"duplicated rows at batch size {_listed(repeats)} count as often as they appear; remove them"
        )
    return out


def _edge_warnings(rows: Sequence[PointRow], chosen: Mapping[int, Sequence[PointRow]]) -> list[str]:
    """Batch sizes whose best lr is the least or the greatest of several that were tried."""
    edge = []
    for size, group in chosen.items():
        lrs = {r.lr for r in rows if r.batch_size == size and r.lr is not None}
        is_reached = not all(r.is_miss for r in group)
        if is_reached and len(lrs) > 1 and group[0].lr in (min(lrs), max(lrs)):
            edge.append(size)
    return [edge_warning(edge)] if edge else []


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(str(b) for b in sizes)


def samples_to_json(fit: SamplesFit) -> Json:
    return {
        "s_min": fit.s_min,
        "s_min_interval": _interval(fit.s_min_interval),
        "b_crit": fit.b_crit,
        "b_crit_interval": _interval(fit.b_crit_interval),
        "gamma": fit.gamma,
        "gamma_interval": _interval(fit.gamma_interval),
        "target": fit.target,
        "noise": None if fit.law is None else fit.noise,
        "rms": None if fit.law is None else fit.rms,
        "level": fit.level,
        "method": fit.method,
        "rows": fit.rows,
        "scanned": list(fit.scanned),
    }


def update_seconds_to_json(fit: UpdateSecondsFit) -> Json:
    parts = {"total": fit.total, "sampling": fit.sampling, "learning": fit.learning}
    return {name: _part(part) for name, part in parts.items() if part is not None}


def _part(part: PartFit) -> Json:
    law = part.law
    return {
        "form": law.form,
        "a": law.a,
        "a_interval": _interval(part.a_interval),
        "b": law.b,
        "b_interval": _interval(part.b_interval),
        "c": law.c,
        "knee": law.knee,
        "power": law.power,
        "b_per_token": part.b_per_token,
        "spread": part.spread,
        "errors": part.errors,
        "saturation_batch": law.saturation_batch(),
    }


def ranking_to_json(ranking: Ranking, chosen: Mapping[int, Sequence[PointRow]]) -> Json:
    lr = {b: group[0].lr for b, group in chosen.items()}
    i = ranking.batch_sizes.index(ranking.batch_size)
    return {
        "batch_size": ranking.batch_size,
        "lr": lr[ranking.batch_size],
        "time_to_target": ranking.times[i],
        "interval": _interval(ranking.intervals[i]),
        "samples_to_target": ranking.samples[i],
        "throughput": ranking.samples[i] / ranking.times[i],
        "near_ties": list(ranking.near_ties),
        "probability_best": ranking.probabilities[i],
        "method": ranking.method,
        "by_batch": [
            {"batch_size": b, "lr": lr[b], "time_to_target": t, "interval": _interval(e), "probability": p}
            for b, t, e, p in zip(
                ranking.batch_sizes, ranking.times, ranking.intervals, ranking.probabilities, strict=True
            )
        ],
    }


def _interval(interval: Interval) -> list[float | None]:
    return list(interval)
