"""Everything that decides how a job goes on, in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from batchscout.errors import TrainerError
from batchscout.train.policy_gradient.learner import Learner

FILE = "policy_gradient.pt"


def save_checkpoint(directory: Path, learner: Learner, generators: dict[str, torch.Generator]) -> None:
    """Write parameters, Adam's state and the state of every random generator into ``directory``."""
    content = {
        "parameters": learner.parameters.vector,
        "optimizer": learner.optimizer.state(),
        "generators": {name: generator.get_state() for name, generator in generators.items()},
    }
    torch.save(content, directory / FILE)


def load_checkpoint(directory: Path, learner: Learner, generators: dict[str, torch.Generator]) -> None:
    """Put a learner and its generators into the state in which they were saved.

    Raises   TrainerError if the checkpoint belongs to another model.
    """
    device = learner.parameters.vector.device
    content: dict[str, Any] = torch.load(directory / FILE, map_location=device, weights_only=True)
    found, expected = content["parameters"].shape, learner.parameters.vector.shape
    if found != expected:
        raise TrainerError(
            f"{directory} holds {found[0]} parameters; the model has {expected[0]}; use fresh=true"
        )
    learner.parameters.load(content["parameters"])
    learner.optimizer.load(content["optimizer"])
    for name, generator in generators.items():
        generator.set_state(content["generators"][name].cpu())  # states live on the CPU, whatever the device
