"""An executor that replays a recorded sweep on a virtual clock, with the journals that its jobs would have
written.

A job runs along its recorded curve. A stop request takes effect at its next evaluation; the job then costs
what it ran, and going on with it costs the rest. A probe of k updates costs the recorded time of the first k
updates and shows no score. Several slots run in parallel on the virtual clock. Caps of the configuration do
not apply: the recording has its own. Journals are kept in memory and written as files when a job ends. A job that
ran when its process was killed is taken up by the next one from its submission on: a replay that was killed goes
on as if it had not been.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from batchscout.clock import VirtualClock
from batchscout.errors import LaunchError
from batchscout.measure.curve import Curve
from batchscout.measure.outcome import Outcome
from batchscout.run.executor import SchedulerState, Status, Submission
from batchscout.run.files import read_json
from batchscout.run.journals import JournalView
from batchscout.run.recorded import RecordedJob, RecordedSweep
from batchscout.search.protocol import Point

Event = dict[str, Any]


@dataclass(slots=True)
class _Run:
    """One submission under way: events not yet due, oldest first."""

    job_id: str
    directory: Path
    attempt: int
    due: Iterator[Event]
    next: Event | None
    happened: list[Event] = field(default_factory=list)
    reported: int = 0
    evaluations: int = 0
    cell: RecordedJob | None = None  # None: a probe

    def advance(self) -> None:
        """The next event happens."""
        assert self.next is not None
        self.happened.append(self.next)
        self.evaluations += self.next["event"] == "evaluation"
        self.next = next(self.due, None)


class ReplayExecutor:
    """Also the source of its jobs' journals (`journals`), which the controller reads in place of files.

    wakes_on_evaluations  False: only ends matter, so that time advances from end to end
    """

    def __init__(
        self, recording: RecordedSweep, *, slots: int = 1, startup_seconds: float | None = None
    ) -> None:
        self.slots = slots
        self.clock = VirtualClock()
        self.wakes_on_evaluations = True
        self._recording = recording
        self._startup = recording.startup_seconds if startup_seconds is None else startup_seconds
        self._runs: dict[str, _Run] = {}
        self._past: dict[str, list[list[Event]]] = {}  # earlier attempts, by job
        self._directories: dict[str, Path] = {}
        self._changed: set[str] = set()

    @property
    def journals(self) -> ReplayExecutor:
        return self

    def submit(self, job_dir: Path, *, name: str) -> Submission:
        job = read_json(job_dir / "job.json")
        cell = self._recording.jobs.get((Point(job["batch_size"], job["lr"]), job["seed"]))
        if cell is None:
            raise LaunchError(f"{job['id']} is not in the recording {self._recording.world}")
        past = self._past.setdefault(job["id"], [])
        if not past:  # an earlier process of this sweep may have replayed a part
            past.extend(_read_attempts(job_dir))
        run = self._start(cell, job, job_dir, begin=self.clock.now())
        return Submission(job["id"], f"replay|{job['id']}|{run.attempt}", name, self.clock.now())

    def _start(self, cell: RecordedJob, job: Mapping[str, Any], job_dir: Path, *, begin: float) -> _Run:
        past = self._past[job["id"]]
        replay = _Replay(cell, job, past, begin=begin, startup=self._startup, recording=self._recording)
        due = replay.events()
        run = _Run(job["id"], job_dir, len(past) + 1, due, next(due), evaluations=replay.evaluations_before)
        run.cell = None if job["updates_limit"] is not None else cell
        self._runs[job["id"]] = run
        self._deliver()
        return run

    def find(self, name: str) -> Submission | None:
        """Never: what an unanswered submission started died with its process, before anything happened."""
        return None

    def _take_up(self, submission: Submission) -> _Run | None:
        """A job that an earlier process of this sweep submitted; None where it had ended or is not known."""
        job_dir = self._directories.get(submission.job_id)
        if job_dir is None or not submission.handle:
            return None
        attempt = int(submission.handle.rpartition("|")[2])
        job, past = read_json(job_dir / "job.json"), _read_attempts(job_dir)
        cell = self._recording.jobs.get((Point(job["batch_size"], job["lr"]), job["seed"]))
        if cell is None or len(past) >= attempt:
            return None
        self._past[submission.job_id] = past
        return self._start(cell, job, job_dir, begin=submission.submitted)

    def poll(self, submissions: Sequence[Submission]) -> Mapping[str, Status]:
        return {s.job_id: self._status(s) for s in submissions}

    def _status(self, submission: Submission) -> Status:
        run = self._runs.get(submission.job_id) or self._take_up(submission)
        if run is None:
            return Status(SchedulerState.ENDED, "NODE_FAIL")
        if run.next is None:
            return Status(SchedulerState.ENDED, "COMPLETED", exit_code=0)
        return Status(SchedulerState.RUNNING if run.happened else SchedulerState.PENDING)

    def cancel(self, submission: Submission) -> None:
        run = self._runs.get(submission.job_id)
        if run is not None and run.next is not None:
            self._end(run, Outcome.CANCELLED, "cancelled")

    def wait(self, seconds: float) -> None:
        """Obey stop requests, then advance to the next event of any job (or by `seconds`, if none runs)."""
        running = [run for run in self._runs.values() if run.next is not None]
        for run in running:
            if self._is_at_evaluation(run) and (control := read_json(run.directory / "control")) is not None:
                if control.get("time", 0.0) > self.clock.now():
                    continue  # asked by a process that was killed later than now
                self._end(run, Outcome.STOPPED, control["reason"])
                return
        if not running:
            self.clock.sleep(seconds)
            return
        self.clock.advance_to(min(self._wakes_at(run) for run in running))
        self._deliver()

    def _is_at_evaluation(self, run: _Run) -> bool:
        """Now: a job looks for a request at its evaluations only, so that it costs exactly what it ran."""
        last = run.happened[-1] if run.happened else None
        return last is not None and last["event"] == "evaluation" and last["time"] == self.clock.now()

    def _wakes_at(self, run: _Run) -> float:
        assert run.next is not None
        if self.wakes_on_evaluations:
            return float(run.next["time"])
        while run.next["event"] != "end":
            run.advance()
        return float(run.next["time"])

    def _deliver(self) -> None:
        now = self.clock.now()
        for run in self._runs.values():
            while run.next is not None and run.next["time"] <= now:
                run.advance()
                self._changed.add(run.job_id)
            if run.next is None and run.job_id in self._changed:
                self._finish(run)

    def _end(self, run: _Run, outcome: Outcome, reason: str) -> None:
        last = run.happened[-1] if run.happened else None
        counts = {key: last[key] if last else 0 for key in ("updates", "samples", "seconds", "wall_seconds")}
        end = {"v": 1, "event": "end", "time": self.clock.now(), **counts}
        run.next, run.due = {**end, "outcome": outcome.value, "reason": reason, "message": ""}, iter(())
        run.advance()
        self._changed.add(run.job_id)
        self._finish(run)

    def _finish(self, run: _Run) -> None:
        """Write the attempt's journal, once."""
        folder = run.directory / "attempts" / f"{run.attempt:03d}"
        if folder.is_dir():
            return
        folder.mkdir(parents=True)
        lines = "".join(json.dumps(event, allow_nan=False) + "\n" for event in run.happened)
        (folder / "journal.jsonl").write_text(lines, encoding="utf-8")
        self._past[run.job_id] = [*self._past[run.job_id], run.happened]

    def close(self) -> None:
        """Nothing is held."""

    # The journals of its jobs

    def refresh(self, job_dir: Path) -> JournalView | None:
        """The job's journals, None where nothing happened since the last call."""
        if job_dir.name not in self._changed:
            return None
        self._changed.discard(job_dir.name)
        return self.read(job_dir)

    def read(self, job_dir: Path) -> JournalView:
        run = self._runs.get(job_dir.name)
        if run is None:
            self._directories[job_dir.name] = job_dir
            return JournalView(_read_attempts(job_dir))
        past = self._past[run.job_id][: run.attempt - 1]
        attempts = [*past, run.happened] if run.happened else past
        added, run.reported = run.happened[run.reported :], len(run.happened)
        return JournalView(attempts, added, curve_of=lambda: self._curve(run, attempts))

    def _curve(self, run: _Run, attempts: list[list[Event]]) -> Curve | None:
        if not attempts:
            return None
        if run.cell is None:
            return Curve.from_attempts(attempts)
        is_whole = run.evaluations == run.cell.evaluations and run.happened[-1]["event"] == "end"
        record = run.cell.first(run.evaluations, is_whole=is_whole)
        walls = [e["wall_seconds"] for events in attempts for e in events if e["event"] == "evaluation"]
        return Curve.from_recorded({**record, "wall_seconds": walls})


