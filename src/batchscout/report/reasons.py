"""Why: each job, its end, the end of the sweep, and what is still uncertain. In words, from the files of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from batchscout.measure.outcome import Outcome
from batchscout.report.numbers import digits, duration, listed, percent, rate
from batchscout.report.sentence import setting

SURE = 0.95
"""A probability of being the best from which nothing needs to be said."""
SHOWN = 400
"""Jobs in the list; events.jsonl has them all."""

_ENDS = {
    Outcome.REACHED: "reached the target",
    Outcome.CAPPED: "ended at a limit below the target",
    Outcome.STOPPED: "was stopped",
    Outcome.DIVERGED: "diverged",
    Outcome.INFEASIBLE: "cannot run",
    Outcome.FAILED: "failed",
    Outcome.CANCELLED: "was cancelled",
    Outcome.QUEUED: "is queued",
    Outcome.RUNNING: "is running",
    Outcome.PREEMPTED: "waits to run again",
}
_REASONS = {
    "oom_gpu": "out of GPU memory",
    "oom_host": "out of host memory",
    "budget": "a budget ended",
    "updates": "its updates are done",
}


def reasons(result: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """One entry a job in the order of starts: what it was, why it ran, how it ended and what it changed."""
    asked = _asked(events)
    answers = _answers(result, events)
    entries = []
    for row in _by_start(result["jobs"])[:SHOWN]:
        if not row["attempts"] and row["id"] not in asked:
            continue  # planned and never started: nothing was decided
        entries.append(
            {
                "job": f"{'probe of ' if row['kind'] == 'probe' else ''}{_setting(row)}",
                "why": "; then ".join(asked.get(row["id"], [])),
                "end": _end(row),
                "change": answers.get(row["id"], ""),
            }
        )
    return entries


def why_ended(result: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> str:
    """One sentence on the end of the sweep, "" while it runs."""
    if result["status"] == "running":
        return ""
    last = next((e for e in reversed(events) if e.get("event") in ("finish", "interrupt")), None)
    words = str((last or {}).get("explanation") or (last or {}).get("message") or "")
    starts = {
        "complete": "The sweep is complete",
        "exhausted": "The sweep ended before its own rule did",
        "interrupted": "The sweep was interrupted",
    }
    start = starts.get(result["status"], f"The sweep is {result['status']}")
    return f"{start}: {words}." if words else f"{start}."


def uncertain(result: Mapping[str, Any]) -> list[str]:
    """What the answer does not settle, the most important first."""
    answer = result["recommendation"]
    if answer is None:
        return ["No setting is recommended: nothing reached the target."]
    said = [*_rivals(answer), *_ground(answer, result), *_edges(answer, result), *_untried(answer, result)]
    return said or ["Nothing that the measured jobs could show."]


def _rivals(answer: Mapping[str, Any]) -> list[str]:
    said = []
    ties = [size for size in answer["near_ties"] if size != answer["batch_size"]]
    if ties:
        said.append(f"Batch size {listed(ties)} cannot be told from {answer['batch_size']} by these jobs.")
    probability = answer.get("probability_best")
    if probability is not None and probability < SURE:
        said.append(f"Another batch size is faster with probability {percent(1 - probability)}.")
    regret = answer.get("expected_regret")
    if regret is not None:
        said.append(f"Taking it is expected to lose {digits(100 * regret)}% of the time of the true best.")
    return said


def _ground(answer: Mapping[str, Any], result: Mapping[str, Any]) -> list[str]:
    """What the time stated for the recommended setting rests on."""
    said = []
    interval = answer["interval"]
    if answer["time_to_target"] and interval and None not in interval:
        low, high = (bound / answer["time_to_target"] - 1 for bound in interval)
        said.append(
            f"Its time is known to {100 * low:+.0f}% to {100 * high:+.0f}% (90% interval), as the mean of further runs."
        )
    here = [row for row in result["jobs"] if _is_at(row, answer) and row["kind"] != "probe"]
    reached = sum(row["outcome"] == Outcome.REACHED for row in here)
    if not here:
        said.append("No job ran at the recommended setting: its time is a prediction.")
    elif not reached:
        said.append("No job at the recommended setting was run to the target: its time is a projection.")
    elif reached == 1:
        said.append("One job at the recommended setting reached the target; another seed may differ from it.")
    return said


def _edges(answer: Mapping[str, Any], result: Mapping[str, Any]) -> list[str]:
    said = []
    for name, words in (("batch_size", "batch size"), ("lr", "learning rate")):
        values = sorted({row[name] for row in result["jobs"] if name != "lr" or _is_size(row, answer)})
        if len(values) > 1 and answer[name] in (values[0], values[-1]):
            side = "smallest" if answer[name] == values[0] else "largest"
            where = "" if name == "batch_size" else f" at batch size {answer['batch_size']}"
            said.append(f"Its {words} is the {side} that was tried{where}; a faster one may lie beyond.")
    return said


def _untried(answer: Mapping[str, Any], result: Mapping[str, Any]) -> list[str]:
    whole = {row["batch_size"] for row in result["jobs"] if row["kind"] != "probe" and row["attempts"]}
    probed = sorted({row["batch_size"] for row in result["jobs"] if row["attempts"]} - whole)
    said = []
    if probed:
        said.append(
            f"At batch size {listed(probed)} only the update time was measured; its samples are predicted by the law."
        )
    single = sorted(
        row["batch_size"] for row in result["table"]
        if row["batch_size"] in whole
        and len({r["lr"] for r in result["jobs"] if r["batch_size"] == row["batch_size"] and r["kind"] != "probe"}) == 1
    )  # fmt: skip
    if single and len({row["lr"] for row in result["jobs"]}) > 1:
        said.append(
            f"At batch size {listed(single)} one learning rate was run; a better one there is only predicted."
        )
    return said


def _asked(events: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Job → why it was started, and why it was gone on with."""
    asked: dict[str, list[str]] = {}
    for event in events:
        words = str(event.get("explanation") or "")
        if event.get("event") in ("submit", "continue") and event.get("job") and words:
            known = asked.setdefault(str(event["job"]), [])
            if words not in known:
                known.append(words)
    return asked


