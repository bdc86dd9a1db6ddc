"""One job of a sweep: what it is, how often it was submitted, and what became of it. All of it lives in
job.json.

Only the controller writes job.json (a worker reads it at its start), always as a whole and atomically, so a
controller killed between any two instructions finds a consistent record.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from batchscout.measure.outcome import Outcome
from batchscout.run.executor import Submission
from batchscout.run.files import read_json, write_json
from batchscout.search.protocol import Kind, Point, Proposal

WITHDRAWN = "withdrawn"
"""Reason of a job that lost its place in the queue before it ran, and takes no part until it is proposed
again."""
REBOUND = "rebound"
"""Outcome of a submission that runs another job (its reason) than it was made for."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a job is; fixed when it is planned.

    job_id         unique within the sweep, readable: `b128-lr0.0004-s0`, `probe-b128`
    index          order of creation
    signature      hash of what enters its measurement, its point, its seed and whether it is a probe
    updates_limit  of a probe
    snapshot       number of the code it runs, None without a snapshot
    config         the resolved configuration that its trainer gets
    """

    job_id: str
    index: int
    kind: Kind
    point: Point
    seed: int
    signature: str
    config: Mapping[str, Any]
    created: float
    explanation: str = ""
    updates_limit: int | None = None
    snapshot: int | None = None


@dataclass(frozen=True, slots=True)
class Attempted:
    """One submission. Written down with handle None before the executor is asked, completed when it answered.

    handle           "" where it is known only by its attempt: the scheduler has forgotten it
    attempts_before  attempts that the job's directory held: a later one belongs to this submission
    ended            when this submission was seen to have ended, or was given to another job
    asked            when the executor was asked last, while it has not answered
    is_shared        further jobs run in the same allocation, under the same name
    """

    name: str
    intended: float
    attempts_before: int
    handle: str | None = None
    submitted: float | None = None
    ended: float | None = None
    outcome: str | None = None
    reason: str | None = None
    is_shared: bool = False
    asked: float | None = None

    def submission(self, job_id: str) -> Submission | None:
        if not self.handle:
            return None
        return Submission(job_id, self.handle, self.name, self.submitted or self.intended)


@dataclass(slots=True)
class JobRecord:
    """A job and all that the controller has decided about it; saved to job.json after each decision.

    outcome      queued until it is final (running and preempted follow from the journal)
    stop         why it was asked to stop, None where it was not
    is_skipped   decided without ever running (larger than a batch size that is known not to fit)
    micro_batch_size  set when memory ran out in learning, else None: as configured
    """

    job: Job
    submissions: list[Attempted] = field(default_factory=list)
    outcome: Outcome = Outcome.QUEUED
    reason: str = ""
    message: str = ""
    ended: float | None = None
    stop: str | None = None
    is_skipped: bool = False
    micro_batch_size: int | None = None

    @property
    def is_final(self) -> bool:
        return self.outcome.is_final

    @property
    def is_withdrawn(self) -> bool:
        """Planned, but another job has taken its place; it never ran."""
        return self.outcome is Outcome.CANCELLED and self.reason == WITHDRAWN

    @property
    def own_submissions(self) -> list[Attempted]:
        """Those that were not given to another job."""
        return [s for s in self.submissions if s.outcome != REBOUND]

    @property
    def is_submitted(self) -> bool:
        """A submission is out, or may be (its answer was never written down)."""
        return not self.is_final and bool(self.submissions) and self.submissions[-1].ended is None

    @property
    def current(self) -> Attempted | None:
        return self.submissions[-1] if self.is_submitted else None

    def update_current(self, **changes: Any) -> None:
        """Change the newest submission's record."""
        self.submissions[-1] = replace(self.submissions[-1], **changes)

    def finish(self, outcome: Outcome, reason: str, message: str, now: float) -> None:
        """Make it final, and end its submission if one is out."""
        if self.is_submitted:
            self.update_current(ended=now, outcome=outcome.value, reason=reason)
        self.outcome, self.reason, self.message, self.ended = (
            outcome,
            _writable(reason),
            _writable(message),
            now,
        )

    def reopen(self) -> None:
        """Make it a planned job again (continued, retried, or resumed after a policy ended it)."""
        self.outcome, self.reason, self.message, self.ended = Outcome.QUEUED, "", "", None
        self.stop, self.is_skipped = None, False

    def save(self, jobs_directory: Path, *, is_durable: bool = True) -> Path:
        """Write job.json. Returns the job's directory."""
        directory = jobs_directory / self.job.job_id
        directory.mkdir(parents=True, exist_ok=True)
        write_json(directory / "job.json", self.to_mapping(), is_durable=is_durable)
        return directory

    def to_mapping(self) -> dict[str, Any]:
        job = self.job
        config = dict(job.config)
        if self.micro_batch_size is not None:
            config["micro_batch_size"] = self.micro_batch_size
        return {
            "v": 1,
            "id": job.job_id,
            "index": job.index,
            "kind": job.kind,
            "batch_size": job.point.batch_size,
            "lr": job.point.lr,
            "seed": job.seed,
            "signature": job.signature,
            "updates_limit": job.updates_limit,
            "snapshot": job.snapshot,
            "created": job.created,
            "explanation": job.explanation,
            "config": config,
            "submissions": [asdict(s) for s in self.submissions],
            "outcome": self.outcome.value,
            "reason": self.reason,
            "message": self.message,
            "ended": self.ended,
            "stop": self.stop,
            "is_skipped": self.is_skipped,
            "micro_batch_size": self.micro_batch_size,
        }

    @classmethod
    def from_mapping(cls, content: Mapping[str, Any]) -> JobRecord:
        job = Job(
            job_id=content["id"],
            index=content["index"],
            kind=content["kind"],
            point=Point(content["batch_size"], content["lr"]),
            seed=content["seed"],
            signature=content["signature"],
            config=content["config"],
            created=content["created"],
            explanation=content["explanation"],
            updates_limit=content["updates_limit"],
            snapshot=content["snapshot"],
        )
        return cls(
            job=job,
            submissions=[Attempted(**s) for s in content["submissions"]],
            outcome=Outcome(content["outcome"]),
            **{
                k: content[k]
                for k in ("reason", "message", "ended", "stop", "is_skipped", "micro_batch_size")
            },
        )


