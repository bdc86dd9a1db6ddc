"""What a samples fit must warn of: rows that say too little, and places where the law was never measured."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from batchscout.laws.observations import Array, Interval, Observations
from batchscout.laws.profile import Profile

NARROW_RANGE = 4.0
LARGE_NOISE = 0.4
COARSE_SPACING = 0.2
"""Width (log) between the evaluations around the target beyond which the spacing is called too coarse."""
_AT_EIGHT_TIMES = -float(np.log(0.7))
"""Zhang et al. 2024's own data err by 20–28% at 8 times the scanned range (docs/laws.md): ±30% there."""


def widening(batch_size: float, scanned: tuple[float, float]) -> float:
    """Log half-width added to an interval outside the scanned batch sizes, growing with each doubling."""
    beyond = max(np.log2(batch_size / scanned[1]), np.log2(scanned[0] / batch_size), 0.0)
    return float(_AT_EIGHT_TIMES * beyond / 3.0)


def extrapolation_warning(batch_size: float, scanned: tuple[float, float]) -> str | None:
    """A warning outside the scanned batch sizes, else None."""
    if scanned[0] <= batch_size <= scanned[1]:
        return None
    return (
        f"batch size {batch_size:.4g} lies outside the scanned {scanned[0]:g}–{scanned[1]:g}; its interval "
        f"is widened by {np.expm1(widening(batch_size, scanned)):.0%}, measure there before relying on it"
    )


SAME_GAMMA = 0.02
"""A γ so near to 1 (log scale) is no other form, however exactly a table without noise tells it."""


def fit_warnings(
    rows: Observations,
    b: Array,
    *,
    s_min: float | None,
    b_crit: float | None,
    b_crit_interval: Interval,
    noise: float,
) -> list[str]:
    """Warnings in order of weight."""
    low, high = float(b.min()), float(b.max())
    out = []
    if high / low < NARROW_RANGE:
        out.append(
            f"batch sizes {low:g}–{high:g} span only ×{high / low:.2g}: range too narrow, S_min and B_crit "
            f"are extrapolated and not identified; scan at least ×{NARROW_RANGE:g}"
        )
    least = float(np.exp(rows.middle[np.isfinite(rows.lower)].min()))
    if s_min is None:
        out.append("S_min has no lower bound: all batch sizes lie beyond B_crit; add smaller ones")
    elif s_min < 0.5 * least:
        out.append(
            f"S_min={s_min:.4g} lies ×{least / s_min:.3g} below every row: all batch sizes lie beyond "
            "B_crit; add smaller ones"
        )
    out += _where_b_crit_lies(low, high, b_crit, b_crit_interval)
    if noise > LARGE_NOISE:
        out.append(
            f"the rows lie about the law by a factor of {np.exp(noise):.2g}: the samples law does not "
            "describe them; compare the measured times instead"
        )
    width = np.where(np.isfinite(rows.lower) & np.isfinite(rows.upper), rows.upper - rows.lower, 0.0)
    worst = int(np.argmax(width))
    if width[worst] > COARSE_SPACING:
        out.append(spacing_warning(b[worst], np.exp(rows.lower[worst]), np.exp(rows.upper[worst])))
    return out


def spacing_warning(batch_size: float, lower: float, upper: float) -> str:
    return (
        f"evaluation spacing is too coarse for the samples measured: at batch size {batch_size:g} the target "
        f"was reached between {lower:.4g} and {upper:.4g}; evaluate more often"
    )


def _where_b_crit_lies(low: float, high: float, b_crit: float | None, interval: Interval) -> list[str]:
    if b_crit is None and interval[0] is not None:
        words = f"samples do not grow with the batch size up to {high:g}: B_crit is only bounded, above"
        return [f"{words} {interval[0]:.4g}; add larger batch sizes"]
    if b_crit is None:
        return ["B_crit is not identified; add smaller and larger batch sizes"]
    if b_crit > 4 * high or b_crit < low / 4:
        return [f"B_crit={b_crit:.4g} lies far outside the scanned {low:g}–{high:g}; read it as a bound"]
    if None in interval:
        return ["B_crit is bounded on one side only; add batch sizes on the other"]
    return []


def richer_form_warnings(
    n: int,
    batch_sizes: int,
    found: Profile,
    refit: Callable[[float | None, bool], Profile],
    *,
    free_gamma: bool,
    small_batch: bool,
) -> list[str]:
    """Names a richer form that the corrected Akaike criterion prefers by more than 2.

    n, batch_sizes  rows, and distinct batch sizes among them: repeats cannot tell forms apart
    refit           (gamma or None for free, small_batch) → the richer profile
    """
    k = 2 + len(found.shape)
    mine = _akaike(float(found.best.log_likelihood[0]), k, n)
    out = []
    for is_free, small, name in ((True, small_batch, "γ"), (free_gamma, True, "B_small")):
        if (is_free, small) == (free_gamma, small_batch) or batch_sizes < k + 2:
            continue
        richer = refit(None if is_free else 1.0, small)
        gain = mine - _akaike(float(richer.best.log_likelihood[0]), k + 1, n)
        value = float(np.exp(richer.shape[1 if name == "γ" else -1]))
        is_same = name == "γ" and abs(np.log(value)) < SAME_GAMMA
        if gain > 2 and not is_same:
            words = "γ free" if name == "γ" else "a small-batch term"
            out.append(
                f"AICc prefers the samples law with {words} ({name}={value:.3g}, AICc lower by {gain:.1f}); "
                "the fit shown keeps its own form"
            )
    return out


def _akaike(log_likelihood: float, parameters: int, n: int) -> float:
    return -2 * log_likelihood + 2 * parameters * n / max(n - parameters - 1, 1)
