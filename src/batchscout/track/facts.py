"""What the sweep's directory knows beyond result.json: the commit, and how far running jobs are settled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from batchscout.measure.outcome import Outcome
from batchscout.run.listener import SweepView
from batchscout.run.record import read_provenance


@dataclass(frozen=True, slots=True)
class Facts:
    """commit of the code; settled: by running job's id, its samples at the newest checkpoint."""

    commit: str | None = None
    settled: Mapping[str, int] = field(default_factory=dict)


def read_facts(view: SweepView) -> Facts:
    """Look into the directory; what is not there is left out."""
    growing = {row["id"] for row in view.result["jobs"] if not Outcome(row["outcome"]).is_final}
    settled = {
        job.job_id: _settled(view.directory / "jobs" / job.job_id, job.curve.update_samples.tolist())
        for job in view.jobs
        if job.curve is not None and job.job_id in growing
    }
    git = read_provenance(view.directory).get("git") or {}
    return Facts(git.get("commit"), settled)


def _settled(directory: Path, update_samples: list[float]) -> int:
    """Samples at the newest published checkpoint (``checkpoint/UPDATES``): a restart goes back no further."""
    names = [path.name for path in directory.glob("checkpoint/*")]
    updates = min(max((int(name) for name in names if name.isdigit()), default=0), len(update_samples))
    return int(update_samples[updates - 1]) if updates else 0