def _writable(text: str) -> str:
    """An error may name a file whose name is no text; what stands for such bytes fits into no file or database."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def read_records(jobs_directory: Path) -> list[JobRecord]:
    """All jobs of a sweep, in order of creation. A directory without job.json was never planned and is passed
    over."""
    contents = (read_json(path / "job.json") for path in sorted(jobs_directory.glob("*")) if path.is_dir())
    return sorted((JobRecord.from_mapping(c) for c in contents if c), key=lambda r: r.job.index)


def job_id(kind: Kind, point: Point, seed: int) -> str:
    """The readable name. run and verify share it: a setting is run once per seed, whatever for."""
    if kind == "probe":
        return f"probe-b{point.batch_size}"
    return f"b{point.batch_size}-lr{point.lr:g}-s{seed}"


def free_id(wanted: str, taken: Iterable[str]) -> str:
    """`wanted`, or with a number where another job has it (rates that differ beyond six digits, further
    probes)."""
    known = set(taken)
    numbers = (f"{wanted}-{n}" for n in range(2, len(known) + 3))
    return wanted if wanted not in known else next(name for name in numbers if name not in known)


def signature(measured: Mapping[str, Any], proposal: Proposal) -> str:
    """Hash of all that a job's measurement depends on. Two jobs of a sweep never share one."""
    content = {
        "measured": measured,
        "batch_size": proposal.point.batch_size,
        "lr": proposal.point.lr,
        "seed": proposal.seed,
        "updates_limit": proposal.updates_limit if proposal.kind == "probe" else None,
        "is_probe": proposal.kind == "probe",
    }
    return digest(content)


def digest(content: Any) -> str:
    """16 hexadecimal digits of a JSON-able object, independent of the order of keys."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
