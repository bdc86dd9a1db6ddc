"""`batchscout resume DIR key=value…`: a sweep's own record, with what was typed on top, as a request."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from batchscout.config import SweepConfig
from batchscout.config.fields import unknown_key
from batchscout.config.groups import LR_RULES
from batchscout.errors import ConfigError
from batchscout.home import home
from batchscout.hydra_overrides import check_parameters, flat, parse, read_lists
from batchscout.plan import Request
from batchscout.run.sweep_directory import read_sweep_record
from batchscout.sweep_space import LISTED, Lists, listed_values


def resume_request(directory: Path, typed: Sequence[str]) -> Request:
    """Go on with the sweep in `directory`.

    typed   key=value words: lists of batch_size, lr, seed and every key of the configuration
    Raises  SweepError if there is no sweep, ConfigError for a word that cannot be
    """
    record = read_sweep_record(directory)
    overrides = parse(typed)
    mapping = {**copy.deepcopy(record["config"]), "fresh": False, "dry_run": False}
    check_parameters(overrides, mapping)
    known = set(flat(mapping)) | set(flat(SweepConfig().to_mapping()))
    lists = read_lists({}, overrides, known)
    for override in overrides:
        name = override.key_or_group
        if name not in LISTED:
            if any(k.startswith(f"{name}.") for k in known):
                value = override.get_value_string()
                raise ConfigError(
                    name, value, f"is a group; on resume type its keys, as in {_example(name, known)}"
                )
            if name not in known:
                raise unknown_key(name, override.get_value_string(), known)
            _set(mapping, name, override.value())
    seeds = record["lists"]["seeds"]
    mapping |= {"seed": seeds[0]} if "seeds" in {o.key_or_group for o in overrides} else {
        "seed": seeds[0], "seeds": len(seeds)
    }  # fmt: skip
    points = [(int(b), float(lr)) for b, lr in record["lists"]["points"]]
    mapping, lists = _with_points(mapping, lists, points, is_recorded=bool(record.get("is_recorded")))
    return Request(
        mapping=mapping,
        lists=lists,
        home=home(),
        runs=_runs(directory),
        directory=directory.absolute(),
        command=("batchscout", "resume", str(directory), *typed),
        typed=frozenset(o.key_or_group for o in overrides) | frozenset(lists.typed),
    )


def _example(group: str, known: set[str]) -> str:
    usual = f"{group}.slots" if group == "hardware" else next(k for k in sorted(known) if k.startswith(group))
    return f"{usual}=…"


def _runs(directory: Path) -> Path:
    """The folder runs/ that the sweep lies in, else the one beside sweep.py."""
    found = [p for p in directory.absolute().parents if p.name == "runs"]
    return found[0] if found else home() / "runs"


def _set(mapping: dict[str, Any], name: str, value: Any) -> None:
    """One dotted key; a group's name alone takes the place of nothing."""
    *groups, key = name.split(".")
    inner = mapping
    for group in groups:
        inner = inner.setdefault(group, {})
    if isinstance(inner.get(key), Mapping) and not isinstance(value, Mapping):
        raise ConfigError(name, value, "is a group; on resume type its keys, as in hardware.slots=4")
    inner[key] = value


def _with_points(
    mapping: dict[str, Any], lists: Lists, points: list[tuple[int, float]], *, is_recorded: bool
) -> tuple[dict[str, Any], Lists]:
    """What was run together with what is listed now, as explicit points (lists may grow, not shrink)."""
    batch_sizes, lrs = (sorted(set(values)) for values in zip(*points, strict=True))
    if is_recorded:
        names = frozenset({"batch_size", "lr"}) | lists.typed
        return mapping, Lists(lists.batch_size or batch_sizes, lists.lr or lrs, None, lists.seed, names)
    if not lists.typed & {"batch_size", "lr", "lr_reference"}:
        wanted = set(points)
    elif mapping["lr_rule"]["name"] == "fixed":
        config = SweepConfig.from_mapping({**mapping, "points": {}})
        wanted_b = listed_values("batch_size", config, lists) or batch_sizes
        wanted_lr = listed_values("lr", config, lists) or lrs
        wanted = {(b, lr) for b in wanted_b for lr in wanted_lr}
        if len(points) < len(batch_sizes) * len(
            lrs
        ):  # rates differ between batch sizes: these stay as they are
            new = {b for b in wanted_b if b not in batch_sizes} if "lr" not in lists.typed else set(wanted_b)
            wanted = {p for p in points if p[0] in wanted_b} | {p for p in wanted if p[0] in new}
    else:
        wanted = _by_rule(mapping, lists, points)
    grouped: dict[str, list[float]] = {}
    for batch_size, lr in sorted(wanted):
        grouped.setdefault(str(batch_size), []).append(lr)
    return {**mapping, "points": grouped}, Lists(seed=lists.seed, typed=lists.typed & {"seed"})


def _by_rule(
    mapping: dict[str, Any], lists: Lists, points: list[tuple[int, float]]
) -> set[tuple[int, float]]:
    """Batch sizes and reference rates listed now, or else as they were; each lr by the rule."""
    config = SweepConfig.from_mapping({**mapping, "points": {}})
    rule = config.lr_rule
    power = LR_RULES[rule.name]
    known = {lr / (b / (rule.reference_batch_size or b)) ** power for b, lr in points}
    references = listed_values("lr_reference", config, lists) or sorted({float(f"{r:.4g}") for r in known})
    batch_sizes = listed_values("batch_size", config, lists) or sorted({b for b, _ in points})
    return {(b, rule.lr(reference, b)) for b in batch_sizes for reference in references}
