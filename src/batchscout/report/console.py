"""The terminal, or what takes its place, and text that is fit for it."""

from __future__ import annotations

from rich.console import Console

LONGEST = 300  # characters of a reason or message on the terminal; the report has all of it


class QuietConsole(Console):
    """A rich console that falls silent where nobody reads on (`… | head`), instead of ending the process."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


def one_line(text: str) -> str:
    """Control characters would steer a terminal or break its lines; very long texts fill it."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
