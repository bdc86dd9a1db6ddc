"""Between Hydra and the plain configuration: lists that were typed, and a composed config as a mapping."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import (
    ChoiceSweep,
    IntervalSweep,
    Override,
    QuotedString,
    RangeSweep,
    Transformer,
)
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import InterpolationKeyError, MissingMandatoryValue, OmegaConfBaseException

from batchscout.config.fields import unknown_key
from batchscout.errors import ConfigError
from batchscout.sweep_space import LISTED, Interval, Listed, Lists

OPEN_GROUPS = ("trainer", "task", "model")


def parse(arguments: Iterable[str], config_loader: Any = None) -> list[Override]:
    """Raises Hydra's OverrideParseException."""
    overrides: list[Override] = OverridesParser.create(config_loader=config_loader).parse_overrides(
        list(arguments)
    )
    return overrides


def read_lists(params: Mapping[str, Any], overrides: Sequence[Override], known: Iterable[str]) -> Lists:
    """What the sweep file lists (`hydra.sweeper.params`) and what was typed, which comes first.

    overrides  the command line's, single values included: they take the place of the file's lists
    known      every key of the configuration, for advice
    Raises     ConfigError for a list of anything but batch size, lr, lr_reference and seed
    """
    typed = {o.key_or_group: o for o in overrides if o.key_or_group in LISTED or o.is_sweep_override()}
    filed = {o.key_or_group: o for o in parse(_as_arguments(params))}
    for name, override in {**filed, **typed}.items():
        if name not in LISTED:
            raise _not_listable(override, known)
    values = {name: _listed(override) for name, override in {**filed, **typed}.items()}
    return Lists.of({k: v for k, v in values.items() if v is not None}, frozenset(typed))


def _as_arguments(params: Mapping[str, Any]) -> list[str]:
    """The sweep file's params in the command line's words."""
    return [
        f"{key}={','.join(map(str, value)) if isinstance(value, (list, tuple)) else value}"
        for key, value in params.items()
    ]


def _not_listable(override: Override, known: Iterable[str]) -> ConfigError:
    name, value = override.key_or_group, override.get_value_string()
    names = set(known)
    if name not in names and not any(n.startswith(f"{name}.") for n in names):
        return unknown_key(name, value, names)
    return ConfigError(
        name,
        value,
        "cannot be listed; a sweep compares batch_size, lr (or lr_reference) and seed: run one sweep for "
        "each value, or use Hydra's own with hydra/sweeper=basic",
    )


def _listed(override: Override) -> Listed | None:
    value = override.value()
    if isinstance(value, IntervalSweep):
        assert value.start is not None
        assert value.end is not None
        return Interval(float(value.start), float(value.end), is_log="log" in value.tags)
    if isinstance(value, (ChoiceSweep, RangeSweep)):
        return [_plain(v) for v in override.sweep_iterator(transformer=Transformer.identity)]
    if value is None:
        return None
    return list(map(_plain, value)) if isinstance(value, list) else [_plain(value)]


def _plain(value: Any) -> Any:
    return value.text if isinstance(value, QuotedString) else value


def plain_config(config: DictConfig) -> dict[str, Any]:
    """Without Hydra's part, every interpolation resolved. Raises ConfigError where that cannot be done."""
    job = config_without_hydra(config)
    _refuse_dependence_on_lists(job)
    try:
        mapping = OmegaConf.to_container(job, resolve=True, throw_on_missing=True)
    except MissingMandatoryValue as error:
        raise ConfigError(error.full_key or "?", "???", "must be given") from error
    except InterpolationKeyError as error:
        raise ConfigError(
            error.full_key or "?", "${…}", f"cannot be resolved: {_first_line(error)}"
        ) from error
    assert isinstance(mapping, dict)
    return {**{str(key): value for key, value in mapping.items()}, "name": sweep_name(config)}


def sweep_name(config: DictConfig) -> str:
    """`name`, else the sweep file's."""
    chosen = OmegaConf.select(config, "hydra.runtime.choices.sweep")
    return str(config.get("name") or chosen or "sweep")


def config_without_hydra(config: DictConfig) -> DictConfig:
    """A copy whose `hydra` node is gone; interpolations to it (hydra:…) still work by the resolver."""
    job = copy.deepcopy(config)
    OmegaConf.set_readonly(job, None)
    with open_dict(job):
        job.pop("hydra", None)
    return job


def _refuse_dependence_on_lists(config: DictConfig) -> None:
    """`${batch_size}` would take one value for all jobs, silently."""
    for key, value in flat(OmegaConf.to_container(config, resolve=False)).items():
        for name in LISTED:
            if isinstance(value, str) and f"${{{name}}}" in value.replace(" ", ""):
                advice = "null means batch_size" if key == "mini_batch_size" else "write a number"
                raise ConfigError(key, value, f"cannot follow {name}, which differs between jobs; {advice}")


def flat(mapping: Any, prefix: str = "") -> dict[str, Any]:
    """Dotted name → value, for every leaf; empty groups are leaves."""
    leaves: dict[str, Any] = {}
    for key, value in mapping.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            leaves.update(flat(value, f"{name}."))
        else:
            leaves[name] = value
    return leaves


def check_parameters(overrides: Sequence[Override], base: Mapping[str, Any]) -> None:
    """Typed parameters of trainer, task and model must exist in the group's file and have its value's type.

    base    the composed configuration without typed values, group choices applied
    Raises  ConfigError
    """
    known = flat(base)
    for override in overrides:
        name = override.key_or_group
        if name.partition(".")[0] not in OPEN_GROUPS or "." not in name or override.is_delete():
            continue
        value = override.get_value_string()
        group, _, inner = name.partition(".")
        file = f"conf/{group}/{base.get(group, {}).get('name', 'NAME')}.yaml"
        if name not in known and not _may_hold(base, name):
            error = unknown_key(name, value, (k for k in known if k.startswith(f"{group}.")))
            raise ConfigError(name, value, f"{error.allowed} (parameters are listed in {file})")
        if not override.is_sweep_override():
            _check_type(name, override.value(), known.get(name), inner)


def _may_hold(base: Mapping[str, Any], name: str) -> bool:
    """`name` is a group of the file, or lies in one that the file leaves empty ({}: to be filled)."""
    parents = [name.rsplit(".", n)[0] for n in range(1, name.count("."))]
    return isinstance(_select(base, name), Mapping) or any(_select(base, p) == {} for p in parents)


def _select(mapping: Any, name: str) -> Any:
    for part in name.split("."):
        mapping = mapping.get(part) if isinstance(mapping, Mapping) else None
    return mapping


def _check_type(name: str, value: Any, default: Any, inner: str) -> None:
    if default is None or value is None or isinstance(default, Mapping):
        return
    value = _plain(value)
    kinds: list[tuple[type | tuple[type, ...], str]] = [
        (bool, "true or false"),
        (int, "a whole number"),
        ((int, float), "a number"),
        (str, "a word or text"),
        (list, "a list"),
    ]
    for kind, words in kinds:
        if isinstance(default, kind):
            fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
            if not fits:
                raise ConfigError(name, value, f"must be {words}, as its default {default}")
            return


def _first_line(error: OmegaConfBaseException) -> str:
    return str(error).splitlines()[0]
