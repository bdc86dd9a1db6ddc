"""Commands that only look: status, logs, report, export, fit."""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from batchscout.app import say_result
from batchscout.cli.find import a_job, find_job, find_sweep, split
from batchscout.cli.script import print_json
from batchscout.errors import ConfigError, SweepError
from batchscout.measure.outcome import Outcome
from batchscout.report.console import one_line
from batchscout.report.doubts import doubts
from batchscout.report.json_lines import final_line
from batchscout.report.numbers import count, duration
from batchscout.run.actions import JobStatus, SweepStatus, status
from batchscout.run.files import read_json

SHOWN_JOBS = 12
SHOWN_OUTCOMES = (Outcome.RUNNING, Outcome.QUEUED, Outcome.PREEMPTED, Outcome.FAILED, Outcome.CANCELLED)


def read_result(directory: Path) -> dict[str, Any]:
    """result.json. Raises SweepError where no job has been planned yet."""
    result: dict[str, Any] | None = read_json(directory / "result.json")
    if result is None:
        raise SweepError(f"{directory} has no result.json yet; its sweep has not started its first job")
    return result


def show_status(words: str | None, *, all_jobs: bool, json_output: bool = False) -> None:
    """json_output: every job, as one object."""
    now = status(find_sweep(words))
    if json_output:
        print_json(status_object(now))
        return
    state = now.status or "no job yet"
    if now.status in ("running", "interrupted"):
        state += f"; controller: {now.controller or 'none, `batchscout resume` goes on'}"
    print(f"{now.sweep}: {state}")
    outcomes = Counter(job.outcome.value for job in now.jobs)
    print(f"jobs     {len(now.jobs)}: {', '.join(f'{n} {name}' for name, n in outcomes.most_common())}")
    if now.result is not None:
        print(f"cost     {cost_words(now.result['cost'])}")
    _show_jobs(now.jobs, all_jobs=all_jobs)
    if now.result is not None and now.result["table"]:
        say_result(now.result)


def status_object(now: SweepStatus) -> dict[str, Any]:
    """For scripts. Without a first job: status null, and no cost, recommendation, table or warnings."""
    jobs = []
    for job in now.jobs:
        fields = asdict(job)
        log = fields.pop("log")
        jobs.append({"id": fields.pop("job_id"), **fields, "log": None if log is None else str(log)})
    head = {"sweep": now.sweep, "directory": str(now.directory), "status": now.status}
    content: dict[str, Any] = {**head, "controller": now.controller, "jobs": jobs}
    if now.result is not None:
        content |= {key: now.result[key] for key in ("cost", "recommendation", "table")}
        content["warnings"] = doubts(now.result)
    return content


def cost_words(cost: Mapping[str, Any]) -> str:
    """What was spent so far."""
    words = [f"{duration(cost['seconds'])} of training"]
    if cost.get("gpu_hours"):
        words.append(f"{cost['gpu_hours']:.3g} GPU-hours")
    if cost.get("money") is not None:
        words.append(f"{cost['money']:.2f} spent")
    return ", ".join(words)


def _show_jobs(jobs: Sequence[JobStatus], *, all_jobs: bool) -> None:
    """Where there are many, only those that run, failed or were lost."""
    few = [job for job in jobs if job.outcome in SHOWN_OUTCOMES][:SHOWN_JOBS]
    shown = jobs if all_jobs or len(jobs) <= SHOWN_JOBS else few
    for job in shown:
        print(f"  {job_line(job)}")
    if len(shown) < len(jobs):
        print(f"  … {len(jobs) - len(shown)} more with --all")


def job_line(job: JobStatus) -> str:
    """One job in one line."""
    why = f" ({one_line(job.reason)})" if job.reason and job.outcome is not Outcome.REACHED else ""
    message = f": {one_line(job.message)}" if job.message and job.outcome is Outcome.FAILED else ""
    score = "" if job.score is None else f", score {job.score:.3g}"
    attempts = f", attempt {job.attempts}" if job.attempts > 1 else ""
    spent = f"{count(job.samples)} samples, {duration(job.seconds)}"
    return f"{job.job_id:24s} {job.outcome.value}{why}{message}; {spent}{score}{attempts}{_place(job)}"


def _place(job: JobStatus) -> str:
    """Where it runs or ran, and how long it waited for that; a local job's is this machine, which is no
    news."""
    if job.submission is None or not job.submission.isdigit():
        return ""
    node = f" on {job.node}" if job.node else ""
    return f", Slurm job {job.submission}{node}, queued {duration(job.queue_seconds)}"


def show_log(words: Sequence[str], *, lines: int) -> None:
    from batchscout.run.log import log_paths, read_log

    sweep, jobs = split(words)
    if len(jobs) != 1:
        raise SweepError(f"name one job of {sweep}, as in batchscout logs {sweep.name} {a_job(sweep)}")
    directory = find_job(sweep, jobs[0])
    paths = log_paths(directory)
    if not paths:
        raise SweepError(f"{directory.name} has printed nothing yet (no file in {directory / 'log'})")
    print(f"{paths[-1]}", file=sys.stderr)
    print("\n".join(read_log(paths[-1], tail_bytes=max(65_536, 200 * lines)).splitlines()[-lines:]))


def make_report(words: str | None, *, json_output: bool = False) -> None:
    from batchscout.report import write_report

    directory = find_sweep(words)
    result = read_result(directory)
    page = write_report(directory)
    if json_output:
        print_json(final_line(result, directory, ()))
        return
    say_result(result)
    print(f"report   {page}")


def export_to(words: str | None, output: Path | None) -> None:
    from batchscout.run.recorded import export_sweep

    text = "".join(f"{line}\n" for line in export_sweep(find_sweep(words)))
    if output is None:
        if _redirected_to().endswith(".gz"):
            sys.stdout.buffer.write(gzip.compress(text.encode(), mtime=0))
        else:
            sys.stdout.write(text)
        return
    if output.suffix == ".gz":
        output.write_bytes(gzip.compress(text.encode(), mtime=0))
    else:
        output.write_text(text, encoding="utf-8")
    print(f"{output}: {text.count(chr(10)) - 1} jobs")


def _redirected_to() -> str:
    """The file that standard output goes to, "" where it is none or cannot be known."""
    try:
        return os.readlink("/proc/self/fd/1")
    except OSError:  # not Linux
        return ""


def show_fit(source: str | None, *, json_output: bool, gamma: str) -> None:
    laws = _laws(source, gamma)
    if json_output:
        print(json.dumps(laws, indent=1, allow_nan=False))
        return
    from batchscout.report.law_words import law_words

    for name, words in law_words({"laws": laws, "target": (laws.get("samples") or {}).get("target")}):
        print(f"{name}: {words}")
    best = laws.get("recommendation")
    if best:
        print(f"best: batch_size={best['batch_size']}, {duration(best['time_to_target'])} to the target")
    for warning in laws.get("warnings", ()):
        print(f"warning: {warning}")


def _laws(source: str | None, gamma: str) -> dict[str, Any]:
    path = Path(source) if source else None
    if path is not None and path.is_file():
        from batchscout.laws.table import fit_table

        return fit_table(path, gamma=gamma_of(gamma))
    laws: dict[str, Any] = read_result(find_sweep(source))["laws"]
    return laws


def gamma_of(text: str) -> Any:
    if text == "free":
        return "free"
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise ConfigError("gamma", text, "must be a number above 0, or free")
    return value
