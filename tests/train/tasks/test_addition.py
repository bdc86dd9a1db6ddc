from __future__ import annotations

import pytest
import torch

from batchscout.errors import ConfigError
from batchscout.train.tasks import make_task


def text(alphabet: str, tokens: torch.Tensor) -> list[str]:
    return ["".join(alphabet[token] for token in row) for row in tokens.tolist()]


@pytest.mark.parametrize(("digits", "pairs"), [(1, 55), (2, 5050)])
def test_every_answer_is_the_sum(digits: int, pairs: int) -> None:
    task = make_task({"name": "addition", "digits": digits, "held_out": 20})
    prompts = torch.cat([task.prompts, task.held_out])
    questions, answers = text(task.alphabet, prompts), text(task.alphabet, task.answers(prompts))
    assert len(set(questions)) == pairs
    for question, answer in zip(questions, answers, strict=True):
        first, second = question.rstrip("=").split("+")
        assert answer == f"{int(first) + int(second):0{digits}d}$"
        assert len(first) == len(second) == digits


def test_held_out_prompts_are_not_trained_on_and_always_the_same() -> None:
    settings = {"name": "addition", "digits": 2, "held_out": 512, "split_seed": 1234, "score_range": [0, 1]}
    task, again = make_task(settings), make_task(settings)
    assert len(task.held_out) == 512
    trained, held_out = text(task.alphabet, task.prompts), text(task.alphabet, task.held_out)
    assert not set(trained) & set(held_out)
    assert torch.equal(task.held_out, again.held_out)
    assert not torch.equal(task.held_out, make_task({**settings, "split_seed": 1}).held_out)


def test_only_the_exact_answer_is_rewarded() -> None:
    task = make_task({"name": "addition"})
    prompts = task.prompts[:3]
    completions = task.answers(prompts)
    completions[1, 0] = (completions[1, 0] + 1) % 10
    completions[2, 2] = 5  # right digits, no end
    assert task.reward(prompts, completions).tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"name": "chess"}, "task.name"),
        ({"name": "addition", "digits": 4}, "task.digits"),
        ({"name": "addition", "digits": 1, "held_out": 40}, "task.held_out"),
        ({"name": "addition", "carry": True}, "task"),
    ],
)
def test_wrong_settings_name_their_field(settings: dict[str, object], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_task(settings)
    assert caught.value.field == field


def test_a_task_from_elsewhere_is_found_by_its_path() -> None:
    task = make_task({"name": "batchscout.train.tasks.addition:Addition", "digits": 1, "held_out": 5})
    assert task.completion_tokens == 2
