from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from batchscout.errors import TrainerError
from batchscout.train.policy_gradient.evaluation import greedy_score
from batchscout.train.policy_gradient.imitation import load_start
from batchscout.train.policy_gradient.model import model_for
from batchscout.train.policy_gradient.warm_start import COMMITTED, WarmStart, main, warm_start
from batchscout.train.tasks import make_task


def test_demo_starts_from_the_model_in_the_package(job: dict[str, Any], tmp_path: Path) -> None:
    start = warm_start(job, directory=tmp_path)
    assert start.path == COMMITTED / "addition-tiny.pt"
    assert start.sha256 == hashlib.sha256(start.path.read_bytes()).hexdigest()
    assert list(tmp_path.iterdir()) == []


def test_committed_start_answers_as_its_record_says(job: dict[str, Any]) -> None:
    task = make_task(job["task"])
    model = model_for(job["model"], task)
    load_start(model, warm_start(job))
    assert greedy_score(model, task, 512) == pytest.approx(0.3887, abs=0.01)  # ±: rounding on other CPUs


def test_names_of_models_do_not_matter_but_their_seeds_do(job: dict[str, Any], tmp_path: Path) -> None:
    committed = warm_start(job, directory=tmp_path)
    renamed = {**job, "model": {**job["model"], "name": "mine"}}
    assert warm_start(renamed, directory=tmp_path) == committed
    cheap = {"start_score": 0.01, "seed": 1}
    reseeded = {**job, "model": {**job["model"], **cheap}}
    built = warm_start(reseeded, directory=tmp_path)
    assert built.path.parent == tmp_path
    assert built.sha256 != committed.sha256
    assert warm_start(reseeded, directory=tmp_path) == built


def test_building_again_gives_the_same_bytes(tmp_path: Path) -> None:
    task, model = tmp_path / "addition.yaml", tmp_path / "tiny.yaml"
    conf = Path(__file__).parents[3] / "conf"
    shutil.copy(conf / "task" / "addition.yaml", task)
    model.write_text((conf / "model" / "tiny.yaml").read_text().replace("0.35", "0.01"))
    hashes = []
    for name in ("one", "two"):
        main([str(task), str(model), str(tmp_path / name)])
        hashes.append(hashlib.sha256((tmp_path / name / "addition-tiny.pt").read_bytes()).hexdigest())
    assert hashes[0] == hashes[1]


def test_another_file_than_the_sweep_s_is_refused(job: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "start.pt"
    path.write_bytes(b"something else")
    model = model_for(job["model"], make_task(job["task"]))
    with pytest.raises(TrainerError, match="another start model"):
        load_start(model, WarmStart(path, job["warm_start"]["sha256"]))
    with pytest.raises(TrainerError, match="is missing"):
        load_start(model, WarmStart(tmp_path / "none.pt", job["warm_start"]["sha256"]))


def test_a_score_out_of_reach_says_what_to_change(job: dict[str, Any], tmp_path: Path) -> None:
    impatient = {**job, "model": {**job["model"], "start_steps": 6, "start_score": 0.9}}
    with pytest.raises(TrainerError, match=r"model\.start_steps=6 ended at accuracy"):
        warm_start(impatient, directory=tmp_path)
    assert list(tmp_path.iterdir()) == []
