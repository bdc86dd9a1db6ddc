"""The batch script, without a Slurm."""

from __future__ import annotations

import subprocess

from tests.synthetic_jobs import JobMaker

from batchscout.clock import RealClock
from batchscout.config import HardwareConfig
from batchscout.run.executors.slurm import SlurmExecutor
from batchscout.run.executors.slurm_script import job_name


def script(make_job: JobMaker, **hardware: object) -> str:
    job = make_job()
    config = HardwareConfig(executor="slurm", **hardware)  # type: ignore[arg-type]
    executor = SlurmExecutor(config, clock=RealClock(), working_directory=job, max_requeues=7)
    return executor.script([job], name="demo/2026-12-02-b64")


def test_hardware_becomes_sbatch_options(make_job: JobMaker) -> None:
    text = script(
        make_job, partition="h100", account="lab", qos="low", constraint="nvlink", exclude="n[1-2]",
        memory="64G", cpus=8, time_limit="1-02:30:00", nodes=2, tasks=4, gpus=8, signal_seconds=300,
        extra={"reservation": "june", "mail_type": "END", "exclusive": True, "nice": None},
    )  # fmt: skip
    options = {line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH")}
    assert options >= {
        "--partition=h100", "--account=lab", "--qos=low", "--constraint=nvlink", "--mem=64G",
        "--cpus-per-task=8",
        "--time=1590", "--nodes=2", "--ntasks-per-node=4", "--gpus-per-node=4",
        "--signal=USR2@300",
        "--reservation=june", "--mail-type=END", "--exclusive", "--job-name=demo-2026-12-02-b64",
        "--open-mode=append",
    }  # fmt: skip
    assert "--exclude='n[1-2]'" in options
    assert not any(o.startswith(("--wckey", "--array", "--nice")) for o in options)


def test_a_gres_replaces_the_number_of_gpus(make_job: JobMaker) -> None:
    text = script(make_job, gpus=2, gres="gpu:h100:2")
    assert "--gres=gpu:h100:2" in text
    assert "--gpus-per-node" not in text


def test_no_time_limit_is_the_sites(make_job: JobMaker) -> None:
    assert "--time" not in script(make_job)


def test_setup_and_container_come_before_python(make_job: JobMaker) -> None:
    text = script(make_job, setup=("module load cuda",), python="apptainer exec --nv image.sif python3")
    lines = text.splitlines()
    assert lines.index("module load cuda") < lines.index("export BATCHSCOUT_MAX_REQUEUES=7")
    (command,) = [line for line in lines if line.startswith("srun ")]
    assert "apptainer exec --nv image.sif python3 -P -u -m batchscout.run.worker" in command


def test_the_script_is_valid_shell_and_keeps_the_jobs_exit_code(make_job: JobMaker) -> None:
    text = script(make_job).replace("srun ", "sh -c 'exit 41' ")
    assert subprocess.run(["bash", "-c", text], capture_output=True).returncode == 41


def test_names_have_no_separators() -> None:
    assert job_name("demo/2026 x|y-b64-lr0.0003-s0") == "demo-2026-x-y-b64-lr0.0003-s0"
