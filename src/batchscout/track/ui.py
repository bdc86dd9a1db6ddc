"""`batchscout ui`: MLflow's pages for one or more sweeps, on this machine only.

The sweeps are synced first, so that what is shown is complete whatever happened while they ran.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from batchscout.errors import TrackingError
from batchscout.run.signals import raised_as_interrupts
from batchscout.track.location import database_path
from batchscout.track.sync import sync
from batchscout.track.views import chart_link, link

HOST = "127.0.0.1"  # MLflow has no login: never the network
START_SECONDS = 120.0


def serve(
    directories: Sequence[Path],
    *,
    port: int | None = None,
    uri: str | None = None,
    say: Callable[[str], None] = print,
    until: Callable[[], bool] | None = None,
) -> int:
    """Sync the sweeps, serve MLflow until interrupted, and return the exit code (0; 130 after Ctrl-C or a signal).

    port   5000 or the next free one when None
    uri    where the sweeps are logged; by default where each was logged before
    say    gets the addresses, one line each, when they answer
    until  asked twice a second; True ends the server (for tests and scripts)
    Raises SweepError for a directory that is none, TrackingError if MLflow takes the sweep or the port not
    """
    reports = [(Path(directory), sync(Path(directory), uri)) for directory in directories]
    uris = list(dict.fromkeys(report.uri for _, report in reports))
    if len(uris) > 1:
        raise TrackingError(
            f"the sweeps are logged in {len(uris)} places ({', '.join(uris)}); name one with --uri"
        )
    if database_path(uris[0]) is None:
        for directory, report in reports:
            _say_links(say, report.uri, report.experiment_id, directory)
        return 0
    port = port or free_port()
    links = [(report.experiment_id, directory) for directory, report in reports]
    try:
        with raised_as_interrupts():  # the server must not outlive this command, however that is ended
            return _serve(uris[0], port, links, say, until)
    except KeyboardInterrupt:
        return 130


def _serve(
    uri: str,
    port: int,
    links: Sequence[tuple[str, Path]],
    say: Callable[[str], None],
    until: Callable[[], bool] | None,
) -> int:
    """The server's whole life. links: experiment and directory of each sweep."""
    process = subprocess.Popen(server_command(uri, port), env=server_environment(), start_new_session=True)
    try:
        _wait(process, port)
        for experiment_id, directory in links:
            _say_links(say, f"http://{HOST}:{port}", experiment_id, directory)
        say("Ctrl-C ends it")
        while process.poll() is None and not (until is not None and until()):
            time.sleep(0.5)
        return process.returncode or 0
    finally:
        _end(process)


def server_command(uri: str, port: int, host: str = HOST) -> list[str]:
    """One worker is enough for one person and takes a fifth of the memory of MLflow's default."""
    where = ("--host", host, "--port", str(port), "--workers", "1", "--uvicorn-opts", "--log-level warning")
    return [sys.executable, "-m", "mlflow", "server", *where, "--backend-store-uri", uri]


def server_environment() -> dict[str, str]:
    """Without MLflow's background jobs (1.5 GB of processes) and its usage reports."""
    quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    return {**os.environ, **quiet}


def free_port(first: int = 5000) -> int:
    """The first port from ``first`` on that nobody listens on."""
    for port in range(first, first + 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise TrackingError(f"no free port between {first} and {first + 99}; name one with --port")


def _say_links(say: Callable[[str], None], base: str, experiment_id: str, directory: Path) -> None:
    say(f"{directory}:")
    say(f"  jobs by time to target  {link(base, experiment_id)}")
    say(f"  charts                  {chart_link(base, experiment_id)}")


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    """Until the server answers."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise TrackingError(f"mlflow server ended with code {process.returncode}; is port {port} in use?")
        try:
            with urllib.request.urlopen(f"http://{HOST}:{port}/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise TrackingError(f"mlflow server did not answer on port {port} within {START_SECONDS:.0f} s")


def _end(process: subprocess.Popen[bytes]) -> None:
    """The server and the worker it started, which would outlive it."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
