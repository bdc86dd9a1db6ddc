"""The arithmetic of one update, against numbers worked out by hand."""

from batchscout.config import BatchArithmetic


def test_c12_five_completions_of_1024_prompts_in_mini_batches_of_1280_on_8_gpus():
    sizes = BatchArithmetic(batch_size=5120, group_size=5, mini_batch_size=1280, micro_batch_size=80, gpus=8)
    assert (sizes.prompts, sizes.steps, sizes.rollouts_per_device, sizes.passes) == (1024, 4, 160, 2)
    assert str(sizes) == (
        "5120 rollouts = 1024 prompts × 5; 4 optimizer steps of 1280 per update; 160 on each of 8 GPUs; "
        "2 accumulation steps of 80"
    )


def test_one_prompt_in_one_step():
    sizes = BatchArithmetic(batch_size=8, group_size=8, mini_batch_size=8)
    assert str(sizes) == "8 rollouts = 1 prompt × 8; 1 optimizer step of 8 per update"


def test_a_micro_batch_larger_than_the_mini_batch_is_one_pass():
    sizes = BatchArithmetic(batch_size=64, group_size=8, mini_batch_size=32, micro_batch_size=512)
    assert (sizes.steps, sizes.passes) == (2, 1)


def test_c08_a_step_that_gpus_cannot_share_evenly_says_at_most():
    """64 rollouts on 7 GPUs: 10 on one, 9 on the others."""
    assert "; at most 10 on each of 7 GPUs" in str(BatchArithmetic(64, 8, 64, gpus=7))
    assert "; 8 on each of 8 GPUs" in str(BatchArithmetic(64, 8, 64, gpus=8))
