"""The fitted laws in words, each parameter with its interval and the target it holds for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from batchscout.report.numbers import count, digits, duration, listed, percent, rate

Fact = tuple[str, str]


def law_words(result: Mapping[str, Any]) -> list[Fact]:
    """The fitted parameters in words, each with its interval and with the target it holds for."""
    laws = result["laws"] or {}
    facts = _samples_words(laws.get("samples"), result["target"])
    for part, line in (laws.get("update_seconds") or {}).items():
        facts.append((f"seconds of one update: {part}", _update_words(line)))
    rates = laws.get("learning_rate")
    if rates and rates.get("exponent") is not None:
        interval = _interval(rates.get("exponent_interval"), digits)
        ratio = f"(B / {digits(rates['reference_batch_size'])})"
        words = f"{rate(rates['lr_reference'])} × {ratio}^{digits(rates['exponent'])}"
        facts.append(("best learning rate at batch size B", f"{words}{interval}"))
    return facts + _noise_words(laws.get("noise_scale")) + _best_words(laws.get("best")) + _methods(laws)


def _samples_words(law: Mapping[str, Any] | None, target: float | None) -> list[Fact]:
    if not law:
        return []
    at = "" if target is None else f" at score {digits(target)}"
    named: dict[str, tuple[str, Callable[[float], str]]] = {
        "s_min": ("least samples to target, at small batches (s_min)", count),
        "b_crit": (f"critical batch size{at} (b_crit)", digits),
        "gamma": ("sharpness of the knee (gamma)", digits),
    }
    facts = []
    for key, (words, text) in named.items():
        interval = _interval(law.get(f"{key}_interval"), text)
        if law.get(key) is not None:
            facts.append((words, f"{text(law[key])}{interval}"))
        elif interval:
            facts.append((words, f"not resolved{interval}"))
    return facts


def _noise_words(found: Mapping[str, Any] | None) -> list[Fact]:
    """Predicted against measured."""
    if not found:
        return []
    facts = [("predicted against measured", found["comparison"])]
    if found["b_noise"] is not None:
        interval = _interval(found["interval"], digits)
        words = f"{digits(found['b_noise'])} rollouts{interval}, from {found['pairs']} updates"
        facts.insert(0, ("gradient noise scale, which predicts b_crit (b_noise)", words))
    return facts


def _best_words(best: Mapping[str, Any] | None) -> list[Fact]:
    if not best:
        return []
    text = f"{best['batch_size']}, {duration(best['time_to_target'])}{_interval(best['interval'], duration)}"
    if best["probability_best"] is not None:
        text += f", the best with probability {percent(best['probability_best'])}"
    ties = [size for size in best["near_ties"] if size != best["batch_size"]]
    return [("best batch size by the laws", text + (f"; not excluded at 1%: {listed(ties)}" if ties else ""))]


def _methods(laws: Mapping[str, Any]) -> list[Fact]:
    """Where each interval comes from."""
    found = []
    samples, level = laws.get("samples"), 0.9
    if samples:
        level = samples.get("level", level)
        found.append(f"samples law: {samples.get('method', 'profile likelihood')}")
    if laws.get("update_seconds"):
        found.append("update seconds: Student's, of least squares")
    if laws.get("learning_rate"):
        found.append("learning rate: profile likelihood")
    if laws.get("noise_scale"):
        found.append("noise scale: Fieller's, over updates")
    if laws.get("best"):
        found.append("time by the laws: joint draws of both")
    if not found:
        return []
    found.append("times of the table: evaluations around the target, and Student's over seeds or scatter")
    return [(f"how the {percent(level)} intervals were found", "; ".join(found))]


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
