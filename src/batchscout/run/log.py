"""What a job printed: one file a submission in jobs/ID/log/, standard output and errors together."""

from __future__ import annotations

from pathlib import Path

TAIL_BYTES = 65_536


def log_paths(job_directory: Path) -> list[Path]:
    """The log files, oldest first (NNN.log of local submissions, ID_TASK_log.out of Slurm's).

    A link to a log that is yet to be written (a place in the queue that was another job's) is passed over.
    """
    folder = Path(job_directory) / "log"
    found = (p for pattern in ("*.log", "*_log.out") for p in folder.glob(pattern) if p.exists())
    return sorted(found, key=lambda p: (p.stat().st_mtime, p.name))


def read_log(path: Path, tail_bytes: int = TAIL_BYTES) -> str:
    """The end of one file; undecodable bytes are replaced. "" where it does not exist (yet)."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - tail_bytes))
            return file.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def newest_log(job_directory: Path, tail_bytes: int = TAIL_BYTES) -> str:
    """The end of what the newest submission printed: what `classify` reads."""
    paths = log_paths(job_directory)
    return read_log(paths[-1], tail_bytes) if paths else ""
