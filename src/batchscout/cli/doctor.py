"""`batchscout doctor`: what sweeps need on this machine, in plain words."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from batchscout.cli.script import print_json

State = Literal["ok", "note", "bad"]
Finding = tuple[State, str]

NEEDED_PYTHON = (3, 11)
NEEDED_BYTES = 2_000_000_000
PACKAGES = ("torch", "hydra-core", "optuna", "mlflow", "submitit", "numpy", "scipy")


def examine(*, json_output: bool = False) -> int:
    """Print every finding; returns 1 if one of them would stop a sweep."""
    checks: list[Callable[[], Iterator[Finding]]] = [
        python, packages, hydra_plugins, devices, cores, slurm, disk, tracking,
    ]  # fmt: skip
    findings = [finding for check in checks for finding in check()]
    if json_output:
        print_json({"findings": [{"state": state, "words": words} for state, words in findings]})
    else:
        marks = {"ok": "ok  ", "note": "note", "bad": "BAD "}
        for state, words in findings:
            print(f"{marks[state]} {words}")
    return int(any(state == "bad" for state, _ in findings))


def python() -> Iterator[Finding]:
    here = platform.python_version()
    if sys.version_info < NEEDED_PYTHON:
        yield "bad", f"Python {here} is too old; 3.11 or newer is needed"
    else:
        yield "ok", f"Python {here} at {sys.executable}"


def packages() -> Iterator[Finding]:
    found, missing = [], []
    for name in PACKAGES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    yield "ok", f"packages: {', '.join(found)}"
    if missing:
        yield (
            "bad",
            f"packages missing: {', '.join(missing)}; run make setup, or pip install batchscout again",
        )


def hydra_plugins() -> Iterator[Finding]:
    found = importlib.util.find_spec("hydra_plugins.batchscout")
    if found is None:
        yield "bad", "Hydra does not see batchscout's plugins; install batchscout again (pip install -e .)"
    else:
        yield "ok", "Hydra sees batchscout's sweeper and launcher"


def devices() -> Iterator[Finding]:
    """Loads torch in a process of its own: it takes seconds and may crash on a broken driver."""
    code = (
        "import torch; n = torch.cuda.device_count() if torch.cuda.is_available() else 0; "
        "print(n, torch.version.cuda or '-', '|'.join(torch.cuda.get_device_name(i) for i in range(n)))"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
        )
    except subprocess.TimeoutExpired:
        yield "bad", "torch does not answer within 120 s (a hanging driver?); try python -c 'import torch'"
        return
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        yield "bad", f"torch cannot be loaded: {last}"
        return
    number, cuda, names = [*done.stdout.rstrip("\n").split(" ", 2), "", ""][:3]
    if number != "0":
        yield "ok", f"{number} GPU: {names.replace('|', ', ')} (CUDA {cuda})"
    elif shutil.which("nvidia-smi"):
        yield (
            "note",
            f"there is an NVIDIA driver, but torch (CUDA {cuda}) sees no GPU; jobs here run on the CPU",
        )
    else:
        yield "note", "no GPU here; jobs on this machine run on the CPU"


def cores() -> Iterator[Finding]:
    number = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    load = os.getloadavg()[0]
    words = f"{number} CPU cores, load {load:.1f}"
    if load > 0.7 * number:
        yield "note", f"{words}: other work would slow the jobs' clocks; times measured now are too long"
    else:
        yield "ok", words


def slurm() -> Iterator[Finding]:
    if shutil.which("sbatch") is None:
        yield "note", "no Slurm here (sbatch is not on PATH); hardware=slurm cannot be used"
        return
    try:
        done = subprocess.run(
            ["sinfo", "-h", "-o", "%P %a %D"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield "bad", f"Slurm does not answer sinfo: {error}"
        return
    if done.returncode:
        yield "bad", f"Slurm does not answer sinfo: {done.stderr.strip().splitlines()[-1:] or 'no message'}"
        return
    partitions = [line.split()[0] for line in done.stdout.splitlines() if line.split()[1:2] == ["up"]]
    yield "ok", f"Slurm answers; partitions: {', '.join(partitions) or 'none is up'}"


def disk() -> Iterator[Finding]:
    runs = Path("runs")
    place = runs if runs.is_dir() else Path()
    try:
        with tempfile.NamedTemporaryFile(dir=place) as probe:
            probe.write(b"x")
            os.fsync(probe.fileno())
    except OSError as error:
        yield "bad", f"{place.resolve()} cannot be written: {error.strerror}; see hydra.sweep.dir"
        return
    free = shutil.disk_usage(place).free
    words = f"{place.resolve()} is writable, {free / 1e9:.0f} GB free"
    yield ("ok" if free > NEEDED_BYTES else "note"), words


def tracking() -> Iterator[Finding]:
    from batchscout.track.location import is_network_filesystem

    uri = os.environ.get("MLFLOW_TRACKING_URI")
    if uri:
        yield _answers(uri)
        return
    if is_network_filesystem(Path("runs").absolute()):
        yield "note", "runs/ is on a network file system, where SQLite is unsafe: use tracking=server"
        return
    yield "ok", "tracking goes to runs/mlflow.db (tracking=embedded)"


def _answers(uri: str) -> Finding:
    import urllib.error
    import urllib.request

    if not uri.startswith(("http://", "https://")):
        return "ok", f"tracking goes to MLFLOW_TRACKING_URI={uri}"
    try:
        with urllib.request.urlopen(f"{uri.rstrip('/')}/health", timeout=5) as answer:
            return "ok", f"the MLflow server {uri} answers ({answer.status})"
    except (urllib.error.URLError, OSError) as error:
        return (
            "bad",
            f"the MLflow server {uri} does not answer: {error}; batchscout sync can log sweeps later",
        )
