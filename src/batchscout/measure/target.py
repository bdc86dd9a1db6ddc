"""What a job is to reach, where it ends at the latest and where it is evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Direction = Literal["max", "min"]
ClockName = Literal["training", "training_evaluation", "wall"]
CLOCKS: tuple[ClockName, ...] = ("training", "training_evaluation", "wall")

ROUNDING = 1e-12
"""Relative: a mean of equal scores may miss them by its last digits, which must not decide whether a target
counts."""


@dataclass(frozen=True, slots=True)
class Target:
    """The score that counts as reached.

    score      the level
    direction  "max": at or above it; "min": at or below it
    patience   evaluations in a row that must be there
    levels     further scores that the same journals answer
    clock      what time_to_target means; see docs/measure.md
    """

    score: float
    direction: Direction = "max"
    patience: int = 2
    levels: tuple[float, ...] = ()
    clock: ClockName = "training"

    @property
    def sign(self) -> float:
        """+1 where higher is better, -1 where lower is."""
        return 1.0 if self.direction == "max" else -1.0

    def is_at(self, score: float, level: float | None = None) -> bool:
        """``score`` is at or beyond the level (default: the target's). NaN never is."""
        wanted = self.score if level is None else level
        return self.sign * score >= self.sign * wanted - ROUNDING * abs(wanted)


@dataclass(frozen=True, slots=True)
class Caps:
    """Where one job ends at the latest; None is open. seconds count on the raw training clock."""

    samples: int | None = None
    updates: int | None = None
    seconds: float | None = None

    def hit(self, *, samples: int, updates: int, seconds: float) -> str | None:
        """The name of the cap that these counters have met, else None."""
        counts = {"samples": samples, "updates": updates, "seconds": seconds}
        for name, count in counts.items():
            cap = getattr(self, name)
            if cap is not None and count >= cap:
                return name
        return None


@dataclass(frozen=True, slots=True)
class EvaluationGrid:
    """Every ``samples`` rollouts, whatever the batch size, rounded up to whole updates."""

    samples: int

    def due(self, before: int, after: int) -> bool:
        """A grid point lies in (before, after], both cumulative samples."""
        return after // self.samples > before // self.samples
