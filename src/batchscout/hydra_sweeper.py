"""The sweeper: one controller; jobs go where `hardware=NAME` says, or through another launcher."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from batchscout import app
from batchscout.errors import ConfigError
from batchscout.hydra_files import HydraFiles
from batchscout.hydra_request import sweep_request
from batchscout.plan import Plan
from batchscout.run.executor import Executor
from batchscout.search.protocol import Search

OWN_LAUNCHER = "hydra_plugins.batchscout."


def sweep(
    arguments: Sequence[str],
    *,
    params: Mapping[str, Any],
    hydra_context: HydraContext,
    task_function: TaskFunction,
    config: DictConfig,
) -> None:
    """Run the whole sweep. Ends the process where the exit code is not 0. Raises ConfigError first of all."""
    own = OmegaConf.to_container(params) if OmegaConf.is_config(params) else params
    if not isinstance(own, dict):
        raise ConfigError("hydra.sweeper.params", own, "must be lists by name, as in {batch_size: '64,128'}")
    request = sweep_request(
        config, arguments, params={str(k): v for k, v in own.items()}, loader=hydra_context.config_loader
    )
    is_own_launcher = str(config.hydra.launcher._target_).startswith(OWN_LAUNCHER)

    def through_launcher(plan: Plan, search: Search, directory: Path) -> Executor:
        from batchscout.hydra_executor import HydraLauncherExecutor

        with read_write(config), open_dict(config):
            config.hydra.sweep.dir = str(directory)
        return HydraLauncherExecutor(
            directory, slots=plan.config.hardware.slots, hydra_context=hydra_context,
            task_function=task_function, config=config,
        )  # fmt: skip

    code = app.run(
        request,
        make_executor=None if is_own_launcher else through_launcher,
        listeners=[HydraFiles(config)],
    )
    if code:
        sys.exit(code)
