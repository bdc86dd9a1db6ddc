"""Commands that only look: status, logs, report, export, fit."""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from batchscout.app import say_result
from batchscout.cli.find import find_job, find_sweep
from batchscout.errors import ConfigError, SweepError
from batchscout.report.numbers import count, duration, rate
from batchscout.run.files import read_json
from batchscout.run.lock import describe, holder_of, is_alive

SHOWN_JOBS = 12


def read_result(directory: Path) -> dict[str, Any]:
    """result.json. Raises SweepError where no job has been planned yet."""
    result: dict[str, Any] | None = read_json(directory / "result.json")
    if result is None:
        raise SweepError(f"{directory} has no result.json yet; its sweep has not started its first job")
    return result


def show_status(words: str | None, *, all_jobs: bool) -> None:
    directory = find_sweep(words)
    result = read_result(directory)
    holder = holder_of(directory)
    state = result["status"]
    if state in ("running", "interrupted"):
        is_held = holder is not None and is_alive(holder)
        held = f", controller {describe(holder)}" if is_held and holder else ""
        state += held or "; it has no controller, `batchscout resume` goes on"
    print(f"{result['sweep']}: {state}")
    outcomes = Counter(job["outcome"] for job in result["jobs"])
    print(f"jobs     {len(result['jobs'])}: {', '.join(f'{n} {name}' for name, n in outcomes.most_common())}")
    cost = result["cost"]
    words_of_cost = [f"{duration(cost['seconds'])} of training"]
    if cost.get("gpu_hours"):
        words_of_cost.append(f"{cost['gpu_hours']:.3g} GPU-hours")
    if cost.get("money") is not None:
        words_of_cost.append(f"{cost['money']:.2f} spent")
    print(f"cost     {', '.join(words_of_cost)}")
    _show_jobs(result["jobs"], all_jobs=all_jobs)
    say_result(result)


def _show_jobs(rows: list[Mapping[str, Any]], *, all_jobs: bool) -> None:
    """Unfinished and failed ones first; the rest only where asked for, or where they are few."""
    active = [r for r in rows if r["outcome"] in ("queued", "running", "preempted", "failed")]
    shown = rows if all_jobs or len(rows) <= SHOWN_JOBS else active[:SHOWN_JOBS]
    for row in shown:
        print(f"  {job_line(row)}")
    if len(shown) < len(rows):
        print(f"  … {len(rows) - len(shown)} more with --all")


def job_line(row: Mapping[str, Any]) -> str:
    """One job in one line."""
    reached = row["time_to_target"]
    answer = f"reached in {duration(reached)}" if reached is not None else row["outcome"]
    why = f" ({row['reason']})" if row["reason"] and reached is None else ""
    message = f": {row['message']}" if row.get("message") and row["outcome"] == "failed" else ""
    spent = f"{count(row['samples'])} samples, {duration(row['seconds'])}"
    return f"{row['id']:24s} {answer}{why}{message}; {spent}, lr {rate(row['lr'])}"


def show_log(job: str, words: str | None, *, lines: int) -> None:
    from batchscout.run.log import log_paths, read_log

    directory = find_job(find_sweep(words), job)
    paths = log_paths(directory)
    if not paths:
        raise SweepError(f"{directory.name} has printed nothing yet (no file in {directory / 'log'})")
    print(f"{paths[-1]}", file=sys.stderr)
    print("\n".join(read_log(paths[-1], tail_bytes=max(65_536, 200 * lines)).splitlines()[-lines:]))


def make_report(words: str | None) -> None:
    from batchscout.report import write_report

    directory = find_sweep(words)
    result = read_result(directory)
    page = write_report(directory)
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

        return fit_table(path, gamma=_gamma(gamma))
    laws: dict[str, Any] = read_result(find_sweep(source))["laws"]
    return laws


def _gamma(text: str) -> Any:
    if text == "free":
        return "free"
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise ConfigError("gamma", text, "must be a number above 0, or free")
    return value
