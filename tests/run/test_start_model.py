"""One start model for all jobs of a sweep, kept beside them."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_all_jobs_of_a_sweep_name_one_kept_start_model_and_its_hash(tmp_path):
    directory = tmp_path / "sweep"
    words = [
        "sweep=grid",
        "batch_size=256,512",
        "lr=8e-4",
        "target.score=0.1",
        "tracking=none",
        "hardware=debug",
    ]
    command = [sys.executable, str(ROOT / "sweep.py"), "-m", *words, f"hydra.sweep.dir={directory}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    starts = [
        json.loads(path.read_text())["config"]["warm_start"] for path in directory.glob("jobs/*/job.json")
    ]
    assert len(starts) == 2
    assert starts[0] == starts[1]
    kept = Path(starts[0]["path"])
    assert kept.parent == directory / "start_model"
    assert hashlib.sha256(kept.read_bytes()).hexdigest() == starts[0]["sha256"]
    committed = json.loads(
        (ROOT / "src/batchscout/train/policy_gradient/warm_starts/addition-tiny.json").read_text()
    )
    assert starts[0]["sha256"] == committed["sha256"]
