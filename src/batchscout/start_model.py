"""The model that every job of a sweep starts from: found or built once, kept in the sweep's directory.

Another start of equal accuracy may need three times the samples, so the jobs of one sweep share one file,
whose hash is in each job.json. It is built before the first job exists, off every clock.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from batchscout.errors import TrainerError
from batchscout.functions import load
from batchscout.plan import Plan
from batchscout.run.settings import JobConfigOf, SweepSettings
from batchscout.search.protocol import Point


def with_start_model(plan: Plan, directory: Path) -> SweepSettings:
    """The plan's settings, whose jobs name the start model where the trainer's `prepare` makes one.

    `prepare` is "package.module:function", called as function(job configuration) when the first job is
    planned; it returns a pair (path, sha256 of the file).
    """
    prepare = plan.config.trainer.parameters.get("prepare")
    if not prepare or plan.recording is not None:
        return plan.settings
    configured = _Prepared(plan.settings.job_config, str(prepare), directory / "start_model")
    return replace(plan.settings, job_config=configured)


@dataclass(slots=True)
class _Prepared:
    """(point, seed) → one job's configuration with its start model."""

    job_config: JobConfigOf
    prepare: str
    directory: Path
    _start: dict[str, str] = field(default_factory=dict)

    def __call__(self, point: Point, seed: int) -> dict[str, Any]:
        config = dict(self.job_config(point, seed))
        if not self._start:
            path, sha256 = load("trainer.prepare", self.prepare)(config)
            self._start = {"path": str(self._kept(Path(path), sha256)), "sha256": sha256}
        return {**config, "warm_start": self._start}

    def _kept(self, path: Path, sha256: str) -> Path:
        """The sweep's own copy, so that its jobs outlive the checkout and the cache that it came from."""
        self.directory.mkdir(parents=True, exist_ok=True)
        kept = self.directory.absolute() / f"{sha256[:16]}{path.suffix}"
        if not kept.exists():
            copy = kept.with_suffix(f".{os.getpid()}.tmp")
            try:
                shutil.copyfile(path, copy)
                copy.replace(kept)
            except OSError as error:
                raise TrainerError(
                    f"the start model {path} cannot be copied to {kept}: {error.strerror}"
                ) from error
        return kept
