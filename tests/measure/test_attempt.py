"""Attempts are claimed by mkdir, one each."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from batchscout.measure import attempt_paths, claim_attempt, newest_attempt


def test_attempts_are_numbered_from_001(tmp_path: Path) -> None:
    assert attempt_paths(tmp_path) == []
    assert newest_attempt(tmp_path) is None
    assert [claim_attempt(tmp_path).name for _ in range(3)] == ["001", "002", "003"]
    assert newest_attempt(tmp_path) == tmp_path / "attempts" / "003"


def test_order_is_numerical_beyond_999(tmp_path: Path) -> None:
    for number in (1000, 999, 2):
        (tmp_path / "attempts" / f"{number:03d}").mkdir(parents=True)
    assert [p.name for p in attempt_paths(tmp_path)] == ["002", "999", "1000"]
    assert claim_attempt(tmp_path).name == "1001"


def test_processes_that_claim_at_once_get_one_each(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        names = sorted(path.name for path in pool.map(lambda _: claim_attempt(tmp_path), range(40)))
    assert names == [f"{n:03d}" for n in range(1, 41)]
