"""Joins the attempts of a job along the surviving trajectory.

Each attempt's journal counts on from the checkpoint that it resumed from, so its first row continues a row of
an earlier attempt, its parent. What the newest working attempt and its parents did is the surviving
trajectory; the rest of the attempts' updates is lost. The correction for warm-up updates is made here and
nowhere else (docs/measure.md, equation 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batchscout.errors import CurveError
from batchscout.measure.journal import Event

Array = NDArray[np.float64]

PARTS = ("sampling", "reward", "learning", "sync", "other")
_COUNTS = ("generated_samples", "generated_tokens", "trained_tokens")
_UPDATE_KEYS = ("updates", "samples", "seconds", "wall_seconds", *(f"{p}_seconds" for p in PARTS), *_COUNTS)
_EVALUATION_KEYS = ("updates", "samples", "score", "score_n", "evaluation_seconds", "wall_seconds")
_WORK = ("update", "evaluation", "resume")
_CONTINUED = ("seconds", *(f"{p}_seconds" for p in PARTS))  # cumulative keys whose differences are taken

Columns = dict[str, Array]


@dataclass(frozen=True, slots=True)
class Rows:
    """Cumulative raw rows of one trajectory, with what each update took.

    updates      column → (n,) cumulative values at the end of each update; NaN where a journal has none
    each         "seconds" and "PART_seconds" → (n,) raw seconds of each update
    excess       (n,) seconds of each update beyond an ordinary one (warm-up), 0 for the others
    is_warmup    (n,)
    owner        (n,) index of the attempt that made the update
    evaluations  column → (m,)
    """

    updates: Columns
    each: Columns
    excess: Array
    is_warmup: NDArray[np.bool_]
    owner: NDArray[np.int64]
    evaluations: Columns

    def __len__(self) -> int:
        return len(self.excess)

    def one_by_one(self) -> Rows:
        """With a row for every update: one that stands for several (in replays, from one evaluation to the
        next) is taken apart into equal ones."""
        at = self.updates["updates"]
        counts = np.diff(at, prepend=0.0).astype(int)
        if (counts <= 1).all():
            return self
        counts = np.maximum(counts, 1)
        known, every = np.append(0.0, np.cumsum(counts)), np.arange(1.0, counts.sum() + 1)
        return Rows(
            {key: np.interp(every, known, np.append(0.0, column)) for key, column in self.updates.items()},
            {key: np.repeat(column / counts, counts) for key, column in self.each.items()},
            np.repeat(self.excess / counts, counts),
            np.repeat(self.is_warmup, counts),
            np.repeat(self.owner, counts),
            self.evaluations,
        )

    def until(self, updates: int) -> Rows:
        """The part up to and including this update."""
        n = int(np.searchsorted(self.updates["updates"], updates, side="right"))
        m = int(np.searchsorted(self.evaluations["updates"], updates, side="right"))
        return Rows(
            {key: column[:n] for key, column in self.updates.items()},
            {key: column[:n] for key, column in self.each.items()},
            self.excess[:n],
            self.is_warmup[:n],
            self.owner[:n],
            {key: column[:m] for key, column in self.evaluations.items()},
        )

    def then(self, other: Rows) -> Rows:
        """This followed by ``other``; an evaluation that ``other`` repeats at the same update takes the
        older's place."""
        first = other.evaluations["updates"][:1]
        m = int(np.searchsorted(self.evaluations["updates"], first[0], side="left")) if first.size else None
        return Rows(
            {key: np.concatenate([column, other.updates[key]]) for key, column in self.updates.items()},
            {key: np.concatenate([column, other.each[key]]) for key, column in self.each.items()},
            np.concatenate([self.excess, other.excess]),
            np.concatenate([self.is_warmup, other.is_warmup]),
            np.concatenate([self.owner, other.owner]),
            {
                key: np.concatenate([column[:m], other.evaluations[key]])
                for key, column in self.evaluations.items()
            },
        )


@dataclass(frozen=True, slots=True)
class Joined:
    """All attempts of a job.

    surviving     the trajectory that counts
    abandoned     trajectories of earlier attempts that hold evaluations which the surviving one does not,
                  oldest first
    lost_seconds  raw seconds of updates that are not on the surviving trajectory
    """

    surviving: Rows
    abandoned: tuple[Rows, ...]
    lost_seconds: float
    checkpoint_seconds: float
    startup_seconds: float
    wall_seconds: float
    attempts: int
    start: Event


def join(attempts: Sequence[Sequence[Event]]) -> Joined:
    """Join the journals of a job's attempts, oldest first.

    Raises   CurveError where an attempt resumes from an update that no earlier journal holds, or counts go
             back.
    """
    trajectories: list[Rows | None] = []
    for index, events in enumerate(attempts):
        trajectories.append(_trajectory(index, attempts, trajectories) if _has_work(events) else None)
    trajectories = _with_excess(trajectories)
    begun = [t for t in trajectories if t is not None]
    surviving = begun[-1] if begun else _own_rows([], 0)
    return Joined(
        surviving=surviving,
        abandoned=tuple(t for t in begun[:-1] if _has_more_evaluations(t, surviving)),
        lost_seconds=sum(_lost(t, i, surviving) for i, t in enumerate(trajectories) if t is not None),
        checkpoint_seconds=_last(attempts, "checkpoint_seconds", of="checkpoint"),
        startup_seconds=sum(_last([events], "startup_seconds") for events in attempts),
        wall_seconds=_last(attempts, "wall_seconds"),
        attempts=len(attempts),
        start=next((e for events in attempts for e in events if e["event"] == "start"), {}),
    )


