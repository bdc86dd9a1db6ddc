"""Reads the copied tables."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

Rows = list[dict[str, str]]


@pytest.fixture(scope="session")
def table() -> Callable[[str], Rows]:
    """File name → rows as dictionaries, comment lines left out."""

    def read(name: str) -> Rows:
        text = (Path(__file__).parent / "data" / name).read_text(encoding="utf-8")
        return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))

    return read
