"""Hydra's and OmegaConf's errors as one line that names field, value and what is right."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
        return _unknown(name, _value(name, arguments), conf, arguments)
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


def explain_choice(error: ValueError, arguments: Sequence[str], conf: Path) -> str | None:
    """`target=0.6`, where a group's file is to be named; None for any other error."""
    if "Config group override must be" not in str(error):
        return None
    for argument in arguments:
        group, equals, value = argument.lstrip("+").partition("=")
        if equals and not group:
            return f"{argument} has no key before the ="
        is_word = re.fullmatch(r"[A-Za-z_][\w-]*", value) and value.lower() not in ("null", "true", "false")
        if group in groups(conf) and not is_word:
            files = sorted(
                f.stem for place in (conf / group, conf.parent / f"{group}s") for f in place.glob("*.yaml")
            )
            keys = [k for k in known_keys(conf) if k.startswith(f"{group}.")]
            more = ", …" if len(keys) > 6 else ""
            own = f"; a value belongs to one of its keys, {', '.join(keys[:6])}{more}" if keys else ""
            return str(ConfigError(group, value, f"must name one of {', '.join(files)}{own}"))
    return _one_line(str(error))


def _unknown(name: str, value: str, conf: Path, arguments: Sequence[str]) -> str:
    """A key that is not there, or not in a group that is open for more."""
    known = known_keys(conf, arguments)
    if name in known:
        return f"{name}={value} has keys that its file lacks; type +{name}.KEY=VALUE for each"
    around = [k for k, v in known.items() if v == {} and name.startswith(f"{k}.")]
    if around:
        return str(ConfigError(name, value, f"is new in {around[0]}; type +{name}={value}"))
    return str(unknown_key(name, value, [*known, *groups(conf)]))


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


def known_keys(conf: Path, arguments: Sequence[str] = ()) -> dict[str, Any]:
    """Every key of the configuration with the groups that were typed, and its value; {} if it cannot be
    composed."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    from batchscout.hydra_overrides import config_without_hydra, flat

    if not (conf / "config.yaml").is_file():
        return {}
    names = set(groups(conf))
    choices = [a for a in arguments if a.partition("=")[0] in names and "," not in a]
    with initialize_config_dir(config_dir=str(conf), version_base="1.3"):
        try:
            config = compose("config", choices)
        except HydraException:  # the files themselves are broken; the first error says how
            return {}
    return flat(OmegaConf.to_container(config_without_hydra(config), resolve=False))


def _value(name: str, arguments: Sequence[str]) -> str:
    for argument in arguments:
        key, equals, value = argument.lstrip("+~").partition("=")
        if equals and key == name:
            return value
    return ""


def _one_line(text: str) -> str:
    return " ".join(line.strip() for line in text.splitlines() if line.strip() and "full_key" not in line)
