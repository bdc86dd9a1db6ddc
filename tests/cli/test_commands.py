"""The command `batchscout` on real sweeps of a synthetic trainer."""

import gzip
import json
import sys

import pytest

from batchscout import cli

FAST = ["trainer=synthetic", "trainer.time_scale=0.0005", "tracking=none"]


@pytest.fixture
def batchscout(monkeypatch, capsys):
    """batchscout("status", …) → (exit code, standard output, standard error)."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["batchscout", *map(str, words)])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv("BATCHSCOUT_HOME", raising=False)
    return run


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A project whose newest sweep, runs/grid/TIME, has two finished jobs."""
    from batchscout.cli.project import write_project

    project = tmp_path_factory.mktemp("cli") / "project"
    write_project(project)
    run_sweep(project, "-m", *FAST, "hardware=debug", "batch_size=64,256", "lr=4e-4")
    return project


def run_sweep(project, *words):
    import subprocess

    done = subprocess.run(
        [sys.executable, project / "sweep.py", *words],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_status_is_of_the_newest_sweep_and_says_what_came_out(batchscout, finished, monkeypatch):
    monkeypatch.chdir(finished)
    code, out, _ = batchscout("status")
    assert code == 0
    assert out.startswith("grid/20")
    assert ": complete" in out
    assert "jobs     2: 2 reached" in out
    assert "batch_size=256 lr=4e-4 reaches score 0.6" in out


def test_a_sweep_is_named_by_its_directory_or_its_name(batchscout, finished, monkeypatch):
    monkeypatch.chdir(finished)
    directory = next((finished / "runs" / "grid").iterdir())
    for words in (directory, "grid", f"grid/{directory.name}", "latest", "runs/grid"):
        assert batchscout("status", words)[0] == 0, words
    code, _, err = batchscout("status", "gird")
    assert code == 1
    assert err.strip() == "error: gird is no sweep (no sweep.json there); did you mean grid?"


def test_an_empty_place_is_one_line(batchscout, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = batchscout("status")
    assert code == 1
    assert err.startswith("error: there is no sweep below ")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["stat"], "No such command 'stat'"),
        (["status", "--frobnicate"], "No such option: --frobnicate"),
        (["cancel"], "Missing argument"),
        (["logs", "grid", "-n", "0"], "Invalid value for '-n'"),
        (["resume", "grid", "hardware=slurm"], "is a group; on resume type its keys, as in hardware.slots="),
        (["plan", "grid", "--probes", "grid"], "probes=grid is given twice or is the sweep itself"),
        (["export", "grid", "-o", "/proc/none"], "/proc/none: No such file"),
        (["status", "broken"], "sweep.json is no JSON"),
        (["resume", "broken"], "sweep.json is no JSON"),
    ],
)  # fmt: skip
def test_words_typed_wrongly_are_one_line_and_exit_code_1(batchscout, finished, monkeypatch, words, message):
    monkeypatch.chdir(finished)
    (finished / "broken").mkdir(exist_ok=True)
    (finished / "broken" / "sweep.json").write_text('{"v": 1')
    code, out, err = batchscout(*words)
    assert (code, out) == (1, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_without_words_there_is_help(batchscout):
    code, out, _ = batchscout()
    assert code == 0
    assert "status" in out


def test_logs_names_a_job_by_its_beginning(batchscout, finished, monkeypatch):
    monkeypatch.chdir(finished)
    log = next((finished / "runs" / "grid").iterdir()) / "jobs" / "b64-lr0.0004-s0" / "log"
    log.mkdir(exist_ok=True)
    (log / "001.log").write_text("one\ntwo\nthree\n")
    assert batchscout("logs", "b64", "-n", 2)[1] == "two\nthree\n"
    assert batchscout("logs", "grid", "b64-lr0.0004-s0", "-n", 1)[1] == "three\n"
    code, _, err = batchscout("logs", "grid", "b6x-lr0.0004-s0")
    assert code == 1
    assert "did you mean b64-lr0.0004-s0?" in err


def test_export_is_a_recorded_sweep_packed_where_the_name_says_so(
    batchscout, finished, monkeypatch, tmp_path
):
    monkeypatch.chdir(finished)
    lines = batchscout("export")[1].splitlines()
    assert json.loads(lines[0])["batch_sizes"] == [64, 256]
    assert len(lines) == 3
    assert batchscout("export", "grid", "-o", tmp_path / "x.jsonl.gz")[0] == 0
    assert gzip.decompress((tmp_path / "x.jsonl.gz").read_bytes()).decode().splitlines() == lines


def test_fit_reads_a_table_of_ones_own(batchscout, tmp_path):
    """S = 1000 (1 + B/100) exactly."""
    table = tmp_path / "mine.csv"
    rows = [f"{b},{1000 * (1 + b / 100):.6f}" for b in (10, 50, 100, 200, 400)]
    table.write_text("batch_size,samples_to_target\n" + "\n".join(rows) + "\n")
    code, out, _ = batchscout("fit", table, "--json")
    assert code == 0
    law = json.loads(out)["samples"]
    assert law["s_min"] == pytest.approx(1000, rel=1e-3)
    assert law["b_crit"] == pytest.approx(100, rel=1e-3)
    assert "critical batch size" in batchscout("fit", table)[1]
    assert (
        batchscout("fit", table, "--gamma", "zero")[2]
        == "error: gamma=zero must be a number above 0, or free\n"
    )


def test_report_is_written_again(batchscout, finished, monkeypatch):
    monkeypatch.chdir(finished)
    directory = next((finished / "runs" / "grid").iterdir())
    (directory / "report.html").unlink()
    assert batchscout("report")[0] == 0
    assert (directory / "report.html").stat().st_size > 1000


def test_resume_grows_lists_and_refuses_what_changes_the_measurement(batchscout, finished, monkeypatch):
    monkeypatch.chdir(finished)
    code, _, err = batchscout("resume", "grid", "target.score=0.5")
    assert code == 1
    assert "target.score=0.5 (was 0.6)" in err
    assert batchscout("resume", "grid", "targt.score=0.5")[2].startswith(
        "error: targt.score=0.5 is not a known key"
    )
    assert "lists may only grow" in batchscout("resume", "grid", "batch_size=64")[2]
    code, _, err = batchscout("resume", "grid", "batch_size=64,128,256")
    assert code == 0, err
    directory = next((finished / "runs" / "grid").iterdir())
    jobs = json.loads((directory / "result.json").read_text())["jobs"]
    assert [job["batch_size"] for job in jobs] == [64, 256, 128]


def test_cancel_and_retry_say_when_there_is_nothing_to_do(batchscout, finished, monkeypatch):
    monkeypatch.chdir(finished)
    assert batchscout("cancel", "grid")[1].startswith("nothing to cancel")
    assert batchscout("retry", "grid")[1].startswith("nothing to retry")
    assert batchscout("retry")[1].startswith("nothing to retry"), "of the newest"
    assert "reached the target" in batchscout("retry", "grid", "b64")[2]


def test_init_writes_a_project_whose_own_trainer_learns(batchscout, tmp_path, monkeypatch):
    code, out, _ = batchscout("init", tmp_path / "mine")
    assert code == 0
    assert "python sweep.py" in out
    run_sweep(tmp_path / "mine", "lr=10", "batch_size=64", "tracking=none")
    result = next((tmp_path / "mine" / "runs" / "single").iterdir()) / "result.json"
    assert json.loads(result.read_text())["jobs"][0]["outcome"] == "reached"
    code, _, err = batchscout("init", tmp_path / "mine")
    assert code == 1
    assert "is not empty" in err


def test_doctor_speaks_plainly(batchscout, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    code, out, _ = batchscout("doctor")
    assert code == 1
    assert "ok   Python 3." in out
    assert "ok   Hydra sees batchscout's sweeper and launcher" in out
    assert "BAD  the MLflow server http://127.0.0.1:9 does not answer" in out
    assert "is writable" in out


def test_json_is_for_scripts_and_agrees_with_the_result(batchscout, finished, monkeypatch):
    monkeypatch.chdir(finished)
    result = json.loads((finished / "runs" / "latest" / "result.json").read_text())
    code, out, err = batchscout("status", "--json")
    status = json.loads(out)
    assert (code, err) == (0, "")
    assert status["status"] == result["status"]
    assert [(job["id"], job["outcome"]) for job in status["jobs"]] == [
        (row["id"], row["outcome"]) for row in result["jobs"]
    ]
    assert status["recommendation"] == result["recommendation"]
    code, out, _ = batchscout("report", "--json")
    report = json.loads(out)
    assert (code, report["table"], report["cost"]) == (0, result["table"], result["cost"])
    assert report["report"].endswith("report.html")
    assert report["warnings"] == result["laws"]["warnings"]


def test_doctor_speaks_to_scripts(batchscout, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    code, out, _ = batchscout("doctor", "--json")
    findings = json.loads(out)["findings"]
    assert code == 1
    assert {finding["state"] for finding in findings} >= {"ok", "bad"}


def test_help_lists_the_commands(batchscout):
    out = batchscout("--help")[1]
    for command in (
        "status",
        "logs",
        "cancel",
        "retry",
        "resume",
        "report",
        "sync",
        "fit",
        "export",
        "doctor",
        "init",
    ):
        assert command in out


def test_every_command_has_a_help_page(batchscout):
    from batchscout.cli.commands import app

    names = [
        command.name or command.callback.__name__.replace("_", "-") for command in app.registered_commands
    ]
    assert {
        "status",
        "logs",
        "cancel",
        "retry",
        "resume",
        "report",
        "sync",
        "fit",
        "export",
        "doctor",
        "init",
    } <= set(names)
    for name in names:
        code, out, _ = batchscout(name, "--help")
        assert code == 0
        assert "Usage" in out
