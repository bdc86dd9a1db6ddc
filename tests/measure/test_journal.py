"""The journal under torn lines, full disks and odd numbers."""

from __future__ import annotations

import errno
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchscout.clock import VirtualClock
from batchscout.errors import JournalError
from batchscout.measure import JournalTail, JournalWriter, read_journal

CLOCK = VirtualClock(7.0)


def write(path: Path, count: int) -> list[dict[str, object]]:
    with JournalWriter(path, clock=CLOCK) as journal:
        return [journal.write("update", updates=i, metrics={"größe": 0.1 * i}) for i in range(count)]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    written = write(tmp_path / "j", 3)
    assert read_journal(tmp_path / "j") == written
    assert written[1] == {"v": 1, "event": "update", "time": 7.0, "updates": 1, "metrics": {"größe": 0.1}}


def test_missing_journal_is_empty(tmp_path: Path) -> None:
    assert read_journal(tmp_path / "none") == []


def test_journal_cut_at_any_byte_loses_only_its_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "j"
    written = write(path, 3)
    whole = path.read_bytes()
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        kept = whole[:cut].count(b"\n")
        assert read_journal(path) == written[:kept]
        tail = JournalTail(path)
        assert tail.poll() == written[:kept]
        with JournalWriter(path, clock=CLOCK) as journal:
            added = journal.write("end", outcome="reached")
        assert read_journal(path) == [*written[:kept], added]
        assert tail.poll() == [added]


@pytest.mark.parametrize(
    "rubbish", [b"\0" * 40, b"\0" * 40 + b"\n", b'{"v":1,"eve\n', b"\xff\xfe\n", b"3\n", b"\n"]
)
def test_rubbish_that_a_crash_left_at_the_end_is_cut_off(tmp_path: Path, rubbish: bytes) -> None:
    path = tmp_path / "j"
    written = write(path, 2)
    path.write_bytes(path.read_bytes() + rubbish)
    assert read_journal(path) == written
    with JournalWriter(path, clock=CLOCK) as journal:
        added = journal.write("end")
    assert read_journal(path) == [*written, added]


def test_bad_line_in_the_middle_is_an_error_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "j"
    write(path, 1)
    path.write_bytes(path.read_bytes() + b"oops\n" + path.read_bytes())
    with pytest.raises(JournalError, match=r"j:2 is no event: b'oops'"):
        read_journal(path)


def test_tail_returns_each_event_once_whatever_the_polls(tmp_path: Path) -> None:
    path = tmp_path / "j"
    write(path, 4)
    whole = path.read_bytes()
    for step in (1, 7, 64):
        path.write_bytes(b"")
        tail, seen = JournalTail(path), []
        for cut in range(0, len(whole) + step, step):
            path.write_bytes(whole[:cut])
            seen += tail.poll()
        assert [e["updates"] for e in seen] == [0, 1, 2, 3]


def test_numbers_that_are_not_finite_become_null_and_are_named(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "j", clock=CLOCK) as journal:
        journal.write(
            "update", score=math.nan, metrics={"loss": math.inf, "ok": 1.0, "grads": [1.0, -math.inf]}
        )
    line = (tmp_path / "j").read_text()
    event = json.loads(line, parse_constant=lambda name: pytest.fail(name))
    assert (event["score"], event["metrics"]) == (None, {"loss": None, "ok": 1.0, "grads": [1.0, None]})
    assert event["nonfinite"] == ["score", "metrics.loss", "metrics.grads.1"]


def test_scalars_of_numpy_are_numbers(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "j", clock=CLOCK) as journal:
        journal.write("update", a=np.float64(0.5), b=np.int64(3), c=np.float32(math.nan), d=np.array(2))
    event = read_journal(tmp_path / "j")[0]
    assert (event["a"], event["b"], event["c"], event["d"]) == (0.5, 3, None, 2)


def test_what_json_cannot_hold_is_refused_and_leaves_no_trace(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "j", clock=CLOCK) as journal:
        with pytest.raises(JournalError, match=r"metrics\.x=.* is a object"):
            journal.write("update", metrics={"x": object()})
        journal.write("end")
    assert [e["event"] for e in read_journal(tmp_path / "j")] == ["end"]


def test_full_disk_is_an_error_that_keeps_earlier_lines_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "j"
    real, room = os.write, [0]

    def write_until_full(file: int, content: bytes) -> int:
        part = content[: room[0]]
        if not part:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        room[0] -= len(part)
        return real(file, part)

    with JournalWriter(path, clock=CLOCK) as journal:
        first = journal.write("update", updates=1)
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", write_until_full)
            for left in (0, 1, 10):
                room[0] = left
                with pytest.raises(JournalError, match="No space left on device"):
                    journal.write("update", updates=2)
                assert read_journal(path) == [first]
                assert path.read_bytes().endswith(b"\n")
        last = journal.write("update", updates=3)
    assert read_journal(path) == [first, last]


def test_line_that_could_not_be_taken_back_is_repaired_by_the_next_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "j"

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with JournalWriter(path, clock=CLOCK) as journal:
        first = journal.write("update", updates=1)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            patch.setattr(os, "ftruncate", fail)
            with pytest.raises(JournalError):
                journal.write("evaluation", updates=2)
        last = journal.write("update", updates=3)
    assert read_journal(path) == [first, last]


def test_updates_in_quick_succession_share_a_flush_and_everything_else_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushes: list[int] = []
    monkeypatch.setattr(os, "fsync", flushes.append)
    clock = VirtualClock()
    counts = []
    with JournalWriter(tmp_path / "j", clock=clock) as journal:
        for event in ("update", "update", "evaluation", "end", "update"):
            journal.write(event)
            counts.append(len(flushes))
        clock.sleep(1.0)
        journal.write("update")
        counts.append(len(flushes))
    assert counts == [1, 1, 2, 3, 3, 4]


def test_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="cannot be opened for writing"):
        JournalWriter(tmp_path / "none" / "j", clock=CLOCK)


def test_closed_journal_refuses_events(tmp_path: Path) -> None:
    journal = JournalWriter(tmp_path / "j", clock=CLOCK)
    journal.close()
    journal.close()
    with pytest.raises(JournalError, match="closed"):
        journal.write("end")


json_like = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text(min_size=1).map("key_".__add__), json_like, max_size=4))
def test_any_finite_content_comes_back_equal(
    tmp_path_factory: pytest.TempPathFactory, keys: dict[str, object]
) -> None:
    path = tmp_path_factory.mktemp("journal") / "j"
    with JournalWriter(path, clock=CLOCK) as journal:
        journal.write("update", **keys)
    assert read_journal(path) == [{"v": 1, "event": "update", "time": 7.0, **keys}]
