"""Jobs of several processes: torchrun's environment for each, one reporter for all.

Rank 0 has the real reporter. Every other rank has one that answers as rank 0's did: both are asked the same
questions in the same order, because all ranks run the same loop. The answers go over a socket; nothing else
depends on it.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from batchscout.clock import Clock
from batchscout.errors import TrainerError
from batchscout.measure.outcome import Outcome
from batchscout.measure.reporter import EvaluationRecord, Reporter

MEETING_SECONDS = 300.0
"""How long ranks may differ in their start."""


def world_size() -> int:
    """Processes of this job's step, 1 outside of Slurm."""
    return int(os.environ.get("SLURM_STEP_NUM_TASKS") or os.environ.get("SLURM_NTASKS") or 1)


def rank() -> int:
    """Number of this process among the job's, 0 where it is alone."""
    return int(os.environ.get("SLURM_PROCID", "0"))


def distributed_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """What torchrun would set, from what Slurm set; {} for a job of one process.

    MASTER_ADDR is the address of the node that runs the batch script, where rank 0 is, too.
    """
    size = int(variables.get("SLURM_STEP_NUM_TASKS") or variables.get("SLURM_NTASKS") or 1)
    if size == 1:
        return {}
    per_node = size // int(variables.get("SLURM_STEP_NUM_NODES") or variables.get("SLURM_NNODES") or 1)
    return {
        "RANK": variables["SLURM_PROCID"],
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": variables["SLURM_LOCALID"],
        "LOCAL_WORLD_SIZE": str(per_node),
        "NODE_RANK": variables["SLURM_NODEID"],
        "GROUP_RANK": variables["SLURM_NODEID"],
        "MASTER_ADDR": variables["SLURM_LAUNCH_NODE_IPADDR"],
        "MASTER_PORT": str(20_000 + int(variables["SLURM_JOB_ID"]) % 20_000),
    }


class LeadingReporter(Reporter):
    """Rank 0's: a Reporter whose answers are heard by the other ranks."""

    _followers: tuple[Line, ...] = ()

    def lead(self, followers: int, meeting: Path) -> None:
        """Wait for the other ranks. meeting: a file of this job's start, through which they find this
        process.

        Raises  TrainerError if they do not come within MEETING_SECONDS.
        """
        with socket.create_server(("", 0)) as server:
            server.settimeout(MEETING_SECONDS)
            address = os.environ.get("MASTER_ADDR") or socket.gethostname()
            temporary = meeting.with_suffix(".tmp")
            temporary.write_text(json.dumps([address, server.getsockname()[1]]))
            temporary.replace(meeting)
            try:
                self._followers = tuple(Line(server.accept()[0]) for _ in range(followers))
            except TimeoutError as error:
                raise TrainerError(
                    f"not all of {followers + 1} ranks came within {MEETING_SECONDS:g} s"
                ) from error
        meeting.unlink(missing_ok=True)

    def _tell(self, answer: Any) -> None:
        for line in self._followers:
            line.say(answer)

    def resume_path(self) -> Path | None:
        path = super().resume_path()
        self._tell(None if path is None else str(path))
        return path

    def resume(self, path: Path | None = None) -> None:
        super().resume(path)
        self._tell([self.samples, self.updates, self.seconds])

    def due_for_evaluation(self) -> bool:
        answer = super().due_for_evaluation()
        self._tell(answer)
        return answer

    def due_for_checkpoint(self) -> bool:
        answer = super().due_for_checkpoint()
        self._tell(answer)
        return answer

    def should_stop(self) -> bool:
        answer = super().should_stop()
        self._tell([answer, self.stop_outcome if answer else None, self.preempted, self.seconds])
        return answer

    @contextmanager
    def checkpoint(self) -> Iterator[Path]:
        """Published when every rank has saved its part."""
        with super().checkpoint() as path:
            self._tell(str(path))
            yield path
            for line in self._followers:
                line.hear()


class FollowingReporter(Reporter):
    """Every other rank's: times nothing, writes nothing, and decides as rank 0 did."""

    def __init__(
        self, meeting: Path, clock: Clock
    ) -> None:  # no attempt of its own: Reporter's is not called
        self._line = _join(meeting)
        self.clock = clock
        self._samples, self._updates, self._seconds = 0, 0, 0.0
        self._answer: tuple[Outcome, str] | None = None
        self._is_preempted = False
        self._ended = None

    @property
    def samples(self) -> int:
        return self._samples

    @property
    def updates(self) -> int:
        return self._updates

    @property
    def seconds(self) -> float:
        return self._seconds

    @property
    def phase(self) -> str | None:
        return None

    @property
    def preempted(self) -> bool:
        return self._is_preempted

    @property
    def stop_outcome(self) -> tuple[Outcome, str]:
        if self._answer is None:
            raise TrainerError("stop_outcome is known once should_stop() was true; ask that first")
        return self._answer

    def resume_path(self) -> Path | None:
        path = self._line.hear()
        return None if path is None else Path(path)

    def resume(self, path: Path | None = None) -> None:
        self._samples, self._updates, self._seconds = self._line.hear()

    def due_for_evaluation(self) -> bool:
        return bool(self._line.hear())

    def due_for_checkpoint(self) -> bool:
        return bool(self._line.hear())

    def should_stop(self) -> bool:
        answer, outcome, self._is_preempted, self._seconds = self._line.hear()
        self._answer = None if outcome is None else (Outcome(outcome[0]), outcome[1])
        return bool(answer)

    def end_update(self, *, samples: int, **_: Any) -> None:
        """samples: of all ranks together, as rank 0 reports them."""
        self._samples, self._updates = self._samples + samples, self._updates + 1

    @contextmanager
    def evaluation(self) -> Iterator[EvaluationRecord]:
        yield EvaluationRecord()

    @contextmanager
    def checkpoint(self) -> Iterator[Path]:
        yield Path(self._line.hear())
        self._line.say("saved")

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        yield

    def request_preemption(self) -> None:
        """Rank 0 gets the same signal."""

    def diverged(self, reason: str) -> None:
        """Rank 0 sees it, too."""

    def warn(self, message: str) -> None:
        """Rank 0 says it."""

    def end(self, outcome: Outcome | None = None, reason: str = "", message: str = "") -> None:
        self._ended = outcome or Outcome.STOPPED


class Line:
    """One JSON object a line, both ways."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = connection.makefile("rw", encoding="utf-8")

    def say(self, content: Any) -> None:
        self._file.write(json.dumps(content) + "\n")
        self._file.flush()

    def hear(self) -> Any:
        """Raises TrainerError when the other side is gone."""
        line = self._file.readline()
        if not line:
            raise TrainerError("another rank of this job has ended")
        return json.loads(line)


def _join(meeting: Path) -> Line:
    end = time.monotonic() + MEETING_SECONDS
    while time.monotonic() < end:
        try:
            address, port = json.loads(meeting.read_text(encoding="utf-8"))
            return Line(socket.create_connection((address, port), timeout=MEETING_SECONDS))
        except (FileNotFoundError, ConnectionRefusedError, ValueError):
            time.sleep(0.1)
    raise TrainerError(f"rank 0 was not met within {MEETING_SECONDS:g} s")


def meeting_file(job_directory: Path) -> Path:
    """Where the ranks of this start of this Slurm job find each other."""
    variables = os.environ
    start = f"{variables.get('SLURM_JOB_ID', '0')}-{variables.get('SLURM_RESTART_COUNT', '0')}"
    return job_directory / f".ranks-{start}"
