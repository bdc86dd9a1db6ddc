"""Hydra's and OmegaConf's errors as one line that names field, value and what is right."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import OmegaConfBaseException

from batchscout.config.fields import nearest, unknown_key
from batchscout.errors import ConfigError

HydraError = HydraException | OmegaConfBaseException


def explain(error: HydraError, arguments: Sequence[str], conf: Path) -> str:
    """One line.

    arguments  the command line's
    conf       the application's configuration directory, read for advice
    """
    text = str(error)
    if isinstance(error, OverrideParseException):
        reason = _one_line(error.message).partition(" See https")[0]
        return f"{error.override} cannot be read as key=value: {reason}; quote values with ( ) , or spaces"
    if isinstance(error, MissingConfigException):
        return _missing_choice(error)
    unknown = re.match(r"Could not override '([^']+)'", text)
    if unknown:
        name = unknown.group(1).partition("@")[0]
        known = known_keys(conf, arguments)
        if name in known:
            value = _value(name, arguments)
            return f"{name}={value} has keys that its file lacks; type +{name}.KEY=VALUE for each"
        return str(unknown_key(name, _value(name, arguments), [*known, *groups(conf)]))
    present = re.match(r"Could not append to config. An item is already at '([^']+)'", text)
    if present:
        return f"+{present.group(1)}={_value(present.group(1), arguments)} exists already; leave the + out"
    ambiguous = re.match(r"(?s).*?Ambiguous value for argument '([^']*)'", text)
    if ambiguous:
        return f"{ambiguous.group(1)} lists several values; add -m to run a job for each"
    needs_multirun = re.match(r"Sweep parameters '([^']*)' requires --multirun", text)
    if needs_multirun:
        return f"{needs_multirun.group(1)} lists several values; add -m to run a job for each"
    cause = f" ({_one_line(str(error.__cause__))})" if error.__cause__ is not None else ""
    return f"{_one_line(text)}{cause}"


def _missing_choice(error: MissingConfigException) -> str:
    """`sweep=nme`: a group's file that does not exist."""
    group, _, choice = (error.missing_cfg_file or "").rpartition("/")
    options = sorted(error.options or ())
    if not group or not options:
        return _one_line(str(error))
    meant = nearest(choice, options)
    advice = f"did you mean {group}={meant}? " if meant else ""
    return str(ConfigError(group, choice, f"does not exist; {advice}there are {', '.join(options)}"))


def groups(conf: Path) -> list[str]:
    """Names of the config groups."""
    return [*sorted(p.name for p in conf.glob("*") if p.is_dir()), "sweep"]


def known_keys(conf: Path, arguments: Sequence[str] = ()) -> list[str]:
    """Every key of the configuration with the groups that were typed, [] if it cannot be composed."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    from batchscout.hydra_overrides import config_without_hydra, flat

    if not (conf / "config.yaml").is_file():
        return []
    names = set(groups(conf))
    choices = [a for a in arguments if a.partition("=")[0] in names and "," not in a]
    with initialize_config_dir(config_dir=str(conf), version_base="1.3"):
        try:
            config = compose("config", choices)
        except HydraException:  # the files themselves are broken; the first error says how
            return []
    return list(flat(OmegaConf.to_container(config_without_hydra(config), resolve=False)))


def _value(name: str, arguments: Sequence[str]) -> str:
    for argument in arguments:
        key, equals, value = argument.lstrip("+~").partition("=")
        if equals and key == name:
            return value
    return ""


def _one_line(text: str) -> str:
    return " ".join(line.strip() for line in text.splitlines() if line.strip() and "full_key" not in line)
