"""Why a job ends: the rules, apart from the reporter that asks them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from batchscout.measure.attempt import attempt_dir, attempt_number
from batchscout.measure.curve import Curve
from batchscout.measure.detect import reached_index
from batchscout.measure.journal import Event
from batchscout.measure.outcome import Outcome
from batchscout.measure.target import Caps, Target

CONTROL = "control"
COLLAPSE_EVALUATIONS = 6
OF_FIRST, OF_BEST = 0.5, 0.3

# Reasons of `end` events.
TARGET = "target"
START_MODEL = "start_model_at_target"
COLLAPSE = "collapse"
NAN_SCORE = "nan_score"
FENCED = "fenced"
PREEMPTION = "preemption"
RETURNED_EARLY = "returned_early"


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One evaluation as the rules see it; score is NaN where it was not finite."""

    samples: int
    updates: int
    score: float
    score_n: int | None

    def to_mapping(self) -> dict[str, Any]:
        """Strict JSON: a score that is not finite is null."""
        return {**asdict(self), "score": self.score if math.isfinite(self.score) else None}

    @classmethod
    def from_mapping(cls, content: Mapping[str, Any]) -> Evaluated:
        score = content["score"]
        return cls(**{**content, "score": math.nan if score is None else score})


@dataclass(frozen=True, slots=True)
class Stop:
    """A decision to end: what it means and a word for why."""

    outcome: Outcome
    reason: str
    message: str = ""


def by_target(evaluations: Sequence[Evaluated], target: Target) -> Stop | None:
    """Reached by patience, or by the start model."""
    index = reached_index([e.score for e in evaluations], target, samples=[e.samples for e in evaluations])
    if index is None:
        return None
    if evaluations[index].samples == 0:
        score = evaluations[index].score
        message = (
            f"the start model already scores {score:g} (target {target.score:g}); nothing is left to train"
        )
        return Stop(Outcome.REACHED, START_MODEL, message)
    return Stop(Outcome.REACHED, TARGET)


def by_divergence(
    evaluations: Sequence[Evaluated], target: Target, collapse_evaluations: int = COLLAPSE_EVALUATIONS
) -> Stop | None:
    """A score that is no number, or ``collapse_evaluations`` in a row far below where the job already was.

    Far below is beneath max(half of the first score, 0.3 of the best so far). A direction of "min" mirrors it
    (beyond twice the first and best / 0.3); scores at or below 0 give no such bound.
    """
    if not evaluations:
        return None
    last = evaluations[-1]
    if not math.isfinite(last.score):
        return Stop(Outcome.DIVERGED, NAN_SCORE, f"the score at samples {last.samples} is not a number")
    scores = [e.score for e in evaluations if math.isfinite(e.score)]
    recent = scores[-collapse_evaluations:]
    best = max(scores) if target.direction == "max" else min(scores)
    if len(recent) < collapse_evaluations or not all(
        _is_collapsed(s, scores[0], best, target) for s in recent
    ):
        return None
    message = f"{collapse_evaluations} evaluations in a row far off the best score {best:g}"
    return Stop(Outcome.DIVERGED, COLLAPSE, message)


def _is_collapsed(score: float, first: float, best: float, target: Target) -> bool:
    references = [(value, share) for value, share in ((first, OF_FIRST), (best, OF_BEST)) if value > 0]
    if target.direction == "max":
        return any(score < share * value for value, share in references)
    return bool(references) and all(score > value / share for value, share in references)


def by_caps(caps: Caps, *, samples: int, updates: int, seconds: float) -> Stop | None:
    """A cap ends it below the target."""
    cap = caps.hit(samples=samples, updates=updates, seconds=seconds)
    if cap is None:
        return None
    return Stop(Outcome.CAPPED, f"caps.{cap}", f"caps.{cap}={getattr(caps, cap)} came before the target")


def by_newer_attempt(attempt: Path) -> Stop | None:
    """A newer attempt of the job has been claimed: this one no longer counts."""
    newer = attempt_dir(attempt.parent.parent, attempt_number(attempt) + 1)
    if not newer.exists():
        return None
    return Stop(Outcome.PREEMPTED, FENCED, f"attempt {newer.name} has taken over")


def by_earlier_attempts(journals: Sequence[Sequence[Event]], target: Target) -> Stop | None:
    """An attempt that died before it could say so had reached the target."""
    crossing = Curve.from_attempts(journals).crossing(target)
    if crossing.censored == "right":
        return None
    if crossing.estimate is None:
        return Stop(Outcome.REACHED, START_MODEL, "the start model was at the target in an earlier attempt")
    return Stop(Outcome.REACHED, TARGET, "an earlier attempt had reached the target")


def by_control(job_dir: Path) -> Stop | None:
    """What the control file asks for; a file that cannot be understood asks for nothing."""
    request = _control(Path(job_dir) / CONTROL)
    outcome = {"stop": Outcome.STOPPED, "cancel": Outcome.CANCELLED}.get(str(request.get("request")))
    return None if outcome is None else Stop(outcome, "control", str(request.get("reason") or ""))


def _control(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
