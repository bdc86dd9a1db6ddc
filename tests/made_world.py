"""Recorded worlds from simple laws, for replays.

S(B, lr) = s_min (1 + B/b_crit) (1 + 0.25 log2²(lr/lr_opt)), t = a + b B; lr_opt grows with √B. Scores are right
answers of 400 questions along a sigmoid in log samples.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class MadeWorld:
    """seed: of all noise."""

    name: str = "made"
    target: float = 0.8
    batch_sizes: tuple[int, ...] = (32, 64, 128, 256, 512, 1024, 2048)
    lrs: tuple[float, ...] = (1e-4, 2e-4, 4e-4, 8e-4, 1.6e-3)
    seeds: int = 2
    s_min: float = 20_000.0
    b_crit: float = 300.0
    a: float = 0.05
    b: float = 0.0005
    noise: float = 0.05
    seed: int = 0

    def samples(self, batch: int, lr: float) -> float:
        away = np.log2(lr / (4e-4 * np.sqrt(batch / 256)))
        return float(self.s_min * (1 + batch / self.b_crit) * (1 + 0.25 * away**2))

    def time(self, batch: int, lr: float) -> float:
        """Expected time to target."""
        return self.samples(batch, lr) / batch * (self.a + self.b * batch)

    @property
    def best(self) -> tuple[float, int]:
        """(time, batch size) of the fastest point."""
        return min((self.time(b, lr), b) for b in self.batch_sizes for lr in self.lrs)

    def write(self, path: Path) -> Path:
        header = {
            "world": self.name, "target": self.target, "batch_sizes": list(self.batch_sizes),
            "learning_rates": list(self.lrs), "seeds": list(range(self.seeds)), "gpus": 1,
        }  # fmt: skip
        rows = [self._job(b, lr, s) for b in self.batch_sizes for lr in self.lrs for s in range(self.seeds)]
        path.write_text("".join(json.dumps(line) + "\n" for line in [header, *rows]))
        return path

    def _job(self, batch: int, lr: float, seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([self.seed, batch, round(lr * 1e7), seed])
        wanted = self.samples(batch, lr) * np.exp(self.noise * rng.standard_normal())
        each = max(1, round(1500 / batch))
        n, clock, above = 0, 0.0, 0
        samples, seconds, score = [], [], []
        while above < 2 and len(score) < 200:
            n += each * batch
            clock += each * (self.a + self.b * batch) * np.exp(0.02 * rng.standard_normal())
            grown = (self.target - 0.1) / (0.95 - self.target) * (n / wanted) ** 2.5
            p = 0.1 + 0.85 * grown / (1 + grown)
            samples.append(n)
            seconds.append(round(clock, 4))
            score.append(rng.binomial(400, p) / 400)
            above = above + 1 if score[-1] >= self.target else 0
        return {
            "batch_size": batch, "learning_rate": lr, "seed": seed,
            "status": "reached" if above == 2 else "capped", "samples": samples, "seconds": seconds,
            "sampling_seconds": [0.6 * s for s in seconds], "score": score,
        }  # fmt: skip
