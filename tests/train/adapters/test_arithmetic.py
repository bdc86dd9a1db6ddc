from __future__ import annotations

from typing import Any

import pytest

from batchscout.errors import ConfigError
from batchscout.train.adapters.arithmetic import trl_arithmetic, verl_arithmetic

VERL: dict[str, Any] = {
    "train_batch_size": 1024,
    "ppo_mini_batch_size": 256,
    "rollout_n": 5,
    "ppo_micro_batch_size_per_gpu": 80,
    "gpus": 8,
}


def test_verl_prompts_become_rollouts() -> None:
    numbers = verl_arithmetic(**VERL)
    assert numbers.batch_size == 5120
    assert numbers.prompts == 1024
    assert (numbers.steps, numbers.mini_batch_size) == (4, 1280)
    assert (numbers.rollouts_per_device, numbers.passes) == (160, 2)


@pytest.mark.parametrize(
    ("changes", "field", "advice"),
    [
        ({"train_batch_size": 256, "ppo_mini_batch_size": 4096}, "ppo_mini_batch_size", "use 256"),
        ({"ppo_mini_batch_size": 300}, "ppo_mini_batch_size", "use 256 or 512"),
        (
            {"ppo_mini_batch_size": 4, "gpus": 16},
            "ppo_mini_batch_size",
            "cannot be shared equally by 16 GPUs; use 16",
        ),
        ({"ppo_micro_batch_size_per_gpu": 50}, "ppo_micro_batch_size_per_gpu", "use 40 or 80"),
    ],
)
def test_verl_numbers_that_do_not_divide_name_the_nearest_that_do(
    changes: dict[str, int], field: str, advice: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        verl_arithmetic(**{**VERL, **changes})
    assert caught.value.field.endswith(field)
    assert advice in str(caught.value)


def test_trl_completions_on_four_gpus_are_one_prompt() -> None:
    numbers = trl_arithmetic(
        per_device_train_batch_size=2, gradient_accumulation_steps=1, num_generations=8, gpus=4
    )
    assert (numbers.batch_size, numbers.prompts, numbers.steps, numbers.passes) == (8, 1, 1, 1)


def test_c08_trl_on_seven_gpus_names_the_nearest_batch() -> None:
    with pytest.raises(ConfigError, match=r"= 7 completions, .* nearest on 7 GPUs: 56 completions"):
        trl_arithmetic(
            per_device_train_batch_size=1, gradient_accumulation_steps=1, num_generations=8, gpus=7
        )


def test_trl_generations_may_feed_several_steps() -> None:
    numbers = trl_arithmetic(
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        num_generations=8,
        gpus=2,
        steps_per_generation=8,
    )
    assert (numbers.batch_size, numbers.mini_batch_size, numbers.steps, numbers.passes) == (64, 16, 4, 2)
    with pytest.raises(ConfigError, match="use 2 or 4"):
        trl_arithmetic(
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            num_generations=8,
            gpus=2,
            steps_per_generation=3,
        )
