"""RL on a verifiable task: sample groups of completions, reward them, ascend the clipped objective.

On-policy unless ``mini_batch_size`` is smaller than ``batch_size``. loss.py lists the departures from GRPO.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from batchscout.errors import InfeasibleError
from batchscout.measure.outcome import Outcome
from batchscout.measure.reporter import Reporter
from batchscout.train.policy_gradient.advantage import advantages
from batchscout.train.policy_gradient.checkpoint import load_checkpoint, save_checkpoint
from batchscout.train.policy_gradient.distributed import Ranks
from batchscout.train.policy_gradient.evaluation import greedy_score
from batchscout.train.policy_gradient.imitation import load_start
from batchscout.train.policy_gradient.learner import Learner
from batchscout.train.policy_gradient.model import model_for
from batchscout.train.policy_gradient.sampling import Rollouts, Sampler
from batchscout.train.policy_gradient.settings import LearningSettings, check_prompts
from batchscout.train.policy_gradient.warm_start import WarmStart, warm_start
from batchscout.train.tasks import make_task

WARMUP_SHARE = 0.05
"""Share of the samples to target from which a warm-up is worth a warning: it then decides the result."""


def train(config: Mapping[str, Any], reporter: Reporter) -> None:
    """Train one job until the reporter says stop; see ``batchscout.train.trainer.Trainer``.

    Raises   ConfigError for sizes that do not fit each other; TrainerError for another start model than the
             sweep's.
    """
    torch.set_num_threads(config["trainer"].get("threads", 1))
    job = PolicyGradientJob(config)
    checkpoint = reporter.resume_path()
    if checkpoint is not None:
        load_checkpoint(checkpoint, job.learner, job.generators)
        reporter.resume()
    job.run(reporter)
    warn_of_long_warmup(reporter, job.settings.lr_warmup_samples)
    reporter.end()
    job.ranks.close()


def warn_of_long_warmup(reporter: Reporter, warmup_samples: int) -> None:
    """Say so if the target was reached so soon that the warm-up is a good part of the way."""
    samples, stop = reporter.samples, reporter.stop_outcome
    if stop and stop[0] is Outcome.REACHED and warmup_samples > WARMUP_SHARE * samples > 0:
        share = f"{warmup_samples / samples:.0%} of the {samples} samples that reached the target"
        reporter.warn(f"lr_warmup_samples={warmup_samples} is {share}; lower it below {WARMUP_SHARE:.0%}")


class PolicyGradientJob:
    """Task, model, optimizer and random generators of one job."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.settings = LearningSettings.from_job(config)
        device = device_for(config["trainer"].get("device"))
        self.ranks = Ranks.join(device)
        self.device = self.ranks.device(device)
        self.task = make_task(config["task"], device=str(self.device))
        self.evaluation_prompts: int = config["evaluation"]["prompts"]
        check_prompts(self.evaluation_prompts, len(self.task.held_out))
        self.model = model_for(config["model"], self.task)
        load_start(self.model, start_of(config))
        self.learner = Learner(self.model.to(self.device), self.settings, self.ranks)
        self.sampler = Sampler(
            self.task.completion_tokens,
            self.task.end,
            temperature=self.settings.temperature,
            micro_batch_size=config["trainer"].get("sampling_micro_batch_size") or 1024,
        )
        self.own_groups = own_groups(self.settings, self.ranks)
        # Apart, so that the order of the prompts does not depend on how many random numbers sampling used.
        self.generators = {
            "prompts": torch.Generator().manual_seed(config["seed"]),
            "sampling": torch.Generator(self.device).manual_seed(
                config["seed"] + 1_000_003 * (1 + self.ranks.rank)
            ),
        }

    def run(self, reporter: Reporter) -> None:
        """Updates, evaluations and checkpoints until the reporter has enough."""
        self.evaluate_if_due(reporter)
        while not reporter.should_stop():
            if reporter.due_for_checkpoint():
                self.save(reporter)
            self.update(reporter)
            self.evaluate_if_due(reporter)
        if reporter.due_for_checkpoint():
            self.save(reporter)

    def save(self, reporter: Reporter) -> None:
        """Publish a checkpoint of this moment."""
        with reporter.checkpoint() as directory:
            save_checkpoint(directory, self.learner, self.generators)

    def evaluate_if_due(self, reporter: Reporter) -> None:
        """Report the score if the grid of samples asks for it now."""
        if reporter.due_for_evaluation():
            with reporter.evaluation() as evaluation:
                score = greedy_score(self.model, self.task, self.evaluation_prompts)
                evaluation.record(score, self.evaluation_prompts)

    def update(self, reporter: Reporter) -> None:
        """One update, its phases reported."""
        with reporter.sampling():
            rollouts = self.sample()
            self.wait_for_device()
            self.ranks.wait()
        with reporter.reward():
            rewards = self.task.reward(
                rollouts.prompts.repeat_interleave(rollouts.group_size, 0), rollouts.tokens
            )
            weights = advantages(self.settings.advantage, rewards, rollouts.group_size)
            self.wait_for_device()
        with reporter.learning():
            metrics = self.learner.update(rollouts, weights, samples=reporter.samples)
            is_finite = self.learner.is_finite()
            self.wait_for_device()
        tokens, metrics_of_rewards = self.totals(rollouts, rewards)
        reporter.end_update(
            samples=self.settings.batch_size,
            generated_samples=self.settings.batch_size,
            generated_tokens=tokens,
            trained_tokens=tokens,
            metrics={**metrics, **metrics_of_rewards},
        )
        if not is_finite:
            reporter.diverged("a parameter is no longer finite")

    def sample(self) -> Rollouts:
        """This rank's part of the next batch: prompts drawn with replacement, ``group_size`` completions
        each."""
        count = self.settings.batch_size // self.settings.group_size
        chosen = torch.randint(len(self.task.prompts), (count,), generator=self.generators["prompts"])
        prompts = self.task.prompts[chosen[self.own_groups].to(self.device)]
        return self.sampler.sample(self.model, prompts, self.settings.group_size, self.generators["sampling"])

    def totals(self, rollouts: Rollouts, rewards: Tensor) -> tuple[int, dict[str, float]]:
        """Tokens and reward metrics of the whole batch, whichever ranks hold it."""
        groups = rewards.view(-1, rollouts.group_size)
        differing = (groups != groups[:, :1]).any(1).sum()
        sums = torch.stack([rollouts.mask.sum(), rewards.sum(), differing]).double()
        self.ranks.sum(sums)
        tokens, reward, signal = sums.tolist()
        batch = self.settings.batch_size
        share = signal * self.settings.group_size / batch
        return int(tokens), {"reward": reward / batch, "groups_with_signal": share}

    def wait_for_device(self) -> None:
        """Let queued kernels end, so that their time falls into the phase that queued them."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def start_of(config: Mapping[str, Any]) -> WarmStart:
    """The start that the sweep chose; a job that comes without one (not from a sweep) finds it itself."""
    chosen = config.get("warm_start")
    return WarmStart(Path(chosen["path"]), chosen["sha256"]) if chosen else warm_start(config)


def own_groups(settings: LearningSettings, ranks: Ranks) -> Tensor:
    """Which groups of a batch this rank samples. Raises InfeasibleError where a rank would get none."""
    groups = settings.batch_size // settings.group_size
    if ranks.size == 1:
        return torch.arange(groups)
    per_mini_batch = settings.mini_batch_size // settings.group_size
    if per_mini_batch < ranks.size:
        size = ranks.size * settings.group_size
        message = f"{ranks.size} ranks need mini_batch_size ≥ {size}, not {settings.mini_batch_size}"
        raise InfeasibleError("arithmetic", message)
    return torch.tensor(ranks.chosen(groups, per_mini_batch))


def device_for(asked: str | None) -> torch.device:
    """The device named by ``trainer.device``; where it is null or auto, a CUDA device if there is one."""
    if asked in (None, "auto"):
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(asked)
