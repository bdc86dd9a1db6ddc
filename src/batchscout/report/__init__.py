"""What people read: the recommendation in a sentence, tables, figures, report.html and the live view.

write_report(directory)          result.json and journals → report.html, figures/*.png; returns the page
table.render(result)             the final table as a rich renderable; table.plain(result) as text
sentence.recommendation(result)  one sentence: what to take, how sure, what it cost
live.LiveView()                  a Listener that shows progress on a terminal, else as plain lines
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["write_report"]


def write_report(directory: Path) -> Path:
    """Write ``report.html`` and ``figures/*.png`` into a sweep directory, finished or not; return the page.

    Raises  SweepError if the directory holds no result.json.
    """
    from batchscout.report.page import (
        write,
    )  # matplotlib and jinja2 cost half a second that the other parts need not pay

    return write(directory)
