"""The search on a real sweep of our own trainer: curves of several shapes, dips, times as noisy as they were."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "tests" / "recordings" / "addition.jsonl.gz"


@pytest.fixture(scope="module")
def record():
    """(header, jobs, seconds that each setting takes): S averaged over seeds, R over all jobs of a batch size."""
    with gzip.open(RECORD, "rt") as file:
        header, *jobs = [json.loads(line) for line in file]
    samples, rates = {}, {}
    for job in jobs:
        if job["status"] == "reached":
            ln_s = np.log(job["samples"][-1])
            samples.setdefault((job["batch_size"], job["learning_rate"]), []).append(ln_s)
            rates.setdefault(job["batch_size"], []).append(ln_s - np.log(job["seconds"][-1]))
    seconds = {
        point: float(np.exp(np.mean(ln_s) - np.mean(rates[point[0]])))
        for point, ln_s in samples.items()
        if len(ln_s) == len(header["seeds"])
    }
    return header, jobs, seconds


@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]
)
def test_the_search_ends_at_the_best_setting_or_beside_it_for_a_fraction_of_the_grid(record, tmp_path, seed):
    """The best takes 11 to 25 % less than those beside it, one job varies by 20 %: that close, a search may err."""
    header, jobs, seconds = record
    words = [
        "sweep=search", "hardware=replay", f"hardware.source={RECORD}", "tracking=none", f"seed={seed}",
        f"target.score={header['target']}", f"hydra.sweep.dir={tmp_path / 'sweep'}", "seeds=3",
        "batch_size=" + ",".join(map(str, header["batch_sizes"])), "lr=" + ",".join(map(str, header["learning_rates"])),
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(ROOT / "sweep.py"), "-m", *words], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads((tmp_path / "sweep" / "result.json").read_text())
    said, best = result["recommendation"], min(seconds.values())
    took = seconds[said["batch_size"], said["lr"]]
    assert took <= 1.3 * best, f"{said['batch_size']}, {said['lr']:g} takes {took / best:.2f} times the best"
    low, high = said["interval"]
    assert low <= took <= high
    whole = sum(job["seconds"][-1] for job in jobs)
    assert result["cost"]["seconds"] < whole / 20
