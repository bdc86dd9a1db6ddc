"""What Hydra composed and what was typed, as a request."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.types import Override
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from batchscout.config import SweepConfig
from batchscout.errors import ConfigError
from batchscout.home import home
from batchscout.hydra_overrides import (
    OPEN_GROUPS,
    check_parameters,
    config_without_hydra,
    flat,
    parse,
    plain_config,
    read_lists,
)
from batchscout.plan import Request
from batchscout.sweep_space import Lists


def sweep_request(
    config: DictConfig, arguments: Sequence[str], *, params: Mapping[str, Any], loader: ConfigLoader
) -> Request:
    """A multirun. Raises ConfigError for whatever was typed wrongly."""
    overrides = parse(arguments, loader)
    check_typed(config, overrides, loader)
    keys = flat(OmegaConf.to_container(config_without_hydra(config), resolve=False))
    lists = read_lists(params, overrides, keys)
    runs, directory = _place(config)
    return Request(
        mapping=plain_config(config),
        lists=lists,
        home=home(),
        runs=runs,
        directory=directory,
        command=command(),
        typed=frozenset(o.key_or_group for o in overrides),
    )


def single_request(
    config: DictConfig, arguments: Sequence[str], directory: Path, *, loader: ConfigLoader
) -> Request:
    """One job in this process (on Slurm: submitted), as a sweep of one point."""
    overrides = parse(arguments, loader)
    check_typed(config, overrides, loader)
    mapping = {**plain_config(config), "name": "single"}
    hardware = dict(mapping["hardware"])
    if hardware.get("executor") != "replay":
        SweepConfig.from_mapping(mapping)  # what is replaced below may be wrong, too
    if hardware.get("executor") == "local":
        hardware["executor"] = "debug"
    return Request(
        mapping={
            **mapping,
            "hardware": hardware,
            "search": {"name": "grid", "stops_jobs": False},
            "points": {},
            "seeds": 1,
            "budget": {},
        },
        lists=Lists.of(
            {
                o.key_or_group: [mapping[o.key_or_group]]
                for o in overrides
                if o.key_or_group in ("batch_size", "lr", "seed")
            },
            frozenset(o.key_or_group for o in overrides),
        ),
        home=home(),
        runs=home() / "runs",
        directory=directory,
        command=command(),
        typed=frozenset(o.key_or_group for o in overrides),
    )


def check_typed(config: DictConfig, overrides: Sequence[Override], loader: ConfigLoader) -> None:
    """Parameters of open groups against the group's file; composes once more only where some were typed."""
    for override in overrides:
        if override.is_delete() and not override.key_or_group.startswith("hydra"):
            name = override.key_or_group
            raise ConfigError(name, "(left out)", f"must be there; type {name}=null where it may be open")
    if not any(o.key_or_group.partition(".")[0] in OPEN_GROUPS and "." in o.key_or_group for o in overrides):
        return
    choices = [o.input_line for o in overrides if o.input_line and _is_group(o, loader)]
    base = loader.load_configuration(config.hydra.job.config_name, choices, run_mode=RunMode.RUN)
    mapping = OmegaConf.to_container(config_without_hydra(base), resolve=False)
    assert isinstance(mapping, dict)
    check_parameters(overrides, {str(k): v for k, v in mapping.items()})


def _is_group(override: Override, loader: ConfigLoader) -> bool:
    name = override.key_or_group
    return "." not in name and bool(loader.get_group_options(name, results_filter=ObjectType.CONFIG))


def command() -> tuple[str, ...]:
    """The words that were typed."""
    return ("python", *sys.argv)


def _place(config: DictConfig) -> tuple[Path, Path | None]:
    """(runs, directory): the directory only where it was typed, or is not of the form NAME/TIME."""
    directory = Path(str(config.hydra.sweep.dir)).absolute()
    typed = [str(o) for o in config.hydra.overrides.hydra if str(o).startswith("hydra.sweep.dir=")]
    if typed and not typed[-1].partition("=")[2].strip("'\""):
        raise ConfigError("hydra.sweep.dir", "", "must be a directory, as in hydra.sweep.dir=runs/mine")
    is_typed = bool(typed)
    has_form = directory.parent.name == config.hydra.runtime.choices.get("sweep")
    if has_form and not is_typed:
        return directory.parent.parent, None
    return home() / "runs", directory
