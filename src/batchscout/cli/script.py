"""What `--json` prints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def print_json(content: Mapping[str, Any]) -> None:
    """One strict JSON object (no NaN)."""
    print(json.dumps(content, indent=1, allow_nan=False))
