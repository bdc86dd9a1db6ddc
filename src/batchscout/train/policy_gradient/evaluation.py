"""The score: how often a model's most probable completion of a held-out prompt is right."""

from __future__ import annotations

from batchscout.train.policy_gradient.model import Transformer
from batchscout.train.policy_gradient.sampling import Sampler
from batchscout.train.tasks import Task


def greedy_score(model: Transformer, task: Task, prompts: int) -> float:
    """Mean reward of the greedy completions of the first ``prompts`` held-out prompts."""
    asked = task.held_out[:prompts]
    completions = Sampler(task.completion_tokens, task.end).greedy(model, asked)
    return float(task.reward(asked, completions).mean())
