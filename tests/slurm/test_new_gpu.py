"""A new GPU type on a real Slurm: samples from a sweep on one partition, update seconds from the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.slurm.conftest import ROOT, DevCluster

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

B_CRIT, B = 300, 2e-4
SPEED = {"a100": 0.02, "h100": 0.3}  # seconds that an update costs at least
BATCHES = (32, 64, 128, 256, 512, 1024)
WORK = (
    "trainer=synthetic", "tracking=none", "target.score=0.7", "evaluation.samples=256", "hardware.poll_seconds=1",
    "trainer.s_min=3000", f"trainer.b_crit={B_CRIT}", f"trainer.b={B}", "trainer.seed_noise=0.03",
    "trainer.lr_exponent=0", "trainer.lr_reference=4e-4",
    f"+trainer.by_gpu.a100.a={SPEED['a100']}", f"+trainer.by_gpu.h100.a={SPEED['h100']}",
)  # fmt: skip


def run(cluster: DevCluster, directory: Path, *words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(ROOT / "sweep.py"), "-m", *words, *WORK, f"hydra.sweep.dir={directory}"],
        cwd=directory.parent, env={**os.environ, "SLURM_CONF": str(cluster.conf)},
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    content: dict[str, Any] = json.loads((directory / "result.json").read_text())
    return content


def time(batch: int, a: float) -> float:
    """Time to target over s_min."""
    return (1 + batch / B_CRIT) / batch * (a + B * batch)


def test_the_new_types_batch_size_is_found_from_the_old_types_sweep(
    cluster: DevCluster, tmp_path: Path
) -> None:
    lists = ("batch_size=" + ",".join(map(str, BATCHES)), "lr=2e-4,4e-4,8e-4")
    old = run(cluster, tmp_path / "old", "sweep=grid", "hardware=dev_gpu_a", *lists)
    assert {row["gpu"] for row in old["jobs"]} == {"a100"}
    assert old["recommendation"]["batch_size"] in (128, 256)  # √(a B_crit / b) = 173
    new = run(
        cluster, tmp_path / "new", "sweep=new_gpu", f"new_gpu.source={tmp_path / 'old'}", "hardware=dev_gpu_b"
    )
    assert {row["gpu"] for row in new["jobs"] if row["start"]} == {"h100"}
    chosen = new["recommendation"]
    best = min(time(b, SPEED["h100"]) for b in BATCHES)
    assert time(chosen["batch_size"], SPEED["h100"]) <= 1.1 * best  # 512 or 1024: √(a B_crit / b) = 671
    assert chosen["lr"] == pytest.approx(4e-4)
    assert not any("the transfer failed" in warning for warning in chosen["warnings"])
    whole = sum(row["seconds"] for row in new["jobs"] if row["kind"] != "probe")
    assert whole < 2.5 * 3000 * best
    assert json.loads((tmp_path / "new" / "source.json").read_text())["gpu"] == "a100"
