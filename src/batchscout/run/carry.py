"""What a sweep on a new GPU type takes from a finished one: checked, kept with the sweep, told where it came from."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batchscout.errors import ConfigError
from batchscout.measure.target import Target
from batchscout.run.files import write_json
from batchscout.run.finished import (
    FinishedSweep,
    identity_differences,
    listed_differences,
    read_finished,
    unknown_groups,
)
from batchscout.run.recorded import export_sweep
from batchscout.search.protocol import JobObservation

COPY, PROVENANCE = "source.jsonl.gz", "source.json"


@dataclass(frozen=True)
class Carried:
    """The source, and what was found when it was compared with what is asked for.

    accepted  differences that were named as accepted
    warnings  what cannot be compared, or differs without changing S
    """

    sweep: FinishedSweep
    accepted: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def jobs(self) -> Sequence[JobObservation]:
        return self.sweep.jobs

    def provenance(self) -> dict[str, Any]:
        """As kept in the new sweep's directory."""
        s = self.sweep
        return {
            "v": 1, "path": str(s.path.absolute()), "sweep": s.sweep, "gpu": s.gpu, "gpus": s.gpus,
            "hardware": s.hardware, "commit": s.commit, "target": s.target.score, "jobs": len(s.jobs),
            "identity": dict(s.identity), "accepted": list(self.accepted), "warnings": list(self.warnings),
        }  # fmt: skip

    def keep(self, directory: Path) -> None:
        """Write the copy and the provenance, once: a resume needs no source any more."""
        directory.mkdir(parents=True, exist_ok=True)
        copy = directory / COPY
        if copy.exists():
            return
        path = self.sweep.path
        if path.is_dir():
            lines = "".join(f"{line}\n" for line in export_sweep(path)).encode()
        else:
            raw = path.read_bytes()
            lines = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
        copy.write_bytes(gzip.compress(lines, mtime=0))
        write_json(directory / PROVENANCE, self.provenance())


def carry(
    source: str | None,
    *,
    identity: Mapping[str, Any],
    target: Target,
    evaluation: Mapping[str, Any],
    gpu: str | None,
    commit: str | None = None,
    accept: Sequence[str] = (),
    directory: Path | None = None,
    beside: Path | None = None,
) -> Carried:
    """Read the source and refuse it where its samples would not be those of this sweep.

    directory  of the new sweep: where it already keeps a copy of the source, that one is read
    beside     a relative source is looked for here, too
    Raises     ConfigError naming the differences; SweepError where the source is no finished sweep
    """
    if directory is not None and (directory / COPY).is_file():
        kept = json.loads((directory / PROVENANCE).read_text(encoding="utf-8"))
        return Carried(read_finished(directory / COPY), tuple(kept["accepted"]), tuple(kept["warnings"]))
    if not source:
        raise ConfigError(
            "new_gpu.source",
            "null",
            "must name a finished sweep: new_gpu.source=runs/search/TIME, or an export",
        )
    path = Path(source).expanduser()
    if beside is not None and not path.exists() and (beside / path).exists():
        path = beside / path
    if not path.exists():
        raise ConfigError("new_gpu.source", source, "does not exist; name a sweep's directory or an export")
    sweep = read_finished(path)
    found = [
        (f"target.{name}", getattr(sweep.target, name), getattr(target, name))
        for name in ("score", "direction")
        if getattr(sweep.target, name) != getattr(target, name)
    ]
    found += identity_differences(sweep.identity, identity)
    refused = [d for d in found if not _is_accepted(d[0], accept)]
    if refused:
        names = ",".join(dict.fromkeys(d[0] for d in refused))
        raise ConfigError(
            "new_gpu.source", source,
            f"has other samples: {listed_differences(refused)} (there and here); if S is the same all the "
            f"same, say new_gpu.accept=[{names}]",
        )  # fmt: skip
    warnings = _warnings(sweep, identity, evaluation, gpu, commit)
    return Carried(sweep, tuple(d[0] for d in found), tuple(warnings))


def _is_accepted(name: str, accept: Sequence[str]) -> bool:
    """`trainer` accepts every trainer.…"""
    return any(name == a or name.startswith(f"{a}.") for a in accept)


def _warnings(
    sweep: FinishedSweep,
    identity: Mapping[str, Any],
    evaluation: Mapping[str, Any],
    gpu: str | None,
    commit: str | None,
) -> list[str]:
    out = []
    unknown = unknown_groups(sweep.identity, identity)
    if unknown:
        out.append(f"{sweep.path}: its {', '.join(unknown)} cannot be compared, one side does not tell")
    if sweep.evaluation and evaluation and dict(sweep.evaluation) != dict(evaluation):
        out.append(
            f"{sweep.path} evaluated otherwise ({dict(sweep.evaluation)}); S may lie a little elsewhere"
        )
    if sweep.commit and commit and sweep.commit != commit:
        out.append(
            f"{sweep.path} ran commit {sweep.commit[:9]}, this is {commit[:9]}: S is assumed unchanged"
        )
    if gpu and sweep.gpu == gpu:
        out.append(f"{sweep.path} ran on {gpu}, too: an ordinary search there could be resumed instead")
    return out
