"""The wiring: a plan becomes an executor, a search and listeners, and these become a finished sweep."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from batchscout.clock import RealClock
from batchscout.config import SearchConfig
from batchscout.errors import SweepError
from batchscout.plan import Plan, Request, make_plan
from batchscout.run.executor import Executor
from batchscout.run.listener import Listener
from batchscout.run.settings import ExitCode
from batchscout.scale_out import requests_by_gpus
from batchscout.search.factory import build_search
from batchscout.search.protocol import Search
from batchscout.start_model import with_start_model

SHOWN_FAILURES = 8
NAMED_WITHIN_SECONDS = 5.0
"""So long a controller may take from its lock to its sweep.json."""
WIDTH = 140
"""Columns of text that does not go to a terminal."""

MakeExecutor = Callable[[Plan, Search, Path], Executor]


def run(
    request: Request,
    *,
    make_executor: MakeExecutor | None = None,
    listeners: Sequence[Listener] = (),
) -> ExitCode:
    """Check, then run what was asked for, or describe it where dry_run is set.

    make_executor  (plan, search, sweep directory) → where jobs run, instead of what `hardware` says
    listeners      further ones
    Raises         ConfigError before anything is written or submitted
    """
    parts = requests_by_gpus(request)
    if parts:
        return run_parts(parts, make_executor=make_executor, listeners=listeners)
    plan = make_plan(request)
    wanted = plan.config.search
    options = search_options(wanted)
    if plan.carried is not None:
        options["carried"] = plan.carried.jobs
        for warning in plan.carried.warnings:
            _note(plan, f"warning: {warning}")
    search = build_search(wanted.name, plan.settings.context, options, function=wanted.function)
    if plan.config.dry_run:
        from batchscout.dry_run import describe

        directory, is_resumed = choose(plan)
        print(describe(plan, directory, is_resumed=is_resumed))
        return ExitCode.OK
    while True:
        directory, is_resumed = choose(plan)
        if is_resumed:
            _note(plan, f"going on with the unfinished sweep in {directory} (fresh=true starts anew)")
        if plan.carried is not None:
            plan.carried.keep(directory)
        executor = (make_executor or executor_for)(plan, search, directory)
        try:
            return run_plan(plan, directory, executor=executor, search=search, listeners=listeners)
        except SweepError:
            if is_resumed or request.directory is not None or not _is_anothers(directory, plan):
                raise  # else another sweep took this name within the second: the next name is tried


def _is_anothers(directory: Path, plan: Plan) -> bool:
    """Whether a sweep of something else lies there, possibly just being made."""
    from batchscout.run.sweep_directory import is_sweep_of

    clock, wait = RealClock(), NAMED_WITHIN_SECONDS
    while not (directory / "sweep.json").exists() and wait > 0:
        clock.sleep(0.1)
        wait -= 0.1
    return (directory / "sweep.json").exists() and not is_sweep_of(directory, plan.settings)


def run_parts(
    parts: Mapping[int, Request], *, make_executor: MakeExecutor | None, listeners: Sequence[Listener]
) -> ExitCode:
    """One sweep after the other, each on its number of GPUs; then how `batchscout plan` reads them."""
    plans = [make_plan(part) for part in parts.values()]  # every mistake before the first job
    code, places = ExitCode.OK, []
    for gpus, part in parts.items():
        _note(plans[0], f"gpus={gpus}")
        code = max(code, run(part, make_executor=make_executor, listeners=listeners))
        if code == ExitCode.INTERRUPTED:
            return code
        places.append(str(part.directory or part.runs / str(part.mapping["name"])))
    source = next(iter(parts.values())).mapping["scale_out"].get("source") or "SWEEP"
    words = " ".join(f"--probes {place}" for place in places)
    _note(plans[0], f"plan     batchscout plan {source} {words} --gpus 1,8,64")
    return code


def _note(plan: Plan, text: str) -> None:
    """For people: beside standard output where that is a script's."""
    print(text, file=sys.stderr if plan.config.output == "json" else sys.stdout)


def search_options(wanted: SearchConfig) -> dict[str, Any]:
    """What the search's class takes beside the context."""
    takes_switch = wanted.function is None and wanted.name in ("random", "tpe", "gp")
    return {**({"stops_jobs": wanted.stops_jobs} if takes_switch else {}), **wanted.parameters}


def run_plan(
    plan: Plan, directory: Path, *, executor: Executor, search: Search, listeners: Sequence[Listener] = ()
) -> ExitCode:
    """Run a plan in its directory and say what came out."""
    from batchscout.run.api import run_sweep

    tracking, links = trackers(plan)
    code = run_sweep(
        with_start_model(plan, directory),
        directory,
        executor=executor,
        search=search,
        listeners=[*live_view(plan), *reporter(plan), *tracking, *listeners],
        command=plan.request.command,
        source=None if plan.config.hardware.executor == "debug" else plan.request.home,
    )
    if code != ExitCode.INTERRUPTED:  # a person who typed Ctrl-C wants the terminal back
        try:
            conclude(plan, directory, links())
            sys.stdout.flush()
        except BrokenPipeError:  # nobody reads on (`… | head`), which is no fault of the sweep
            sys.stdout = None
    return code


