"""How much of the slots' time is idle with uneven jobs: the controller beside a barrier after each batch of jobs.

    python bench/search/idle.py [pairs=3] [slots=4]

Real processes on the real clock: the same grid of synthetic jobs, which wait and learn nothing, through sweep.py once
as the controller does it (a free slot is refilled at once) and once with a search that starts the next `slots` jobs
when all before have ended, as a blocking launcher does. Idle is what a slot was not given to a job, from the first
submission to the last end; a job's own start-up counts as use. Both runs of a pair have the same seeds, so their jobs
last equally long.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from batchscout.search.grid import GridSearch
from batchscout.search.protocol import (
    Finished,
    JobObservation,
    Proposal,
    Recommendation,
    SearchContext,
)

HOME = Path(__file__).resolve().parents[2]
JOBS = ("batch_size=16,64,256,1024", "lr=1e-4,2e-4,4e-4,8e-4")


class Barrier:
    """A grid in batches of as many jobs as there are slots: search.function=bench.search.idle:Barrier"""

    watches_curves = False

    def __init__(self, context: SearchContext) -> None:
        self._grid, self._slots = GridSearch(context), context.slots

    def propose(self, jobs: Sequence[JobObservation]) -> Proposal | Finished | None:
        is_batch_full = len(jobs) % self._slots == 0
        if is_batch_full and any(not job.is_final for job in jobs):
            return None
        return self._grid.propose(jobs)

    def stop(self, job: JobObservation, jobs: Sequence[JobObservation]) -> str | None:
        return None

    def recommend(self, jobs: Sequence[JobObservation]) -> Recommendation | None:
        return self._grid.recommend(jobs)


def run(directory: Path, *, slots: int, seed: int, is_barrier: bool) -> tuple[float, float]:
    """(idle share of the slots, elapsed seconds) of one sweep."""
    words = ["search.function=bench.search.idle:Barrier"] if is_barrier else []
    command = [
        sys.executable, "sweep.py", "-m", "sweep=grid", "trainer=synthetic", "tracking=none", *JOBS, f"seed={seed}",
        f"hardware.slots={slots}", "trainer.a=0.02", "trainer.b=0.0004", "trainer.s_min=4000", "target.score=0.7",
        "evaluation.samples=1024", f"hydra.sweep.dir={directory}", *words,
    ]  # fmt: skip
    subprocess.run(command, cwd=HOME, check=True, capture_output=True)
    rows = json.loads((directory / "result.json").read_text())["jobs"]
    begin, end = min(row["submitted"] for row in rows), max(row["end"] for row in rows)
    used = sum(row["end"] - row["submitted"] for row in rows)
    return 1 - used / (slots * (end - begin)), end - begin


def main(pairs: int = 3, slots: int = 4) -> None:
    print(f"{'pair':>4}  {'controller':>22}  {'barrier':>22}")
    idle: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as place:
        for pair in range(pairs):
            cells = []
            for is_barrier in (False, True):
                share, elapsed = run(
                    Path(place) / f"{pair}-{is_barrier}", slots=slots, seed=pair, is_barrier=is_barrier
                )
                idle[is_barrier].append(share)
                cells.append(f"{share:>6.1%} idle, {elapsed:>5.1f} s")
            print(f"{pair:>4}  {cells[0]:>22}  {cells[1]:>22}", flush=True)
    print(
        f"idle slot share, median of {pairs} pairs at {slots} slots: controller "
        f"{statistics.median(idle[False]):.1%}, barrier {statistics.median(idle[True]):.1%}"
    )


if __name__ == "__main__":
    main(**{name: int(value) for name, value in (word.split("=") for word in sys.argv[1:])})
