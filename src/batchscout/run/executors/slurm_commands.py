"""Calls of Slurm's programs: with time limits, counted, and their refusals sorted into "never" and "not
now"."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from batchscout.errors import LaunchError, SchedulerBusy

SUBMIT_SECONDS = 60.0
QUERY_SECONDS = 30.0
SBATCH_LIVES_SECONDS = SUBMIT_SECONDS + 5.0
"""So long an sbatch lives at most, also where its controller was killed meanwhile."""

# What sbatch says where the same call can succeed later: no answer, or a limit on jobs in the queue.
_NOT_NOW = (
    r"Socket timed out",
    r"Unable to contact slurm controller",
    r"Connection refused",
    r"temporarily un(able|available)",
    r"Max(Submit)?Jobs?(Per\w*)?Limit",
    r"MaxSubmit",
    r"job submit limit",
    r"Slurm controller not responding",
    r"Slurm backup controller in standby",
    r"Zero Bytes were transmitted",
    r"Transport endpoint",
    r"Message (send|receive) failure",
    r"Protocol authentication error",
    r"Munge encode failed",
    r"System is (in|going) maintenance",
)


class Slurm:
    """One cluster's programs, found by PATH.

    conf   its slurm.conf, where that is not the site's own; $SLURM_CONF comes first
    calls  how often each program was called
    """

    def __init__(self, conf: str | None = None) -> None:
        # The controller may itself be a job: its SLURM_ variables would be taken for options of the jobs it
        # submits.
        self.environment = {
            k: v for k, v in os.environ.items() if not k.startswith("SLURM_") or k == "SLURM_CONF"
        }
        if conf and "SLURM_CONF" not in self.environment:
            self.environment["SLURM_CONF"] = str(Path(conf).expanduser())
        self.user = getpass.getuser()
        self.calls: Counter[str] = Counter()

    def query(self, *command: str, timeout: float = QUERY_SECONDS) -> str | None:
        """Output of a program that only asks or may be asked again; None where it failed or did not answer in
        time."""
        code, output, _ = self._run(command, timeout=timeout)
        return output if code == 0 else None

    def sbatch(self, script: Path, *, directory: Path) -> str:
        """The id of the submitted job.

        Raises  SchedulerBusy where no answer came (the job may exist!) or the queue takes no more;
                LaunchError where it will never be accepted.
        """
        command = ("sbatch", "--parsable", f"--chdir={directory}", str(script))
        lives = ("timeout", "--signal=KILL", f"{SBATCH_LIVES_SECONDS:g}") if shutil.which("timeout") else ()
        code, output, errors = self._run(command, timeout=SUBMIT_SECONDS, before=lives)
        found = re.search(r"^(\d+)(;|$)", output.strip(), re.MULTILINE)
        if code == 0 and found:
            return found[1]
        if code is None:
            raise SchedulerBusy(f"sbatch: {errors or f'no answer within {SUBMIT_SECONDS:g} s'}")
        said = _said(errors or output)
        if code == 0 or any(re.search(p, errors, re.IGNORECASE) for p in _NOT_NOW):
            raise SchedulerBusy(f"sbatch: {said}")
        raise LaunchError(
            f"sbatch refused the job: {said}; check partition, gres, account, qos, time_limit of hardware"
        )

    def _run(
        self, command: Sequence[str], *, timeout: float, before: Sequence[str] = ()
    ) -> tuple[int | None, str, str]:
        """Exit code (None: killed after `timeout`), output, errors. before: what starts the program.

        Raises  LaunchError where there is no such program
        """
        self.calls[command[0]] += 1
        if shutil.which(command[0], path=self.environment.get("PATH")) is None:
            raise LaunchError(
                f"{command[0]} is not installed here; hardware.executor=slurm needs Slurm's programs"
            )
        child = subprocess.Popen(
            [*before, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=self.environment, start_new_session=True,
        )  # fmt: skip
        try:
            output, errors = child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(
                child.pid, signal.SIGKILL
            )  # with whatever a site's wrapper started: nothing may submit later
            child.communicate()
            return None, "", ""
        return child.returncode, output, errors


def _said(text: str) -> str:
    """sbatch's last words in one line, without its own name."""
    lines = [
        re.sub(r"^(sbatch: )?(error: )?", "", line.strip()) for line in text.splitlines() if line.strip()
    ]
    return "; ".join(dict.fromkeys(lines)) or "no reason given"
