"""Progress on the terminal: a live table where there is one, else plain lines. Failures are said at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from batchscout.clock import Clock, RealClock
from batchscout.measure.outcome import Outcome
from batchscout.report.console import QuietConsole, one_line
from batchscout.report.numbers import NOTHING, count, digits, duration, rate
from batchscout.report.sentence import setting
from batchscout.run.listener import SweepView
from batchscout.search.protocol import JobObservation

REFRESH_SECONDS = 0.25  # of the live table
HEARTBEAT_SECONDS = 60.0  # between plain lines when nothing ends
SHOWN = 12  # running jobs in the live table
BROKEN = (Outcome.FAILED, Outcome.DIVERGED, Outcome.INFEASIBLE)
SAID = {
    "max_failures",
    "budget",
    "finish",
    "retry",
}  # decisions that are not a job's own end; an interrupt is said by all controllers


class LiveView:
    """A Listener for people. console: where to write (by default stdout); a terminal gets the live table.

    The final table and the recommendation are the caller's: they are printed without a live view too.
    """

    def __init__(self, console: Console | None = None, clock: Clock | None = None) -> None:
        self._console = console or QuietConsole(highlight=False)
        self._clock = clock or RealClock()
        self._live: Live | None = None
        self._ended: set[str] = set()
        self._drawn = -REFRESH_SECONDS
        self._said = 0.0

    def on_start(self, view: SweepView) -> None:
        self._ended = {row["id"] for row in view.result["jobs"] if Outcome(row["outcome"]).is_final}
        done = f", {len(self._ended)} jobs already done" if self._ended else ""
        self._print(Text(f"sweep {view.sweep} in {view.directory}{done}"))
        self._said = self._clock.perf()
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        self.on_change(view)

    def on_change(self, view: SweepView) -> None:
        self._tell_ended(view)
        now = self._clock.perf()
        if self._live is not None:
            if now - self._drawn >= REFRESH_SECONDS:
                self._drawn = now
                self._live.update(self._picture(view), refresh=True)
        elif now - self._said >= HEARTBEAT_SECONDS:
            self._print(Text(summary(view)))
            self._said = now

    def on_event(self, event: dict[str, Any]) -> None:
        if event["event"] == "continue":
            self._ended.discard(event["job"])  # it ends once more
        if event["event"] == "submit" and event.get("explanation") not in (None, "", "listed"):
            self._print(Text(f"      {event['job']}  {one_line(event['explanation'])}", style="dim"))
        if event["event"] in SAID:
            why = event.get("explanation") or event.get("message") or event.get("reason") or ""
            job = f" {event['job']}" if event.get("job") else ""
            self._print(Text(f"{event['event'].replace('_', ' ')}{job}: {one_line(why)}", style="yellow"))

    def on_end(self, view: SweepView) -> None:
        self._tell_ended(view)
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _tell_ended(self, view: SweepView) -> None:
        """One line per job that ended since the last look, in the order of creation."""
        for row in view.result["jobs"]:
            if row["id"] not in self._ended and Outcome(row["outcome"]).is_final:
                self._ended.add(row["id"])
                self._print(ended_line(row, len(self._ended)))
                self._said = self._clock.perf()

    def _picture(self, view: SweepView) -> Group:
        """What runs, and how things stand."""
        jobs = {job.job_id: job for job in view.jobs}
        active = [row for row in view.result["jobs"] if not Outcome(row["outcome"]).is_final]
        running = [row for row in active if row["start"] is not None]
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for title in ("job", "batch size", "lr", "samples", "score", "training"):
            table.add_column(title, justify="left" if title == "job" else "right", no_wrap=True)
        for row in running[:SHOWN]:
            table.add_row(*(Text(cell) for cell in _running_cells(row, jobs.get(row["id"]), view)))
        hidden = len(running) - SHOWN
        lines = [Text(f"… and {hidden} more running", style="dim")] if hidden > 0 else []
        return Group(table, *lines, Text(summary(view), style="bold"))

    def _print(self, text: Text) -> None:
        self._console.print(text, soft_wrap=not self._console.is_terminal)


def summary(view: SweepView) -> str:
    """How things stand, in one line."""
    outcomes = Counter(Outcome(row["outcome"]) for row in view.result["jobs"])
    done = sum(number for outcome, number in outcomes.items() if outcome.is_final)
    split = ", ".join(f"{outcomes[outcome]} {outcome.value}" for outcome in Outcome if outcomes[outcome])
    parts = [f"{done} of {sum(outcomes.values())} jobs done ({split})" if split else "no job yet"]
    parts.append(f"{duration(view.result['cost']['seconds'])} of training")
    answer = view.result["recommendation"]
    if answer is not None and answer["time_to_target"] is not None:
        parts.append(f"best so far {setting(answer)} in {duration(answer['time_to_target'])}")
    return "; ".join(parts)


def ended_line(row: Mapping[str, Any], number: int) -> Text:
    """How one job ended; broken ones in red with the reason."""
    outcome = Outcome(row["outcome"])
    reason = one_line(row["reason"] or "")
    where = f"{number:>4}  {row['id']}"
    if outcome is Outcome.REACHED and row["time_to_target"] is not None:
        found = f"reached in {duration(row['time_to_target'])}, {count(row['samples_to_target'])} samples"
        return Text(f"{where}  {found}", style="green")
    cost = f" after {duration(row['seconds'])}, {count(row['samples'])} samples" if row["samples"] else ""
    why = f": {reason}" if reason else ""
    says_more = outcome in (Outcome.FAILED, Outcome.INFEASIBLE)  # why it broke, or after which it was skipped
    message = one_line(row.get("message") or "") if says_more else ""
    more = f" ({message})" if message and message != reason else ""
    return Text(f"{where}  {outcome.value}{cost}{why}{more}", style="red" if outcome in BROKEN else "")


def _running_cells(row: Mapping[str, Any], job: JobObservation | None, view: SweepView) -> list[str]:
    score = NOTHING
    if job is not None and job.curve is not None and len(job.curve.score):
        score = f"{digits(float(job.curve.score[-1]))} of {digits(view.result['target'])}"
    cells = [row["id"], str(row["batch_size"]), rate(row["lr"]), count(row["samples"]), score]
    return [*cells, duration(row["seconds"]) if row["seconds"] else NOTHING]
