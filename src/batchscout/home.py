"""Where sweep.py lies: the directory whose code jobs run, and beside which runs/ grows."""

from __future__ import annotations

import os
from pathlib import Path

HOME = "BATCHSCOUT_HOME"
"""Environment variable that sweep.py sets for conf/config.yaml and for jobs of other launchers."""


def home() -> Path:
    """sweep.py's directory; the current one where no sweep.py was started."""
    return Path(os.environ.get(HOME) or Path.cwd()).resolve()
