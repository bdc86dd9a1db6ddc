"""Journals written by hand, and a job whose clock moves only when told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from batchscout.clock import VirtualClock
from batchscout.measure import Caps, EvaluationGrid, Reporter, Target

PARTS = ("sampling", "reward", "learning", "sync", "other")
IDENTITY = {"job": "b8", "batch_size": 8, "lr": 1e-3, "seed": 0, "group_size": 4, "gpu": None, "gpus": 0}


class MadeJournal:
    """Cumulative events of one attempt; ``goes_on`` starts the next one from one of its updates."""

    def __init__(self, number: int = 1, batch_size: int = 8) -> None:
        self.batch_size, self.number = batch_size, number
        self.events: list[dict[str, Any]] = []
        self.state: dict[str, Any] = {"updates": 0, "samples": 0, "seconds": 0.0, "wall_seconds": 0.0}
        self.parts = dict.fromkeys((f"{p}_seconds" for p in PARTS), 0.0)
        self.evaluated = 0.0
        self.states = {0: (dict(self.state), dict(self.parts))}
        self.event("start", **IDENTITY, attempt=number, startup_seconds=1.0)

    def event(self, name: str, **keys: Any) -> MadeJournal:
        self.events.append({"v": 1, "event": name, "time": 0.0, **self.state, **keys})
        return self

    def update(self, sampling: float, learning: float = 0.0, *, warmup: bool = False) -> MadeJournal:
        self.state["updates"] += 1
        self.state["samples"] += self.batch_size
        self.state["seconds"] += sampling + learning
        self.state["wall_seconds"] += sampling + learning
        self.parts["sampling_seconds"] += sampling
        self.parts["learning_seconds"] += learning
        self.states[self.state["updates"]] = (dict(self.state), dict(self.parts))
        generated = {"generated_samples": self.state["samples"], "generated_tokens": None}
        return self.event("update", **generated, trained_tokens=None, **self.parts, warmup=warmup, metrics={})

    def evaluation(self, score: float | None, score_n: int = 100, took: float = 0.5) -> MadeJournal:
        self.evaluated += took
        self.state["wall_seconds"] += took
        return self.event(
            "evaluation", score=score, score_n=score_n, evaluation_seconds=self.evaluated, metrics={}
        )

    def goes_on(self, updates: int, number: int | None = None) -> MadeJournal:
        """The next attempt, resumed from a checkpoint of this update."""
        following = MadeJournal(number or self.number + 1, self.batch_size)
        state, parts = self.states[updates]
        following.state, following.parts = {**state, "wall_seconds": self.state["wall_seconds"]}, dict(parts)
        following.states = {u: s for u, s in self.states.items() if u <= updates}
        following.evaluated = self.evaluated
        return following.event("resume", path=f"checkpoint/{updates}", from_updates=updates)


@pytest.fixture(scope="session")
def made() -> type[MadeJournal]:
    return MadeJournal


class Job:
    """A job directory and what its attempts are opened with."""

    def __init__(self, directory: Path, clock: VirtualClock) -> None:
        self.directory, self.clock = directory, clock
        self.target, self.caps, self.grid = Target(0.7), Caps(), EvaluationGrid(16)

    def open(self, **changes: Any) -> Reporter:
        return Reporter.open(
            self.directory,
            identity=IDENTITY,
            target=self.target,
            caps=self.caps,
            evaluation=self.grid,
            clock=self.clock,
            **{"checkpoint_every_seconds": None, **changes},
        )

    def update(self, reporter: Reporter, seconds: tuple[float, float, float] = (1.0, 2.0, 0.25)) -> None:
        sampling, learning, other = seconds
        with reporter.sampling():
            self.clock.sleep(sampling)
        with reporter.learning():
            self.clock.sleep(learning)
        self.clock.sleep(other)
        reporter.end_update(samples=8, generated_samples=10)

    def evaluate(self, reporter: Reporter, score: float, took: float = 0.5) -> None:
        with reporter.evaluation() as evaluation:
            self.clock.sleep(took)
            evaluation.record(score, 100)

    def save(self, reporter: Reporter) -> None:
        with reporter.checkpoint() as path:
            self.clock.sleep(0.125)
            (path / "weights").write_text(str(reporter.updates))

    def run(self, reporter: Reporter, score: Callable[[int], float], updates: int = 100) -> Reporter:
        """A whole loop, at most so many updates."""
        for _ in range(updates + 1):
            if reporter.due_for_evaluation():
                self.evaluate(reporter, score(reporter.samples))
            if reporter.should_stop() or reporter.updates >= updates:
                break
            self.update(reporter)
        return reporter


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path / "b8", VirtualClock(1000.0))


@pytest.fixture(scope="session")
def make_job(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Job]:
    """A new job at each call, for tests that hypothesis repeats."""
    return lambda: Job(tmp_path_factory.mktemp("job") / "b8", VirtualClock(1000.0))
