"""What a trainer is: one function that trains and tells a reporter what happened."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Protocol, cast

from batchscout.errors import ConfigError
from batchscout.measure.reporter import Reporter


class Trainer(Protocol):
    """Trains one job until the reporter says stop.

    config    the resolved job: batch_size, lr, seed, group_size, trainer, task, model, target, evaluation, …
    reporter  receives phases, updates and evaluations, and decides about evaluation, checkpoint and stop
    Raises    whatever goes wrong; the worker that called turns it into an outcome. An out-of-memory error is
              therefore never caught inside a trainer.
    """

    def __call__(self, config: Mapping[str, Any], reporter: Reporter) -> None:
        """Run the job."""


def load_trainer(function: str) -> Trainer:
    """The trainer named ``package.module:function``.

    Raises   ConfigError if the name has another form, or nothing callable is there.
    """
    module_name, _, name = function.partition(":")
    if not module_name or not name:
        raise ConfigError("trainer.function", function, "is not of the form package.module:function")
    try:
        found = getattr(importlib.import_module(module_name), name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            "trainer.function", function, f"cannot be imported: no module {error.name}"
        ) from error
    except AttributeError as error:
        raise ConfigError("trainer.function", function, f"is missing: {module_name} has no {name}") from error
    if not callable(found):
        raise ConfigError("trainer.function", function, "is not callable")
    return cast(Trainer, found)
