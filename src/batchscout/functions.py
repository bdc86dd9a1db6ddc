"""`package.module:name` words of the configuration: found without importing, and imported when used."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from batchscout.config.fields import nearest
from batchscout.errors import ConfigError


def load(field: str, path: str) -> Any:
    """What `path` names. Raises ConfigError where there is no such thing."""
    check_exists(field, path)
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def check_exists(field: str, path: str) -> None:
    """Raises ConfigError if module or name do not exist; imports neither, since torch takes seconds."""
    module, _, name = path.partition(":")
    source = _source(module)
    if source is None:
        raise ConfigError(field, path, f"cannot be found: there is no module {module} on sys.path")
    if source.suffix != ".py":  # a compiled module: only its import could tell
        return
    names = _names(source)
    if names is not None and name not in names:
        meant = nearest(name, names)
        advice = (
            f"did you mean {module}:{meant}?"
            if meant
            else f"it defines {', '.join(sorted(names)[:8]) or 'nothing'}"
        )
        raise ConfigError(field, path, f"cannot be found: {module} has no {name}; {advice}")


def _source(module: str) -> Path | None:
    """The module's file, found along its packages without running them."""
    first, *rest = module.split(".")
    loaded = sys.modules.get(module)
    if loaded is not None and getattr(loaded, "__file__", None):
        return Path(str(loaded.__file__))
    try:
        spec = importlib.util.find_spec(first)
    except (ValueError, ImportError):
        return None
    if spec is None:
        return None
    if not rest:
        return Path(spec.origin) if spec.origin else None
    for folder in spec.submodule_search_locations or ():
        inner = Path(folder).joinpath(*rest)
        for candidate in (
            inner.with_suffix(".py"),
            inner / "__init__.py",
            *inner.parent.glob(f"{inner.name}.*.so"),
        ):
            if candidate.is_file():
                return candidate
    return None


def _names(source: Path) -> set[str] | None:
    """Names that the module binds, None where they cannot be known (a star import, a module __getattr__)."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update(a.asname or a.name.partition(".")[0] for a in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return None if names & {"*", "__getattr__"} else names
