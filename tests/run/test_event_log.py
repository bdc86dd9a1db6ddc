"""events.jsonl survives a kill in the middle of any line."""

from __future__ import annotations

import json
from pathlib import Path

from batchscout.run.files import EventLog
from batchscout.run.record import read_decisions

EVENTS = [
    {"v": 1, "event": "submit", "time": 1.0, "job": "b64"},
    {
        "v": 1,
        "event": "end",
        "time": 2.0,
        "message": 'a line\u2028separator, \u0085 and "quotes"\nstay one line',
    },
]


def test_a_log_cut_at_any_byte_goes_on_and_stays_readable(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(path)
    for event in EVENTS:
        log.write(event)
    assert log.read() == EVENTS
    text = path.read_bytes()
    ends = [i for i, byte in enumerate(text) if byte == ord("\n")]
    after = {"v": 1, "event": "begin", "time": 3.0}
    for length in range(len(text) + 1):
        path.write_bytes(text[:length])
        log = EventLog(path, is_durable=False)
        log.write(after)
        whole = EVENTS[: sum(end <= length for end in ends)]
        assert log.read() == [*whole, after]
        assert read_decisions(tmp_path) == [*whole, after]
        assert [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] == [*whole, after]
