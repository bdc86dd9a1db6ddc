"""Supervised training of a start model, until it answers well enough for RL to have something to reward.

A model that never answers right earns no reward. Training stops by greedy accuracy, not by steps.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
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
from batchscout.train.policy_gradient.warm_start import WarmStart, check
from batchscout.train.tasks import Task, make_task

CHECK_EVERY = 5
"""Steps between two looks at the accuracy."""


class TrainedStart(NamedTuple):
    """A start model as the bytes of a file, the supervised steps it took and its accuracy."""

    content: bytes
    steps: int
    accuracy: float


def train_start(recipe: Mapping[str, Any]) -> TrainedStart:
    """The start of ``recipe`` (its task and model entries). TrainerError if the steps do not suffice."""
    task = make_task(recipe["task"])
    model = model_for(recipe["model"], task)
    steps, accuracy = imitate(model, task, recipe["model"])
    file = io.BytesIO()  # given a path, torch would write its name into the file and so into the hash
    torch.save(model.state_dict(), file)
    return TrainedStart(file.getvalue(), steps, accuracy)


def load_start(model: Transformer, start: WarmStart) -> None:
    """Put the start's parameters into ``model``, after checking the file."""
    check(start)
    model.load_state_dict(torch.load(start.path, map_location="cpu", weights_only=True))


def imitate(model: Transformer, task: Task, settings: Mapping[str, Any]) -> tuple[int, float]:
    """Supervised steps until the greedy accuracy reaches ``start_score``: (steps, accuracy)."""
    parameters = FlatParameters(model)
    optimizer = Adam(parameters.vector, (0.9, 0.95))
    generator = torch.Generator().manual_seed(settings["seed"])
    accuracy = 0.0
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
