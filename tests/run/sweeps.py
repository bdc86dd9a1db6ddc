"""Settings and runs of small sweeps on a fake cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.run.fake_cluster import Behaviour, FakeCluster

from batchscout.clock import VirtualClock
from batchscout.measure.target import Target
from batchscout.run.api import run_sweep
from batchscout.run.budget import Budget
from batchscout.run.settings import ExitCode, SweepSettings
from batchscout.search.factory import build_search
from batchscout.search.protocol import Point, SearchContext, Space

Behave = Callable[[dict[str, Any], int], Behaviour]


def settings(
    *,
    batch_sizes: Sequence[int] = (64, 128, 256, 512),
    lrs: Sequence[float] = (1e-3,),
    seeds: int = 1,
    search: str = "grid",
    slots: int = 1,
    budget: Budget | None = None,
    config: dict[str, Any] | None = None,
    target: Target | None = None,
    **more: Any,
) -> SweepSettings:
    """A sweep of made-up jobs."""
    wanted = target or Target(0.8)
    budget = budget or Budget()
    whole = {
        "target": {"score": wanted.score, "clock": wanted.clock},
        "budget": dict(budget.limits()),
        "max_failures": more.get("max_failures", 3),
        "hardware": {"slots": slots},
        **(config or {}),
    }

    def job_config(point: Point, seed: int) -> dict[str, Any]:
        return {"batch_size": point.batch_size, "lr": point.lr, "seed": seed, "group_size": 1}

    return SweepSettings(
        name="test",
        config=whole,
        measured={"target": wanted.score, "trainer": whole.get("trainer")},
        job_config=job_config,
        context=SearchContext(
            space=Space(tuple(batch_sizes), tuple(lrs), seeds=seeds), target=wanted, slots=slots
        ),
        search=search,
        budget=budget,
        gpus=1,
        grace_seconds=1.0,
        stop_grace_seconds=5.0,
        watchdog_seconds=60.0,
        **{"poll_seconds": (0.5, 0.5), **more},
    )


class Sweep:
    """One sweep directory with its cluster and its clock."""

    def __init__(self, path: Path, behave: Behave | None = None, clock: Any = None) -> None:
        self.path = path / "test" / "now"
        self.clock = clock or VirtualClock(1_000_000.0)
        self.cluster = FakeCluster(path / "cluster", self.clock, behave or (lambda job, attempt: Behaviour()))

    def run(self, wanted: SweepSettings, **keys: Any) -> ExitCode:
        """Run it, or go on with it."""
        self.cluster.slots = wanted.context.slots
        search = keys.pop("built", None) or build_search(wanted.search, wanted.context)
        return run_sweep(
            wanted, self.path, executor=self.cluster, search=search, clock=self.clock, command=["x"], **keys
        )

    @property
    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.path / "result.json").read_text())
        return found

    @property
    def outcomes(self) -> dict[str, str]:
        return {row["id"]: row["outcome"] for row in self.result["jobs"]}

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.path / "events.jsonl").read_text().splitlines()]


class Killed(BaseException):
    """Stands for kill -9 where a process of its own would be too slow."""
