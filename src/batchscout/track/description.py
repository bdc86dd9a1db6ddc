"""The sweep in words, for the description of its MLflow run (Markdown)."""

from __future__ import annotations

from batchscout.report.sentence import recommendation
from batchscout.report.table import markdown
from batchscout.run.listener import SweepView

HOW_TO_LOOK = (
    "The link that batchscout prints opens this sweep's jobs sorted by `time_to_target`, with charts of the "
    "score against samples and against training seconds. The run of the sweep itself holds the report, the "
    "figures and the tables as artifacts."
)
LIMIT = 7500  # characters; MLflow cuts a tag at 8000


def describe(view: SweepView) -> str:
    """Recommendation, table and how to look at the runs."""
    parts = [f"**{recommendation(view.result)}**", markdown(view.result), HOW_TO_LOOK]
    text = "\n\n".join(parts)
    return text if len(text) <= LIMIT else f"{parts[0]}\n\n{HOW_TO_LOOK}"
