"""What may differ when a sweep directory is used again (DESIGN §2): growth is taken, anything else is an
error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from batchscout.errors import SweepError
from batchscout.run.budget import Budget
from batchscout.run.settings import SweepSettings
from batchscout.search.protocol import Space

# Simply taken: they say how to look at measurements, where to run, or how long, and change none of them.
TAKEN = (
    "target.clock",
    "target.levels",
    "search.tolerance",
    "search.stops_jobs",
    "hardware.slots",
    "hardware.time_limit",
    "hardware.partition",
    "hardware.account",
    "hardware.qos",
    "hardware.exclude",
    "hardware.price_per_gpu_hour",
    "hardware.poll_seconds",
    "hardware.watchdog_seconds",
    "max_failures",
    "max_requeues",
    "checkpoint_every_seconds",
    "tracking",
    "output",
    "fresh",
    "dry_run",
)
# Compared as lists, not as keys.
LISTED = ("batch_size", "lr", "lr_reference", "points", "seed", "seeds", "budget", "name")


def lists_of(space: Space) -> dict[str, Any]:
    """The lists of a space as sweep.json holds them."""
    return {
        "points": [[p.batch_size, p.lr] for p in space.all_points()],
        "seeds": list(space.all_seeds()),
    }


def differences(content: Mapping[str, Any], settings: SweepSettings) -> list[str]:
    """What keeps the sweep recorded in `content` from going on as asked, one text a field; [] if nothing."""
    faults = [
        *_changed_keys(content["config"], settings.config),
        *_lost_settings(content["lists"], lists_of(settings.context.space)),
        *_shrunk_budget(content["config"].get("budget") or {}, settings.budget),
    ]
    if content["search"] != settings.search:
        faults.append(f"search={settings.search} (was {content['search']})")
    return faults


def check_extension(content: Mapping[str, Any], settings: SweepSettings) -> None:
    """Raises SweepError, one line that names every field, if the sweep recorded in `content` is a different
    one."""
    faults = differences(content, settings)
    if faults:
        raise SweepError(
            f"{content['sweep']} cannot go on as asked: {', '.join(faults)}; "
            "start another one with fresh=true or another hydra.sweep.dir"
        )


def _changed_keys(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    old, new = dict(_flat(before)), dict(_flat(after))
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key) and not _is_below(key, (*TAKEN, *LISTED, "search.name")):
            yield f"{key}={_typed(new.get(key))} (was {_typed(old.get(key))})"


def _typed(value: Any) -> Any:
    """As on the command line."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else value


def _lost_settings(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    lost = [p for p in before["points"] if list(p) not in [list(q) for q in after["points"]]]
    if lost:
        some = ", ".join(f"batch_size={b} lr={lr:g}" for b, lr in lost[:3])
        yield f"lists without {some}{' …' if len(lost) > 3 else ''} (lists may only grow)"
    seeds = sorted(set(before["seeds"]) - set(after["seeds"]))
    if seeds:
        yield f"seeds without {seeds} (lists may only grow)"


def _shrunk_budget(before: Mapping[str, Any], after: Budget) -> Iterator[str]:
    known = Budget(**{k: before.get(k) for k in Budget.__dataclass_fields__})
    for name in known.shrunk_fields(after) if known.limits() else ():
        yield f"budget.{name}={getattr(after, name):g} (was {before.get(name)}; a budget may only grow)"


def _flat(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in content.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", list(value) if isinstance(value, tuple) else value


def _is_below(key: str, prefixes: tuple[str, ...]) -> bool:
    return any(key == p or key.startswith(f"{p}.") for p in prefixes)
