"""`sweep=new_gpu` on made worlds: the right batch size for a fraction of a search, the transfer check, the
refusals."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import pytest
from tests.made_world import MadeWorld

OLD = MadeWorld(name="old", a=0.05, b=0.0005)  # √(a B_crit / b) = 173
NEW = replace(OLD, name="new", a=1.0, b=0.0005, seed=1)  # 775


@pytest.fixture
def source(sweep, tmp_path):
    """A finished sweep of the old type: three learning rates at every batch size, one seed."""
    OLD.write(tmp_path / "old.jsonl")
    place = (f"hardware.source={tmp_path / 'old.jsonl'}", f"hydra.sweep.dir={tmp_path / 'source'}")
    answer = sweep("-m", "sweep=grid", "hardware=replay", *place, "seed=0", "lr=2e-4,4e-4,8e-4")
    assert answer.code == 0, answer.err
    return tmp_path / "source"


def on_new(sweep, tmp_path, source, world, *words):
    world.write(tmp_path / "new.jsonl")
    answer = sweep(
        "-m", "sweep=new_gpu", "hardware=replay", f"hardware.source={tmp_path / 'new.jsonl'}",
        f"new_gpu.source={source}", f"hydra.sweep.dir={tmp_path / 'there'}", *words,
    )  # fmt: skip
    result = tmp_path / "there" / "result.json"
    return answer, json.loads(result.read_text()) if result.exists() else None


def regret(world, result):
    chosen = result["recommendation"]
    return world.time(chosen["batch_size"], chosen["lr"]) / world.best[0] - 1


def test_the_new_types_best_batch_is_found_for_less_than_two_runs(sweep, tmp_path, source):
    answer, result = on_new(sweep, tmp_path, source, NEW)
    assert answer.code == 0, answer.err
    assert NEW.best[1] in (512, 1024)
    assert OLD.best[1] in (128, 256)
    assert regret(NEW, result) <= 0.1
    assert result["cost"]["seconds"] < 2 * NEW.best[0]
    assert any(job["kind"] == "verify" for job in result["jobs"])
    chosen = result["recommendation"]
    low, high = chosen["interval"]
    assert 0.9 * low < NEW.time(chosen["batch_size"], chosen["lr"]) < 1.1 * high


def test_provenance_and_a_copy_are_kept_and_a_resume_needs_no_source(sweep, tmp_path, source):
    _, first = on_new(sweep, tmp_path, source, NEW, "budget.jobs=2")
    kept = json.loads((tmp_path / "there" / "source.json").read_text())
    assert kept["sweep"] == "grid/source"
    assert kept["jobs"] == 21
    assert len(gzip.decompress((tmp_path / "there" / "source.jsonl.gz").read_bytes()).splitlines()) == 22
    source.rename(tmp_path / "gone")
    answer, result = on_new(sweep, tmp_path, source, NEW, "budget.jobs=40")
    assert answer.code == 0, answer.err
    assert len(result["jobs"]) > len(first["jobs"])


def test_an_export_serves_as_well_as_a_directory(sweep, tmp_path, source):
    from batchscout.run.recorded import export_sweep

    path = tmp_path / "export.jsonl"
    path.write_text("".join(f"{line}\n" for line in export_sweep(source)))
    assert regret(NEW, on_new(sweep, tmp_path, path, NEW)[1]) <= 0.1


@pytest.mark.slow
def test_other_samples_are_noticed_and_the_search_goes_on_as_an_ordinary_one(sweep, tmp_path, source):
    changed = replace(NEW, b_crit=60.0)
    _, result = on_new(sweep, tmp_path, source, changed)
    assert any("the transfer failed" in w for w in result["recommendation"]["warnings"])
    assert regret(changed, result) <= 0.15


def test_unfinished_source_is_one_error(sweep, tmp_path, source):
    result = json.loads((source / "result.json").read_text())
    (source / "result.json").write_text(json.dumps({**result, "status": "running"}))
    answer, _ = on_new(sweep, tmp_path, source, NEW)
    assert answer.code == 1
    assert "is running, not finished" in answer.error


def test_another_target_is_one_error_unless_it_is_accepted(sweep, tmp_path, source):
    other = replace(NEW, target=0.7)
    answer, _ = on_new(sweep, tmp_path, source, other)
    assert answer.code == 1
    assert "target.score 0.8 and 0.7 (there and here)" in answer.error
    assert "new_gpu.accept=[target.score]" in answer.error
    answer, result = on_new(sweep, tmp_path, source, other, "new_gpu.accept=[target.score]", "budget.jobs=1")
    assert answer.code == 0, answer.err
    assert result["target"] == 0.7
    assert json.loads((tmp_path / "there" / "source.json").read_text())["accepted"] == ["target.score"]


def test_no_source_and_a_missing_one_are_one_error_each(sweep, tmp_path):
    NEW.write(tmp_path / "new.jsonl")
    words = ("-m", "sweep=new_gpu", "hardware=replay", f"hardware.source={tmp_path / 'new.jsonl'}")
    assert "new_gpu.source=null must name a finished sweep" in sweep(*words).error
    assert "does not exist" in sweep(*words, "new_gpu.source=runs/nothing").error
