"""Jobs of the synthetic trainer."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.synthetic_jobs import JobMaker, job_maker


@pytest.fixture
def make_job(tmp_path: Path) -> JobMaker:
    return job_maker(tmp_path)
