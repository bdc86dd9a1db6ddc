"""The recommendation in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from batchscout.report.numbers import count, digits, duration, listed, percent, rate


def recommendation(result: Mapping[str, Any]) -> str:
    """What to take, how sure that is and what it cost; for a sweep without an answer, what it did find.

    result  the object of result.json
    """
    answer = result["recommendation"]
    if answer is None:
        yet = " so far" if result["status"] == "running" else ""
        return f"{_without_answer(result)}; {spent(result)}{yet}."
    parts = [f"{setting(answer)} reaches score {digits(result['target'])} soonest"]
    if answer["time_to_target"] is not None:
        parts[0] += f", in {duration(answer['time_to_target'])}{_interval(answer)}"
    if answer["samples_to_target"] is not None and answer["throughput"] is not None:
        speed = f"{digits(answer['throughput'])} samples/s"
        parts[0] += f", from {count(answer['samples_to_target'])} samples at {speed}"
    ties = [batch for batch in answer["near_ties"] if batch != answer["batch_size"]]
    if ties:
        parts.append(f"{listed(ties)} cannot be told from it")
    if answer.get("probability_best") is not None:
        parts.append(f"it is the best batch size with probability {percent(answer['probability_best'])}")
    parts.append(spent(result))
    if result["status"] == "running":
        parts.append("the sweep is still running")
    return "; ".join(parts) + "."


def setting(point: Mapping[str, Any]) -> str:
    """``batch_size=128 lr=4e-4``, as it is typed."""
    return f"batch_size={point['batch_size']} lr={rate(point['lr'])}"


def spent(result: Mapping[str, Any]) -> str:
    """What the sweep cost, in jobs, training time, GPU-hours and money as far as these are counted."""
    cost, jobs = result["cost"], sum(bool(row["attempts"]) for row in result["jobs"])
    text = f"this took {jobs} job{'s' if jobs != 1 else ''} and {duration(cost['seconds'])} of training"
    extra = []
    if cost["gpu_hours"]:
        extra.append(f"{digits(cost['gpu_hours'])} GPU-hours")
    if cost["money"] is not None:
        extra.append(f"{digits(cost['money'])} at the given price per GPU-hour")
    return f"{text} ({', '.join(extra)})" if extra else text


def _interval(answer: Mapping[str, Any]) -> str:
    if answer["interval"] is None:
        return ""
    low, high = answer["interval"]
    if high is None:
        return f" (90% interval: at least {duration(low)})"
    if low is None:
        return f" (90% interval: at most {duration(high)})"
    return f" (90% interval {duration(low)} to {duration(high)})"


def _without_answer(result: Mapping[str, Any]) -> str:
    """The null case: nothing reached the target, or nothing may be ranked."""
    if result.get("message"):
        return str(result["message"])
    text = f"No job reached score {digits(result['target'])}"
    best = best_scores(result)
    if best:
        listing = listed(f"{digits(score)} at batch_size={batch}" for batch, score in best)
        text += f"; the best scores were {listing}"
    level = highest_level(result)
    if level is not None:
        answer = level["recommendation"]
        text += f"; the highest level reached is {digits(level['target'])}, soonest by {setting(answer)}"
        if answer["time_to_target"] is not None:
            text += f" in {duration(answer['time_to_target'])}"
    return text


def best_scores(result: Mapping[str, Any]) -> list[tuple[int, float]]:
    """(batch_size, best score) by batch size, for those that were evaluated."""
    return [
        (row["batch_size"], row["best_score"]) for row in result["table"] if row.get("best_score") is not None
    ]


def highest_level(result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The hardest level that has an answer, or None. Levels are listed from easy to hard."""
    answered = [level for level in result["levels"] if level["recommendation"] is not None]
    return answered[-1] if answered else None
