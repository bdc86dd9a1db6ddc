"""Trials of a plain Optuna study as the jobs that a search is shown, and what an objective says of itself.

A trial's intermediate values are its scores, with samples as their steps; the training seconds at these samples are the
user attribute `seconds`. Everything a search needs is in the study's trials, so any process can go on with it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState

from batchscout.errors import SearchError
from batchscout.measure.curve import Curve
from batchscout.measure.outcome import Outcome
from batchscout.measure.target import Target
from batchscout.search.protocol import JobObservation, Kind, Point

SECONDS, KIND, SEED, CONTINUES = "seconds", "kind", "seed", "continues"
UPDATES, OUTCOME, REASON, EXPLANATION = "updates_limit", "outcome", "reason", "explanation"
SPARE = "spare"
"""Of a trial that was given a point only because it had to get one: nothing waits for what it shows."""

_SAID = {outcome.value: outcome for outcome in (Outcome.CAPPED, Outcome.DIVERGED, Outcome.INFEASIBLE)}


@dataclass(frozen=True, slots=True)
class Names:
    """What the objective calls its two parameters."""

    batch_size: str = "batch_size"
    lr: str = "lr"


def report(trial: optuna.Trial, score: float | None, *, samples: int, seconds: float) -> None:
    """Tell what a trial has measured so far; then ask `trial.should_prune()`.

    score    of an evaluation; None where there was none (the end of a probe)
    samples  rollouts trained on so far
    seconds  training clock at these samples
    """
    trial.set_user_attr(SECONDS, {**trial.user_attrs.get(SECONDS, {}), str(samples): seconds})
    if score is not None:
        trial.report(score, samples)


def ended(trial: optuna.Trial, outcome: str, reason: str = "") -> optuna.TrialPruned:
    """What to raise where a trial ended without its target: `raise ended(trial, "diverged")`.

    outcome  capped (its own limit), diverged, or infeasible (reason oom_gpu: larger batch sizes are left out, too)
    Raises   SearchError for another outcome
    """
    if outcome not in _SAID:
        raise SearchError(f"outcome={outcome} is unknown; use one of {', '.join(_SAID)}")
    reason = reason or ("oom_gpu" if outcome == Outcome.INFEASIBLE else "")
    trial.set_user_attr(OUTCOME, outcome)
    trial.set_user_attr(REASON, reason)
    return optuna.TrialPruned(f"{outcome} {reason}".strip())


def probe_updates(trial: optuna.Trial) -> int | None:
    """Updates after which this trial may end, since only its seconds are asked for; None for a whole run."""
    limit = trial.user_attrs.get(UPDATES)
    return None if limit is None else int(limit)


def observations(trials: Sequence[FrozenTrial], names: Names, target: Target) -> list[JobObservation]:
    """One job a trial, in order; a trial that continues another is that one's job. Enqueued trials are no jobs yet."""
    jobs: dict[int, JobObservation] = {}
    for trial in sorted(trials, key=lambda t: t.number):
        if trial.state is TrialState.WAITING or not has_point(trial, names):
            continue
        first = trial.user_attrs.get(CONTINUES)
        job = _job(trial, names, target)
        if first in jobs:
            jobs[first] = _continued(jobs[first], job)
        else:
            jobs[trial.number] = replace(job, seed=_seed(trial, job, jobs.values()))
    return list(jobs.values())


def job_id(number: int) -> str:
    """Of the trial with this number."""
    return f"trial-{number}"


def job_of(trial: FrozenTrial) -> str:
    """The id of the trial's job."""
    return job_id(trial.user_attrs.get(CONTINUES, trial.number))


def has_point(trial: FrozenTrial, names: Names) -> bool:
    return names.batch_size in trial.params and names.lr in trial.params


def is_spare(trial: FrozenTrial) -> bool:
    """Runs, and nothing waits for it."""
    return not trial.state.is_finished() and bool(trial.user_attrs.get(SPARE))


def check_told(trial: FrozenTrial, state: TrialState, names: Names) -> None:
    """Raises SearchError for a trial that ended well and told nothing that a search can use."""
    if state is not TrialState.COMPLETE:
        return
    if not has_point(trial, names):
        missing = [n for n in (names.batch_size, names.lr) if n not in trial.params]
        raise SearchError(
            f"the objective suggests {', '.join(trial.params) or 'nothing'} but not {', '.join(missing)}; tell the "
            "sampler what it calls the two parameters: TimeToTargetSampler(batch_size=…, lr=…)"
        )
    if not trial.user_attrs.get(SECONDS):
        raise SearchError(
            f"trial {trial.number} ended and told no samples and seconds; at each evaluation call batchscout's "
            "report(trial, score, samples=…, seconds=…) in place of trial.report"
        )


