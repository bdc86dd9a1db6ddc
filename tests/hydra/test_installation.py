"""The plugins are found in an editable install and in a wheel, also beside another package's plugins."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_running_installation_has_sweeper_launcher_and_the_sweep_group():
    from hydra.core.plugins import Plugins
    from hydra.plugins.config_source import ConfigSource
    from hydra.plugins.launcher import Launcher
    from hydra.plugins.sweeper import Sweeper

    names = {
        cls.__name__
        for base in (Sweeper, Launcher, ConfigSource)
        for cls in Plugins.instance().discover(base)
    }
    assert {"BatchscoutSweeper", "BatchscoutLauncher", "SweepsConfigSource"} <= names


@pytest.mark.slow
def test_a_wheel_holds_plugins_and_project_and_runs_without_the_checkout(tmp_path):
    source = tmp_path / "source"
    for name in ("src", "conf", "sweeps"):
        ignored = shutil.ignore_patterns("*.egg-info", "__pycache__")
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignored)
    for name in ("sweep.py", "pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    (source / "README.md").write_text("batchscout\n")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, source],
        check=True, capture_output=True,
    )  # fmt: skip
    wheel = next(tmp_path.glob("*.whl"))
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    assert (site / "hydra_plugins" / "batchscout" / "plugin.py").is_file()
    assert not (site / "hydra_plugins" / "__init__.py").exists()
    project = tmp_path / "project"
    start = f"import sys; sys.path.insert(0, {str(site)!r}); import batchscout; print(batchscout.__file__); "
    write = "from batchscout.cli.project import write_project; from pathlib import Path; "
    write += f"write_project(Path({str(project)!r}))"
    written = python(start + write, cwd=tmp_path)
    assert written.startswith(str(site))
    words = ["sweep.py", "-m", "batch_size=64,128", "lr=3", "dry_run=true"]
    script = str(project / "sweep.py")
    sweep = f"import runpy; sys.argv = {words!r}; runpy.run_path({script!r}, run_name='__main__')"
    assert "jobs       2, from 2 points" in python(start + sweep, cwd=project)


def python(code, *, cwd):
    done = subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
