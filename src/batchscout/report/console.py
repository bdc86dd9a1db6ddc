"""The terminal, or what takes its place."""

from __future__ import annotations

from rich.console import Console


class QuietConsole(Console):
    """A rich console that falls silent where nobody reads on (`… | head`), instead of ending the process."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
