"""Commands that change something: resume, sync."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from batchscout.cli.find import find_sweep
from batchscout.home import HOME, home


def sync_sweep(words: str | None, uri: str | None) -> None:
    from batchscout.track.sync import sync

    done = sync(find_sweep(words), uri)
    print(f"{done.runs} runs in {done.uri} ({done.points} points were new)")
    for link in done.links:
        print(f"mlflow   {link}")


def resume_sweep(words: str, typed: Sequence[str]) -> int:
    """Returns the exit code of the sweep."""
    from hydra.errors import OverrideParseException

    from batchscout import app
    from batchscout.errors import ConfigError
    from batchscout.resume import resume_request

    directory = find_sweep(words)
    runs = next((p for p in directory.parents if p.name == "runs"), None)
    if HOME not in os.environ and runs is not None:
        os.environ[HOME] = str(runs.parent)
    sys.path.insert(0, str(home()))  # as `python sweep.py` would: the trainer lies beside it
    try:
        request = resume_request(directory, typed)
    except OverrideParseException as error:
        advice = "cannot be read as key=value; quote values with ( ) , or spaces"
        raise ConfigError("word", error.override, advice) from error
    return app.run(request)
