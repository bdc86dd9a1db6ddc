"""The process that runs one job: `python -m batchscout.run.worker JOB_DIR`.

It reads its own directory, calls the trainer and says in its journal how that ended. It opens no database,
imports no Hydra, and imports fast, since every job waits for it. Whatever a trainer raises becomes an outcome
here and nowhere else.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from batchscout.clock import RealClock
from batchscout.errors import InfeasibleError
from batchscout.measure.attempt import attempt_paths
from batchscout.measure.journal import read_journal
from batchscout.measure.outcome import Outcome
from batchscout.measure.reporter import Reporter
from batchscout.measure.target import Caps, EvaluationGrid, Target
from batchscout.run.binding import claim
from batchscout.run.classify import Classification, classify_error
from batchscout.run.executors.gpus import gpu_of_this_job
from batchscout.run.executors.submission import (
    AFTER,
    CLAIMS,
    MAX_REQUEUES,
    NAME,
    SHARED,
    SNAPSHOT,
    STARTED,
    SUBMITTED,
)
from batchscout.run.joining import joined_run
from batchscout.run.ranks import (
    FollowingReporter,
    LeadingReporter,
    distributed_variables,
    meeting_file,
    rank,
    world_size,
)
from batchscout.run.snapshot import outside_of_snapshot

log = logging.getLogger("batchscout.worker")

Function = Callable[[Mapping[str, Any], Reporter], None]

EXIT_OK, EXIT_FAILED = 0, 1


def run_attempt(job_dir: str, after: int = 0) -> int:
    """Run the job once, from its newest checkpoint if it has one. Returns the process's exit status.

    after   attempts up to this number were there at submission; a later one that ended finally means that
            this process was started again by a scheduler that took the job's end for a loss: nothing is to be
            done
    """
    directory = Path(job_dir).resolve()
    job = json.loads((directory / "job.json").read_text(encoding="utf-8"))
    if _has_ended(directory, after):
        log.info("%s has ended already; nothing to do", directory.name)
        return EXIT_OK
    os.environ.update(distributed_variables(os.environ))
    signals = Signals()
    with signals, joined_run(directory):
        if rank() > 0:
            return _follow(directory, job)
        function, failure = _load(job["config"]["trainer"]["function"])
        reporter = _open_reporter(directory, job)
        signals.attach(reporter)
        _warn_of_strays(reporter, function)
        if failure is None:
            failure = _call(function, job["config"], reporter)
        return _end(reporter, _of_another_rank(directory, reporter, failure), signals)


def _follow(directory: Path, job: Mapping[str, Any]) -> int:
    """A rank other than 0: the same trainer with a reporter that does as rank 0's."""
    function, failure = _load(job["config"]["trainer"]["function"])
    meeting = meeting_file(directory)
    if function is not None and failure is None:
        try:
            function(job["config"], FollowingReporter(meeting, RealClock()))
        except Exception:  # boundary: as in _call; rank 0 says it, since only that has a journal
            meeting.with_suffix(".error").write_text(traceback.format_exc(), encoding="utf-8")
            raise
    return EXIT_OK


def _of_another_rank(
    directory: Path, reporter: Reporter, failure: Classification | None
) -> Classification | None:
    """The cause, where this rank only failed because another one had."""
    error = meeting_file(directory).with_suffix(".error")
    if failure is None or world_size() == 1 or not error.exists():
        return failure
    return classify_error(error.read_text(encoding="utf-8"), reporter.phase)


def _load(function: str) -> tuple[Function | None, Classification | None]:
    """The trainer, or why it cannot be had: a broken module must end up in the journal, not only in a log."""
    from batchscout.train.trainer import load_trainer

    try:
        return load_trainer(function), None
    except Exception:  # noqa: BLE001  # boundary: importing a user's module can raise anything
        return None, _explain(None)


def _call(function: Function | None, config: Mapping[str, Any], reporter: Reporter) -> Classification | None:
    """Run the trainer. Returns None if it came back, else what its exception means."""
    assert function is not None
    try:
        function(config, reporter)
    except InfeasibleError as error:
        traceback.print_exc()
        return Classification(Outcome.INFEASIBLE, error.reason, str(error), phase=reporter.phase)
    except Exception:  # noqa: BLE001  # boundary: a trainer can raise anything, and all of it is an outcome
        return _explain(reporter.phase)
    return None


def _explain(phase: str | None) -> Classification:
    """The current exception as an outcome; its traceback goes to the log."""
    text = traceback.format_exc()
    sys.stderr.write(text)
    sys.stderr.flush()
    return classify_error(text, phase)


def _end(reporter: Reporter, failure: Classification | None, signals: Signals) -> int:
    if failure is not None:
        reporter.end(failure.outcome, failure.reason, failure.message)
        return EXIT_OK if failure.outcome is Outcome.INFEASIBLE else EXIT_FAILED
    if not reporter.has_ended:
        reporter.end()
    if reporter.preempted and signals.user_signal:
        requeue()
    return EXIT_OK