def with_state(trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> FrozenTrial:
    """The trial as it is about to be stored."""
    new = copy.copy(trial)
    new.state = state
    new.values = values if state is TrialState.COMPLETE else None
    return new


def attributes(job: JobObservation, target: Target) -> dict[str, Any]:
    """What a trial's value leaves out: S, R, the outcome and, where it was censored, what that proves."""
    found: dict[str, Any] = {OUTCOME: job.outcome.value}
    if job.reason:
        found[REASON] = job.reason
    if job.curve is None or not job.curve.total_samples:
        return found
    measured = job.curve.measure(target, ended=True)
    if measured.throughput:
        found["throughput"] = measured.throughput
    if measured.samples_to_target is not None:
        found["samples_to_target"] = measured.samples_to_target
    elif job.outcome in (Outcome.CAPPED, Outcome.STOPPED) and job.kind != "probe":
        found["samples_to_target_at_least"] = job.curve.total_samples
        found["time_to_target_at_least"] = job.curve.total_seconds
    return found


def _job(trial: FrozenTrial, names: Names, target: Target) -> JobObservation:
    batch_size, lr = int(trial.params[names.batch_size]), float(trial.params[names.lr])
    curve = _curve(trial, batch_size)
    is_probe = trial.user_attrs.get(KIND) == "probe" and not trial.intermediate_values
    kind: Kind = "probe" if is_probe else "verify" if trial.user_attrs.get(KIND) == "verify" else "run"
    return JobObservation(
        job_id=job_id(trial.number),
        kind=kind,
        point=Point(batch_size, lr),
        seed=int(trial.user_attrs.get(SEED, 0)),
        outcome=_outcome(trial, curve, target, is_probe=is_probe),
        reason=str(trial.user_attrs.get(REASON, "")),
        curve=curve,
        seconds=0.0 if curve is None else float(curve.total_seconds),
        updates_limit=trial.user_attrs.get(UPDATES) if is_probe else None,
    )


def _outcome(trial: FrozenTrial, curve: Curve | None, target: Target, *, is_probe: bool) -> Outcome:
    if not trial.state.is_finished():
        return Outcome.RUNNING
    if trial.state is TrialState.COMPLETE:
        is_there = curve is None or not curve.score.size or target.is_at(float(curve.score[-1]))
        return Outcome.REACHED if is_there else Outcome.CAPPED
    said = _SAID.get(str(trial.user_attrs.get(OUTCOME)))
    if said is not None:
        return said
    if trial.state is TrialState.FAIL:
        return Outcome.FAILED
    return Outcome.CAPPED if is_probe else Outcome.STOPPED


def _curve(trial: FrozenTrial, batch_size: int) -> Curve | None:
    """From the scores whose seconds are known; None without any."""
    told: Mapping[str, float] = trial.user_attrs.get(SECONDS, {})
    seconds = dict(sorted((int(samples), float(s)) for samples, s in told.items()))
    scores = {n: v for n, v in sorted(trial.intermediate_values.items()) if n in seconds}
    if not seconds:
        return None
    last = max(seconds)
    record: dict[str, Any] = {
        "batch_size": batch_size,
        "samples": list(scores),
        "seconds": [seconds[n] for n in scores],
        "sampling_seconds": [None] * len(scores),
        "score": list(scores.values()),
    }
    if not scores or last > max(scores):
        record |= {"total_samples": last, "total_seconds": seconds[last]}
    return Curve.from_recorded(record)


def _continued(earlier: JobObservation, later: JobObservation) -> JobObservation:
    """One job of two trials. A later trial that began anew has lost what the earlier one had spent."""
    before, after = earlier.curve, later.curve
    if before is None or after is None or not after.samples.size:
        return replace(later, job_id=earlier.job_id, seed=earlier.seed, curve=after or before)
    kept = before.samples < after.samples[0]
    seconds = later.seconds
    if not kept.any() or after.seconds[0] < before.seconds[kept][-1]:
        return replace(later, job_id=earlier.job_id, seed=earlier.seed, seconds=earlier.seconds + seconds)
    columns = {
        name: np.concatenate([getattr(before, name)[kept], getattr(after, name)]).tolist()
        for name in ("samples", "seconds", "score")
    }
    record = {
        "batch_size": later.point.batch_size,
        **columns,
        "sampling_seconds": [None] * len(columns["samples"]),
    }
    return replace(later, job_id=earlier.job_id, seed=earlier.seed, curve=Curve.from_recorded(record))


def _seed(trial: FrozenTrial, job: JobObservation, others: Any) -> int:
    """The one that the sampler gave it, else the least that no earlier trial at this point has."""
    if job.kind == "probe":
        return job.seed
    used = {j.seed for j in others if j.point == job.point and j.kind != "probe"}
    if SEED in trial.user_attrs and job.seed not in used:
        return job.seed
    return next(n for n in range(len(used) + 1) if n not in used)
