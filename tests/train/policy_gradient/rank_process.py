"""One rank of a distributed job, started by the tests beside it with torchrun's variables in its environment.

update FILE OUT          one update from the rollouts in FILE, this rank's share of them; parameters to OUT
train FILE OUT UPDATES   whole updates, sampling included; parameters, metrics and seconds to OUT
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from batchscout.train.policy_gradient.distributed import Ranks
from batchscout.train.policy_gradient.imitation import load_start
from batchscout.train.policy_gradient.learner import Learner
from batchscout.train.policy_gradient.model import model_for
from batchscout.train.policy_gradient.sampling import Rollouts
from batchscout.train.policy_gradient.settings import LearningSettings
from batchscout.train.policy_gradient.trainer import PolicyGradientJob
from batchscout.train.policy_gradient.warm_start import WarmStart
from batchscout.train.tasks import make_task


@dataclass
class Times:
    """The part of a reporter that an update talks to."""

    samples: int = 0
    updates: int = 0
    metrics: list[dict[str, Any]] = field(default_factory=list)
    spent: dict[str, list[float]] = field(
        default_factory=lambda: {"sampling": [], "reward": [], "learning": []}
    )

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.spent[name].append(time.perf_counter() - start)

    def sampling(self) -> Any:
        return self._phase("sampling")

    def reward(self) -> Any:
        return self._phase("reward")

    def learning(self) -> Any:
        return self._phase("learning")

    def end_update(self, *, samples: int, metrics: dict[str, Any], **_: Any) -> None:
        self.samples, self.updates = self.samples + samples, self.updates + 1
        self.metrics.append(metrics)


def update(content: dict[str, Any]) -> dict[str, Any]:
    job, ranks = content["job"], Ranks.join(torch.device("cpu"))
    settings = LearningSettings.from_job(job)
    model = model_for(job["model"], make_task(job["task"]))
    load_start(model, WarmStart(Path(job["warm_start"]["path"]), job["warm_start"]["sha256"]))
    learner = Learner(model, settings, ranks)
    g = settings.group_size
    own = ranks.chosen(settings.batch_size // g, settings.mini_batch_size // g)
    rows = torch.cat([torch.arange(i * g, (i + 1) * g) for i in own])
    whole = Rollouts(*(content[name] for name in ("prompts", "tokens", "logprobs", "mask")))
    part = Rollouts(whole.prompts[own], whole.tokens[rows], whole.logprobs[rows], whole.mask[rows])
    metrics = learner.update(part, content["advantages"][rows], samples=10_000)
    ranks.close()
    return {
        "parameters": learner.parameters.vector,
        "gradient": learner.parameters.gradient,
        "metrics": metrics,
    }


def train(content: dict[str, Any], updates: int) -> dict[str, Any]:
    job, times = PolicyGradientJob(content["job"]), Times()
    for _ in range(updates):
        job.update(times)  # type: ignore[arg-type]
    job.ranks.close()
    return {"parameters": job.learner.parameters.vector, "metrics": times.metrics, "seconds": times.spent}


def main() -> None:
    torch.set_num_threads(1)
    what, source, out = sys.argv[1:4]
    content = torch.load(source, weights_only=False)
    torch.save(update(content) if what == "update" else train(content, int(sys.argv[4])), out)


if __name__ == "__main__":
    main()
