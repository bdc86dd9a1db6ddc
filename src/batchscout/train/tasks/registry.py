"""Tasks by name.

A new one: a module beside this one and a line in ``TASKS``; from elsewhere, ``name: package.module:Class``.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, cast

from batchscout.errors import ConfigError
from batchscout.train.tasks.addition import Addition
from batchscout.train.tasks.task import Task

TASKS: dict[str, Any] = {"addition": Addition}


def make_task(settings: Mapping[str, Any], device: str = "cpu") -> Task:
    """The task of a config group entry.

    settings  ``name`` and the task's own parameters
    Raises    ConfigError for an unknown name or parameter.
    """
    parameters = {key: value for key, value in settings.items() if key not in ("name", "score_range")}
    name = settings["name"]
    if name in TASKS:
        factory = TASKS[name]
    elif ":" in name:
        module, _, attribute = name.partition(":")
        factory = getattr(importlib.import_module(module), attribute)
    else:
        raise ConfigError(
            "task.name", name, f"is unknown; use one of {', '.join(TASKS)} or package.module:Class"
        )
    try:
        return cast(Task, factory(**parameters, device=device))
    except TypeError as error:
        raise ConfigError("task", parameters, f"does not fit: {error}") from error
