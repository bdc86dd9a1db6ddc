"""Writers for the places where people look: MLflow runs and an Optuna study, both derivable from journals.

MlflowTracker(uri, say=…)   a Listener that logs a sweep while it runs, in a thread of its own
StudyWriter(storage=None)   a Listener that keeps `study.journal` up to date
StudyServer(storage)        a Listener that keeps a study in an SQL database up to date, in a thread of its own
sync(directory, uri=None)   log a sweep again from its files; safe to repeat
embedded_uri(runs)          the database that is used where no server is named
Importing this package imports neither mlflow nor optuna: both cost seconds and are needed late.
"""

from batchscout.track.location import embedded_uri
from batchscout.track.mlflow_tracker import MlflowTracker
from batchscout.track.optuna_study import StudyWriter
from batchscout.track.study_server import StudyServer
from batchscout.track.sync import SyncReport, sync

__all__ = ["MlflowTracker", "StudyServer", "StudyWriter", "SyncReport", "embedded_uri", "sync"]
