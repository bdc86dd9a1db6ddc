"""`batchscout compare`: sweeps named on the command line, side by side on the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from batchscout.app import WIDTH
from batchscout.cli.plan import source


def show_comparison(words: Sequence[str], prices: Sequence[float], *, json_output: bool) -> None:
    from batchscout.report.compare import compare_sweeps, render

    found = compare_sweeps([source(w) for w in words], prices)
    if json_output:
        print(json.dumps(found.to_json(), indent=1, allow_nan=False))
        return
    from rich.console import Console

    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    for table in render(found):
        console.print(table)
    for check in found.checks:
        print(check.words())
    for warning in found.warnings:
        print(f"warning: {warning}")
