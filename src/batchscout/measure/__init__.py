"""What one job observes: its journal, its curve and what became of it. Depends on nothing else of
batchscout."""

from batchscout.measure.attempt import attempt_paths, claim_attempt, newest_attempt
from batchscout.measure.curve import Curve, Measurement
from batchscout.measure.detect import Crossing, first_passage, isotonic, reached_index
from batchscout.measure.journal import Event, JournalTail, JournalWriter, read_journal
from batchscout.measure.outcome import InfeasibleReason, Outcome
from batchscout.measure.reporter import Reporter
from batchscout.measure.target import Caps, EvaluationGrid, Target

__all__ = [
    "Caps",
    "Crossing",
    "Curve",
    "EvaluationGrid",
    "Event",
    "InfeasibleReason",
    "JournalTail",
    "JournalWriter",
    "Measurement",
    "Outcome",
    "Reporter",
    "Target",
    "attempt_paths",
    "claim_attempt",
    "first_passage",
    "isotonic",
    "newest_attempt",
    "reached_index",
    "read_journal",
]
