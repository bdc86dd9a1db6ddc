"""A cluster on which one update is simulated event by event: what the scale-out law is judged on.

Each rank decodes its rollouts with at most `slots` at once; a decoding step lasts as long as its active
sequences
need; a sequence that ends makes room for a waiting one. The update waits for the slowest rank, learns, and
reduces
the gradient. None of this is in the law's own form. Run as a script, it prints how often T at n = 64 lies
inside the
interval fitted from n up to 8.
"""

from __future__ import annotations

import heapq
import sys
from dataclasses import dataclass

import numpy as np

from batchscout.laws import SamplesLaw
from batchscout.laws.scale_out_law import ScaleOutFit, fit_scale_out
from batchscout.laws.scale_out_plan import plan_gpus

PROBED_GPUS = (1, 2, 4, 8)
PROBED_BATCHES = (64, 256, 1024, 4096)
UPDATES = 3


@dataclass(frozen=True)
class Cluster:
    """Seconds, tokens and rollouts of one made-up machine.

    latency, per_sequence   a decoding step takes max(latency, per_sequence · active), or their sum if
                            `is_sum`
    slots                   sequences decoded at once on a rank
    mean, spread, longest   of the log-normal lengths in tokens, cut at `longest`
    per_token, fixed        learning: seconds per token, seconds of an update
    jitter                  relative noise of each rank
    ring, hop, congestion   all-reduce: seconds · 2(n−1)/n, + seconds · log2 n, + seconds · (n−1)
    """

    latency: float
    per_sequence: float
    is_sum: bool
    slots: int
    mean: float
    spread: float
    longest: int
    per_token: float
    fixed: float
    jitter: float
    ring: float
    hop: float
    congestion: float

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> Cluster:
        """Broad: floors and slopes, tails and links differ by an order of magnitude between clusters."""
        mean = rng.uniform(150, 600)
        learning = np.exp(rng.uniform(np.log(1e-6), np.log(1e-5)))
        per_update = learning * mean * 256
        return cls(
            latency=np.exp(rng.uniform(np.log(0.004), np.log(0.02))),
            per_sequence=np.exp(rng.uniform(np.log(2e-5), np.log(4e-4))),
            is_sum=bool(rng.random() < 0.5),
            slots=int(rng.choice([64, 128, 256, 1024])),
            mean=mean,
            spread=rng.uniform(0.3, 0.8),
            longest=int(mean * rng.uniform(3, 8)),
            per_token=learning,
            fixed=rng.uniform(0.02, 0.5),
            jitter=rng.uniform(0.0, 0.04),
            ring=per_update * rng.uniform(0.0, 0.4),
            hop=rng.uniform(0.0, 0.02),
            congestion=rng.choice([0.0, 0.0, 0.001]),
        )

    def decode(self, lengths: np.ndarray) -> float:
        """Seconds until every sequence of one rank has ended."""
        waiting = list(lengths[: self.slots - 1 : -1]) if len(lengths) > self.slots else []
        active = [int(x) for x in lengths[: self.slots]]
        heapq.heapify(active)
        done, time = 0, 0.0  # tokens that every active sequence of the first step would have by now
        while active:
            end = active[0]
            step = (
                self.latency + self.per_sequence * len(active)
                if self.is_sum
                else max(self.latency, self.per_sequence * len(active))
            )
            time += (end - done) * step
            done = end
            while active and active[0] <= done:
                heapq.heappop(active)
            while waiting and len(active) < self.slots:
                heapq.heappush(active, done + int(waiting.pop()))
        return time

    def update(self, batch: int, gpus: int, rng: np.random.Generator) -> tuple[float, float]:
        """(sampling seconds, seconds) of one update."""
        lengths = np.exp(np.log(self.mean) - self.spread**2 / 2 + self.spread * rng.standard_normal(batch))
        lengths = np.clip(lengths, 1, self.longest).astype(int)
        ranks = np.array_split(lengths, min(gpus, batch))
        noise = np.exp(self.jitter * np.abs(rng.standard_normal((2, len(ranks)))))
        sampling = max(self.decode(r) * x for r, x in zip(ranks, noise[0], strict=True))
        learning = max(r.sum() * self.per_token * x for r, x in zip(ranks, noise[1], strict=True))
        reduce = 2 * self.ring * (gpus - 1) / gpus + self.hop * np.log2(gpus) + self.congestion * (gpus - 1)
        return float(sampling), float(sampling + learning + self.fixed + reduce)


def probe(cluster: Cluster, rng: np.random.Generator) -> ScaleOutFit:
    """What a few short jobs at small n tell."""
    rows = []
    for gpus in PROBED_GPUS:
        for batch in PROBED_BATCHES:
            each = np.mean([cluster.update(batch, gpus, rng) for _ in range(UPDATES)], axis=0)
            rows.append((batch, gpus, *each))
    batch, gpus, sampling, seconds = np.array(rows).T
    return fit_scale_out(batch, gpus, seconds, sampling=sampling)


def trial(seed: int, gpus: int = 64) -> tuple[bool, float, float]:
    """Whether T at `gpus` and the law's own best batch lies inside its interval, predicted over true T, and
    the
    interval's width as a factor."""
    rng = np.random.default_rng(seed)
    cluster = Cluster.drawn(rng)
    law = SamplesLaw(np.exp(rng.uniform(8.5, 11.0)), np.exp(rng.uniform(np.log(200), np.log(4000))))
    row = plan_gpus(law, probe(cluster, rng), [gpus], limits=(64, 16384))[0]
    seconds = np.mean([cluster.update(row.batch_size, gpus, rng)[1] for _ in range(12)])
    truth = float(law.samples([row.batch_size])[0] / row.batch_size * seconds)
    low, high = row.interval
    assert low is not None
    assert high is not None
    return low <= truth <= high, row.time_to_target / truth, high / low


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    found = [trial(seed) for seed in range(count)]
    ratio = np.array([f[1] for f in found])
    width = np.array([f[2] for f in found])
    print(
        f"{sum(f[0] for f in found)} of {count} inside the 90% interval; predicted / true: median "
        f"{np.median(ratio):.3f}, 5–95% {np.quantile(ratio, 0.05):.3f}–{np.quantile(ratio, 0.95):.3f}; "
        f"width of the interval: median ×{np.median(width):.2f}"
    )


if __name__ == "__main__":
    main()
