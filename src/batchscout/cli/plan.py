"""`batchscout plan`: words of the command line to a plan, and the plan to the terminal."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from batchscout.app import WIDTH
from batchscout.cli.find import find_sweep
from batchscout.errors import ConfigError

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


def show_plan(
    words: str | None,
    *,
    gpus: str,
    price: float | None,
    deadline: str | None,
    budget: float | None,
    today: int | None,
    probes: Sequence[str],
    gamma: str,
    json_output: bool,
) -> None:
    from batchscout.cli.look import gamma_of
    from batchscout.report.plan import make_plan_for_gpus, render, sentences

    directory, others = source(words), [source(p) for p in probes]
    for i, other in enumerate(others):
        if other.resolve() in {directory.resolve(), *(p.resolve() for p in others[:i])}:
            wrong = "is given twice or is the sweep itself; its jobs would count twice, name each sweep once"
            raise ConfigError("probes", probes[i], wrong)
    plan = make_plan_for_gpus(
        directory,
        whole_numbers("gpus", gpus),
        probes=others,
        price=price,
        deadline_seconds=None if deadline is None else seconds("deadline", deadline),
        budget=budget,
        today=today,
        gamma=gamma_of(gamma),
    )
    if json_output:
        print(json.dumps(plan.to_json(), indent=1, allow_nan=False))
        return
    from rich.console import Console

    Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH + 40).print(render(plan))
    for sentence in sentences(plan):
        print(sentence)
    for warning in plan.warnings:
        print(f"warning: {warning}")
    if directory.is_dir():
        from batchscout.report.figures.plan import gpu_plan
        from batchscout.report.figures.theme import LIGHT, to_png

        path = directory / "figures" / "plan.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(to_png(gpu_plan(plan, LIGHT)))
        print(f"figure   {path}")


def source(words: str | None) -> Path:
    """A sweep's directory as `find_sweep` knows it, or an exported file."""
    if words is not None and Path(words).is_file():
        return Path(words)
    return find_sweep(words)


def whole_numbers(name: str, text: str) -> list[int]:
    """`8,64,512`. Raises ConfigError."""
    try:
        numbers = [int(word.replace("_", "")) for word in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise ConfigError(name, text, "must be whole numbers above 0, as in 8,64,512")
    return numbers


def seconds(name: str, text: str) -> float:
    """`30d`, `12h`, `90m`, `3600`. Raises ConfigError."""
    found = re.fullmatch(r"([0-9.]+)\s*([smhdw]?)", text.strip())
    try:
        value = float(found[1]) * UNITS[found[2] or "s"] if found else 0.0
    except ValueError:
        value = 0.0
    if not value > 0:
        raise ConfigError(name, text, "must be a time above 0, as in 30d, 12h or 3600")
    return value
