"""The directory of one sweep: its record (sweep.json), its events, its jobs, its result.

Everything that a controller knows lies here, so that one that was killed is continued by the same command.
"""

from __future__ import annotations

import platform
import socket
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

from batchscout.clock import Clock
from batchscout.errors import SweepError
from batchscout.run.extension import check_extension, differences, lists_of
from batchscout.run.files import EventLog, read_json, write_json
from batchscout.run.job import JobRecord, digest, read_records
from batchscout.run.settings import SweepSettings

PACKAGES = ("batchscout", "torch", "numpy", "scipy", "optuna", "hydra-core", "submitit", "mlflow")
UNFINISHED = ("running", "interrupted")


class SweepDirectory:
    """An opened sweep directory. Open it under its lock."""

    def __init__(self, path: Path, content: dict[str, Any], *, is_recorded: bool) -> None:
        self.path, self.content = path, content
        self._is_durable = not is_recorded
        self.events = EventLog(path / "events.jsonl", is_durable=self._is_durable)

    @classmethod
    def open_or_create(
        cls, path: Path, settings: SweepSettings, *, clock: Clock, command: Sequence[str] = ()
    ) -> Self:
        """The sweep in `path`, made if there is none, else continued (its record then takes what may change).

        Raises  SweepError naming the fields if it is a sweep of something else.
        """
        path = Path(path).absolute()
        path.mkdir(parents=True, exist_ok=True)
        content = read_json(path / "sweep.json")
        if content is None:
            return cls._create(path, settings, clock=clock, command=command)
        _check_record(path, content)
        check_extension(content, settings)
        sweep = cls(path, content, is_recorded=settings.is_recorded)
        sweep.content |= {"config": dict(settings.config), "lists": lists_of(settings.context.space)}
        sweep._save()
        return sweep

    @classmethod
    def _create(cls, path: Path, settings: SweepSettings, *, clock: Clock, command: Sequence[str]) -> Self:
        name = f"{settings.name}/{path.name}"
        content = {
            "v": 1,
            "sweep": name,
            "name": settings.name,
            "created": clock.now(),
            "plan_signature": plan_signature(settings),
            "search": settings.search,
            "lists": lists_of(settings.context.space),
            "config": dict(settings.config),
            "measured": dict(settings.measured),
            "versions": _versions(),
            "git": None,
            "command": list(command),
            "host": socket.gethostname(),
            "is_recorded": settings.is_recorded,
            "submission_prefix": f"{name.replace('/', '-')}-{uuid.uuid4().hex[:6]}",
        }
        sweep = cls(path, content, is_recorded=settings.is_recorded)
        sweep._save()
        _point_latest_to(path)
        return sweep

    def _save(self) -> None:
        write_json(self.path / "sweep.json", self.content, is_durable=self._is_durable)

    @property
    def sweep(self) -> str:
        """The unique id, fixed at creation."""
        return str(self.content["sweep"])

    @property
    def created(self) -> float:
        return float(self.content["created"])

    @property
    def jobs_path(self) -> Path:
        return self.path / "jobs"

    def submission_name(self, job_id: str, number: int) -> str:
        """Name of a job's number-th submission; unique on the cluster, ends in the job's id."""
        again = f".{number}" if number > 1 else ""
        return f"{self.content['submission_prefix']}{again}-{job_id}"

    def note_code(self, commit: str | None, is_dirty: bool, snapshot: str) -> None:
        """Where the code of the jobs came from."""
        self.content["git"] = {"commit": commit, "is_dirty": is_dirty, "snapshot": snapshot}
        self._save()

    def records(self) -> list[JobRecord]:
        """All jobs as last saved, in order of creation."""
        return read_records(self.jobs_path)

    def save_job(self, record: JobRecord) -> Path:
        """Write the job's job.json; returns its directory."""
        return record.save(self.jobs_path, is_durable=self._is_durable)

    def save_result(self, result: Mapping[str, Any]) -> None:
        write_json(self.path / "result.json", result, is_durable=self._is_durable)

    def result(self) -> dict[str, Any] | None:
        """result.json as last written."""
        content: dict[str, Any] | None = read_json(self.path / "result.json")
        return content


def plan_signature(settings: SweepSettings) -> str:
    """What two sweeps share that measure the same thing: lists of settings, seeds and budgets play no
    part."""
    return digest(settings.measured)


def choose_directory(
    root: Path, settings: SweepSettings, *, clock: Clock, is_fresh: bool = False
) -> tuple[Path, bool]:
    """Where a sweep without an explicit directory goes: (root/NAME/TIME, whether that is an unfinished one).

    An unfinished sweep with equal plan signature and lists is taken up again, the newest first.
    """
    found = None if is_fresh else find_unfinished(root / settings.name, settings)
    if found is not None:
        return found, True
    stamp = datetime.fromtimestamp(clock.now(), tz=UTC).astimezone().strftime("%Y-%m-%dT%H-%M-%S")
    taken = {path.name for path in (root / settings.name).glob(f"{stamp}*")}
    names = [stamp, *(f"{stamp}-{n}" for n in range(2, len(taken) + 3))]
    return root / settings.name / next(name for name in names if name not in taken), False


def find_unfinished(folder: Path, settings: SweepSettings) -> Path | None:
    """The newest unfinished sweep below `folder` that asks for exactly this."""
    for path in sorted(folder.glob("*"), reverse=True):
        if not is_sweep_of(path, settings):
            continue
        result = read_json(path / "result.json")
        if result is None or result["status"] in UNFINISHED:
            return path
    return None


def is_sweep_of(path: Path, settings: SweepSettings) -> bool:
    """Whether the sweep in `path` asks for exactly this; False where there is none."""
    try:
        content = read_json(path / "sweep.json")
        if content is None:
            return False
        _check_record(path, content)
    except SweepError:  # what is broken there must not keep others from running
        return False
    wanted = plan_signature(settings), lists_of(settings.context.space)
    if (content["plan_signature"], content["lists"]) != wanted:
        return False
    return not differences(content, settings)


def read_sweep_record(path: Path) -> dict[str, Any]:
    """sweep.json. Raises SweepError where there is none."""
    content: dict[str, Any] | None = read_json(path / "sweep.json")
    if content is None:
        raise SweepError(f"{path} is no sweep directory (no sweep.json); name one like runs/NAME/TIME")
    _check_record(path, content)
    return content


def _check_record(path: Path, content: Any) -> None:
    keys = ("sweep", "config", "lists", "search", "plan_signature")
    if not isinstance(content, dict) or not all(key in content for key in keys):
        raise SweepError(
            f"{path / 'sweep.json'} is no record of a sweep; take it away, or name another place"
        )


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def _point_latest_to(path: Path) -> None:
    """runs/latest, where the sweep lies in runs/NAME/TIME."""
    runs = path.parent.parent
    if runs.name != "runs":
        return
    link, beside = runs / "latest", runs / f".latest.{uuid.uuid4().hex[:6]}"
    if link.is_symlink() or not link.exists():
        beside.symlink_to(path.relative_to(runs), target_is_directory=True)
        beside.replace(link)
