"""The critical batch size that gradients predict, held against the one that was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from batchscout.laws.noise_scale import NoiseScale, noise_scale
from batchscout.laws.observations import Interval

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SquaredNorms:
    """One update's |g|² over few and over many of its rollouts (whole groups).

    batch_size            of the job it belongs to
    small_size, big_size  rollouts behind small and big
    """

    batch_size: int
    small_size: float
    big_size: float
    small: float
    big: float


def predicted_b_crit(norms: Sequence[SquaredNorms], samples: Mapping[str, Any] | None) -> Json | None:
    """result.json's `laws.noise_scale`; None without any norms.

    norms    of every update that measured them, in any order
    samples  result.json's `laws.samples`, which holds the measured b_crit; None where there is no such law
    Returns  b_noise (None: unresolved), interval, level, pairs, gradient_square, trace, b_crit_ratio
             (b_noise/b_crit), comparison (in words), by_batch [{batch_size, b_noise, interval, pairs}],
             warnings
    """
    if not norms:
        return None
    whole = _estimate(norms)
    b_crit = samples["b_crit"] if samples else None
    sizes = sorted({n.batch_size for n in norms})
    by_batch = [(size, _estimate(n for n in norms if n.batch_size == size)) for size in sizes]
    return {
        "b_noise": whole.b_noise,
        "interval": list(whole.interval),
        "level": whole.level,
        "pairs": whole.pairs,
        "gradient_square": whole.gradient_square,
        "trace": whole.trace,
        "b_crit_ratio": whole.b_noise / b_crit if whole.b_noise is not None and b_crit else None,
        "comparison": _comparison(whole, samples),
        "by_batch": [
            {
                "batch_size": b,
                "b_noise": found.b_noise,
                "interval": list(found.interval),
                "pairs": found.pairs,
            }
            for b, found in by_batch
        ],
        "warnings": list(whole.warnings),
    }


def _estimate(norms: Iterable[SquaredNorms]) -> NoiseScale:
    rows = list(norms)
    return noise_scale(
        [n.small_size for n in rows],
        [n.big_size for n in rows],
        [n.small for n in rows],
        [n.big for n in rows],
    )


def _comparison(found: NoiseScale, samples: Mapping[str, Any] | None) -> str:
    """Predicted against measured, in words."""
    if found.b_noise is None:
        return "the gradients do not resolve a noise scale, so they predict no b_crit"
    predicted = f"gradients predict b_crit={_short(found.b_noise)}"
    if not samples or not samples["b_crit"]:
        return f"{predicted}; none was measured to hold against it"
    measured = f"{predicted}, measured is {_short(samples['b_crit'])}"
    if samples.get("target") is not None:
        measured += f" at target {samples['target']:g}"
    if _overlap(found.interval, tuple(samples["b_crit_interval"])):
        return f"{measured}: they agree within their intervals"
    ratio = found.b_noise / samples["b_crit"]
    if not ratio:
        return f"{measured}: the prediction is below what these batch sizes resolve"
    factor, side = (ratio, "above") if ratio > 1 else (1 / ratio, "below")
    return f"{measured}: the prediction is a factor {factor:.2g} {side} it"


def _short(value: float) -> str:
    """Three digits, written out."""
    return f"{float(f'{value:.3g}'):,.15g}"


def _overlap(one: Interval, other: Interval) -> bool:
    """Open ends reach anywhere."""
    return all(
        low is None or high is None or low <= high for low, high in ((one[0], other[1]), (other[0], one[1]))
    )
