"""The tracker's side of a trainer that joins its job's MLflow run (the worker's: run/joining.py)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from batchscout.run.files import read_json, write_json
from batchscout.run.joining import FOLDER, TRACKING, VARIABLES, answer_path, request_path
from batchscout.track.entry import joined_entry
from batchscout.track.points import Row
from batchscout.track.store import RunStore

LOOK_SECONDS = 1.0  # between two looks for jobs that ask


class Joins:
    """Answers the jobs of one sweep that ask for their run. Only the tracker's thread calls it."""

    def __init__(self, store: RunStore, directory: Path) -> None:
        self._store, self._sweep = store, directory
        self._answered: set[str] = set()

    def offer(self) -> None:
        """From now on jobs that start ask. Called before the first one is submitted."""
        (self._sweep / FOLDER).mkdir(exist_ok=True)
        write_json(self._sweep / FOLDER / TRACKING, {"v": 1, "uri": self._store.uri})

    @staticmethod
    def withdraw(sweep: Path) -> None:
        """Jobs that start ask no more."""
        (sweep / FOLDER / TRACKING).unlink(missing_ok=True)

    def asking(self) -> Iterator[tuple[Row, float]]:
        """(job.json, Unix seconds of its start) of those without an answer, by one look at the folder."""
        beside = self._sweep / FOLDER / ".look"
        beside.touch()  # a change of our own makes a network file system look at the folder anew
        beside.unlink()
        names = sorted(path.stem for path in (self._sweep / FOLDER).glob("*.request"))
        for name in names:
            if name in self._answered:
                continue
            request = read_json(request_path(self._sweep, name))
            known = read_json(answer_path(self._sweep, name))
            if known is not None and known["uri"] == self._store.uri:
                self._answered.add(name)
            elif request is not None and request["uri"] == self._store.uri:
                record = read_json(self._sweep / "jobs" / name / "job.json")
                if record is not None:
                    yield record, float(request["time"])

    def answer(self, job: Row, started: float) -> None:
        """Make the job's run, if it is not there, and say which it is. Raises TrackingError."""
        run_id = self._store.join(joined_entry(self._store.sweep, job, started))
        values = (self._store.uri, str(self._store.experiment_id), self._store.sweep, run_id)
        environment = dict(zip(VARIABLES, values, strict=True))
        content = {"v": 1, "uri": self._store.uri, "environment": environment}
        write_json(answer_path(self._sweep, job["id"]), content)
        self._answered.add(job["id"])
