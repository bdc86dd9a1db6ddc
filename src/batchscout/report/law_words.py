"""The fitted laws in words, each parameter with its interval and the target it holds for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from batchscout.report.numbers import count, digits, rate


def law_words(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The fitted parameters in words, each with its interval and with the target it holds for."""
    law = (result["laws"] or {}).get("samples")
    if not law:
        return []
    facts = []
    named: dict[str, tuple[str, Callable[[float], str]]] = {
        "s_min": ("least samples to target, at small batches (s_min)", count),
        "b_crit": (f"critical batch size at score {digits(result['target'])} (b_crit)", digits),
        "gamma": ("sharpness of the knee (gamma)", digits),
    }
    for key, (words, text) in named.items():
        if law.get(key) is not None:
            facts.append((words, f"{text(law[key])}{_interval(law.get(f'{key}_interval'), text)}"))
    for part, line in (result["laws"].get("update_seconds") or {}).items():
        facts.append((f"seconds of one update: {part}", _update_words(line)))
    rates = result["laws"].get("learning_rate")
    if rates and rates.get("exponent") is not None:
        interval = _interval(rates.get("exponent_interval"), digits)
        ratio = f"(B / {digits(rates['reference_batch_size'])})"
        words = f"{rate(rates['lr_reference'])} × {ratio}^{digits(rates['exponent'])}"
        facts.append(("best learning rate at batch size B", f"{words}{interval}"))
    return facts


def _interval(pair: Sequence[float | None] | None, text: Callable[[float], str]) -> str:
    """In brackets; an open end is said to be open; nothing for a parameter that was not fitted."""
    low, high = pair or (None, None)
    if (low is None and high is None) or low == high:
        return ""
    if low is None or high is None:
        return f" (90% interval: {_open(low, high, text)})"
    return f" (90% interval {text(low)} to {text(high)})"


def _open(low: float | None, high: float | None, text: Callable[[float], str]) -> str:
    if low is not None:
        return f"at least {text(low)}"
    return f"at most {text(high)}" if high is not None else "open"


def _update_words(line: Mapping[str, Any]) -> str:
    """The form and its parameters: B stands for the batch size."""
    a, b = f"{digits(line['a'])} s", f"{digits(1000 * line['b'])} ms"
    forms = {
        "affine": f"{a} + {b} × B",
        "roofline": f"the larger of {a} and {b} × B",
        "hinge": f"{a} up to B = {digits(line['knee'])}, then {b} more per sample",
        "long_tail": f"{a} + {b} × B + {digits(line['c'])} s × ln B",
        "power": f"{digits(line['c'])} s × B^{digits(line['power'])}",
    }
    return forms[line["form"]]
