"""From a search's name to the search."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, cast

from batchscout.errors import ConfigError
from batchscout.search.protocol import Search, SearchContext

BUILT_IN = {
    "grid": "batchscout.search.grid:GridSearch",
    "random": "batchscout.search.optuna_search:RandomSearch",
    "tpe": "batchscout.search.optuna_search:TpeSearch",
    "gp": "batchscout.search.optuna_search:GpSearch",
    "new_gpu": "batchscout.search.new_gpu:NewGpuSearch",
    "time_to_target": "batchscout.search.time_to_target:TimeToTargetSearch",
}


def build_search(
    name: str,
    context: SearchContext,
    options: Mapping[str, Any] | None = None,
    *,
    function: str | None = None,
) -> Search:
    """The search called `name`, or the class "package.module:Class" of one's own.

    options  keyword arguments of that class beyond the context
    Raises   ConfigError for an unknown name, a class that cannot be imported, or options it does not take.
    """
    path = function or BUILT_IN.get(name)
    if path is None:
        raise ConfigError(
            "search", name, f"is unknown; use one of {', '.join(BUILT_IN)}, or name search.function"
        )
    module_name, _, class_name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError) as error:
        raise ConfigError("search.function", path, f"cannot be imported: {error}") from error
    try:
        return cast(Search, found(context, **(options or {})))
    except TypeError as error:
        raise ConfigError("search", name, f"does not take these options: {error}") from error
