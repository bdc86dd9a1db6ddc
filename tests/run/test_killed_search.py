"""A search that is killed at any moment goes on as if it had not been: the same proposals, stops and costs.

Through the real controller on a replay: the process dies between any two events of the virtual clock, or as it says an
event of events.jsonl, and a new one goes on in the same directory with a new search.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.made_world import MadeWorld
from tests.run.sweeps import Killed

from batchscout.measure.outcome import Outcome
from batchscout.measure.target import Target
from batchscout.run.api import run_sweep
from batchscout.run.budget import Budget
from batchscout.run.record import read_sweep
from batchscout.run.recorded import RecordedSweep
from batchscout.run.replay import ReplayExecutor
from batchscout.run.settings import SweepSettings
from batchscout.search.factory import build_search
from batchscout.search.protocol import Finished, JobObservation, Point, Proposal, Search, SearchContext

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")

WORLD = MadeWorld(batch_sizes=(64, 256, 1024), lrs=(2e-4, 8e-4), s_min=10_000.0)


class Dying(ReplayExecutor):
    """Dies instead of letting time pass for the k-th time."""

    waits_left: int | None = None

    def wait(self, seconds: float) -> None:
        if self.waits_left is not None:
            self.waits_left -= 1
            if self.waits_left < 0:
                raise Killed
        super().wait(seconds)


class DyingListener:
    """Dies at the k-th event of the controller."""

    def __init__(self, events_left: int) -> None:
        self._left = events_left

    def on_start(self, view: Any) -> None: ...

    def on_change(self, view: Any) -> None: ...

    def on_end(self, view: Any) -> None: ...

    def on_event(self, event: dict[str, Any]) -> None:
        self._left -= 1
        if self._left < 0:
            raise Killed


def run(
    recording: RecordedSweep,
    directory: Path,
    search: str | Search,
    *,
    slots: int,
    waits: int | None = None,
    events: int | None = None,
    carried: Iterable[JobObservation] = (),
) -> bool:
    """One process's life. Whether it came to the end."""
    context = SearchContext(space=recording.space(), target=Target(recording.target), slots=slots, seed=3)
    wanted = SweepSettings(
        name="replay",
        config={"target": {"score": recording.target}},
        measured={"world": recording.world},
        job_config=lambda p, s: {"batch_size": p.batch_size, "lr": p.lr, "seed": s},
        context=context,
        search=search if isinstance(search, str) else "time_to_target",
        budget=Budget(jobs=14),
        gpus=1,
        is_recorded=True,
    )
    executor = Dying(recording, slots=slots)
    executor.waits_left = waits
    if isinstance(search, str):
        options = {"carried": tuple(carried)} if search == "new_gpu" else {}
        search = build_search(search, context, options)
    listeners = [] if events is None else [DyingListener(events)]
    try:
        run_sweep(wanted, directory, executor=executor, search=search, listeners=listeners)
    except Killed:
        return False
    return True


def story(directory: Path) -> dict[str, Any]:
    """What was decided and paid, without what a restart may add (begin, retry)."""
    result = json.loads((directory / "result.json").read_text())
    events = [json.loads(line) for line in (directory / "events.jsonl").read_text().splitlines()]
    said = {
        name: list(dict.fromkeys((e.get("job"), e.get("explanation")) for e in events if e["event"] == name))
        for name in ("submit", "stop", "continue", "finish")
    }
    keys = (
        "id",
        "kind",
        "batch_size",
        "lr",
        "seed",
        "outcome",
        "reason",
        "samples",
        "seconds",
        "submitted",
        "end",
    )
    jobs = [{key: row[key] for key in keys} for row in result["jobs"]]
    return {
        "jobs": jobs, "said": said, "recommendation": result["recommendation"], "cost": result["cost"]["seconds"],
        "elapsed": result["elapsed_seconds"],
    }  # fmt: skip