def _answers(result: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Job → how the recommendation changed at its (last) end."""
    ends = [str(e["job"]) for e in events if e.get("event") in ("end", "skip") and e.get("job")]
    changed: dict[str, str] = {}
    before = None
    if len(ends) != len(result["recommendations"]):
        return {}  # a sweep from before these events were written
    for job, said in zip(ends, result["recommendations"], strict=True):
        now = None if said["batch_size"] is None else (said["batch_size"], said["lr"])
        if now != before:
            changed[job] = (
                "nothing was recommended any more" if now is None else f"the answer became {setting(said)}"
            )
        before = now
    return changed


def _end(row: Mapping[str, Any]) -> str:
    outcome = Outcome(row["outcome"])
    text = _ENDS[outcome]
    if outcome is Outcome.REACHED and row["time_to_target"] is not None:
        text += f" in {duration(row['time_to_target'])}"
    elif row["seconds"]:
        text += f" after {duration(row['seconds'])}"
    if row["kind"] == "probe" and outcome is Outcome.CAPPED:
        return f"told its update time in {duration(row['seconds'])}"
    reason = str(row["reason"] or "")
    reason = _REASONS.get(reason, reason)
    quiet = ("", "recorded", "control", "target")
    return text if reason in quiet or outcome is Outcome.REACHED else f"{text}: {reason}"


def _setting(row: Mapping[str, Any]) -> str:
    seed = f" seed {row['seed']}" if row["kind"] != "probe" and row["seed"] else ""
    return (
        f"batch_size={row['batch_size']}"
        + ("" if row["kind"] == "probe" else f" lr={rate(row['lr'])}")
        + seed
    )


def _by_start(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    numbered = enumerate(rows)
    return [
        row for _, row in sorted(numbered, key=lambda x: (x[1]["start"] is None, x[1]["start"] or 0.0, x[0]))
    ]


def _is_at(row: Mapping[str, Any], point: Mapping[str, Any]) -> bool:
    return bool(row["batch_size"] == point["batch_size"] and row["lr"] == point["lr"])


def _is_size(row: Mapping[str, Any], point: Mapping[str, Any]) -> bool:
    return bool(row["batch_size"] == point["batch_size"] and row["kind"] != "probe")
