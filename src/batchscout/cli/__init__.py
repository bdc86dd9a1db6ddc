"""The command `batchscout`: look at sweeps, act on them, set up a project."""

from __future__ import annotations

import sys

from batchscout.errors import BatchscoutError

__all__ = ["main"]


def main() -> None:
    """Run the command line. Every error of ours is one line and exit code 1."""
    from batchscout.cli.commands import app

    try:
        app()
    except BatchscoutError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:  # `batchscout export DIR | head`
        sys.stderr.close()
        sys.exit(0)
