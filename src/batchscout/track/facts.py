"""What the sweep's directory knows beyond result.json: commit, Slurm's job ids, newest checkpoints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from batchscout.measure.outcome import Outcome
from batchscout.run.listener import SweepView


@dataclass(frozen=True, slots=True)
class Facts:
    """commit of the code; by job id: Slurm's id, and a running job's samples at its newest checkpoint."""

    commit: str | None = None
    slurm_job_ids: Mapping[str, str] = field(default_factory=dict)
    settled: Mapping[str, int] = field(default_factory=dict)


def read_facts(view: SweepView) -> Facts:
    """Look into the directory; what is not there (a replay has no jobs) is left out."""
    slurm_job_ids, settled = {}, {}
    curves = {job.job_id: job.curve for job in view.jobs}
    for row in view.result["jobs"]:
        job, directory = row["id"], view.directory / "jobs" / row["id"]
        if Outcome(row["outcome"]).is_final:
            slurm = _slurm_job_id(directory)
            if slurm:
                slurm_job_ids[job] = slurm
        elif curves.get(job) is not None:
            settled[job] = _settled(directory, curves[job].update_samples)  # type: ignore[union-attr]
    return Facts(_commit(view.directory), slurm_job_ids, settled)


def _commit(directory: Path) -> str | None:
    try:
        sweep = json.loads((directory / "sweep.json").read_text())
    except (OSError, ValueError):  # a view without files
        return None
    git = sweep.get("git") or {}
    commit = sweep.get("commit") or (git.get("commit") if isinstance(git, Mapping) else None)
    return None if commit is None else str(commit)


def _slurm_job_id(directory: Path) -> str | None:
    """From the first line of the newest attempt, its start event."""
    journals = sorted(directory.glob("attempts/*/journal.jsonl"))
    if not journals:
        return None
    with journals[-1].open() as lines:
        try:
            start: dict[str, Any] = json.loads(lines.readline())
        except ValueError:  # torn: the attempt died while it wrote its first line
            return None
    slurm = start.get("slurm_job_id")
    return None if slurm is None else str(slurm)


def _settled(directory: Path, update_samples: Any) -> int:
    """Samples at the newest published checkpoint (``checkpoint/UPDATES``): a restart goes back no further."""
    updates = max(
        (int(path.name) for path in directory.glob("checkpoint/*") if path.name.isdigit()), default=0
    )
    updates = min(updates, len(update_samples))
    return int(update_samples[updates - 1]) if updates else 0
