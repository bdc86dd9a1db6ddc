"""Which sweep and which job the words of the command line mean."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from batchscout.config.fields import nearest
from batchscout.errors import SweepError


def find_sweep(words: str | None, *, beside: Path | None = None) -> Path:
    """The sweep's directory.

    words   a directory, or NAME or NAME/TIME below runs/ (the newest of that name); None: the newest of all
    beside  where runs/ lies, default the current directory
    Raises  SweepError, with the nearest name
    """
    runs = (beside or Path.cwd()) / "runs"
    if words is None:
        found = (runs / "latest").resolve()
        if not (found / "sweep.json").is_file():
            raise SweepError(f"there is no sweep below {runs}; name a sweep's directory")
        return found
    for candidate in (Path(words), runs / words):
        if (candidate / "sweep.json").is_file():
            return candidate.resolve()
        inside = sorted(p.parent for p in candidate.glob("*/sweep.json")) if candidate.is_dir() else []
        if inside:
            return inside[-1].resolve()
    known = sorted(f"{p.parent.parent.name}/{p.parent.name}" for p in runs.glob("*/*/sweep.json"))
    meant = nearest(words, [*known, *{k.partition("/")[0] for k in known}])
    advice = f"did you mean {meant}?" if meant else f"sweeps below {runs}: {', '.join(known[-5:]) or 'none'}"
    raise SweepError(f"{words} is no sweep (no sweep.json there); {advice}")


def split(words: Sequence[str]) -> tuple[Path, list[str]]:
    """(sweep, words for jobs): the first word is a sweep if it names one, else all are jobs of the newest."""
    if not words:
        return find_sweep(None), []
    try:
        return find_sweep(words[0]), list(words[1:])
    except SweepError:
        if len(words) > 1:
            raise
        sweep = find_sweep(None)
        return sweep, [find_job(sweep, words[0]).name]


def a_job(sweep: Path) -> str:
    """Some job's id, for advice."""
    return next((p.parent.name for p in sorted(sweep.glob("jobs/*/job.json"))), "JOB")


def find_job(sweep: Path, words: str) -> Path:
    """The directory of the only job whose id is, or begins with, `words`. Raises SweepError."""
    names = sorted(p.parent.name for p in sweep.glob("jobs/*/job.json"))
    if words in names:
        return sweep / "jobs" / words
    fitting = [name for name in names if name.startswith(words)]
    if len(fitting) == 1:
        return sweep / "jobs" / fitting[0]
    if fitting:
        raise SweepError(
            f"{words} may be {', '.join(fitting[:6])}{' …' if len(fitting) > 6 else ''}; type more of it"
        )
    meant = nearest(words, names)
    advice = (
        f"did you mean {meant}?" if meant else f"jobs: {', '.join(names[:8])}{' …' if len(names) > 8 else ''}"
    )
    raise SweepError(f"{words} is no job of {sweep}; {advice}")
