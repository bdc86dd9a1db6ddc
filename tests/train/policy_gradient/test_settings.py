from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from batchscout.errors import ConfigError
from batchscout.train.policy_gradient.settings import check


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 60}, "batch_size=60 is not a multiple of group_size=8"),
        (
            {"batch_size": 128, "mini_batch_size": 48},
            "mini_batch_size=48 does not divide batch_size=128; use one of 8, 16, 32, 64, 128",
        ),
        ({"group_size": 1}, "group_size=1 leaves nothing to compare a rollout with; use at least 2"),
        ({"trainer": {"advantage": "gae"}}, "trainer.advantage=gae is unknown; use one of rloo, grpo"),
        ({"model": {"width": 64, "heads": 5}}, "model.heads=5 does not divide model.width=64"),
        (
            {"evaluation": {"prompts": 513}},
            "evaluation.prompts=513 exceeds the task's 512 held-out prompts",
        ),
        (
            {"task": {"name": "addition", "digits": 1, "held_out": 512}},
            "task.held_out=512 is out of range; use 1 to 27",
        ),
        ({"trainer": {"threads": 0}}, "trainer.threads=0 must be at least 1; nearest: 1"),
        (
            {"trainer": {"lr_warmup_samples": -1}},
            "trainer.lr_warmup_samples=-1 must be at least 0; nearest: 0",
        ),
        (
            {"trainer": {"betas": [0.9, 1.0]}},
            "trainer.betas=[0.9, 1.0] must be two numbers from 0 to below 1, as in [0.9,0.95]",
        ),
    ],
)
def test_wrong_settings_are_one_clear_line(
    job: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    check(job)
    with pytest.raises(ConfigError) as caught:
        check({**job, **changes})
    assert str(caught.value) == message


@pytest.mark.parametrize("module", ["policy_gradient.settings", "policy_gradient.warm_start", "synthetic"])
def test_what_must_be_fast_imports_no_torch(module: str) -> None:
    code = f"import sys, batchscout.train.{module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_job_starts_without_importing_a_compiler(job: dict[str, Any]) -> None:
    code = (
        "import json, sys\n"
        "from batchscout.train.policy_gradient.trainer import PolicyGradientJob\n"
        f"job = PolicyGradientJob(json.loads({json.dumps(job)!r}))\n"
        "rollouts = job.sample()\n"
        "job.learner.update(rollouts, rollouts.logprobs[:, 0], samples=0)\n"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
