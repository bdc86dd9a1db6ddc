"""Jobs as processes of this machine, in sessions of their own: neither Ctrl-C nor the controller's end
touches them.

Not on submitit's local executor, which hides every GPU unless told otherwise, keeps jobs in the terminal's
process group, loses the task's exit code and costs two more interpreter starts. One job at a time by default:
jobs that share cores or a GPU falsify each other's clock.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from batchscout.clock import Clock
from batchscout.config import HardwareConfig
from batchscout.errors import LaunchError
from batchscout.run.executor import SchedulerState, Status, Submission
from batchscout.run.executors.gpus import visible_gpus
from batchscout.run.executors.submission import (
    NAME,
    SHELL_FUNCTIONS,
    new_log,
    worker_command,
    worker_variables,
)

log = logging.getLogger(__name__)

KILL_SECONDS = 5.0
"""Between the polite and the final signal of a cancellation, as Slurm's KillWait."""

# The shell outlives a terminated worker to note its exit code, which no other process could learn after a
# restart.
_WRAPPER = f"""\
trap : TERM HUP INT USR1 USR2
{SHELL_FUNCTIONS}
exit_file=$1; shift
"$@"
code=$?
say_kernel_kills $code
echo $code > "$exit_file.tmp" && mv "$exit_file.tmp" "$exit_file"
exit $code
"""


@dataclass(frozen=True, slots=True)
class Process:
    """What a handle says: enough to find the process again from any other one, and to know that it is the
    same."""

    host: str
    pid: int
    started: float
    log: str
    gpus: tuple[str, ...] = ()

    @classmethod
    def from_handle(cls, handle: str) -> Process:
        host, pid, started, log, gpus = handle.split("|")
        return cls(host, int(pid), float(started), log, tuple(g for g in gpus.split(",") if g))

    @property
    def handle(self) -> str:
        return f"{self.host}|{self.pid}|{self.started:.2f}|{self.log}|{','.join(self.gpus)}"

    def is_alive(self) -> bool:
        """Whether the session's leader or, where that was killed, anything else of its group still runs."""
        try:
            leader = psutil.Process(self.pid)
            if abs(leader.create_time() - self.started) > 2:
                return False  # the number was given to another process
            if leader.status() != psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            pass
        return any(_group(p) == self.pid for p in psutil.process_iter() if p.pid != self.pid)

    def signal(self, number: signal.Signals) -> None:
        """To the whole group; nothing happens where it is gone."""
        if self.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)


def _group(process: psutil.Process) -> int | None:
    try:
        return None if process.status() == psutil.STATUS_ZOMBIE else os.getpgid(process.pid)
    except (psutil.NoSuchProcess, ProcessLookupError, PermissionError):
        return None


