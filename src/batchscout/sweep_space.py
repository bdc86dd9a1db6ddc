"""From what was listed (typed, in a sweep file, in a recording) to the space that a search may use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from batchscout.config import SweepConfig
from batchscout.config.fields import Limits, convert
from batchscout.config.limits import check_batch
from batchscout.errors import ConfigError
from batchscout.search.protocol import Point, Space

PER_OCTAVE = 4
"""Candidates of a log-uniform interval between a value and its double."""

_POSITIVE = Limits(above=0)


@dataclass(frozen=True, slots=True)
class Interval:
    """`interval(low, high)` of the command line; is_log for `tag(log, …)`."""

    low: float
    high: float
    is_log: bool = True


Listed = Sequence[Any] | Interval


@dataclass(frozen=True, slots=True)
class Lists:
    """What was listed, None where nothing was. typed: names of those given on the command line."""

    batch_size: Listed | None = None
    lr: Listed | None = None
    lr_reference: Listed | None = None
    seed: Listed | None = None
    typed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, values: Mapping[str, Listed], typed: frozenset[str]) -> Lists:
        """From a mapping whose keys may only be the names of the lists. Raises ConfigError for an empty list."""
        for name, listed in values.items():
            if not isinstance(listed, Interval) and not listed:
                raise ConfigError(name, "[]", "lists no value at all; the end of a range is left out")
        return cls(**values, typed=typed)

    def without_seed(self) -> Lists:
        return replace(self, seed=None)


LISTED = tuple(f.name for f in fields(Lists) if f.name != "typed")


def make_space(config: SweepConfig, lists: Lists) -> Space:
    """Every point and seed that the sweep may run, each checked as a job would be.

    Raises  ConfigError naming the first impossible value
    """
    seeds = _seeds(config, lists)
    points = _points(config, lists)
    for point in points:
        config.job(point.batch_size, point.lr, seeds[0])
    batch_sizes = tuple(sorted({p.batch_size for p in points}))
    lrs = tuple(sorted({p.lr for p in points}))
    is_product = len(points) == len(batch_sizes) * len(lrs)
    return Space(batch_sizes, lrs, seeds=len(seeds), seed0=seeds[0], points=None if is_product else points)


def _points(config: SweepConfig, lists: Lists) -> tuple[Point, ...]:
    if config.points and not {"lr", "lr_reference"} & lists.typed:
        chosen = _listed_points(config)
        if "batch_size" in lists.typed:
            chosen = _restricted(chosen, _batch_sizes(config, lists), config.group_size)
        return chosen
    lrs = _rates(config, lists)
    batch_sizes = _batch_sizes(config, lists)
    return tuple(sorted({Point(b, config.job_lr(b, lr)) for b in batch_sizes for lr in lrs}))


def _listed_points(config: SweepConfig) -> tuple[Point, ...]:
    """`points: {batch_size: [lr, …]}`."""
    points = set()
    for text, lrs in config.points.items():
        batch_size = convert(int, text, "points", Limits(least=1))
        for lr in lrs if isinstance(lrs, (list, tuple)) else [lrs]:
            points.add(Point(batch_size, convert(float, lr, f"points.{batch_size}", _POSITIVE)))
    return tuple(sorted(points))


def _restricted(
    points: tuple[Point, ...], batch_sizes: tuple[int, ...], group_size: int
) -> tuple[Point, ...]:
    known = sorted({p.batch_size for p in points})
    for batch_size in batch_sizes:
        check_batch(batch_size, group_size)
        if batch_size not in known:
            raise ConfigError(
                "batch_size",
                batch_size,
                f"has no learning rates in this sweep's points ({', '.join(map(str, known))}); list lr=… too",
            )
    return tuple(p for p in points if p.batch_size in batch_sizes)


def _batch_sizes(config: SweepConfig, lists: Lists) -> tuple[int, ...]:
    listed = lists.batch_size
    if listed is None:
        return (config.batch_size,)
    if isinstance(listed, Interval):
        _check_interval("batch_size", listed)
        step = math.lcm(config.group_size, config.mini_batch_size or 1)
        grid = {max(step, round(value / step) * step) for value in _grid(listed)}
        return tuple(sorted(b for b in grid if listed.low <= b <= listed.high))
    return tuple(dict.fromkeys(convert(int, v, "batch_size", Limits(least=1)) for v in listed))


def _rates(config: SweepConfig, lists: Lists) -> tuple[float, ...]:
    """What was listed as lr, or as lr_reference where a rule computes lr from it."""
    name = "lr" if config.lr_rule.name == "fixed" else "lr_reference"
    _check_rule(config, lists, name)
    listed = getattr(lists, name)
    if listed is None:
        value = getattr(config, name)
        if value is None:
            raise ConfigError(name, "null", f"must be given: one rate or a list, as in {name}=1e-4,3e-4")
        return (value,)
    if isinstance(listed, Interval):
        _check_interval(name, listed)
        return tuple(sorted({float(f"{value:.3g}") for value in _grid(listed)}))
    return tuple(dict.fromkeys(convert(float, v, name, _POSITIVE) for v in listed))


def listed_values(name: str, config: SweepConfig, lists: Lists) -> tuple[Any, ...]:
    """The values listed as `name` (batch_size, lr or lr_reference), () where none were."""
    if getattr(lists, name) is None:
        return ()
    return _batch_sizes(config, lists) if name == "batch_size" else _rates(config, lists)


def _check_rule(config: SweepConfig, lists: Lists, name: str) -> None:
    """A list typed for the rate that the rule does not read is a mistake."""
    rule = config.lr_rule.name
    if name == "lr" and lists.lr_reference is not None:
        raise ConfigError(
            "lr_reference", _shown(lists.lr_reference), "is only read by lr_rule=sqrt or linear; list lr=…"
        )
    if name == "lr_reference" and "lr" in lists.typed:
        raise ConfigError(
            "lr",
            _shown(lists.lr),
            f"contradicts lr_rule={rule}, which computes it; list lr_reference=… or type lr_rule=fixed",
        )


def _seeds(config: SweepConfig, lists: Lists) -> tuple[int, ...]:
    if lists.seed is None:
        return tuple(range(config.seed, config.seed + config.seeds))
    if isinstance(lists.seed, Interval):
        raise ConfigError("seed", _shown(lists.seed), "must be a list, as in seed=0,1,2")
    seeds = tuple(sorted({convert(int, v, "seed", Limits(least=0)) for v in lists.seed}))
    wanted = tuple(range(seeds[0], seeds[0] + len(seeds)))
    if seeds != wanted:
        text = ",".join(map(str, wanted))
        raise ConfigError("seed", _shown(lists.seed), f"must be consecutive numbers, as in seed={text}")
    if len(seeds) == 1:
        return tuple(range(seeds[0], seeds[0] + config.seeds))
    return seeds


def _check_interval(name: str, interval: Interval) -> None:
    if not 0 < interval.low < interval.high:
        raise ConfigError(name, _shown(interval), "must have 0 < low < high")


def _grid(interval: Interval) -> list[float]:
    """Candidates from low to high: PER_OCTAVE to the double where logarithmic, else 33 evenly spaced."""
    if not interval.is_log:
        return [interval.low + (interval.high - interval.low) * i / 32 for i in range(33)]
    steps = max(1, round(PER_OCTAVE * math.log2(interval.high / interval.low)))
    ratio = (interval.high / interval.low) ** (1 / steps)
    return [interval.low * ratio**i for i in range(steps + 1)]


def _shown(listed: Listed | None) -> str:
    if isinstance(listed, Interval):
        inner = f"interval({listed.low:g},{listed.high:g})"
        return f"tag(log,{inner})" if listed.is_log else inner
    return ",".join(str(v) for v in listed or ())


def restricted(space: Space, lists: Lists, config: SweepConfig, *, seeds_typed: bool) -> Space:
    """A recording's space, narrowed to what was typed (the files' lists do not count)."""
    batch_sizes = _batch_sizes(config, lists) if "batch_size" in lists.typed else space.batch_sizes
    lrs = _rates(config, lists) if "lr" in lists.typed else space.lrs
    seeds = set(space.all_seeds())
    if "seed" in lists.typed or seeds_typed:
        seeds = set(_seeds(config, lists if "seed" in lists.typed else lists.without_seed()))
    for name, wanted, there in (("batch_size", batch_sizes, space.batch_sizes), ("lr", lrs, space.lrs)):
        for value in wanted:
            if value not in there:
                raise ConfigError(
                    name, value, f"is not in the recording; it has {', '.join(f'{v:g}' for v in there)}"
                )
    cells = frozenset(
        (p, s) for p, s in space.available or () if p.batch_size in batch_sizes and p.lr in lrs and s in seeds
    )
    if not cells:
        raise ConfigError(
            "hardware.source", config.hardware.source, "has no job of the settings and seeds asked for"
        )
    points = tuple(sorted({p for p, _ in cells}))
    numbers = sorted({s for _, s in cells})
    return Space(
        batch_sizes=tuple(sorted({p.batch_size for p in points})),
        lrs=tuple(sorted({p.lr for p in points})),
        seeds=numbers[-1] - numbers[0] + 1,
        seed0=numbers[0],
        points=points,
        available=cells,
    )
