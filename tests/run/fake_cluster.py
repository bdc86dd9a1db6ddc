"""A cluster made of files: what it does with a job is a function of its submission's time and the clock.

So it lives on when a controller is killed, and any process sees the same. Journals are written as the clock
passes their events.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from batchscout.clock import Clock
from batchscout.run.binding import claim
from batchscout.run.executor import SchedulerState, Status, Submission

EVALUATIONS = 5


@dataclass(frozen=True)
class Behaviour:
    """What a job does once submitted. Seconds of the clock.

    outcome     of its end event; None: it ends without one
    peak        score at its last evaluation
    detail, exit_code   what the scheduler says of it afterwards
    obeys       looks for stop requests
    is_lost     the scheduler forgets it when it ends
    preempted_at  it loses its allocation then, waits as long again and goes on
    """

    seconds: float = 10.0
    queue: float = 0.0
    outcome: str | None = "reached"
    reason: str = ""
    message: str = ""
    peak: float = 0.9
    detail: str = "COMPLETED"
    exit_code: int = 0
    obeys: bool = True
    is_lost: bool = False
    preempted_at: float | None = None
    updates: int = EVALUATIONS
    gpu: str = "H1"
    node: str = "n1"


@dataclass
class FakeCluster:
    """An Executor."""

    directory: Path
    clock: Clock
    behave: Callable[[dict[str, Any], int], Behaviour]
    slots: int = 1
    failing_polls: Iterator[bool] = field(default_factory=lambda: iter(()))
    submit_errors: list[Exception] = field(default_factory=list)
    forgets_answers: bool = False
    on_wait: Callable[[], None] = lambda: None
    polls: int = 0
    step: float = 0.5
    binds_late: bool = False
    unanswered_seconds: float = 0.0

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)

    # Executor

    def submit(self, job_dir: Path, *, name: str) -> Submission:
        if self.submit_errors and not self.forgets_answers:
            raise self.submit_errors.pop(0)
        path = self._path(name)
        assert not path.exists(), f"{name} was submitted twice"
        job = json.loads((job_dir / "job.json").read_text())
        submitted = self.clock.now()
        attempts = len(list((job_dir / "attempts").glob("*")))
        order = len(list(self.directory.glob("*.job")))
        content = {"job_dir": str(job_dir), "submitted": submitted, "attempts": attempts, "ended": None}
        content |= {"order": order, "name": name, "queue": self.behave(job, attempts).queue}
        beside = path.with_suffix(".tmp")
        beside.write_text(json.dumps(content))
        beside.rename(path)
        if self.submit_errors:
            raise self.submit_errors.pop(0)
        return Submission(job["id"], str(path), name, submitted)

    def find(self, name: str) -> Submission | None:
        path = self._path(name)
        if not path.exists():
            return None
        content = json.loads(path.read_text())
        self._play(path)
        if self._state(path).state is SchedulerState.ENDED:
            return None
        return Submission(Path(content["job_dir"]).name, str(path), name, content["submitted"])

    def poll(self, submissions: Sequence[Submission]) -> Mapping[str, Status] | None:
        self.polls += 1
        for path in self.directory.glob("*.job"):
            self._play(path)
        if next(self.failing_polls, False):
            return None
        return {s.job_id: self._state(Path(s.handle)) for s in submissions}

    def cancel(self, submission: Submission) -> None:
        path = Path(submission.handle)
        content = json.loads(path.read_text())
        if content["ended"] is None:
            path.write_text(json.dumps({**content, "ended": self.clock.now(), "detail": "CANCELLED"}))

    def wait(self, seconds: float) -> None:
        self.on_wait()
        self.clock.sleep(min(seconds, self.step))

    def close(self) -> None:
        pass

    # The cluster

    def submits(self) -> list[str]:
        """Job ids, one a submission, in order."""
        contents = [json.loads(path.read_text()) for path in self.directory.glob("*.job")]
        return [Path(c["job_dir"]).name for c in sorted(contents, key=lambda c: c["order"])]

    def _path(self, name: str) -> Path:
        return self.directory / f"{name}.job"

    def _behaviour(self, content: Mapping[str, Any]) -> tuple[Behaviour, dict[str, Any]]:
        job = json.loads((self._job_dir(content) / "job.json").read_text())
        return replace(self.behave(job, content["attempts"]), queue=content["queue"]), job

    def _job_dir(self, content: Mapping[str, Any]) -> Path:
        """Settled when the job starts, as a worker does."""
        job_dir = Path(content["job_dir"])
        if not self.binds_late or self.clock.now() < content["submitted"] + content["queue"]:
            return job_dir
        return claim(job_dir, content["name"])

    def _state(self, path: Path) -> Status:
        content = json.loads(path.read_text())
        behaviour, _ = self._behaviour(content)
        if content["ended"] is not None:
            if behaviour.is_lost:
                return Status(SchedulerState.ABSENT)
            return Status(SchedulerState.ENDED, content["detail"], "n1", content.get("exit_code"))
        since = self.clock.now() - content["submitted"]
        cut = behaviour.preempted_at
        if cut is not None and cut <= since < 2 * cut:
            return Status(SchedulerState.REQUEUED, "PENDING")
        return Status(
            SchedulerState.PENDING if since < behaviour.queue else SchedulerState.RUNNING, node="n1"
        )

    def _play(self, path: Path) -> None:
        """Write the journal up to now."""
        now = self.clock.now()
        content = json.loads(path.read_text())
        behaviour, job = self._behaviour(content)
        if content["ended"] is not None:
            return
        folder = self._job_dir(content) / "attempts" / f"{content['attempts'] + 1:03d}"
        journal = folder / "journal.jsonl"
        written = journal.read_text().splitlines() if journal.exists() else []
        events = [e for e in self._events(content, behaviour, job) if e["time"] <= now]
        asked = self._stop_request(content, behaviour)
        if asked is not None and len(events) < EVALUATIONS * 2 + 2 and written:
            last = json.loads(written[-1])
            events = [*events[: len(written)], {**last, "event": "end", "time": now, **asked}]
        for event in events[len(written) :]:
            folder.mkdir(parents=True, exist_ok=True)
            with journal.open("a") as file:
                file.write(json.dumps(event) + "\n")
        due = content["submitted"] + behaviour.queue + self._duration(behaviour)
        is_over = now >= due or bool(events and events[-1]["event"] == "end")
        if is_over:
            ended = {"ended": now, "detail": behaviour.detail, "exit_code": behaviour.exit_code}
            path.write_text(json.dumps({**content, **ended}))

    def _duration(self, behaviour: Behaviour) -> float:
        return behaviour.seconds + (behaviour.preempted_at or 0.0)

    def _stop_request(self, content: Mapping[str, Any], behaviour: Behaviour) -> dict[str, Any] | None:
        control = self._job_dir(content) / "control"
        if not behaviour.obeys or not control.exists():
            return None
        return {"outcome": "stopped", "reason": json.loads(control.read_text())["reason"], "message": ""}

    def _events(
        self, content: Mapping[str, Any], behaviour: Behaviour, job: Mapping[str, Any]
    ) -> Iterator[dict[str, Any]]:
        begin = content["submitted"] + behaviour.queue
        identity = {k: job[k] for k in ("batch_size", "lr", "seed")}
        rest = {
            "group_size": 1,
            "gpu": behaviour.gpu,
            "gpus": 1,
            "node": behaviour.node,
            "host": "h",
            "pid": 1,
        }
        counts = {"updates": 0, "samples": 0, "seconds": 0.0, "wall_seconds": 0.0}
        head = {
            "job": job["id"],
            "attempt": content["attempts"] + 1,
            "slurm_job_id": None,
            "startup_seconds": 0.0,
        }
        yield {"v": 1, "event": "start", "time": begin, **counts, **head, **identity, **rest}
        yield self._evaluation(begin, counts, 0.1)
        for i in range(1, behaviour.updates + 1):
            seconds = behaviour.seconds * i / EVALUATIONS
            pause = behaviour.preempted_at or 0.0
            time = begin + seconds + (pause if seconds > pause > 0 else 0.0)
            counts = {
                "updates": i,
                "samples": i * 1000,
                "seconds": seconds,
                "wall_seconds": seconds,
            }
            parts = {"sampling_seconds": seconds / 2, "learning_seconds": seconds / 2}
            parts |= dict.fromkeys(("reward_seconds", "sync_seconds", "other_seconds"), 0.0)
            yield {"v": 1, "event": "update", "time": time, **counts, **parts, "warmup": False, "metrics": {}}
            rise = (behaviour.peak - 0.1) * min(1.0, i / (EVALUATIONS - 1))
            yield self._evaluation(time, counts, 0.1 + rise)
        if behaviour.outcome is not None:
            said = {"outcome": behaviour.outcome, "reason": behaviour.reason, "message": behaviour.message}
            yield {"v": 1, "event": "end", "time": begin + self._duration(behaviour), **counts, **said}

    def _evaluation(self, time: float, counts: Mapping[str, Any], score: float) -> dict[str, Any]:
        rest = {"score": score, "score_n": 100, "evaluation_seconds": 0.0, "metrics": {}}
        return {"v": 1, "event": "evaluation", "time": time, **counts, **rest}
