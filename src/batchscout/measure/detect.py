"""When a curve reaches its target: the patience rule, isotonic regression and the crossing of its fit.

Two questions are kept apart. *Has it?* is answered on raw scores: ``patience`` evaluations in a row at or
beyond the level; a single lucky one is not enough. *Where?* is answered on the isotonic fit of all
evaluations, whose bias hardly depends on how noisy each one is. docs/measure.md, equations 1–3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from batchscout.errors import CurveError
from batchscout.measure.target import ROUNDING, Target

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Crossing:
    """Samples at which a curve reaches a level.

    estimate   the crossing; None where it was not reached, or where the start model was there already
    lower      samples of the last evaluation whose fit is below the level (right-censored: what S exceeds at
               least); None where there is none
    upper      samples of the next evaluation; None where there is none
    censored   None: interval (lower, upper]; "left": reached at the first evaluation after the start,
               estimate is then the upper bound; "right": not reached
    confirmed  reached or not can no longer change: patience was satisfied, or the job has ended
    """

    estimate: float | None
    lower: float | None
    upper: float | None
    censored: Literal["left", "right"] | None
    confirmed: bool


def isotonic(score: ArrayLike, weights: ArrayLike | None = None, *, increasing: bool = True) -> Array:
    """The weighted least-squares monotone fit, by pooling adjacent violators.

    score    (n,) finite
    weights  (n,) positive; None: equal
    Returns  (n,) the fit
    Raises   CurveError if lengths differ, a score is not finite or a weight not positive.
    Source   Ayer et al. 1955; docs/measure.md, equation 2.
    """
    values = np.asarray(score, dtype=float)
    each = np.ones_like(values) if weights is None else np.asarray(weights, dtype=float)
    if values.ndim != 1 or each.shape != values.shape:
        raise CurveError(
            f"scores of shape {values.shape} and weights of shape {each.shape} must be equally long"
        )
    if not (np.isfinite(values).all() and np.isfinite(each).all() and (each > 0).all()):
        raise CurveError(
            "isotonic regression needs finite scores and positive weights; leave NaN entries out"
        )
    fit = _pool(values if increasing else -values, each)
    return fit if increasing else -fit


def _pool(values: Array, weights: Array) -> Array:
    if (values[1:] >= values[:-1]).all():
        return values.copy()
    means: list[float] = []
    masses: list[float] = []
    counts: list[int] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        count = 1
        while means and means[-1] > value:
            mass = masses.pop()
            value = (means.pop() * mass + value * weight) / (mass + weight)
            weight += mass
            count += counts.pop()
        means.append(value)
        masses.append(weight)
        counts.append(count)
    return np.repeat(means, counts)


def reached_index(
    score: ArrayLike, target: Target, *, level: float | None = None, samples: ArrayLike | None = None
) -> int | None:
    """Index of the evaluation that completes ``target.patience`` in a row at or beyond the level, None if
    none does.

    score    (n,) NaN never counts and ends a row
    samples  (n,) where given, a first evaluation at 0 samples that is there already counts alone: the start
             model needs no training
    """
    scores = np.asarray(score, dtype=float)
    wanted = target.score if level is None else level
    is_at = target.sign * scores >= target.sign * wanted - ROUNDING * abs(wanted)
    if samples is not None and len(scores) and is_at[0] and np.asarray(samples)[0] == 0:
        return 0
    patience = target.patience
    if len(scores) < patience:
        return None
    row = is_at[patience - 1 :].copy()
    for back in range(1, patience):
        row &= is_at[patience - 1 - back : len(scores) - back]
    first = int(row.argmax())
    return first + patience - 1 if row[first] else None


def first_passage(
    samples: ArrayLike,
    score: ArrayLike,
    *,
    target: Target,
    level: float | None = None,
    score_n: ArrayLike | None = None,
    ended: bool = False,
) -> Crossing:
    """Samples at which the score first reaches the level.

    samples  (n,) cumulative rollouts, strictly increasing
    score    (n,) NaN never counts: it ends a row and is left out of the fit
    level    another score than the target's
    score_n  (n,) questions behind each score, the fit's weights; equal where any is unknown
    ended    no further evaluation will come
    Returns  Crossing, from the fit of all evaluations; only from those until the patience rule was satisfied
             where the later ones pull the whole fit below the level
    Raises   CurveError if lengths differ or samples do not increase.
    Source   docs/measure.md, equations 1–3.
    """
    at, scores = np.asarray(samples, dtype=float), np.asarray(score, dtype=float)
    if at.shape != scores.shape or at.ndim != 1:
        raise CurveError(f"{at.size} samples and {scores.size} scores: there must be one score an evaluation")
    if at.size > 1 and not (at[1:] > at[:-1]).all():
        raise CurveError("samples of the evaluations must increase")
    reached = reached_index(scores, target, level=level, samples=at)
    if reached is None:
        return _right_censored(at, scores, target, level, ended)
    if at[reached] == 0:
        return Crossing(None, None, 0.0, "left", confirmed=True)
    known = np.flatnonzero(np.isfinite(scores))
    weights = _weights(score_n, at.size)
    until_reached = known[known <= reached]
    crossing = _crossing(at[known], scores[known], weights[known], target, level) or _crossing(
        # It collapsed after it had reached the target: what came then says nothing about when it did.
        at[until_reached],
        scores[until_reached],
        weights[until_reached],
        target,
        level,
    )
    assert crossing is not None  # the evaluations that satisfied the rule end their own fit at the level
    return crossing


def _crossing(
    at: Array, score: Array, weights: Array, target: Target, level: float | None
) -> Crossing | None:
    """Of the isotonic fit; None where the whole fit lies below the level."""
    wanted = target.sign * (target.score if level is None else level)
    fit = isotonic(target.sign * score, weights)
    # Twice the tolerance: the mean of scores that all count as at the level must count too.
    below = int(np.searchsorted(fit, wanted - 2 * ROUNDING * abs(wanted), side="left"))
    if below == len(fit):
        return None
    if below == 0:
        return Crossing(float(at[0]), None, float(at[0]), "left", confirmed=True)
    lower, upper = float(at[below - 1]), float(at[below])
    if lower == 0:
        return Crossing(upper, lower, upper, "left", confirmed=True)
    share = (wanted - fit[below - 1]) / (fit[below] - fit[below - 1])
    return Crossing(lower + min(1.0, float(share)) * (upper - lower), lower, upper, None, confirmed=True)


def _right_censored(at: Array, score: Array, target: Target, level: float | None, ended: bool) -> Crossing:
    """S exceeds the last evaluation that was not at the level; a lucky end proves nothing beyond it."""
    is_below = [not target.is_at(s, level) for s in score.tolist()]
    lower = float(at[np.flatnonzero(is_below)[-1]]) if any(is_below) else None
    return Crossing(None, lower, None, "right", confirmed=ended)


def _weights(score_n: Any, count: int) -> Array:
    if score_n is None:
        return np.ones(count)
    known = np.asarray(score_n, dtype=float)
    if known.shape != (count,):
        raise CurveError(
            f"{count} evaluations and {known.size} score_n: there must be one score_n an evaluation"
        )
    return known if (np.isfinite(known) & (known > 0)).all() else np.ones(count)
