"""How long one decision of the search takes, after 30 to 200 jobs: a fresh instance that has to form its belief first.

    python bench/search/decisions.py

The jobs are drawn at random from a recorded world's table; half of them have ended, the others were stopped half-way.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
from simulate import PlayedJob
from worlds import World, draw_world

from batchscout.measure.outcome import Outcome
from batchscout.measure.target import Target
from batchscout.search.protocol import JobObservation, Point, Proposal, SearchContext, Space
from batchscout.search.time_to_target import TimeToTargetSearch

WORLDS = (
    ("hyperbola", 31009),
    ("steep_cliff", 31008),
    ("noisy_seeds", 31000),
)  # of more than 200 feasible jobs


def jobs_of(world: World, count: int, rng: np.random.Generator) -> list[JobObservation]:
    cells = [cell for cell, row in world.rows.items() if row["samples"]]
    jobs = []
    for k, i in enumerate(rng.permutation(len(cells))[:count]):
        batch_size, lr, seed = cells[i]
        record = world.rows[cells[i]]
        job = PlayedJob(
            f"{k:03d}", Proposal("run", Point(batch_size, lr), seed, ""), record, len(record["samples"])
        )
        job.outcome = Outcome(record["status"])
        if k % 2:
            job.done, job.outcome = max(1, job.done // 2), Outcome.STOPPED
        jobs.append(job.observation())
    return jobs


def main() -> None:
    print("| jobs | seconds a proposal, median | most |\n|---:|---:|---:|")
    for count in (30, 100, 200):
        spent = []
        for family, seed in WORLDS:
            world, rng = draw_world(seed, family), np.random.default_rng(seed)
            space = Space(tuple(world.header["batch_sizes"]), tuple(world.header["learning_rates"]), seeds=3)
            jobs = jobs_of(world, count, rng)
            for repeat in range(3):
                search = TimeToTargetSearch(
                    SearchContext(space, Target(score=world.header["target"]), seed=repeat)
                )
                start = time.perf_counter()
                search.propose(jobs)
                spent.append(time.perf_counter() - start)
        print(f"| {count} | {statistics.median(spent):.2f} | {max(spent):.2f} |", flush=True)


if __name__ == "__main__":
    main()
