"""slurm/*.sbatch on a real Slurm: the controller and the MLflow server as jobs that are preempted, requeued and
go on."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest
from tests.slurm.conftest import ROOT, DevCluster
from tests.slurm.sweeps import COMMON, Sweep, assert_complete
from tests.synthetic_jobs import wait_for

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


def submit(cluster: DevCluster, script: str, *words: str, log: Path, options: tuple[str, ...] = ()) -> str:
    """Slurm id of slurm/SCRIPT with these arguments."""
    return cluster.run(
        "sbatch",
        "--parsable",
        "--mem=300M",
        f"--output={log}",
        *options,
        str(ROOT / "slurm" / script),
        *words,
    )


def wait_until_complete(sweep: Sweep, seconds: float = 120) -> None:
    result = sweep.directory / "result.json"
    wait_for(lambda: result.exists() and sweep.result()["status"] == "complete", seconds)


def count(sweep: Sweep, event: str) -> int:
    lines = (sweep.directory / "events.jsonl").read_text().splitlines()
    return [json.loads(line)["event"] for line in lines].count(event)


def test_a_controller_in_a_job_of_its_own_is_preempted_and_goes_on(
    cluster: DevCluster, tmp_path: Path
) -> None:
    sweep, log = Sweep(tmp_path / "s", cluster), tmp_path / "log"
    words = (*COMMON, "hardware=dev_gpu_b", "trainer.time_scale=15", f"hydra.sweep.dir={sweep.directory}")
    here = (f"--chdir={ROOT}", "--partition=scavenge", "--nodelist=a1")
    controller = submit(cluster, "controller.sbatch", *words, log=log, options=here)
    sweep.wait_for_updates("b64-lr0.0003-s0", 2)
    owner = ("--partition=gpu-a", "--nodelist=a1", "--exclusive", "--mem=0", "--output=/dev/null")
    cluster.run("sbatch", *owner, "--wrap=sleep 1")
    wait_for(lambda: "restart 1" in log.read_text(), 60)
    said = log.read_text()
    assert "interrupted; 2 jobs left running" in said, "it left at once"
    wait_until_complete(sweep)
    assert {row["attempts"] for row in assert_complete(sweep)["jobs"]} == {1}, "its jobs were not disturbed"
    assert (count(sweep, "submit"), count(sweep, "begin")) == (2, 2)
    state = ("squeue", "-h", "-t", "all", "-j", controller, "-o", "%T")
    wait_for(lambda: cluster.run(*state) == "COMPLETED", 60)


def test_a_controller_that_was_killed_is_resumed_by_a_job(cluster: DevCluster, tmp_path: Path) -> None:
    sweep, log = (
        Sweep(tmp_path / "s", cluster, "hardware=dev_gpu_b", "trainer.time_scale=5"),
        tmp_path / "log",
    )
    sweep.start()
    sweep.wait_for_updates("b64-lr0.0003-s0", 2)
    sweep.kill()
    here = (f"--chdir={ROOT}", "--partition=gpu-a")
    controller = submit(cluster, "controller.sbatch", "--resume", str(sweep.directory), log=log, options=here)
    wait_until_complete(sweep)
    assert {row["attempts"] for row in assert_complete(sweep)["jobs"]} == {1}
    assert count(sweep, "submit") == 2
    state = ("squeue", "-h", "-t", "all", "-j", controller, "-o", "%T")
    wait_for(lambda: cluster.run(*state) == "COMPLETED", 60)


def test_an_mlflow_server_in_a_job_keeps_its_runs_when_it_is_requeued(
    cluster: DevCluster, tmp_path: Path
) -> None:
    log, address = tmp_path / "log", tmp_path / "runs" / "mlflow-server"
    keys = f"BATCHSCOUT_PYTHON={ROOT / '.venv' / 'bin' / 'python'},BATCHSCOUT_MLFLOW_HOST=127.0.0.1"
    here = ("--partition=gpu-a", "--cpus-per-task=1", f"--chdir={tmp_path}", f"--export=ALL,{keys}")
    server = submit(cluster, "mlflow-server.sbatch", log=log, options=here)
    wait_for(address.exists, 120)
    sweep = Sweep(
        tmp_path / "s",
        cluster,
        "hardware=local",
        "tracking=server",
        f"tracking.uri={address.read_text().strip()}",
    )
    sweep.start()
    assert sweep.wait(120) == 0, sweep.output
    assert runs(address) == 2
    cluster.run("scancel", "--batch", "--signal=USR2", server)
    wait_for(lambda: not address.exists(), 60)
    wait_for(address.exists, 120)
    assert "back into the queue" in log.read_text()
    assert runs(address) == 2
    cluster.run("scancel", "--batch", "--signal=TERM", server)
    wait_for(lambda: not address.exists(), 60)
    assert (tmp_path / "runs" / "mlflow-server.db").stat().st_size > 0


def runs(address: Path) -> int:
    """Of jobs, over all experiments, as the server at that address tells."""
    api = f"{address.read_text().strip()}/api/2.0/mlflow"
    with urllib.request.urlopen(f"{api}/experiments/search?max_results=100", timeout=30) as answer:
        ids = [e["experiment_id"] for e in json.load(answer)["experiments"]]
    asked = json.dumps({"experiment_ids": ids, "max_results": 100}).encode()
    request = urllib.request.Request(
        f"{api}/runs/search", data=asked, headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        found = json.load(answer).get("runs", [])
    tags = [{t["key"]: t["value"] for t in run["data"].get("tags", [])} for run in found]
    return sum("batchscout.job" in t for t in tags)
