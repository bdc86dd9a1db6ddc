"""The command `batchscout`: look at sweeps, act on them, set up a project."""

from __future__ import annotations

import sys
from typing import NoReturn

import typer

from batchscout.errors import BatchscoutError

__all__ = ["main"]

WRONG_WORDS: type[Exception] = typer.BadParameter.__mro__[2]
"""ClickException, of whichever click typer brings along: what it raises for words typed wrongly."""


def main() -> None:
    """Run the command line. Every error is one line and exit code 1, words that were typed wrongly too."""
    from batchscout.cli.commands import app

    if len(sys.argv) == 1:
        sys.argv.append("--help")
    try:
        sys.exit(app(standalone_mode=False))
    except WRONG_WORDS as error:
        _end(f"{_words(error)}; batchscout --help tells what there is")
    except typer.Abort:
        sys.exit(130)
    except BatchscoutError as error:
        _end(str(error))
    except BrokenPipeError:  # `batchscout export DIR | head`
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:  # a file that cannot be read or written
        if error.filename is None:
            raise
        _end(f"{error.filename}: {error.strerror}")


def _words(error: BaseException) -> str:
    text = getattr(error, "format_message", error.__str__)()
    return " ".join(str(text).rstrip(".").split())


def _end(message: str) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(1)
