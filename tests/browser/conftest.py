"""A headless Chromium and a finished sweep to look at."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.made_sweep import Made, make_sweep

from batchscout.report import write_report

MADE = Made(
    batch_sizes=(16, 64, 256, 1024),
    seeds=1,
    outcomes={"b1024-lr0.0004-s0": ("stopped", "its projected time exceeds the best")},
)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Debian's Chromium through playwright; the tests say why they are skipped where there is none."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("Chromium is not installed; tests/install-system-packages installs it")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A finished sweep with its report."""
    directory = tmp_path_factory.mktemp("browser") / "runs" / "demo" / "now"
    result = make_sweep(directory, MADE)
    write_report(directory)
    return directory, result