def choose(plan: Plan) -> tuple[Path, bool]:
    """The sweep's directory, and whether it is an unfinished one to go on with that was not named."""
    if plan.request.directory is not None:
        return plan.request.directory, False
    from batchscout.run.sweep_directory import choose_directory

    return choose_directory(
        plan.request.runs,
        plan.settings,
        clock=RealClock(),
        is_fresh=plan.config.fresh or plan.recording is not None,
    )


def executor_for(plan: Plan, search: Search, directory: Path) -> Executor:
    """Where `hardware` says."""
    if plan.recording is not None:
        from batchscout.run.replay import ReplayExecutor

        hardware = plan.config.hardware
        return ReplayExecutor(
            plan.recording,
            slots=hardware.slots,
            startup_seconds=(hardware.startup_seconds + hardware.queue_seconds) or None,
        )
    from batchscout.run.executors import make_executor

    return make_executor(
        plan.config.hardware,
        clock=RealClock(),
        working_directory=plan.request.home,
        max_requeues=plan.config.max_requeues,
    )


def live_view(plan: Plan) -> list[Listener]:
    """Progress on the terminal, or for a script; a replay is over before a person could read it."""
    if plan.config.output == "json":
        from batchscout.report.json_lines import JsonLines

        return [JsonLines()]
    if plan.recording is not None:
        return []
    from batchscout.report.live import LiveView

    return [LiveView()]


def reporter(plan: Plan) -> list[Listener]:
    """Who writes report.html at the end, before the tracker that uploads it. A replay gets no report."""
    if plan.recording is not None:
        return []
    from batchscout.report.page import ReportWriter

    return [ReportWriter()]


def trackers(plan: Plan) -> tuple[list[Listener], Callable[[], tuple[str, ...]]]:
    """Who logs the sweep, and what to print then. A replay logs nothing unless tracking was typed."""
    tracking = plan.config.tracking
    is_asked = any(name == "tracking" or name.startswith("tracking.") for name in plan.request.typed)
    if tracking.name == "none" or (plan.recording is not None and not is_asked):
        return [], tuple
    from batchscout.track import MlflowTracker, StudyServer, StudyWriter

    tracker = MlflowTracker(tracking.uri or "", trainer_joins=tracking.trainer_joins)
    study = StudyWriter() if tracking.study is None else StudyServer(tracking.study)
    return [tracker, study], lambda: tracker.links


def conclude(plan: Plan, directory: Path, links: tuple[str, ...]) -> None:
    """Say the answer and where everything lies."""
    from batchscout.run.files import read_json

    result = read_json(directory / "result.json")
    if result is None:
        return
    if plan.config.output == "json":
        from batchscout.report.json_lines import final_line, write_line

        write_line("result", final_line(result, directory, links))
        return
    say_result(result)
    for line in failures(result, directory):
        print(line)
    if (directory / "report.html").is_file():
        print(f"report   {directory / 'report.html'}")
    print(f"results  {directory}")
    for link in links:
        print(f"mlflow   {link}")


def say_result(result: dict[str, Any]) -> None:
    """The table, one row a batch size, the recommendation in one sentence, and what weakens it."""
    from batchscout.report.console import QuietConsole
    from batchscout.report.doubts import doubts
    from batchscout.report.sentence import recommendation
    from batchscout.report.table import render

    QuietConsole(highlight=False, width=None if sys.stdout.isatty() else WIDTH).print(render(result))
    print(recommendation(result))
    for doubt in doubts(result):
        print(f"warning  {doubt}")


def failures(result: Mapping[str, Any], directory: Path) -> Iterator[str]:
    """The jobs that failed and why, the first SHOWN_FAILURES of them."""
    from batchscout.report.console import one_line

    failed = [row for row in result["jobs"] if row["outcome"] == "failed"]
    for row in failed[:SHOWN_FAILURES]:
        setting = f"batch_size={row['batch_size']} lr={row['lr']:g} seed={row['seed']}"
        yield f"failed   {row['id']} ({setting}): {one_line(row['message'] or row['reason'])}"
    if len(failed) > SHOWN_FAILURES:
        yield f"failed   {len(failed) - SHOWN_FAILURES} more"
    if failed and (directory / "jobs" / failed[0]["id"] / "log").is_dir():
        yield f"logs     batchscout logs {directory} {failed[0]['id']}"
