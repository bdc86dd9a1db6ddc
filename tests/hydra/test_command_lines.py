"""What the documented commands mean, seen in dry runs, and what of Hydra keeps working."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def dry(sweep, *words):
    answer = sweep(*words, "dry_run=true")
    assert answer.code == 0, answer.err
    return answer.out


def line(text, name):
    return next(entry for entry in text.splitlines() if entry.startswith(name))


def test_c28_listed_values_without_a_sweep_are_a_grid_of_every_pair(sweep):
    text = dry(sweep, "-m", "batch_size=64,128,256,512", "lr=1e-4,2e-4,4e-4")
    assert line(text, "sweep ") == "sweep      grid, search=grid; nothing is submitted (dry_run=true)"
    assert line(text, "jobs ") == "jobs       12, from 12 points × 1 seed"
    assert f"{ROOT}/runs/grid/" in line(text, "directory")


def test_without_lists_the_default_search_is_meant(sweep):
    text = dry(sweep, "-m")
    assert line(text, "sweep ").startswith("sweep      default, search=")
    assert "search=grid" not in text
    assert line(text, "jobs ").startswith("jobs       at most 40, from 48 points")


def test_a_sweep_file_is_a_multirun_without_m_and_typed_lists_replace_its_own(sweep):
    assert "search, search=" in line(dry(sweep, "sweep=search"), "sweep ")
    text = dry(sweep, "-m", "sweep=search", "batch_size=64,128", "lr=1e-4")  # each batch size is probed too
    assert line(text, "jobs ") == "jobs       at most 6, from 2 points × 2 seeds"


def test_ranges_intervals_and_seeds_may_be_listed(sweep):
    text = dry(sweep, "-m", "batch_size=range(64,257,64)", "lr=1e-4", "seed=1,2")
    assert line(text, "jobs ") == "jobs       8, from 4 points × 2 seeds"
    text = dry(sweep, "-m", "batch_size=int(tag(log,interval(16,4096)))", "lr=tag(log,interval(1e-5,1e-3))")
    assert line(text, "sweep ").startswith("sweep      default, search=")
    assert "28 rates" in text


def test_a_rule_is_explicit_per_batch_size(sweep):
    text = dry(sweep, "-m", "batch_size=128,512", "lr_rule=sqrt", "lr_reference=1e-4")
    assert "sqrt: lr_reference · √(B / 128)" in line(text, "lr rule")
    assert [entry.rpartition("lr ")[2] for entry in text.splitlines() if entry.startswith("batch_size")] == [
        "1e-4",
        "2e-4",
    ]


def test_one_lr_per_batch_size_is_said(sweep):
    assert "only one lr is tried at batch_size 64" in dry(sweep, "-m", "batch_size=64", "lr=1e-4")


def test_the_demo_scans_16_to_2048_with_two_rates_each_within_its_bound(sweep):
    text = dry(sweep, "sweep=demo")
    assert line(text, "jobs ") == "jobs       16, from 16 points × 1 seed"
    rates = {
        int(entry.split()[1]): [float(v) for v in entry.rpartition("lr ")[2].split(", ")]
        for entry in text.splitlines()
        if entry.startswith("batch_size")
    }
    assert list(rates) == [16, 32, 64, 128, 256, 512, 1024, 2048]
    assert all(high == pytest.approx(2 * low) for low, high in rates.values())


def test_the_cost_bound_counts_every_job_at_its_cap(sweep):
    text = dry(
        sweep,
        "-m",
        "batch_size=64,128",
        "lr=1e-4",
        "caps.seconds=3600",
        "hardware=slurm_gpu",
        "hardware.gpus=2",
        "hardware.price_per_gpu_hour=2.5",
    )
    assert "2 h" in line(text, "cost ")
    assert "4 GPU-hours = 10.00 at the price given" in line(text, "cost ")


def test_a_dry_run_on_slurm_shows_the_script_with_the_resources_typed(sweep):
    text = dry(
        sweep, "-m", "batch_size=64", "lr=1e-4", "hardware=slurm", "hardware.qos=high", "hardware.memory=3G"
    )
    assert "#SBATCH --mem=3G" in text
    assert "#SBATCH --qos=high" in text
    assert "SWEEP_DIR/jobs/b64-lr0.0001-s0" in text


def test_keys_that_a_hardware_file_leaves_out_can_be_typed(sweep):
    assert dry(sweep, "lr=1e-4", "hardware.cpus=4", "hardware.setup=[module load x]")


def test_cfg_help_and_info_are_hydras(sweep):
    config = sweep("--cfg", "job", "lr=1e-4")
    assert config.code == 0
    assert "lr: 0.0001" in config.out
    help_text = sweep("--help")
    assert help_text.code == 0
    assert "sweep: default, demo, grid" in help_text.out
    assert "batchscout" in sweep("--info", "plugins").out


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("hardware=l", "hardware=local"), ("sweep=de", "sweep=demo"), ("target.sc", "target.score")],
)
def test_tab_completion_knows_groups_sweeps_and_keys(typed, meant):
    environment = {
        **os.environ,
        "COMP_LINE": f"sweep.py {typed}",
        "COMP_POINT": str(len(f"sweep.py {typed}")),
    }
    done = subprocess.run(
        [sys.executable, ROOT / "sweep.py", "-sc", "query=bash"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert any(word.startswith(meant) for word in done.stdout.split()), done.stdout


def test_another_directory_changes_nothing_and_a_relative_sweep_dir_is_the_callers(tmp_path):
    world = tmp_path / "world.jsonl"
    world.write_text(recording(), encoding="utf-8")
    done = subprocess.run(
        [
            sys.executable,
            ROOT / "sweep.py",
            "sweep=grid",
            "hardware=replay",
            "hardware.source=world.jsonl",
            "hydra.sweep.dir=here",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "here" / "result.json").read_text())
    assert result["status"] == "complete"
    assert result["recommendation"]["batch_size"] == 32
    assert result["cost"]["seconds"] == pytest.approx(sum(job["seconds"] for job in result["jobs"]))
    assert {"sweep.json", "multirun.yaml", "events.jsonl"} <= {p.name for p in (tmp_path / "here").iterdir()}
    assert json.loads((tmp_path / "here" / "sweep.json").read_text())["config"]["target"]["score"] == 0.5


def recording() -> str:
    """Two batch sizes, one rate, two seeds; 32 is twice as fast as 12, which is no multiple of 8."""
    header = {
        "world": "small",
        "target": 0.5,
        "batch_sizes": [12, 32],
        "learning_rates": [0.001],
        "seeds": [0, 1],
        "gpus": 1,
    }
    lines = [json.dumps(header)]
    for batch_size, seconds in ((12, 4.0), (32, 2.0)):
        for seed in (0, 1):
            lines.append(
                json.dumps(
                    {
                        "batch_size": batch_size,
                        "learning_rate": 0.001,
                        "seed": seed,
                        "status": "reached",
                        "samples": [96, 192, 288, 384],
                        "seconds": [seconds * k for k in (1, 2, 3, 4)],
                        "sampling_seconds": [seconds * k / 2 for k in (1, 2, 3, 4)],
                        "score": [0.1, 0.3, 0.6, 0.7],
                    }
                )
            )
    return "\n".join(lines) + "\n"


def test_a_replay_takes_target_and_lists_from_the_recording(sweep, tmp_path):
    world = tmp_path / "world.jsonl"
    world.write_text(recording(), encoding="utf-8")
    replay = ["-m", "sweep=grid", "hardware=replay", f"hardware.source={world}"]
    text = dry(sweep, *replay)
    assert line(text, "jobs ") == "jobs       4, from 2 points × 2 seeds"
    assert "score ≥ 0.5" in line(text, "target")
    assert (
        line(dry(sweep, *replay, "batch_size=12", "seed=1"), "jobs ")
        == "jobs       1, from 1 points × 1 seed"
    )
    assert "score ≥ 0.3" in line(dry(sweep, *replay, "target.score=0.3"), "target")
    assert sweep(*replay, "batch_size=64").error == "batch_size=64 is not in the recording; it has 12, 32"
