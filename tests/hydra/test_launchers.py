"""Jobs that really run: in this process, as local processes, and through other launchers and sweepers."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from batchscout.run.lock import SweepLock

ROOT = Path(__file__).parents[2]
FAST = ["trainer=synthetic", "trainer.time_scale=0.0005", "tracking=none"]


def run(*words, cwd):
    """sweep.py in a process of its own, on one thread. Returns what it printed."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    done = subprocess.run(
        [sys.executable, ROOT / "sweep.py", *words],
        cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def result_of(directory):
    return json.loads((directory / "result.json").read_text())


def test_a_single_run_is_a_sweep_of_one_job_in_this_process(sweep, tmp_path):
    answer = sweep(*FAST, "batch_size=128", "lr=4e-4", f"hydra.run.dir={tmp_path}/one")
    assert answer.code == 0, answer.err
    result = result_of(tmp_path / "one")
    assert result["status"] == "complete"
    assert [job["id"] for job in result["jobs"]] == ["b128-lr0.0004-s0"]
    assert result["jobs"][0]["outcome"] == "reached"
    assert re.search(r"batch_size=128 lr=4e-4 reaches score 0.6", answer.out)
    assert (tmp_path / "one" / "report.html").exists()


def test_c25_sweeps_that_take_one_name_in_one_second_part_unless_they_are_equal(sweep, tmp_path, monkeypatch):
    from batchscout import app

    first, second = tmp_path / "first", tmp_path / "second"
    words = ["-m", *FAST, "hardware=debug", "lr=4e-4"]
    assert sweep(*words, "batch_size=64", f"hydra.sweep.dir={first}").code == 0
    names = iter([(first, False), (second, False), (first, False)])
    monkeypatch.setattr(app, "choose", lambda plan: next(names))
    assert sweep(*words, "batch_size=256").code == 0
    assert [job["batch_size"] for job in result_of(first)["jobs"]] == [64]
    assert [job["batch_size"] for job in result_of(second)["jobs"]] == [256]
    with SweepLock(first):
        assert "is worked on by process" in sweep(*words, "batch_size=64").error


def test_a_failing_single_run_ends_with_2(sweep, tmp_path):
    words = ["+trainer.misbehave.fault=value_error", f"hydra.run.dir={tmp_path}/one"]
    answer = sweep(*FAST, "lr=4e-4", *words)
    assert answer.code == 2
    assert result_of(tmp_path / "one")["jobs"][0]["outcome"] == "failed"


def test_c02_c17_every_failed_job_is_in_the_summary_and_has_its_own_log(tmp_path):
    """The batch of 64 is well, both others raise; a sweep with an answer still ends with 0."""
    place = f"hydra.sweep.dir={tmp_path}/s"
    words = ["batch_size=64,256,512", "lr=4e-4", "+trainer.misbehave.fault=runtime_error"]
    out = run("-m", *FAST, *words, "+trainer.misbehave.above_batch_size=64", place, cwd=tmp_path)
    for batch_size in (256, 512):
        job = f"b{batch_size}-lr0.0004-s0"
        assert f"failed   {job} (batch_size={batch_size} lr=0.0004 seed=0): RuntimeError: synthetic" in out
        log = (tmp_path / "s" / "jobs" / job / "log" / "001.log").read_text()
        assert "Traceback (most recent call last)" in log
        assert "RuntimeError: synthetic failure" in log
    result = result_of(tmp_path / "s")
    assert [job["outcome"] for job in result["jobs"]] == ["reached", "failed", "failed"]
    assert result["status"] == "complete"


def test_a_reader_that_goes_away_ends_no_sweep(tmp_path):
    """`python sweep.py -m … | head -1`."""
    words = ["-m", *FAST, "hardware=debug", "batch_size=64,256", "lr=4e-4", f"hydra.sweep.dir={tmp_path}/s"]
    with subprocess.Popen(
        [sys.executable, ROOT / "sweep.py", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
    ) as process:  # fmt: skip
        process.stdout.close()
        error = process.stderr.read()
    assert process.returncode == 0, error
    assert error == ""
    assert result_of(tmp_path / "s")["status"] == "complete"


def test_a_local_grid_writes_every_file_that_is_promised(tmp_path):
    run("-m", *FAST, "batch_size=64,256", "lr=4e-4", f"hydra.sweep.dir={tmp_path}/s", cwd=tmp_path)
    assert result_of(tmp_path / "s")["status"] == "complete"
    job = tmp_path / "s" / "jobs" / "b64-lr0.0004-s0"
    assert {"job.json", "attempts", "log", ".hydra"} <= {p.name for p in job.iterdir()}
    config = yaml.safe_load((job / ".hydra" / "config.yaml").read_text())
    assert (config["batch_size"], config["lr"], config["trainer"]["name"]) == (64, 4e-4, "synthetic")
    overrides = yaml.safe_load((job / ".hydra" / "overrides.yaml").read_text())
    assert "batch_size=64" in overrides
    assert "batch_size=64,256" not in overrides


@pytest.mark.parametrize("launcher", ["basic", pytest.param("submitit_local", marks=pytest.mark.slow)])
def test_other_launchers_run_the_jobs_of_our_sweeper_in_batches(tmp_path, launcher):
    words = ["batch_size=64,256", "lr=4e-4", "hardware.slots=2", f"hydra/launcher={launcher}"]
    run("-m", *FAST, *words, f"hydra.sweep.dir={tmp_path}/s", cwd=tmp_path)
    result = result_of(tmp_path / "s")
    assert result["status"] == "complete"
    assert [job["outcome"] for job in result["jobs"]] == ["reached", "reached"]
    assert result["recommendation"]["batch_size"] == 256


@pytest.mark.parametrize(
    "launcher", ["batchscout", "basic", pytest.param("submitit_local", marks=pytest.mark.slow)]
)
def test_hydras_own_sweeper_runs_our_task_function(tmp_path, launcher):
    """It may list any key; a job lies in its own output directory."""
    words = ["batch_size=128", "lr=4e-4", "trainer.steepness=1.5,2.5", "hydra/sweeper=basic"]
    run("-m", *FAST, *words, f"hydra/launcher={launcher}", f"hydra.sweep.dir={tmp_path}/s", cwd=tmp_path)
    for number, steepness in enumerate((1.5, 2.5)):
        job = tmp_path / "s" / "jobs" / str(number)
        assert json.loads((job / "job.json").read_text())["config"]["trainer"]["steepness"] == steepness
        journal = next(job.glob("attempts/*/journal.jsonl")).read_text().splitlines()
        assert json.loads(journal[-1])["outcome"] == "reached"


def test_the_task_function_returns_time_to_target_for_other_sweepers(tmp_path):
    """As hydra.utils' callers see it: JobReturn.return_value."""
    code = f"""
import sys, os
sys.argv = ["x"]
os.environ["BATCHSCOUT_HOME"] = {str(ROOT)!r}
from hydra import compose, initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from omegaconf import open_dict
from pathlib import Path
from batchscout.hydra_job import run_in
with initialize_config_dir(config_dir={str(ROOT / "conf")!r}, version_base="1.3"):
    for cap in ("null", "2000"):
        config = compose("config", [*{FAST!r}, "lr=4e-4", f"caps.samples={{cap}}"])
        directory = Path({str(tmp_path)!r}) / f"cap-{{cap}}"
        directory.mkdir()
        print(run_in(config, directory))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    reached, capped = done.stdout.split()
    assert float(reached) > 0
    assert capped == "None"
