"""Everything that decides how a job goes on, in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from batchscout.errors import TrainerError
from batchscout.train.policy_gradient.learner import Learner

FILE = "policy_gradient.pt"


def save_checkpoint(directory: Path, learner: Learner, generators: dict[str, torch.Generator]) -> None:
    """Write parameters, Adam's state and the state of every random generator into ``directory``.

    Ranks beyond the first write their generators only: the rest is equal everywhere.
    """
    states = {name: generator.get_state() for name, generator in generators.items()}
    if learner.ranks.rank:
        torch.save({"generators": states}, directory / rank_file(learner.ranks.rank))
        return
    content = {
        "parameters": learner.parameters.vector,
        "optimizer": learner.optimizer.state(),
        "generators": states,
        "ranks": learner.ranks.size,
    }
    torch.save(content, directory / FILE)


def rank_file(rank: int) -> str:
    """Where a rank beyond the first keeps its generators."""
    return f"policy_gradient-rank{rank}.pt"


def load_checkpoint(directory: Path, learner: Learner, generators: dict[str, torch.Generator]) -> None:
    """Put a learner and its generators into the state in which they were saved.

    Raises   TrainerError if the checkpoint belongs to another model, or to another number of ranks.
    """
    device = learner.parameters.vector.device
    content: dict[str, Any] = torch.load(directory / FILE, map_location=device, weights_only=True)
    found, expected = content["parameters"].shape, learner.parameters.vector.shape
    if found != expected:
        raise TrainerError(
            f"{directory} holds {found[0]} parameters; the model has {expected[0]}; use fresh=true"
        )
    if content.get("ranks", 1) != learner.ranks.size:
        saved = content.get("ranks", 1)
        raise TrainerError(f"{directory} was saved by {saved} ranks, this job has {learner.ranks.size}")
    if learner.ranks.rank:
        content |= torch.load(directory / rank_file(learner.ranks.rank), weights_only=True)
    learner.parameters.load(content["parameters"])
    learner.optimizer.load(content["optimizer"])
    for name, generator in generators.items():
        generator.set_state(content["generators"][name].cpu())  # states live on the CPU, whatever the device
