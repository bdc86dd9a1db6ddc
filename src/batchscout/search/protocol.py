"""What a search sees and says. A search is a function of (space, observations, seed).

It keeps no state of its own that could not be rebuilt from the jobs, so a controller that was killed goes on
exactly where it was. Everything here is a record; the deciding is done by the classes that implement Search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from batchscout.measure.curve import Curve
from batchscout.measure.outcome import Outcome
from batchscout.measure.target import Target

Kind = Literal["probe", "run", "verify"]


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """One setting: rollouts per update and learning rate after warm-up."""

    batch_size: int
    lr: float


@dataclass(frozen=True, slots=True)
class Space:
    """What may be proposed.

    batch_sizes  sorted candidates (a log-uniform range lists its multiples of group_size on a fine grid)
    lrs          sorted candidates, the same for every batch size unless `points` is given
    seeds        at most this many runs per point, numbered seed0, seed0+1, …
    points       when given, the only allowed settings (an explicit list, or the cells that a recording has)
    available    when given, the only allowed (point, seed) cells (replays)
    """

    batch_sizes: tuple[int, ...]
    lrs: tuple[float, ...]
    seeds: int = 1
    seed0: int = 0
    points: tuple[Point, ...] | None = None
    available: frozenset[tuple[Point, int]] | None = None

    def all_points(self) -> tuple[Point, ...]:
        """Every allowed setting, by batch size, then lr."""
        if self.points is not None:
            return self.points
        return tuple(Point(b, lr) for b in self.batch_sizes for lr in self.lrs)

    def all_seeds(self) -> tuple[int, ...]:
        return tuple(range(self.seed0, self.seed0 + self.seeds))

    def has(self, point: Point, seed: int) -> bool:
        if self.available is not None and (point, seed) not in self.available:
            return False
        return seed in self.all_seeds() and point in self.all_points()


@dataclass(frozen=True, slots=True)
class JobObservation:
    """All that is known of one job now.

    seconds        corrected training seconds so far (the job's cost on the training clock, lost work
                   included)
    updates_limit  a probe's number of updates, else None
    """

    job_id: str
    kind: Kind
    point: Point
    seed: int
    outcome: Outcome
    reason: str
    curve: Curve | None
    seconds: float
    queue_seconds: float = 0.0
    startup_seconds: float = 0.0
    updates_limit: int | None = None

    @property
    def is_final(self) -> bool:
        return self.outcome.is_final


@dataclass(frozen=True, slots=True)
class Proposal:
    """Start (or, with `resume` naming a stopped job, continue) a job.

    updates_limit    end after this many updates (probes)
    explanation      why, in words; goes to events.jsonl and the report
    """

    kind: Kind
    point: Point
    seed: int
    explanation: str
    resume: str | None = None
    updates_limit: int | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """The search proposes nothing more. complete=False means that it only waits for nothing: a limit of its
    own ended it."""

    explanation: str
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The answer as of now; None where nothing is known. Seconds on the target's clock.

    interval            of time_to_target (90 %), None where it cannot be said
    near_ties           batch sizes that cannot be told from the best (the best among them), sorted
    probability_best    of the recommended batch size
    expected_regret     relative time lost by taking it, None where not modelled
    is_carried          its samples rest on a finished sweep that reached the target, confirmed by a job here
    """

    point: Point
    time_to_target: float | None
    interval: tuple[float, float] | None
    samples_to_target: float | None
    throughput: float | None
    near_ties: tuple[int, ...] = ()
    probability_best: float | None = None
    expected_regret: float | None = None
    warnings: tuple[str, ...] = field(default=())
    is_carried: bool = False


class Search(Protocol):
    """Decides what to run, what to stop and when to end.

    A search whose jobs are all known beforehand may have `plan() -> Sequence[Proposal]`: they are written
    down before the first is submitted. One that never looks at unfinished curves may set `watches_curves =
    False`.

    jobs is always the full list, in order of creation, unfinished ones included. All methods are pure in
    their arguments and the constructor's (space, target, seed, …): called twice, they answer the same.
    """

    def propose(self, jobs: Sequence[JobObservation]) -> Proposal | Finished | None:
        """The next job for a free slot; None: wait for a running one; Finished: nothing more to do."""

    def stop(self, job: JobObservation, jobs: Sequence[JobObservation]) -> str | None:
        """Why `job` (running) should be stopped now, in words, or None.

        Called after each new evaluation, and when a job ends about all others that run, also about those
        that have no curve yet.
        """

    def recommend(self, jobs: Sequence[JobObservation]) -> Recommendation | None:
        """The best setting as of now, or None where nothing supports one."""


@dataclass(frozen=True, slots=True)
class SearchContext:
    """What every search is built from.

    slots            jobs that run at once
    overhead_seconds start-up and queue seconds that a further job is expected to cost (0 in a replay without
    them) job_cap_seconds / job_cap_samples   caps of one job, None where open
    """

    space: Space
    target: Target
    seed: int = 0
    tolerance: float = 0.05
    slots: int = 1
    group_size: int = 1
    overhead_seconds: float = 0.0
    job_cap_seconds: float | None = None
    job_cap_samples: int | None = None
