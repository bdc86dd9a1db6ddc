"""How numbers are written for people: the same way in the sentence, the tables and the page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

NOTHING = "–"


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit for a whole column or axis, so that its numbers can be compared at a glance."""

    name: str
    size: float

    def text(self, value: float | None) -> str:
        """The number alone, to three significant digits, trailing zeros kept so that a column lines up."""
        if value is None:
            return NOTHING
        scaled = value / self.size
        return f"{scaled:,.0f}" if scaled >= 99.95 else f"{scaled:#.3g}" if scaled >= 1e-3 else digits(scaled)


SECONDS = (Unit("s", 1.0), Unit("min", 60.0), Unit("h", 3600.0), Unit("days", 86400.0))


def time_unit(values: Iterable[float | None]) -> Unit:
    """The largest unit in which the smallest of the times is at least 2; seconds where there is none."""
    known = [value for value in values if value is not None and value > 0]
    smallest = min(known, default=0.0)
    return max(
        (unit for unit in SECONDS if smallest >= 2 * unit.size), key=lambda u: u.size, default=SECONDS[0]
    )


def digits(value: float | None, significant: int = 3) -> str:
    """``0.0123``, ``4.1``, ``61.5``, ``25,012``: at least so many significant digits, whole from there on."""
    if value is None:
        return NOTHING
    if value == 0:
        return "0"
    if abs(value) < 1e-3:
        return exponent(value, significant)
    rounded = float(f"{value:.{significant}g}")
    if abs(rounded) >= 10 ** (significant - 1):
        return f"{value:,.0f}"
    return f"{rounded:.{significant}g}"


def exponent(value: float, significant: int = 3) -> str:
    """``4e-4``: as people type it."""
    mantissa, power = f"{value:.{significant - 1}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa}e{int(power)}"


def count(value: float | None, *, is_short: bool = False) -> str:
    """Samples, updates, tokens: ``940``, ``25.0k``, ``1.24M``; short: ``25k``, for axes."""
    if value is None:
        return NOTHING
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 0.9995 * size:
            return f"{value / size:.3g}{letter}" if is_short else f"{_three(value / size)}{letter}"
    return f"{value:.0f}"


def _three(value: float) -> str:
    decimals = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{decimals}f}"


def rate(value: float | None) -> str:
    """A learning rate: ``4e-4``, ``0.01``."""
    if value is None:
        return NOTHING
    return exponent(value) if abs(value) < 0.01 else f"{value:.3g}"


def duration(seconds: float | None) -> str:
    """One time in a sentence: ``41.2 s``, ``3 min 20 s``, ``2.4 h``."""
    if seconds is None:
        return NOTHING
    if seconds < 99.95:
        return f"{_three(seconds)} s" if seconds >= 1 else f"{SECONDS[0].text(seconds)} s"
    if seconds < 5999.5:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest:02d} s"
    return f"{digits(seconds / 3600)} h" if seconds < 72 * 3600 else f"{digits(seconds / 86400)} days"


def percent(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:.0f}%"


def times(factor: float | None) -> str:
    """``1.00×``, ``12×``: relative to the best."""
    if factor is None:
        return NOTHING
    return f"{factor:.2f}×" if factor < 9.995 else f"{factor:,.1f}×" if factor < 99.95 else f"{factor:,.0f}×"


def listed(items: Iterable[object]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    words = [str(item) for item in items]
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