class LocalExecutor:
    """See module. slots jobs at once; each gets `gpus` GPUs of its own (at least one where the machine has
    some)."""

    def __init__(self, hardware: HardwareConfig, *, clock: Clock, working_directory: Path) -> None:
        self.slots = hardware.slots
        self._hardware, self._clock, self._directory = hardware, clock, working_directory
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._live: dict[str, Process] = {}  # by handle
        self._cancelled: dict[str, float] = {}  # handle → when asked
        self._gpus = visible_gpus()
        self._warn()

    def _warn(self) -> None:
        threads = self._hardware.threads or int(os.environ.get("OMP_NUM_THREADS", "1") or 1)
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if self.slots > 1 and self.slots * threads > cores:
            log.warning(
                "hardware.slots=%d jobs of %d threads share %d cores and slow each other's clocks; "
                "use hardware.slots=%d",
                self.slots, threads, cores, max(1, cores // threads),
            )  # fmt: skip
        if self._gpus and self.slots * self._gpus_each > len(self._gpus):
            log.warning(
                "hardware.slots=%d jobs share %d GPUs and slow each other's clocks; use hardware.slots=%d",
                self.slots, len(self._gpus), max(1, len(self._gpus) // self._gpus_each),
            )  # fmt: skip

    @property
    def _gpus_each(self) -> int:
        return max(1, self._hardware.gpus)

    def submit(self, job_dir: Path, *, name: str) -> Submission:
        return self.submit_group([job_dir], name=name)[0]

    def submit_group(self, job_dirs: Sequence[Path], *, name: str) -> list[Submission]:
        """The jobs one after the other, each in its own process, in one slot (probes)."""
        submitted = self._clock.now()
        path = new_log(job_dirs[0])
        gpus = self._free_gpus()
        environment = {
            **os.environ,
            **worker_variables(job_dirs, name=name, submitted=submitted, hardware=self._hardware),
            **({"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {}),
        }
        paths = [environment.get("PYTHONPATH"), os.environ.get("PYTHONPATH")]
        environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(p for p in paths if p))
        command = [
            "/bin/sh",
            "-c",
            _WRAPPER,
            "batchscout",
            str(path.with_suffix(".exit")),
            *worker_command(job_dirs),
        ]
        try:
            with path.open("ab") as output:
                child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    cwd=self._directory,
                    start_new_session=True,
                )
        except OSError as error:
            raise LaunchError(f"{job_dirs[0].name}: no process could be started: {error}") from error
        started = psutil.Process(child.pid).create_time()
        process = Process(socket.gethostname(), child.pid, started, str(path), gpus)
        self._children[child.pid] = child
        self._live[process.handle] = process
        return [Submission(d.name, process.handle, name, submitted) for d in job_dirs]

    def _free_gpus(self) -> tuple[str, ...]:
        """GPUs for one more job: the least used ones."""
        if not self._gpus:
            return ()
        used = [gpu for process in self._live.values() for gpu in process.gpus]
        return tuple(
            sorted(self._gpus, key=lambda g: (used.count(g), self._gpus.index(g)))[: self._gpus_each]
        )

    def find(self, name: str) -> Submission | None:
        for candidate in psutil.process_iter():
            try:
                variables = candidate.environ()
                if variables.get(NAME) != name or os.getsid(candidate.pid) != candidate.pid:
                    continue
                return self._submission(candidate, name)
            except (psutil.Error, OSError):
                continue  # not ours, or gone meanwhile
        return None

    def _submission(self, leader: psutil.Process, name: str) -> Submission:
        exit_file = Path(leader.cmdline()[4])
        variables = leader.environ()
        gpus = (
            tuple(g for g in variables.get("CUDA_VISIBLE_DEVICES", "").split(",") if g) if self._gpus else ()
        )
        process = Process(
            socket.gethostname(), leader.pid, leader.create_time(), str(exit_file.with_suffix(".log")), gpus
        )
        self._live[process.handle] = process
        return Submission(exit_file.parent.parent.name, process.handle, name, leader.create_time())

    def poll(self, submissions: Sequence[Submission]) -> Mapping[str, Status]:
        return {s.job_id: self._status_of(s.handle) for s in submissions}

    def _status_of(self, handle: str) -> Status:
        """An empty handle is a submission of which only its journal is left."""
        return self._status(Process.from_handle(handle)) if handle else Status(SchedulerState.ABSENT)

    def _status(self, process: Process) -> Status:
        if process.host != socket.gethostname():
            return Status(SchedulerState.ABSENT, detail=f"ran on {process.host}")
        self._reap(process.pid)
        if process.is_alive():
            self._live[process.handle] = process
            self._kill_if_due(process)
            return Status(SchedulerState.RUNNING, node=process.host)
        self._live.pop(process.handle, None)
        exit_file = Path(process.log).with_suffix(".exit")
        code = int(exit_file.read_text()) if exit_file.exists() else None
        if Path(process.log).with_suffix(".cancelled").exists():
            return Status(SchedulerState.ENDED, "CANCELLED", process.host, code)
        detail = {None: "KILLED", 0: "COMPLETED"}.get(code, "FAILED")
        return Status(SchedulerState.ENDED, detail, process.host, code)

    def _reap(self, pid: int) -> None:
        child = self._children.get(pid)
        if child is not None and child.poll() is not None:
            del self._children[pid]

    def _kill_if_due(self, process: Process) -> None:
        asked = self._cancelled.get(process.handle)
        if asked is not None and self._clock.now() - asked > KILL_SECONDS:
            process.signal(signal.SIGKILL)

    def cancel(self, submission: Submission) -> None:
        if not submission.handle:
            return
        process = Process.from_handle(submission.handle)
        if process.host != socket.gethostname() or not process.is_alive():
            return
        Path(process.log).with_suffix(".cancelled").touch()
        if process.handle in self._cancelled:
            self._kill_if_due(process)
            return
        self._cancelled[process.handle] = self._clock.now()
        process.signal(signal.SIGTERM)

    def wait(self, seconds: float) -> None:
        """Until a job ends, at most `seconds`."""
        opened = {fd: p for p in self._live.values() if (fd := _open_pid(p.pid)) is not None}
        if not opened:
            self._clock.sleep(seconds)
            return
        poller = select.poll()
        for fd in opened:
            poller.register(fd, select.POLLIN)
        for fd, _ in poller.poll(seconds * 1000):
            self._live.pop(opened[fd].handle)  # each end wakes the controller once
            self._reap(opened[fd].pid)
        for fd in opened:
            os.close(fd)

    def close(self) -> None:
        """Cancelled jobs that did not go are killed now: nobody would do it later. All others run on."""
        for handle in self._cancelled:
            Process.from_handle(handle).signal(signal.SIGKILL)
        for child in self._children.values():
            child.poll()
            child.returncode = child.returncode or 0  # silences the warning about children that run on
        self._children.clear()


def _open_pid(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends; None where there is none (or not on
    Linux)."""
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError):
        return None
