"""The data behind the page, as files to download: the numbers of result.json with all their digits."""

from __future__ import annotations

import json

from batchscout.report.sweep import Sweep
from batchscout.report.table import to_csv


def data_files(sweep: Sweep) -> dict[str, str]:
    """File name → text."""
    tables = {f"{name}.csv": to_csv(sweep.result[name]) for name in ("table", "points", "jobs")}
    result = json.dumps(sweep.result, indent=1, ensure_ascii=False, allow_nan=False)
    return {"result.json": result, **tables, "curves.csv": curves_csv(sweep)}


def curves_csv(sweep: Sweep) -> str:
    """One line per evaluation of every job; seconds are corrected, an unknown number is an empty cell."""
    rows = []
    jobs = {job.job_id: job for job in sweep.view.jobs}
    for name, curve in sweep.curves.items():
        job = jobs[name]
        identity = {"job": name, "batch_size": job.point.batch_size, "lr": job.point.lr, "seed": job.seed}
        columns = {
            "samples": [int(value) for value in curve.samples],
            "score": curve.score.tolist(),
            "score_n": curve.score_n.tolist(),
            "seconds": curve.seconds.tolist(),
            "sampling_seconds": curve.sampling_seconds.tolist(),
            "evaluation_seconds": curve.evaluation_seconds.tolist(),
            "wall_seconds": curve.wall_seconds.tolist(),
        }
        for values in zip(*columns.values(), strict=True):
            known = [None if value != value else value for value in values]
            rows.append({**identity, **dict(zip(columns, known, strict=True))})
    return to_csv(rows)
