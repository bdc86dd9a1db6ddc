"""A trainer that follows the laws instead of training: for rehearsals and tests.

    S(B, lr) = s_min (1 + B / b_crit) (1 + curvature · log2(lr / lr_opt(B))²)
    lr_opt(B) = lr_reference · (B / reference_batch_size)^lr_exponent
    update_seconds(B) = a + b · B

The score of n samples is a sigmoid in log n through ``target`` at S, and ``start`` at 0; each evaluation
counts right answers of ``evaluation.prompts`` questions (binomial noise). ``by_gpu`` gives GPU types other
values, as {h100: {a: 0.2}}: another speed is no other trainer. It waits on the reporter's clock, so that it
runs on virtual time too, and imports no torch, so that it starts fast. ``trainer.misbehave`` lets it fail.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from batchscout.config.fields import Limits, convert
from batchscout.errors import ConfigError
from batchscout.measure.reporter import Reporter
from batchscout.train.misbehaviour import Misbehaviour

FILE = "synthetic.json"


@dataclass(frozen=True)
class SyntheticLaw:
    """The world that a synthetic job lives in.

    s_min           samples to target at a batch of 0 and the best lr
    b_crit          rollouts at which twice as many samples are needed
    a, b            seconds of an update, seconds per rollout
    curvature       relative extra samples at a factor 2 from the best lr
    lr_reference    best lr at ``reference_batch_size``; it grows with the power ``lr_exponent`` of the batch
    lr_limit        factor on the best lr from which the score collapses
    start           score of the start model, below ``target``
    ceiling         score that is approached for ever
    steepness       of the sigmoid, per factor e in samples
    target          score at S
    sampling_share  share of an update's seconds spent sampling
    seed_noise      standard deviation of ln S between seeds
    """

    s_min: float
    b_crit: float
    a: float
    b: float
    target: float
    curvature: float = 0.15
    lr_reference: float = 4e-4
    reference_batch_size: int = 128
    lr_exponent: float = 0.5
    lr_limit: float = 8.0
    start: float = 0.3
    ceiling: float = 0.9
    steepness: float = 1.5
    sampling_share: float = 0.3
    seed_noise: float = 0.0

    def samples_to_target(self, batch_size: int, lr: float) -> float:
        """S(B, lr), without the noise of seeds."""
        distance = math.log2(lr / self.lr_opt(batch_size))
        return self.s_min * (1 + batch_size / self.b_crit) * (1 + self.curvature * distance**2)

    def lr_opt(self, batch_size: int) -> float:
        """The lr of fewest samples."""
        return self.lr_reference * float((batch_size / self.reference_batch_size) ** self.lr_exponent)

    def update_seconds(self, batch_size: int) -> float:
        """Seconds of one update."""
        return self.a + self.b * batch_size

    def score(self, samples: float, samples_to_target: float) -> float:
        """Expected score: ``start`` at 0, ``target`` at ``samples_to_target``, always below ``ceiling``."""
        if samples <= 0 or self.start >= self.target:
            return self.start
        odds = (self.target - self.start) / (self.ceiling - self.target)
        grown: float = odds * (samples / samples_to_target) ** self.steepness
        return self.start + (self.ceiling - self.start) * grown / (1 + grown)


ABOVE_0, AT_LEAST_0, SHARE = Limits(above=0), Limits(least=0), Limits(0, None, 1)
RANGES = {
    **dict.fromkeys(("s_min", "b_crit", "lr_reference", "reference_batch_size", "time_scale"), ABOVE_0),
    **dict.fromkeys(("a", "b", "curvature", "seed_noise", "steepness", "lr_limit"), AT_LEAST_0),
    **dict.fromkeys(("start", "ceiling", "sampling_share"), SHARE),
    "lr_exponent": Limits(),
}


def check(config: Mapping[str, Any]) -> None:
    """Raise ConfigError for a world that cannot be; the trainer's `check`."""
    trainer = config["trainer"]
    for name, limits in RANGES.items():
        if name in trainer:
            convert(float, trainer[name], f"trainer.{name}", limits)
    Misbehaviour.from_settings(trainer.get("misbehave") or {})
    ceiling, score = trainer.get("ceiling", SyntheticLaw.ceiling), config["target"]["score"]
    if config["target"]["direction"] == "max" and score >= ceiling:
        raise ConfigError(
            "target.score", score, f"must be below trainer.ceiling={ceiling:g}, which no score reaches"
        )


