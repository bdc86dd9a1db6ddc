"""The files' contracts as JSON Schemas (2020-12), one file each beside this module.

journal   one line of jobs/ID/attempts/NNN/journal.jsonl
job       jobs/ID/job.json
sweep     sweep.json
result    result.json
recorded  one line of a recorded sweep (header or job)
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

NAMES = ("journal", "job", "sweep", "result", "recorded")


class SchemaError(ValueError):
    """An object that breaks a file's contract; the message says where and how."""


def schema(name: str) -> dict[str, Any]:
    """The schema itself. Raises SchemaError for an unknown name."""
    if name not in NAMES:
        raise SchemaError(f"schema={name} is unknown; use one of {', '.join(NAMES)}")
    content: dict[str, Any] = json.loads(files(__name__).joinpath(f"{name}.schema.json").read_text("utf-8"))
    return content


def validate(name: str, content: Any) -> None:
    """Check one object against its contract.

    content  as read by json.loads; NaN and infinity break every contract
    Raises   SchemaError naming the place and what is wrong there.
    """
    try:
        json.dumps(content, allow_nan=False)
    except ValueError as error:
        raise SchemaError(f"{name}: holds a number that is not finite; write null") from error
    worst = best_match(_validator(name).iter_errors(content))
    if worst is not None:
        raise SchemaError(f"{name}: {worst.json_path}: {worst.message[:300]}")


@cache
def _validator(name: str) -> Draft202012Validator:
    content = schema(name)
    Draft202012Validator.check_schema(content)
    return Draft202012Validator(content)
