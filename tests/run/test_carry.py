"""What may be carried over: identity of trainer, task, model, precision; what only warns."""

from __future__ import annotations

import json

import pytest
from tests.made_sweep import Made, make_sweep

from batchscout.errors import ConfigError, SweepError
from batchscout.measure.target import Target
from batchscout.run.carry import carry
from batchscout.run.finished import identity_differences, identity_of, read_finished

TARGET = Target(score=0.7)


@pytest.fixture
def source(tmp_path):
    make_sweep(tmp_path / "source", Made())
    record = json.loads((tmp_path / "source" / "sweep.json").read_text())
    record["config"]["trainer"] = {"name": "made", "function": "made:train", "precision": "fp32"}
    (tmp_path / "source" / "sweep.json").write_text(json.dumps(record))
    return tmp_path / "source"


def ask(source, **changes):
    asked = {"identity": read_finished(source).identity, "target": TARGET, "evaluation": {}, "gpu": "new GPU"}
    return carry(str(source), **{**asked, **changes})


def test_the_same_work_is_carried_over(source):
    assert len(ask(source).jobs) == 16


def test_another_precision_is_refused_and_named(source):
    identity = {**read_finished(source).identity, "trainer.precision": "bf16"}
    with pytest.raises(ConfigError, match=r"trainer\.precision fp32 and bf16.*accept=\[trainer\.precision\]"):
        ask(source, identity=identity)
    assert ask(source, identity=identity, accept=["trainer.precision"]).accepted == ("trainer.precision",)
    assert ask(source, identity=identity, accept=["trainer"]).accepted == ("trainer.precision",)


def test_accepting_one_difference_accepts_no_other(source):
    identity = {**read_finished(source).identity, "trainer.precision": "bf16", "task.name": "sorting"}
    with pytest.raises(ConfigError, match=r"task\.name addition and sorting \(there"):
        ask(source, identity=identity, accept=["trainer"])


def test_unknown_identity_and_the_same_gpu_are_warnings(source):
    found = ask(source, identity={}, gpu="made GPU")
    assert any("cannot be compared" in w for w in found.warnings)
    assert any("ran on made GPU, too" in w for w in found.warnings)


def test_a_sweep_without_a_reached_job_is_refused(tmp_path):
    make_sweep(tmp_path / "source", Made(reachable=False))
    with pytest.raises(SweepError, match="no job reached the target"):
        carry(str(tmp_path / "source"), identity={}, target=TARGET, evaluation={}, gpu=None)


def test_how_a_machine_is_used_is_no_part_of_the_identity():
    config = {
        "trainer": {"name": "mine", "function": "m:t", "threads": 4, "device": "cpu", "clip": 0.2},
        "task": {"name": "sums"}, "model": {"name": "small", "seed": 0}, "group_size": 8,
    }  # fmt: skip
    assert identity_of(config) == {
        "trainer.name": "mine", "trainer.function": "m:t", "trainer.clip": 0.2, "task.name": "sums",
        "model.name": "small", "model.seed": 0, "group_size": 8,
    }  # fmt: skip


def test_an_export_that_knows_names_only_is_compared_by_names():
    full = {"trainer.name": "a", "trainer.clip": 0.2}
    assert identity_differences({"trainer.name": "a"}, full) == []
    assert identity_differences({"trainer.name": "b"}, full) == [("trainer.name", "b", "a")]
    assert identity_differences({**full, "trainer.clip": 0.3}, full) == [("trainer.clip", 0.3, 0.2)]