def requeue() -> bool:
    """Put this Slurm job back into the queue; False where that is not possible (the controller then submits
    anew).

    Only after SIGUSR2 (a time limit or a preemption announces itself by it): SIGTERM may be somebody's
    scancel.
    """
    job = os.environ.get("SLURM_JOB_ID")
    restarts = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
    if job is None or restarts >= int(os.environ.get(MAX_REQUEUES, "0")) or rank() != 0:
        return False
    try:
        done = subprocess.run(["scontrol", "requeue", job], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("scontrol requeue %s: %s", job, error)
        return False
    if done.returncode:
        log.warning("scontrol requeue %s: %s", job, done.stderr.strip())
    return done.returncode == 0


class Signals:
    """SIGUSR2 and SIGTERM ask for a checkpoint and the end of this process; active within a `with` block.

    Does nothing in another thread than the main one, where Python allows no handlers (in-process jobs).
    """

    def __init__(self) -> None:
        self.reporter: Reporter | None = None
        self.user_signal = False
        self._early = False
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGUSR2, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        log.warning("caught %s: checkpoint and leave", signal.Signals(number).name)
        self.user_signal = self.user_signal or number == signal.SIGUSR2
        if self.reporter is None:
            self._early = True
        else:
            self.reporter.request_preemption()

    def attach(self, reporter: Reporter) -> None:
        """From now on signals reach `reporter`; one that came during the start does now."""
        self.reporter = reporter
        if self._early:
            reporter.request_preemption()


def _has_ended(directory: Path, after: int) -> bool:
    for path in attempt_paths(directory):
        journal = path / "journal.jsonl"
        if int(path.name) > after and journal.exists():
            ends = [e for e in read_journal(journal) if e["event"] == "end"]
            if ends and Outcome(ends[-1]["outcome"]).is_final:
                return True
    return False


def _open_reporter(directory: Path, job: Mapping[str, Any]) -> Reporter:
    config = job["config"]
    kind = LeadingReporter if world_size() > 1 else Reporter
    reporter = kind.open(
        directory,
        identity={
            "job": directory.name,
            **{key: config[key] for key in ("batch_size", "lr", "seed", "group_size")},
            "gpu": gpu_of_this_job() or config.get("gpu"),
            "gpus": config.get("gpus", 0),
            **_shared_allocation(),
        },
        target=Target(**_only(Target, config["target"])),
        caps=_caps(job),
        evaluation=EvaluationGrid(config["evaluation"]["samples"]),
        clock=RealClock(),
        checkpoint_every_seconds=config.get("checkpoint_every_seconds", 60.0),
        startup_seconds=_startup_seconds(),
    )
    if isinstance(reporter, LeadingReporter):
        reporter.lead(world_size() - 1, meeting_file(directory))
    return reporter


def _only(cls: type, mapping: Mapping[str, Any]) -> dict[str, Any]:
    values = {k: v for k, v in mapping.items() if k in cls.__dataclass_fields__}  # type: ignore[attr-defined]
    return {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}


def _caps(job: Mapping[str, Any]) -> Caps:
    """The configuration's caps; a probe's number of updates is one more."""
    caps = {"samples": None, "updates": None, "seconds": None, **job["config"].get("caps", {})}
    limits = [n for n in (caps["updates"], job.get("updates_limit")) if n is not None]
    return Caps(samples=caps["samples"], updates=min(limits, default=None), seconds=caps["seconds"])


def _startup_seconds() -> float:
    """From the start of the allocation (Slurm), else from the submission, else 0; imports included."""
    began = os.environ.get(STARTED) or os.environ.get(SUBMITTED)
    return max(0.0, time.time() - float(began)) if began else 0.0


def _shared_allocation() -> dict[str, float]:
    """Of a job that runs with others in one allocation: when that started, and how many they are."""
    began, _, sharers = os.environ.get(SHARED, "").partition(" ")
    return {"allocation_started": float(began), "sharers": int(sharers)} if began else {}


def _warn_of_strays(reporter: Reporter, function: Function | None) -> None:
    """A job whose code does not come from the snapshot may run something else than what was planned."""
    snapshot = os.environ.get(SNAPSHOT)
    if snapshot is None:
        return
    names = ["batchscout", *([function.__module__] if function else [])]
    for name in names:
        file = getattr(sys.modules.get(name), "__file__", None)
        if outside_of_snapshot(file, Path(snapshot)):
            reporter.warn(f"{name} was imported from {file}, not from the sweep's snapshot {snapshot}")


def run_group(job_dirs: list[str], afters: list[int]) -> int:
    """Several jobs in one allocation, one process each, so that running out of memory ends only one."""
    status = EXIT_OK
    for job_dir, after in zip(job_dirs, afters, strict=True):
        environment = {**os.environ, AFTER: str(after), STARTED: f"{time.time():.3f}"}
        began = os.environ.get(STARTED) or os.environ.get(SUBMITTED) or environment[STARTED]
        environment[SHARED] = f"{began} {len(job_dirs)}"
        child = subprocess.Popen(
            [sys.executable, "-P", "-u", "-m", "batchscout.run.worker", job_dir], env=environment
        )
        was_told_to_leave = _relay_signals(child)
        code = child.wait()
        status = status or code
        if was_told_to_leave():
            break  # the rest is still queued; the same allocation, requeued, goes on there
    return status


def _relay_signals(child: subprocess.Popen[bytes]) -> Callable[[], bool]:
    """Pass SIGUSR2 and SIGTERM on to the child. Returns what says whether one came."""
    came: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        child.send_signal(number)

    signal.signal(signal.SIGUSR2, handle)
    signal.signal(signal.SIGTERM, handle)
    return lambda: bool(came)


def main(job_dirs: list[str]) -> int:
    """The process's whole life. Returns its exit status."""
    faulthandler.enable()
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    afters = [int(a) for a in os.environ.get(AFTER, "").split(",") if a] or [0] * len(job_dirs)
    if len(job_dirs) > 1:
        return run_group(job_dirs, afters)
    job_dir = Path(job_dirs[0]).resolve()
    claimed = claim(job_dir, os.environ[NAME]) if CLAIMS in os.environ else job_dir
    if claimed != job_dir:
        log.info("this place in the queue was given to %s", claimed.name)
    return run_attempt(str(claimed), afters[0] if claimed == job_dir else 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
