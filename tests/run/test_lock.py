"""One controller per sweep: who is refused, and whose lock is taken over."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from batchscout.errors import SweepLocked
from batchscout.run.lock import NAME, STALE_SECONDS, SweepLock, holder_of


def write(directory: Path, **changes: Any) -> None:
    process = psutil.Process()
    content = {
        "v": 1,
        "host": socket.gethostname(),
        "pid": process.pid,
        "pid_started": process.create_time(),
        "heartbeat": time.time(),
        "token": "other",
        **changes,
    }
    (directory / NAME).write_text(json.dumps(content))


def test_a_live_process_of_this_host_keeps_its_lock(tmp_path: Path) -> None:
    with SweepLock(tmp_path) as lock:
        assert lock.is_ours()
        with pytest.raises(SweepLocked, match=f"process {os.getpid()} on"), SweepLock(tmp_path):
            pass
    assert not (tmp_path / NAME).exists()
    assert holder_of(tmp_path) is None


def test_even_a_silent_one_keeps_it(tmp_path: Path) -> None:
    write(tmp_path, heartbeat=time.time() - 10 * STALE_SECONDS)
    with pytest.raises(SweepLocked), SweepLock(tmp_path):
        pass


def test_a_dead_process_of_this_host_loses_it_at_once(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    write(tmp_path, pid=child.pid)
    with SweepLock(tmp_path) as lock:
        assert lock.is_ours()


def test_a_number_that_another_process_got_since_is_no_holder(tmp_path: Path) -> None:
    write(tmp_path, pid_started=psutil.Process().create_time() - 1000)
    with SweepLock(tmp_path) as lock:
        assert lock.is_ours()


def test_another_hosts_lock_is_taken_over_only_after_its_heartbeat(tmp_path: Path) -> None:
    write(tmp_path, host="elsewhere", heartbeat=time.time() - STALE_SECONDS / 2)
    with pytest.raises(SweepLocked, match="elsewhere"), SweepLock(tmp_path):
        pass
    write(tmp_path, host="elsewhere", heartbeat=time.time() - 2 * STALE_SECONDS)
    with SweepLock(tmp_path) as lock:
        assert lock.is_ours()


def test_a_lock_that_was_taken_over_is_not_removed_by_its_old_holder(tmp_path: Path) -> None:
    with SweepLock(tmp_path) as lock:
        write(tmp_path)
        assert not lock.is_ours()
    assert (tmp_path / NAME).exists()
