"""`batchscout ui` as a process: its server ends with it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from batchscout.track.ui import free_port


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_the_server_ends_with_the_command(number, sweep, database):
    directory, _ = sweep
    port = free_port(5500)
    process = subprocess.Popen(
        [sys.executable, "-m", "batchscout.cli", "ui", directory, "--uri", database.uri, "--port", str(port)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line.rstrip())
        if line.startswith("Ctrl-C"):
            break
    assert said[-1] == "Ctrl-C ends it", said
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10) as answer:
        assert answer.status == 200
    process.send_signal(number)
    assert process.wait(30) == 130
    process.stdout.close()
    deadline = time.monotonic() + 10
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return
        assert time.monotonic() < deadline, "the server outlived the command"
        time.sleep(0.1)