def train(config: Mapping[str, Any], reporter: Reporter) -> None:
    """Follow the law until the reporter says stop; see ``batchscout.train.trainer.Trainer``."""
    job = SyntheticJob(config)
    checkpoint = reporter.resume_path()
    if checkpoint is not None:
        job.load(checkpoint)
        reporter.resume()
    job.run(reporter)
    reporter.end()
    reporter.clock.sleep(job.misbehaviour.outlives_seconds)


class SyntheticJob:
    """One job in the world of ``config["trainer"]``."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        trainer = config["trainer"]
        trainer = {**trainer, **(trainer.get("by_gpu") or {}).get(config.get("gpu") or "", {})}
        named = {name: trainer[name] for name in SyntheticLaw.__dataclass_fields__ if name in trainer}
        self.law = SyntheticLaw(**{"target": config["target"]["score"], **named})
        self.batch_size, self.lr, self.seed = config["batch_size"], config["lr"], config["seed"]
        self.prompts: int = config["evaluation"]["prompts"]
        self.time_scale: float = trainer.get("time_scale", 1.0)
        self.misbehaviour = Misbehaviour.from_settings(trainer.get("misbehave") or {})
        world = np.random.default_rng([self.seed, self.batch_size])
        self.samples_to_target = self.law.samples_to_target(self.batch_size, self.lr) * float(
            np.exp(self.law.seed_noise * world.standard_normal())
        )
        self.random = np.random.default_rng([self.seed, self.batch_size, 1])

    def run(self, reporter: Reporter) -> None:
        """Updates, evaluations and checkpoints until the reporter has enough."""
        self.misbehaviour.before_start(self.batch_size)
        self.evaluate_if_due(reporter)
        while not reporter.should_stop() or self.misbehaviour.ignores_stop:
            if reporter.due_for_checkpoint():
                self.save(reporter)
            self.update(reporter)
            self.evaluate_if_due(reporter)
        if reporter.due_for_checkpoint():
            self.save(reporter)

    def update(self, reporter: Reporter) -> None:
        """Wait as long as an update would take."""
        seconds = self.law.update_seconds(self.batch_size) * self.time_scale
        with reporter.sampling():
            reporter.clock.sleep(seconds * self.law.sampling_share)
            self.strike("sampling", reporter)
        with reporter.learning():
            reporter.clock.sleep(seconds * (1 - self.law.sampling_share))
            self.strike("learning", reporter)
        reporter.end_update(samples=self.batch_size, generated_samples=self.batch_size)
        if self.misbehaviour.is_diverged(batch_size=self.batch_size, updates=reporter.updates):
            reporter.diverged("a parameter is no longer finite")

    def strike(self, phase: str, reporter: Reporter) -> None:
        """Misbehave, if the configuration says so at this point."""
        self.misbehaviour.strike(
            phase, batch_size=self.batch_size, updates=reporter.updates, clock=reporter.clock
        )

    def evaluate_if_due(self, reporter: Reporter) -> None:
        """Report a noisy score if the grid of samples asks for it now."""
        if reporter.due_for_evaluation():
            with reporter.evaluation() as evaluation:
                right = self.random.binomial(self.prompts, self.expected_score(reporter.samples))
                evaluation.record(float(right) / self.prompts, self.prompts)

    def expected_score(self, samples: int) -> float:
        """The law's score; beyond ``lr_limit`` it collapses within a hundredth of S."""
        if self.lr > self.law.lr_limit * self.law.lr_opt(self.batch_size):
            return self.law.start * math.exp(-100 * samples / self.samples_to_target)
        return self.law.score(samples, self.samples_to_target)

    def save(self, reporter: Reporter) -> None:
        """Publish a checkpoint: the state of the random generator is all there is."""
        with reporter.checkpoint() as directory:
            (Path(directory) / FILE).write_text(json.dumps(self.random.bit_generator.state))

    def load(self, directory: Path) -> None:
        """Go on from a checkpoint."""
        self.random.bit_generator.state = json.loads((directory / FILE).read_text())
