"""What weakens an answer, in words: the warnings of result.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def doubts(result: Mapping[str, Any]) -> list[str]:
    """Warnings of the fits and of the recommendation, each once, in order. result: result.json's object."""
    laws, answer = result["laws"] or {}, result["recommendation"] or {}
    every = [*(laws.get("warnings") or ()), *(answer.get("warnings") or ())]
    return list(dict.fromkeys(str(warning) for warning in every))