def check(recording: RecordedSweep, path: Path, search: str, slots: int, *, share: float, **keys: Any) -> int:
    """Killed after `share` of its waits, and of its events, for many moments; returns how many."""
    assert run(recording, path / "whole", search, slots=slots, **keys)
    whole = story(path / "whole")
    events = (path / "whole" / "events.jsonl").read_text().count("\n")
    evaluations = sum(
        (p.read_text().count('"evaluation"')) for p in path.glob("whole/jobs/*/attempts/*/journal.jsonl")
    )
    killed = 0
    for name, count in (("waits", evaluations), ("events", events)):
        for k in range(0, count, max(1, round(share * count))):
            directory = path / f"{name}{k}"
            if not run(recording, directory, search, slots=slots, **{name: k}, **keys):
                killed += 1
                assert run(recording, directory, search, slots=slots, **keys)
            assert story(directory) == whole, f"killed after {k} {name}"
    return killed


@pytest.fixture
def recording(tmp_path: Path) -> RecordedSweep:
    return RecordedSweep.read(WORLD.write(tmp_path / "world.jsonl"))


@pytest.mark.parametrize(("search", "slots"), [("tpe", 3), ("time_to_target", 1)])
def test_a_search_goes_on(recording: RecordedSweep, tmp_path: Path, search: str, slots: int) -> None:
    assert check(recording, tmp_path, search, slots, share=0.5) >= 3


class Returning:
    """Two jobs at once; the second is stopped early and taken up again in the middle of the first."""

    first, second = Point(64, 8e-4), Point(256, 8e-4)

    def propose(self, jobs: Sequence[JobObservation]) -> Proposal | Finished | None:
        at = {j.point: j for j in jobs}
        for point in (self.first, self.second):
            if point not in at:
                return Proposal("run", point, 0, "listed")
        one, other = at[self.first], at[self.second]
        if other.outcome is Outcome.STOPPED and one.curve is not None and len(one.curve.samples) >= 6:
            return Proposal("verify", self.second, 0, "taken up again", resume=other.job_id)
        return Finished("both ended") if one.is_final and other.is_final else None

    def stop(self, job: JobObservation, jobs: Sequence[JobObservation]) -> str | None:
        is_early = job.kind == "run" and job.curve is not None and len(job.curve.samples) >= 2
        return "enough" if job.point == self.second and is_early else None

    def recommend(self, jobs: Sequence[JobObservation]) -> None:
        return None


def test_a_search_goes_on_from_where_a_stopped_job_was_taken_up_again(
    recording: RecordedSweep, tmp_path: Path
) -> None:
    """The clock has gone on since the last end and the last submission, the two that the jobs' files tell of."""
    assert run(recording, tmp_path / "whole", Returning(), slots=2)
    events = [json.loads(line) for line in (tmp_path / "whole" / "events.jsonl").read_text().splitlines()]
    at = [event["event"] for event in events].index("continue")
    assert events[at]["time"] > events[at - 1]["time"]
    for k in (at, at + 1):
        assert not run(recording, tmp_path / f"events{k}", Returning(), slots=2, events=k)
        assert run(recording, tmp_path / f"events{k}", Returning(), slots=2)
        assert story(tmp_path / f"events{k}") == story(tmp_path / "whole"), f"killed after {k} events"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("search", "slots"),
    [
        ("grid", 3),
        ("random", 2),
        ("tpe", 1),
        ("tpe", 3),
        ("gp", 2),
        ("time_to_target", 1),
        ("time_to_target", 3),
    ],
)
def test_a_search_goes_on_from_many_moments(
    recording: RecordedSweep, tmp_path: Path, search: str, slots: int
) -> None:
    assert check(recording, tmp_path, search, slots, share=0.07) >= 12


@pytest.mark.slow
def test_the_search_on_a_new_gpu_goes_on(recording: RecordedSweep, tmp_path: Path) -> None:
    assert run(recording, tmp_path / "source", "grid", slots=2)
    carried = read_sweep(tmp_path / "source").jobs
    other = replace(WORLD, name="other", a=0.5, b=0.0004, seed=1)
    (tmp_path / "new").mkdir()
    new = RecordedSweep.read(other.write(tmp_path / "new" / "world.jsonl"))
    assert check(new, tmp_path / "new", "new_gpu", 1, share=0.07, carried=carried) >= 8


def test_a_search_killed_again_and_again_goes_on(recording: RecordedSweep, tmp_path: Path) -> None:
    assert run(recording, tmp_path / "whole", "tpe", slots=2)
    lives = 0
    while not run(recording, tmp_path / "killed", "tpe", slots=2, waits=60):
        lives += 1
        assert lives < 200
    assert lives > 2
    assert story(tmp_path / "killed") == story(tmp_path / "whole")
