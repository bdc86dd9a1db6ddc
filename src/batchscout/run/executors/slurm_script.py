"""The batch script of a job: `hardware` turned into sbatch options by submitit, around the worker's
command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import submitit

from batchscout.config import HardwareConfig
from batchscout.run.executors.submission import SHELL_FUNCTIONS, STARTED, worker_command


class _Sbatch(submitit.SlurmExecutor):
    """submitit's executor as the writer of scripts only: what it submits and polls with is not used."""

    @classmethod
    def affinity(cls) -> int:
        return 2  # a dry run writes scripts where no Slurm is installed

    def script(self, command: str) -> str:
        return self._make_submission_file_text(command, uid="")


def batch_script(
    job_directories: Sequence[Path], *, name: str, hardware: HardwareConfig, variables: Mapping[str, str]
) -> str:
    """The text that sbatch gets.

    variables  exported in the script, so that a site's --export=NONE or a module that sets PYTHONPATH cannot
               lose them
    """
    folder = job_directories[0] / "log"
    writer = _Sbatch(folder)
    writer.update_parameters(**_parameters(hardware, name, variables))
    python = shlex.split(hardware.python) if hardware.python else ()
    return writer.script(shlex.join(worker_command(job_directories, python)))


def _parameters(hardware: HardwareConfig, name: str, variables: Mapping[str, str]) -> dict[str, Any]:
    gpus = (
        {} if hardware.gres or not hardware.gpus else {"gpus_per_node": -(-hardware.gpus // hardware.nodes)}
    )
    return {
        **gpus,
        "job_name": name,
        "time": hardware.time_limit_minutes,
        "nodes": hardware.nodes,
        "ntasks_per_node": hardware.tasks,
        "cpus_per_task": hardware.cpus,
        "mem": hardware.memory,
        "partition": hardware.partition,
        "gres": hardware.gres,
        "constraint": hardware.constraint,
        "account": hardware.account,
        "qos": hardware.qos,
        "exclude": hardware.exclude,
        "signal_delay_s": hardware.signal_seconds,
        "stderr_to_stdout": True,
        "wckey": None,
        "setup": [*hardware.setup, *_exports(variables), f"export {STARTED}=$(date +%s.%N)", SHELL_FUNCTIONS],
        "teardown": ["code=$?", "say_kernel_kills $code", "exit $code"],
        "additional_parameters": _further(hardware.extra),
    }


def _further(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Any other option, typed with - or _; true is an option without a value, false and null are none."""
    return {str(k).replace("_", "-"): v for k, v in extra.items() if v is not None and v is not False}


def _exports(variables: Mapping[str, str]) -> list[str]:
    """PYTHONPATH goes before what the submitter's environment or a module in `setup` put there."""
    behind = {"PYTHONPATH": "${PYTHONPATH:+:$PYTHONPATH}"}
    return [f"export {name}={shlex.quote(value)}{behind.get(name, '')}" for name, value in variables.items()]


def job_name(name: str) -> str:
    """`name` as Slurm may show it in one column: no separators, no spaces."""
    return re.sub(r"[^\w.+=@-]+", "-", name)
