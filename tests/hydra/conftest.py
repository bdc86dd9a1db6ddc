"""sweep.py run in this process, as far as a test needs it."""

import contextlib
import io
import logging
import runpy
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SWEEP = ROOT / "sweep.py"


@dataclass(frozen=True)
class Answer:
    """What a command line did. code is the exit code."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line on standard error."""
        lines = self.err.strip().splitlines()
        assert len(lines) == 1, self.err
        return lines[0].removeprefix("error: ")


@pytest.fixture
def sweep(monkeypatch, tmp_path):
    """sweep("-m", "lr=1e-4", …) → Answer. Runs go below tmp_path; logging is put back afterwards."""

    def run(*words: str, script: Path = SWEEP) -> Answer:
        from hydra.core.global_hydra import GlobalHydra

        monkeypatch.setattr(sys, "argv", [str(script), *words])
        out, err = io.StringIO(), io.StringIO()
        root = logging.getLogger()
        handlers, level = root.handlers[:], root.level
        code = 0
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                runpy.run_path(str(script), run_name="__main__")
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            root.handlers[:], root.level = handlers, level
            GlobalHydra.instance().clear()
        return Answer(code, out.getvalue(), err.getvalue())

    monkeypatch.setenv("BATCHSCOUT_HOME", str(ROOT))
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)
    monkeypatch.chdir(tmp_path)
    return run
