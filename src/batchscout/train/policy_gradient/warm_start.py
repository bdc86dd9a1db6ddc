"""The model that all jobs of a sweep start from.

A model that never answers right earns no reward, so it is first trained on right answers until its greedy
accuracy reaches ``model.start_score``. Another start of equal accuracy may need three times the samples,
which is why a sweep has one. What the package brings along is built again by

    python -m batchscout.train.policy_gradient.warm_start conf/task/addition.yaml conf/model/tiny.yaml DIR
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from batchscout.errors import TrainerError
from batchscout.train.policy_gradient.adam import Adam
from batchscout.train.policy_gradient.evaluation import greedy_score
from batchscout.train.policy_gradient.model import Transformer, model_for
from batchscout.train.policy_gradient.parameters import FlatParameters
from batchscout.train.policy_gradient.sampling import completion_mask
from batchscout.train.tasks import Task, make_task

COMMITTED = Path(__file__).parent / "warm_starts"
CHECK_EVERY = 5
"""Supervised steps between two looks at the accuracy."""

MODEL_KEYS = ("layers", "width", "heads", "embedding_std", "seed")
START_KEYS = ("start_score", "start_lr", "start_batch_size", "start_steps")


class WarmStart(NamedTuple):
    """A file of parameters and the sha256 of its bytes."""

    path: Path
    sha256: str


def warm_start(config: Mapping[str, Any], *, directory: Path | None = None) -> WarmStart:
    """The start model of ``config``: from the package, from ``directory``, or built and put there.

    config     its ``task`` and ``model`` entries decide; names of models do not
    directory  where starts are kept, by default in the user's cache
    Raises     TrainerError if a file's bytes are not what its record says, or the accuracy is not reached.
    """
    recipe = recipe_of(config)
    name = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:16]
    kept = directory or default_directory()
    for record_path in (*sorted(COMMITTED.glob("*.json")), kept / f"{name}.json"):
        if record_path.exists():
            record = json.loads(record_path.read_text())
            if record["recipe"] == recipe:
                found = WarmStart(record_path.with_suffix(".pt"), record["sha256"])
                check(found)
                return found
    return build(recipe, kept / f"{name}.pt")


def recipe_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """What the start depends on, as JSON would give it back."""
    model = {key: config["model"][key] for key in (*MODEL_KEYS, *START_KEYS)}
    task = {key: value for key, value in config["task"].items() if key != "score_range"}
    recipe: dict[str, Any] = json.loads(json.dumps({"task": task, "model": model}))
    return recipe


def default_directory() -> Path:
    """Where starts are kept unless something else is asked for."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "batchscout" / "warm_starts"


def check(start: WarmStart) -> None:
    """Raise TrainerError unless the file is the one that the hash was taken of."""
    if not start.path.exists():
        raise TrainerError(f"{start.path} is missing; it is the model that this sweep starts from")
    found = hashlib.sha256(start.path.read_bytes()).hexdigest()
    if found != start.sha256:
        raise TrainerError(
            f"{start.path} has sha256 {found[:12]}…, not {start.sha256[:12]}…: another start model"
        )


def load_start(model: Transformer, start: WarmStart) -> None:
    """Put the start's parameters into ``model``, after checking the file."""
    check(start)
    model.load_state_dict(torch.load(start.path, map_location="cpu", weights_only=True))


def build(recipe: Mapping[str, Any], path: Path) -> WarmStart:
    """Train a start by ``recipe`` and write it to ``path``, a record of recipe and hash beside it."""
    task = make_task(recipe["task"])
    model = model_for(recipe["model"], task)
    steps, accuracy = imitate(model, task, recipe["model"])
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with temporary.open(
        "wb"
    ) as file:  # given a path, torch would write its name into the file and so into the hash
        torch.save(model.state_dict(), file)
    start = WarmStart(path, hashlib.sha256(temporary.read_bytes()).hexdigest())
    os.replace(temporary, path)
    record = {"sha256": start.sha256, "steps": steps, "accuracy": accuracy, "recipe": recipe}
    temporary.write_text(json.dumps(record, indent=1) + "\n")
    os.replace(temporary, path.with_suffix(".json"))  # last: a record without its model would be trusted
    return start


def imitate(model: Transformer, task: Task, settings: Mapping[str, Any]) -> tuple[int, float]:
    """Supervised steps until the greedy accuracy reaches ``start_score``: (steps, accuracy)."""
    parameters = FlatParameters(model)
    optimizer = Adam(parameters.vector, (0.9, 0.95))
    generator = torch.Generator().manual_seed(settings["seed"])
    accuracy = greedy_score(model, task, len(task.held_out))
    for step in range(settings["start_steps"]):
        if step % CHECK_EVERY == 0:
            accuracy = greedy_score(model, task, len(task.held_out))
            if accuracy >= settings["start_score"]:
                return step, accuracy
        chosen = torch.randint(len(task.prompts), (settings["start_batch_size"],), generator=generator)
        parameters.zero_gradient()
        imitation_loss(model, task, task.prompts[chosen]).backward()  # type: ignore[no-untyped-call]
        optimizer.step(parameters.gradient, settings["start_lr"])
    raise TrainerError(
        f"model.start_steps={settings['start_steps']} ended at accuracy {accuracy:.3f}, below "
        f"model.start_score={settings['start_score']}; allow more steps or a lower score"
    )


def imitation_loss(model: Transformer, task: Task, prompts: Tensor) -> Tensor:
    """Mean cross-entropy, over tokens up to the end, of the right answers to the (n, P) ``prompts``."""
    answers = task.answers(prompts)
    logits, _ = model(torch.cat([prompts, answers[:, :-1]], 1), last=task.completion_tokens)
    mask = completion_mask(answers, task.end)
    losses = functional.cross_entropy(logits.transpose(1, 2), answers, reduction="none")
    return (losses * mask).sum() / mask.sum()


def main(arguments: list[str]) -> None:
    """Build the start of a task file and a model file into a directory, named after both."""
    import yaml

    task_file, model_file, directory = (Path(argument) for argument in arguments)
    config = {"task": yaml.safe_load(task_file.read_text()), "model": yaml.safe_load(model_file.read_text())}
    torch.set_num_threads(1)
    start = build(recipe_of(config), directory / f"{task_file.stem}-{model_file.stem}.pt")
    print(f"{start.path} {start.sha256}")


if __name__ == "__main__":
    main(sys.argv[1:])
