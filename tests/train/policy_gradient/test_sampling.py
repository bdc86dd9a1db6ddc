from __future__ import annotations

from typing import Any

import pytest
import torch

from batchscout.train.policy_gradient.loss import completion_logprobs
from batchscout.train.policy_gradient.model import Transformer, model_for
from batchscout.train.policy_gradient.sampling import Rollouts, Sampler, completion_mask, draw
from batchscout.train.tasks import make_task


@pytest.fixture
def model(job: dict[str, Any]) -> Transformer:
    return model_for(job["model"], make_task(job["task"]))


def rollouts_of(
    model: Transformer, job: dict[str, Any], *, temperature: float = 1.0, m: int = 12
) -> Rollouts:
    task = make_task(job["task"])
    sampler = Sampler(task.completion_tokens, task.end, temperature=temperature, micro_batch_size=40)
    return sampler.sample(model, task.prompts[:m], 8, torch.Generator().manual_seed(3))


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("is_shared", [True, False])
def test_learner_gives_the_tokens_the_probability_with_which_they_were_sampled(
    model: Transformer, job: dict[str, Any], temperature: float, is_shared: bool
) -> None:
    rollouts = rollouts_of(model, job, temperature=temperature)
    learned = completion_logprobs(model, rollouts, temperature=temperature, is_shared=is_shared)
    difference = (learned.detach() - rollouts.logprobs) * rollouts.mask
    assert float(difference.abs().max()) < 1e-5


def test_cached_logits_equal_those_of_the_whole_sequence(model: Transformer) -> None:
    tokens = torch.randint(13, (5, 9), generator=torch.Generator().manual_seed(1))
    whole, _ = model(tokens)
    first, cache = model(tokens[:, :4])
    second, cache = model(tokens[:, 4:7], cache=cache)
    third, _ = model(tokens[:, 7:], cache=cache, last=1)
    torch.testing.assert_close(torch.cat([first, second], 1), whole[:, :7])
    torch.testing.assert_close(third, whole[:, -1:])


def test_no_position_sees_a_later_token(model: Transformer) -> None:
    tokens = torch.randint(13, (2, 9), generator=torch.Generator().manual_seed(2))
    changed = tokens.clone()
    changed[:, 5] = (changed[:, 5] + 1) % 13
    before, after = model(tokens)[0], model(changed)[0]
    torch.testing.assert_close(before[:, :5], after[:, :5])
    assert not torch.allclose(before[:, 5], after[:, 5])


def test_draws_follow_the_probabilities() -> None:
    probabilities = torch.tensor([0.1, 0.2, 0.3, 0.4])
    drawn = draw(probabilities.log().repeat(40_000, 1), torch.Generator().manual_seed(0))
    shares = torch.bincount(drawn, minlength=4) / 40_000
    assert torch.allclose(shares, probabilities, atol=0.01)  # 4 standard errors


def test_completions_end_with_their_first_end_token() -> None:
    tokens = torch.tensor([[3, 12, 12], [12, 12, 12], [1, 2, 3]])
    assert completion_mask(tokens, 12).tolist() == [[1, 1, 0], [1, 0, 0], [1, 1, 1]]


def test_nothing_but_the_end_token_follows_an_end_token(model: Transformer, job: dict[str, Any]) -> None:
    rollouts = rollouts_of(model, job, m=40)
    assert bool((rollouts.tokens[rollouts.mask == 0] == 12).all())
    assert float((1 - rollouts.mask).sum()) > 0


def test_greedy_completions_are_the_most_probable_and_always_the_same(
    model: Transformer, job: dict[str, Any]
) -> None:
    task = make_task(job["task"])
    sampler = Sampler(task.completion_tokens, task.end)
    completions = sampler.greedy(model, task.held_out)
    assert bool((completions == sampler.greedy(model, task.held_out)).all())
    logits, _ = model(task.held_out)
    assert bool((completions[:, 0] == logits[:, -1].argmax(-1)).all())


def test_a_slice_that_cuts_groups_keeps_every_rollout_with_its_prompt(
    model: Transformer, job: dict[str, Any]
) -> None:
    rollouts = rollouts_of(model, job)
    whole = rollouts.prompts.repeat_interleave(8, 0)
    for start, stop in [(0, 8), (8, 24), (3, 13), (5, 6)]:
        part = rollouts.slice(start, stop)
        assert bool((part.prompts.repeat_interleave(part.group_size, 0) == whole[start:stop]).all())
        assert bool((part.tokens == rollouts.tokens[start:stop]).all())