def _own_rows(events: Sequence[Event], index: int) -> Rows:
    """One attempt's rows; `each` holds differences within the attempt, its first row still to be taken off
    its base."""
    updates = [e for e in events if e["event"] == "update"]
    evaluations = [e for e in events if e["event"] == "evaluation"]
    columns = {key: _column(updates, key) for key in _UPDATE_KEYS}
    return Rows(
        columns,
        {key: np.diff(columns[key], prepend=0.0) for key in _CONTINUED},
        np.zeros(len(updates)),
        np.fromiter((bool(e.get("warmup", False)) for e in updates), dtype=bool, count=len(updates)),
        np.full(len(updates), index),
        _last_of_each({key: _column(evaluations, key) for key in _EVALUATION_KEYS}),
    )


def _column(events: Sequence[Event], key: str) -> Array:
    return np.array([event.get(key) for event in events], dtype=float)  # None becomes NaN


def _last_of_each(evaluations: Columns) -> Columns:
    """Of evaluations of the same update only the last."""
    at = evaluations["updates"]
    if len(at) < 2 or (at[1:] > at[:-1]).all():
        return evaluations
    kept = np.append(at[1:] > at[:-1], True)
    return {key: column[kept] for key, column in evaluations.items()}


def _with_excess(trajectories: Sequence[Rows | None]) -> list[Rows | None]:
    """Equation 4: what warm-up updates took beyond the mean of the others of their attempt, else of the
    job."""
    ordinary = [
        np.empty(0) if t is None else t.each["seconds"][(t.owner == index) & ~t.is_warmup]
        for index, t in enumerate(trajectories)
    ]
    of_job = np.concatenate(ordinary) if ordinary else np.empty(0)
    others = [of_attempt if of_attempt.size else of_job for of_attempt in ordinary]
    means = np.array([float(each.mean()) if each.size else np.inf for each in others])
    return [t if t is None or not t.is_warmup.any() else _corrected(t, means[t.owner]) for t in trajectories]


def _corrected(rows: Rows, ordinary: Array) -> Rows:
    excess = np.where(rows.is_warmup, np.maximum(rows.each["seconds"] - ordinary, 0.0), 0.0)
    return replace(rows, excess=excess)


def _has_work(events: Sequence[Event]) -> bool:
    """An attempt that died before it resumed, evaluated or updated leaves the trajectory as it was."""
    return any(event["event"] in _WORK for event in events)


def _trajectory(index: int, attempts: Sequence[Sequence[Event]], earlier: Sequence[Rows | None]) -> Rows:
    own = _own_rows(attempts[index], index)
    resume = next((e for e in attempts[index] if e["event"] == "resume"), None)
    updates = 0 if resume is None else int(resume["from_updates"])
    if resume is None:
        return own
    parent = _parent(index, updates, resume.get("from_attempt"), attempts, earlier).until(updates)
    if updates:
        for key, column in own.each.items():
            column[:1] -= parent.updates[key][-1]
    return parent.then(own)


def _parent(
    index: int,
    updates: int,
    named: int | None,
    attempts: Sequence[Sequence[Event]],
    earlier: Sequence[Rows | None],
) -> Rows:
    for rows, events in zip(reversed(earlier), reversed(attempts[:index]), strict=True):
        number = next((e.get("attempt") for e in events if e["event"] == "start"), None)
        if rows is None or (named is not None and number is not None and number != named):
            continue
        if updates == 0 or np.isin(updates, rows.updates["updates"]):
            return rows
    raise CurveError(
        f"attempt {index + 1} resumes from update {updates}, which no earlier journal holds; "
        "restore that journal"
    )


def _has_more_evaluations(rows: Rows, surviving: Rows) -> bool:
    mine, kept = rows.evaluations, surviving.evaluations
    m = len(mine["samples"])
    if len(kept["samples"]) < m:
        return True
    same = (mine["samples"] == kept["samples"][:m]) & (mine["score"] == kept["score"][:m])
    return not bool((same | np.isnan(mine["score"])).all())


def _lost(rows: Rows, index: int, surviving: Rows) -> float:
    """Raw seconds of the updates that this attempt made and the surviving trajectory does not hold."""
    kept = int((surviving.owner == index).sum())
    return float(rows.each["seconds"][rows.owner == index][kept:].sum())


def _last(attempts: Sequence[Sequence[Event]], key: str, of: str | None = None) -> float:
    for events in reversed(attempts):
        for event in reversed(events):
            if event.get(key) is not None and (of is None or event["event"] == of):
                return float(event[key])
    return 0.0


def parts_of(rows: Rows) -> dict[str, Array]:
    """PART → (n,) corrected seconds of each update, for the parts that every row has."""
    raw = rows.each["seconds"]
    scale = np.divide(raw - rows.excess, raw, out=np.ones_like(raw), where=raw > 0)
    named: dict[str, Any] = {part: rows.each[f"{part}_seconds"] for part in PARTS}
    return {part: each * scale for part, each in named.items() if not np.isnan(each).any()}
