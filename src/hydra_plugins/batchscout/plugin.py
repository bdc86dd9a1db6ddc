"""What Hydra finds: thin classes. The code is in batchscout.hydra_*, loaded when used.

Hydra accepts only classes of hydra_plugins.* and executes this module at every start of every Hydra
application of the environment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class BatchscoutSweeper(Sweeper):
    """Runs a sweep of batch sizes and learning rates; see batchscout.hydra_sweeper."""

    def __init__(self, params: dict[str, Any] | None = None) -> None:
        self.params = {} if params is None else params

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config

    def sweep(self, arguments: list[str]) -> Any:
        from batchscout.hydra_sweeper import sweep

        assert self.hydra_context is not None
        assert self.config is not None
        assert self.task_function is not None
        return sweep(
            arguments,
            params=self.params,
            hydra_context=self.hydra_context,
            task_function=self.task_function,
            config=self.config,
        )


class BatchscoutLauncher(Launcher):
    """Runs jobs where `hardware=NAME` says; see batchscout.hydra_launcher."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        from batchscout.hydra_launcher import launch

        assert self.hydra_context is not None
        assert self.config is not None
        return launch(job_overrides, initial_job_idx, hydra_context=self.hydra_context, config=self.config)


SWEEPER = {"_target_": f"{__name__}.BatchscoutSweeper", "params": {}}
"""params: lists of batch_size, lr, lr_reference and seed, in the words of the command line."""

LAUNCHER = {"_target_": f"{__name__}.BatchscoutLauncher"}
"""Everything else is in the config group `hardware`."""


def _logging(level: str) -> dict[str, Any]:
    """Warnings on the terminal, without a log file: jobs have their own."""
    return {
        "version": 1,
        "formatters": {"plain": {"format": "%(levelname)s: %(message)s"}},
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
        "root": {"level": level, "handlers": ["console"]},
        "disable_existing_loggers": False,
    }


def _register() -> None:
    store = ConfigStore.instance()
    store.store(group="hydra/sweeper", name="batchscout", node=SWEEPER, provider="batchscout")
    store.store(group="hydra/launcher", name="batchscout", node=LAUNCHER, provider="batchscout")
    for group in ("hydra/hydra_logging", "hydra/job_logging"):
        store.store(group=group, name="batchscout", node=_logging("WARNING"), provider="batchscout")


_register()
