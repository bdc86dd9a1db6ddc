"""The model that all jobs of a sweep start from: which file it is, and the hash that proves it.

Another start of equal accuracy may need three times the samples, which is why a sweep has one. What the
package brings along is built again by

    python -m batchscout.train.policy_gradient.warm_start conf/task/addition.yaml conf/model/tiny.yaml DIR

Finding a start needs no torch, so that whoever plans a sweep does so quickly.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from batchscout.errors import TrainerError

COMMITTED = Path(__file__).parent / "warm_starts"
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


def build(recipe: Mapping[str, Any], path: Path) -> WarmStart:
    """Train a start by ``recipe`` and write it to ``path``, a record of recipe and hash beside it."""
    from batchscout.train.policy_gradient.imitation import train_start  # needs torch

    start = train_start(recipe)
    path.parent.mkdir(parents=True, exist_ok=True)
    sha256 = hashlib.sha256(start.content).hexdigest()
    record = {"sha256": sha256, "steps": start.steps, "accuracy": start.accuracy, "recipe": recipe}
    text = json.dumps(record, indent=1) + "\n"
    # The record comes last: without its model it would be trusted.
    for target, content in ((path, start.content), (path.with_suffix(".json"), text.encode())):
        temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp")
        temporary.write_bytes(content)
        os.replace(temporary, target)
    return WarmStart(path, sha256)


def main(arguments: list[str]) -> None:
    """Build the start of a task file and a model file into a directory, named after both."""
    import torch
    import yaml

    task_file, model_file, directory = (Path(argument) for argument in arguments)
    config = {"task": yaml.safe_load(task_file.read_text()), "model": yaml.safe_load(model_file.read_text())}
    torch.set_num_threads(1)
    start = build(recipe_of(config), directory / f"{task_file.stem}-{model_file.stem}.pt")
    print(f"{start.path} {start.sha256}")


if __name__ == "__main__":
    main(sys.argv[1:])
