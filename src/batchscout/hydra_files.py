"""The files that people expect of Hydra: multirun.yaml in a sweep, .hydra/ in each job."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from batchscout.run.listener import SweepView


class HydraFiles:
    """A listener that writes them; each once."""

    def __init__(self, config: DictConfig) -> None:
        self._config = config
        self._written: set[str] = set()

    def on_start(self, view: SweepView) -> None:
        OmegaConf.save(self._config, view.directory / "multirun.yaml")
        self.on_change(view)

    def on_change(self, view: SweepView) -> None:
        if view.result.get("status") == "running" and self._is_replay():
            return
        for job in view.jobs:
            folder = view.directory / "jobs" / job.job_id
            if job.job_id not in self._written and folder.is_dir():
                self._written.add(job.job_id)
                write_job_files(
                    folder,
                    self._config,
                    {"batch_size": job.point.batch_size, "lr": job.point.lr, "seed": job.seed},
                )

    def on_event(self, event: dict[str, Any]) -> None:
        """Nothing to write."""

    def on_end(self, view: SweepView) -> None:
        """Nothing to write."""

    def _is_replay(self) -> bool:
        return bool(OmegaConf.select(self._config, "hardware.executor") == "replay")


def write_job_files(folder: Path, config: DictConfig, values: dict[str, Any]) -> None:
    """.hydra/config.yaml, hydra.yaml and overrides.yaml of one job, unless they are there."""
    if (folder / ".hydra").exists():
        return
    job = copy.deepcopy(config)
    with read_write(job), open_dict(job):
        hydra = job.pop("hydra")
        for key, value in values.items():
            job[key] = value
    typed = [str(o) for o in config.hydra.overrides.task if str(o).partition("=")[0] not in values]
    overrides = [*typed, *(f"{key}={value}" for key, value in values.items())]
    output = folder / ".hydra"
    output.mkdir()
    OmegaConf.save(job, output / "config.yaml")
    OmegaConf.save(OmegaConf.create({"hydra": hydra}), output / "hydra.yaml")
    OmegaConf.save(OmegaConf.create(overrides), output / "overrides.yaml")
