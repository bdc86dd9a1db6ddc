"""The copy of the code that jobs run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import batchscout
from batchscout.errors import SweepError
from batchscout.run import snapshot as module
from batchscout.run.snapshot import load_snapshot, newest_snapshot, outside_of_snapshot, take_snapshot


def git(directory: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=directory, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A project with a commit, an ignored file, an untracked one and a sweep's output."""
    path = tmp_path / "project"
    (path / "conf").mkdir(parents=True)
    (path / "sweep.py").write_text("print('v1')\n")
    (path / "conf" / "config.yaml").write_text("a: 1\n")
    (path / ".gitignore").write_text("secret.txt\nruns/\n")
    (path / "secret.txt").write_text("x")
    (path / "runs").mkdir()
    (path / "runs" / "old.py").write_text("")
    git(path, "init", "-q")
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "first")
    return path


def test_the_snapshot_holds_what_git_would_track_and_the_commit(source: Path, tmp_path: Path) -> None:
    (source / "mine.py").write_text("new = True\n")
    (source / "outputs").mkdir()
    (source / "outputs" / "x.txt").write_text("not ignored, but no code either")
    taken = take_snapshot(tmp_path / "sweep", source)
    code = taken.path / "code"
    assert {str(p.relative_to(code)) for p in code.rglob("*") if p.is_file()} == {
        "sweep.py", "conf/config.yaml", ".gitignore", "mine.py",
    }  # fmt: skip
    assert taken.commit == git(source, "rev-parse", "HEAD")
    assert taken.is_dirty
    assert load_snapshot(tmp_path / "sweep", 1) == taken == newest_snapshot(tmp_path / "sweep")


def test_the_difference_to_the_commit_is_stored(source: Path, tmp_path: Path) -> None:
    assert not take_snapshot(tmp_path / "sweep", source).is_dirty
    (source / "sweep.py").write_text("print('v2')\n")
    taken = take_snapshot(tmp_path / "sweep", source)
    assert (taken.number, taken.is_dirty) == (2, True)
    assert "+print('v2')" in (taken.path / "diff.patch").read_text()
    assert (load_snapshot(tmp_path / "sweep", 1).path / "code" / "sweep.py").read_text() == "print('v1')\n"


def test_unchanged_code_is_not_copied_again(source: Path, tmp_path: Path) -> None:
    first = take_snapshot(tmp_path / "sweep", source)
    assert take_snapshot(tmp_path / "sweep", source) == first
    assert [p.name for p in (tmp_path / "sweep" / "snapshot").iterdir()] == ["1"]


def test_without_git_code_files_are_copied_and_environments_and_output_are_not(tmp_path: Path) -> None:
    source = tmp_path / "plain"
    for name in (
        "sweep.py",
        "conf/a.yaml",
        "data.bin",
        ".hidden/x.py",
        "runs/1/x.py",
        "env/pyvenv.cfg",
        "env/lib/y.py",
    ):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("")
    taken = take_snapshot(source / "elsewhere" / "sweep", source)
    code = taken.path / "code"
    assert {str(p.relative_to(code)) for p in code.rglob("*") if p.is_file()} == {"sweep.py", "conf/a.yaml"}
    assert taken.commit is None


def test_a_directory_full_of_data_is_refused(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LIMIT_BYTES", 10)
    with pytest.raises(SweepError, match=r"keep data out of it, or list it in \.gitignore"):
        take_snapshot(tmp_path / "sweep", source)
    assert newest_snapshot(tmp_path / "sweep") is None


def test_large_files_are_left_out_and_named(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source / "weights.txt").write_text("x" * 2_000_000)
    monkeypatch.setattr(module, "LIMIT_FILE_BYTES", 1_000_000)
    assert take_snapshot(tmp_path / "sweep", source).left_out == ("code/weights.txt",)


def test_c21_a_job_imports_from_the_snapshot_although_it_starts_in_the_edited_project(
    source: Path, tmp_path: Path
) -> None:
    (source / "mine.py").write_text("version = 1\n")
    taken = take_snapshot(tmp_path / "sweep", source)
    (source / "mine.py").write_text("version = 2\n")
    command = [
        sys.executable,
        "-P",
        "-c",
        "import mine, batchscout; print(mine.version, batchscout.__file__)",
    ]
    path = os.pathsep.join(map(str, taken.import_path))
    done = subprocess.run(
        command,
        cwd=source,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    version, file = done.stdout.split()
    assert version == "1"
    assert file.startswith(str(taken.path))


def test_modules_of_a_working_tree_are_told_from_those_of_snapshot_and_installation(tmp_path: Path) -> None:
    assert not outside_of_snapshot(str(tmp_path / "snapshot" / "code" / "a.py"), tmp_path / "snapshot")
    assert not outside_of_snapshot(pytest.__file__, tmp_path)
    assert not outside_of_snapshot(os.__file__, tmp_path)
    assert outside_of_snapshot(str(tmp_path / "project" / "a.py"), tmp_path / "snapshot")
    assert outside_of_snapshot(batchscout.__file__, tmp_path / "snapshot")
