"""A cluster with faults built in: programs in front of Slurm's own that fail on demand, and daemons to be
killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = ("sbatch", "squeue", "sacct", "scontrol", "scancel")

# $CHAOS/PROGRAM says what goes wrong: "once …" only at the next call.
WRAPPER = """\
#!/bin/sh
name=$(basename "$0")
real={folder}/$name
mode=$(cat "$CHAOS/$name" 2>/dev/null)
controller() {{ ps -o ppid= -p $PPID; }}  # the parent is timeout(1)
case "$mode" in once*) rm -f "$CHAOS/$name"; echo "$mode" >> "$CHAOS/done";; esac
case "$mode" in
  *kill_before*) kill -9 $(controller); exit 1;;
  *kill_after*) "$real" "$@" >/dev/null; kill -9 $(controller); exit 1;;
  *kill_late*) kill -9 $(controller); sleep 20; exec "$real" "$@";;
  *late*) answer=$("$real" "$@"); sleep 65; echo "$answer";;
  *full*) echo "sbatch: error: QOSMaxSubmitJobPerUserLimit" >&2
          echo "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy" >&2; exit 1;;
  *fail*) echo "$name: error: Unable to contact slurm controller (connect failure)" >&2; exit 1;;
  *empty*) exit 0;;
  *hang*) sleep 600;;
  *) exec "$real" "$@";;
esac
"""


class Cluster:
    """One dev cluster below `directory`; SLURM_CONF and PATH of `environment` lead to it."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.directory = directory
        self.chaos = directory / "chaos"
        self.chaos.mkdir(parents=True)
        self._options = options
        conf = directory / "etc" / "slurm.conf"
        self.environment = {**os.environ, "SLURM_CONF": str(conf), "CHAOS": str(self.chaos)}
        self._bin = directory / "bin"

    def up(self) -> None:
        self._script("up", *self._options)
        self._bin.mkdir()
        for program in PROGRAMS:
            found = shutil.which(program)
            assert found is not None
            path = self._bin / program
            path.write_text(WRAPPER.format(folder=Path(found).parent))
            path.chmod(0o755)

    def down(self) -> None:
        self._script("down", "--now")

    def _script(self, command: str, *options: str) -> None:
        script = [sys.executable, str(ROOT / "slurm" / "dev-cluster"), command, str(self.directory), *options]
        done = subprocess.run(script, capture_output=True, text=True, env=self.environment)
        if done.returncode:
            raise RuntimeError(f"dev-cluster {command}: {done.stderr.strip()}")

    @property
    def controller_environment(self) -> dict[str, str]:
        """What a sweep's controller gets: the faulty programs come first."""
        return {**self.environment, "PATH": f"{self._bin}:{self.environment['PATH']}"}

    def run(self, *command: str) -> str:
        """One of Slurm's programs, without faults; "" where it fails."""
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment, timeout=60)
        return done.stdout.strip()

    def break_program(self, program: str, mode: str) -> None:
        path = self.chaos / program
        temporary = path.with_suffix(".new")
        temporary.write_text(mode)
        temporary.replace(path)

    def repair_program(self, program: str) -> None:
        (self.chaos / program).unlink(missing_ok=True)

    def is_broken(self, program: str) -> bool:
        return (self.chaos / program).exists()

    def pid(self, daemon: str) -> int:
        return int((self.directory / "run" / f"{daemon}.pid").read_text())

    def kill_daemon(self, daemon: str) -> None:
        os.kill(self.pid(daemon), signal.SIGKILL)

    def start_slurmctld(self) -> None:
        subprocess.run(["slurmctld", "-f", self.environment["SLURM_CONF"]], env=self._root_path(), check=True)

    def start_slurmd(self, node: str) -> None:
        conf = self.environment["SLURM_CONF"]
        subprocess.run(["slurmd", "-N", node, "-f", conf], env=self._root_path(), check=True)

    def _root_path(self) -> dict[str, str]:
        return {**self.environment, "PATH": f"{self.environment['PATH']}:/usr/sbin:/sbin"}

    def step_daemons(self, *slurm_ids: str) -> list[int]:
        """slurmstepd of these jobs."""
        names = tuple(f"slurmstepd: [{i}." for i in slurm_ids)
        return [p for p, words, _ in self._processes() if words.startswith(names)]

    def processes_of(self, *slurm_ids: str) -> list[int]:
        """Job scripts, sruns and tasks of these jobs."""
        marks = {f"SLURM_JOB_ID={i}".encode() for i in slurm_ids}
        return [
            p for p, words, v in self._processes() if marks & set(v) and not words.startswith("slurmstepd")
        ]

    def jobs_on(self, node: str) -> list[str]:
        """Slurm ids of what runs there."""
        return self.run("squeue", "-h", "-t", "R", "-w", node, "-o", "%i").split()

    def _processes(self) -> list[tuple[int, str, list[bytes]]]:
        """Of this cluster: number, command line, environment."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                variables = (process / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if self._mark() in variables:
                found.append((int(process.name), words, variables))
        return found

    def _mark(self) -> bytes:
        return f"SLURM_CONF={self.environment['SLURM_CONF']}".encode()


def kill(*pids: int) -> None:
    """kill -9; those that are gone are passed over."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
