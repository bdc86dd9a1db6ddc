"""Which GPUs there are, without importing a framework: by the driver's own words."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache


def visible_gpus() -> tuple[str, ...]:
    """Identifiers for CUDA_VISIBLE_DEVICES, as many as this process may use; () without GPUs."""
    limited = os.environ.get("CUDA_VISIBLE_DEVICES")
    if limited is not None:
        return (
            tuple(g.strip() for g in limited.split(",") if g.strip() and g.strip() != "-1")
            if gpu_names()
            else ()
        )
    return tuple(str(i) for i in range(len(gpu_names())))


@cache
def gpu_names() -> tuple[str, ...]:
    """Model names, one a GPU of this machine, in the driver's order ("NVIDIA H200"); () where there is no
    driver."""
    if shutil.which("nvidia-smi") is None:
        return ()
    try:
        done = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
            capture_output=True, text=True, check=True, timeout=20,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(line.strip() for line in done.stdout.splitlines() if line.strip())


def gpu_of_this_job() -> str | None:
    """The model of the first GPU that this process may use, None without one."""
    names, visible = gpu_names(), visible_gpus()
    if not names or not visible:
        return None
    return names[int(visible[0])] if visible[0].isdigit() and int(visible[0]) < len(names) else names[0]
