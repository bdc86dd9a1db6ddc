"""`batchscout sync`: log a sweep again from its files, with the original times; repeating it is safe."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batchscout.errors import TrackingError
from batchscout.run.record import read_sweep
from batchscout.track.entry import entries
from batchscout.track.facts import read_facts
from batchscout.track.location import database_path, default_uri, is_network_filesystem, local_uri
from batchscout.track.optuna_study import write_study
from batchscout.track.store import RunStore
from batchscout.track.views import experiment_tags, how_to_look

ATTEMPTS = 4  # tries at the whole sweep before the error is the user's; a restarting server is back by then


@dataclass(frozen=True, slots=True)
class SyncReport:
    """Where the sweep now is.

    points  metric points sent by this call, 0 when all were there
    study   address of the Optuna study, None where it is the sweep's own file
    """

    uri: str
    experiment_id: str
    runs: int
    points: int
    links: tuple[str, ...]
    study: str | None = None


def sync(directory: Path, uri: str | None = None) -> SyncReport:
    """Bring MLflow up to the sweep: one run per job and each point once.

    directory  a sweep's directory, finished or not
    uri        tracking URI; by default the one the sweep was run with
    Raises     SweepError if there is no sweep, TrackingError if MLflow does not take it
    """
    view = read_sweep(directory)
    uri = uri or tracking_uri(directory, view.config)
    facts = read_facts(view)
    listed = list(entries(view, facts))
    store = RunStore(uri, view.sweep)
    points = 0
    for attempt in range(ATTEMPTS):
        try:
            experiment_id = store.open()
            points += store.write_all(listed)
            store.set_experiment_tags(experiment_tags(view))
            store.upload_report(view)
            break
        except TrackingError:
            if attempt == ATTEMPTS - 1:
                raise
            time.sleep(2.0**attempt)
    study = _tracking(view.config).get("study")
    if study:
        write_study(view, storage=str(study))
    links = how_to_look(uri, experiment_id, Path(directory))
    return SyncReport(uri, experiment_id, len(listed), points, links, study and str(study))


def tracking_uri(directory: Path, config: dict[str, object]) -> str:
    """The configured server or database; an embedded one on a network file system moves to the local disk."""
    configured = _tracking(config).get("uri")
    uri = str(configured) if configured else default_uri(directory)
    path = database_path(uri)
    return local_uri(path.parent) if path is not None and is_network_filesystem(path) else uri


def _tracking(config: dict[str, object]) -> dict[str, Any]:
    """The `tracking` group of a sweep's configuration, {} where there is none."""
    tracking = config.get("tracking")
    return tracking if isinstance(tracking, dict) else {}
