"""Reads plain mappings into frozen dataclasses and says in one line what is wrong with a value.

A field's type hint is its type; `key(...)` adds the limits. Types: int, float, bool, str, tuple[X, ...],
Mapping[str, Any] (open), a nested dataclass, and any of them `| None`.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import types
import typing
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from batchscout.errors import ConfigError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a value may be. least ≤ value ≤ most, value > above; choices are the only allowed strings."""

    least: float | None = None
    above: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()


def key(
    default: Any,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """A dataclass field with limits. Callable defaults are factories."""
    metadata = {"limits": Limits(least, above, most, choices)}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def nearest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known word that `word` most likely meant: alike, or beginning like it."""
    candidates = sorted(set(known))
    alike = difflib.get_close_matches(word, candidates, n=1, cutoff=cutoff)
    longer = [n for n in candidates if len(word) > 2 and n.startswith(word)]
    return next(iter([*alike, *longer]), None)


def nearest_key(name: str, known: Iterable[str]) -> str | None:
    """The known key that a dotted `name` most likely meant; the last part decides, in its own group first."""
    section, _, last = name.rpartition(".")
    candidates = sorted(set(known))
    peers = {n.rpartition(".")[2]: n for n in candidates if n.rpartition(".")[0] == section}
    others = {n.rpartition(".")[2]: n for n in reversed(candidates)}
    for names, cutoff in ((peers, 0.6), (others, 0.75)):
        found = nearest(last, names, cutoff=cutoff)
        if found is not None:
            return names[found]
    return None


def unknown_key(name: str, value: Any, known: Iterable[str]) -> ConfigError:
    """The error for a key that does not exist, with the key that was probably meant."""
    names = sorted(set(known))
    meant = nearest_key(name, names)
    section = name.rpartition(".")[0]
    peers = [n for n in names if n.rpartition(".")[0] == section]
    choices = peers or sorted({n.partition(".")[0] for n in names})
    advice = f"did you mean {meant}?" if meant else f"known keys: {', '.join(choices)}"
    return ConfigError(name, value, f"is not a known key; {advice}")


@cache
def hints(cls: Hashable) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def build(cls: type[T], mapping: Any, *, prefix: str = "") -> T:
    """`mapping` as a `cls`. Raises ConfigError naming the dotted field, its value and what is right."""
    if not isinstance(mapping, Mapping):
        raise ConfigError(
            prefix or cls.__name__, mapping, "must be a group of keys; is the group's file empty?"
        )
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    dotted = f"{prefix}." if prefix else ""
    for name, value in mapping.items():
        if name not in fields:
            raise unknown_key(f"{dotted}{name}", value, (f"{dotted}{n}" for n in fields))
    types_of = hints(typing.cast(Hashable, cls))
    values = {
        name: convert(
            types_of[name], mapping[name], f"{dotted}{name}", fields[name].metadata.get("limits", Limits())
        )
        for name in fields
        if name in mapping
    }
    missing = [n for n, f in fields.items() if n not in values and _is_required(f)]
    if missing:
        raise ConfigError(f"{dotted}{missing[0]}", "(missing)", "is required")
    return cls(**values)


def _is_required(f: dataclasses.Field[Any]) -> bool:
    return f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING


def convert(hint: Any, value: Any, name: str, limits: Limits) -> Any:
    """`value` as the type `hint` within `limits`, or ConfigError."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None:
            return None
        return convert(next(a for a in arguments if a is not type(None)), value, name, limits)
    if dataclasses.is_dataclass(hint):
        reader = getattr(hint, "from_mapping", None)
        return (
            reader(value, prefix=name)
            if reader
            else build(typing.cast("type[Any]", hint), value, prefix=name)
        )
    if origin is tuple:
        return _as_tuple(arguments[0], value, name, limits)
    if hint in (Any, object):
        return value
    if origin is not None:
        return _as_mapping(value, name)
    return {bool: _as_bool, int: _as_int, float: _as_float, str: _as_str}[hint](value, name, limits)


def _as_tuple(item: Any, value: Any, name: str, limits: Limits) -> tuple[Any, ...]:
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        raise ConfigError(name, value, f"must be a list, as in {name}=[{value}]")
    return tuple(convert(item, v, name, limits) for v in value)


def _as_mapping(value: Any, name: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigError(name, value, "must be a group of key: value pairs")
    _refuse_nonfinite(value, name.removesuffix(".parameters"))
    return {str(k): v for k, v in value.items()}


def _refuse_nonfinite(value: Any, name: str) -> None:
    """No file of ours can hold NaN or infinity, nor would a trainer know what to do with them."""
    if isinstance(value, Mapping):
        for key_, inner in value.items():
            _refuse_nonfinite(inner, f"{name}.{key_}")
    elif isinstance(value, (list, tuple)):
        for inner in value:
            _refuse_nonfinite(inner, name)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(name, value, f"must be a finite number; as a word it is typed {name}=\\'{value}\\'")


def _as_bool(value: Any, name: str, limits: Limits) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(name, shown(value), "must be true or false")
    return value


def _as_int(value: Any, name: str, limits: Limits) -> int:
    _refuse_list(value, name)
    number = _number(value)
    if number is None or not math.isfinite(number):
        raise ConfigError(name, shown(value), f"must be a whole number{_advice(limits, whole=True)}")
    if number != int(number):
        near = [n for n in (math.floor(number), math.ceil(number)) if _within(n, limits)]
        raise ConfigError(
            name, shown(value), f"must be a whole number; use {' or '.join(map(str, near)) or _range(limits)}"
        )
    if not _within(number, limits):
        raise ConfigError(
            name, shown(value), f"must be {_range(limits)}; nearest: {_nearest_number(limits, True)}"
        )
    return int(number)


def _refuse_list(value: Any, name: str) -> None:
    if isinstance(value, (list, tuple)) and value:
        text = ",".join(map(str, value))
        raise ConfigError(name, f"[{text}]", f"must be one number; a sweep's list is typed {name}={text}")


def _as_float(value: Any, name: str, limits: Limits) -> float:
    _refuse_list(value, name)
    number = _number(value)
    if number is None or not math.isfinite(number):
        raise ConfigError(name, shown(value), f"must be a finite number{_advice(limits, whole=False)}")
    if not _within(number, limits):
        advice = f"; did you mean {-number:g}?" if number < 0 and _within(-number, limits) else ""
        raise ConfigError(name, shown(value), f"must be {_range(limits)}{advice}")
    return float(number)


def _as_str(value: Any, name: str, limits: Limits) -> str:
    if isinstance(value, (bool, Mapping, list, tuple)) or value is None:
        raise ConfigError(name, shown(value), "must be a word or text")
    text = str(value)
    if limits.choices and text not in limits.choices:
        raise unknown_choice(name, text, limits.choices)
    return text


def unknown_choice(name: str, value: Any, choices: Iterable[str]) -> ConfigError:
    """The error for a word outside a closed list, with the one that was probably meant."""
    known = list(choices)
    meant = nearest(str(value), known)
    advice = f"did you mean {name}={meant}? " if meant else ""
    return ConfigError(name, value, f"is not known; {advice}choose one of {', '.join(known)}")


def shown(value: Any) -> Any:
    """A value as it would be typed."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return value


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return None


def _within(number: float, limits: Limits) -> bool:
    return (
        (limits.least is None or number >= limits.least)
        and (limits.above is None or number > limits.above)
        and (limits.most is None or number <= limits.most)
    )


def _range(limits: Limits) -> str:
    if limits.least is not None and limits.most is not None:
        return f"between {limits.least:g} and {limits.most:g}"
    words = [
        f"at least {limits.least:g}" if limits.least is not None else "",
        f"above {limits.above:g}" if limits.above is not None else "",
        f"at most {limits.most:g}" if limits.most is not None else "",
    ]
    return " and ".join(w for w in words if w) or "a number"


def _advice(limits: Limits, *, whole: bool) -> str:
    example = _nearest_number(limits, whole)
    limited = f" {_range(limits)}" if limits != Limits() else ""
    return f"{limited}, for example {example}"


def _nearest_number(limits: Limits, whole: bool) -> str:
    if limits.least is not None:
        return f"{limits.least:g}"
    if limits.above is not None:
        return f"{math.floor(limits.above) + 1}" if whole else f"{limits.above + 0.001:g}"
    return f"{limits.most:g}" if limits.most is not None else "1"


def plain(value: Any) -> Any:
    """A config object as JSON-able lists, dicts and scalars."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return value.to_mapping() if hasattr(value, "to_mapping") else plain_fields(value)
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def plain_fields(value: Any) -> dict[str, Any]:
    """The fields of a dataclass instance, each made plain."""
    return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