class _Replay:
    """The events of one attempt of one recorded job."""

    def __init__(
        self,
        cell: RecordedJob,
        job: Mapping[str, Any],
        past: Sequence[Sequence[Event]],
        *,
        begin: float,
        startup: float,
        recording: RecordedSweep,
    ) -> None:
        self._cell, self._job, self._recording = cell, job, recording
        self._attempt, self._startup = len(past) + 1, startup
        self.evaluations_before = sum(e["event"] == "evaluation" for events in past for e in events)
        last = past[-1][-1] if past else None
        self._done = {k: last[k] if last else 0 for k in ("updates", "samples", "seconds", "wall_seconds")}
        self._begin = begin + startup
        self._offset = float(self._done["seconds"])
        self._wall_before = self._done["wall_seconds"] + (startup if past else 0.0)

    def events(self) -> Iterator[Event]:
        """In order, each with the virtual time at which it happens."""
        yield self._event("start", **self._identity())
        if self._attempt > 1:
            yield self._event("resume", from_updates=self._done["updates"])
        if self._job["updates_limit"] is None:
            yield from self._evaluations()
            yield self._recorded_end()
        elif not self._cell.evaluations:
            yield self._event("end", outcome=Outcome.INFEASIBLE.value, reason="oom_gpu", message="")
        else:
            yield from self._probe(self._job["updates_limit"])
            yield self._event("end", outcome=Outcome.CAPPED.value, reason="updates", message="probed")

    def _recorded_end(self) -> Event:
        outcome, reason = self._cell.outcome, "recorded"
        if outcome is Outcome.INFEASIBLE:
            reason = "oom_gpu"
        if outcome is Outcome.STOPPED and self.evaluations_before == self._cell.evaluations:
            outcome = Outcome.CAPPED  # gone on with where the recording ends: it cannot go on a second time
        return self._event("end", outcome=outcome.value, reason=reason, message="")

    def _identity(self) -> Event:
        job, config = self._job, self._job["config"]
        return {
            "job": job["id"],
            "attempt": self._attempt,
            **{key: job[key] for key in ("batch_size", "lr", "seed")},
            "group_size": config.get("group_size", 1),
            "gpu": self._recording.gpu,
            "gpus": self._recording.gpus,
            "node": None,
            "host": None,
            "pid": None,
            "slurm_job_id": None,
            "startup_seconds": self._startup,
        }

    def _evaluations(self) -> Iterator[Event]:
        record = self._cell.record
        for i in range(self.evaluations_before, self._cell.evaluations):
            samples, seconds = record["samples"][i], record["seconds"][i]
            if samples > self._done["samples"]:
                yield self._update(samples, seconds, record["sampling_seconds"][i])
            score = record["score"][i]
            missing = {} if score is not None else {"nonfinite": ["score"]}
            keys = {"score": score, "score_n": self._optional("score_n", i), "metrics": {}}
            yield self._event(
                "evaluation",
                **keys,
                evaluation_seconds=self._optional("evaluation_seconds", i) or 0.0,
                **missing,
            )
        if self._cell.total is not None and self._cell.total[0] > self._done["samples"]:
            samples, seconds = self._cell.total
            share = record["sampling_seconds"][-1] / record["seconds"][-1] if record["samples"] else 0.0
            yield self._update(samples, seconds, share * seconds)

    def _optional(self, name: str, index: int) -> Any:
        column = self._cell.record.get(name)
        return None if column is None else column[index]

    def _probe(self, updates: int) -> Iterator[Event]:
        record, batch_size = self._cell.record, self._cell.point.batch_size
        knots = [0, *record["samples"]]
        for update in range(1, updates + 1):
            samples = update * batch_size
            if samples > knots[-1]:
                return
            spent = (
                float(np.interp(samples, knots, [0, *record[k]])) for k in ("seconds", "sampling_seconds")
            )
            yield self._update(samples, *spent)

    def _update(self, samples: int, seconds: float, sampling: float) -> Event:
        """All updates up to here as one event; the recording knows their sum only."""
        batch_size = self._cell.point.batch_size
        updates = max(self._done["updates"] + 1, round(samples / batch_size))
        self._done = {
            "updates": updates,
            "samples": samples,
            "seconds": seconds,
            "wall_seconds": self._wall_before + seconds - self._offset,
        }
        rest = dict.fromkeys(("reward_seconds", "sync_seconds", "other_seconds"), 0.0)
        unknown = dict.fromkeys(("generated_samples", "generated_tokens", "trained_tokens"))
        parts = {"sampling_seconds": sampling, "learning_seconds": seconds - sampling, **rest}
        return self._event("update", **parts, **unknown, warmup=False, metrics={})

    def _event(self, name: str, **keys: Any) -> Event:
        time = self._begin + self._done["seconds"] - self._offset
        return {"v": 1, "event": name, "time": time, **self._done, **keys}


def _read_attempts(job_dir: Path) -> list[list[Event]]:
    paths = sorted((job_dir / "attempts").glob("*/journal.jsonl"))
    return [[json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] for path in paths]
