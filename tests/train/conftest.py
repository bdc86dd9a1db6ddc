"""A job small enough for a test, as the worker would hand it to a trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

CONF = Path(__file__).parents[2] / "conf"


def entry(group: str, name: str) -> dict[str, Any]:
    """A config group entry as typed."""
    content: dict[str, Any] = yaml.safe_load((CONF / group / f"{name}.yaml").read_text())
    return content


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def job() -> dict[str, Any]:
    """The resolved mapping of a job on the demo's task, model and start."""
    from batchscout.train.policy_gradient.warm_start import warm_start

    config: dict[str, Any] = {
        "batch_size": 64,
        "lr": 4e-4,
        "seed": 0,
        "group_size": 8,
        "mini_batch_size": None,
        "micro_batch_size": None,
        "task": entry("task", "addition"),
        "model": entry("model", "tiny"),
        "trainer": entry("trainer", "policy_gradient"),
        "target": {"score": 0.7},
        "evaluation": {"samples": 256, "prompts": 128},
    }
    start = warm_start(config)
    config["warm_start"] = {"path": str(start.path), "sha256": start.sha256}
    return config
