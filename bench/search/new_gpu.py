"""The search on a new GPU type, played on twins: worlds with the samples of a source world and other update seconds.

    python bench/search/new_gpu.py --worlds DIRECTORY TRUTH [--changed FACTOR]
    python bench/search/new_gpu.py --drawn 56 [--changed FACTOR]

--changed F gives every twin F times the source's critical batch size, by scaling each batch size's samples: the
transfer check should then fire. Source sweeps are kept in --cache, so that only the first call plays them.
"""

from __future__ import annotations

import argparse
import copy
import json
import pickle
import statistics
import time
from pathlib import Path

import numpy as np
from simulate import play
from worlds import FAMILIES, World, draw_world, load_worlds

from batchscout.search.new_gpu import NewGpuSearch
from batchscout.search.protocol import JobObservation, SearchContext
from batchscout.search.time_to_target import TimeToTargetSearch


class Remembering:
    """A search that keeps the jobs it was last shown."""

    def __init__(self, search):
        self.search, self.jobs = search, ()

    def propose(self, jobs):
        return self.search.propose(jobs)

    def stop(self, job, jobs):
        return self.search.stop(job, jobs)

    def recommend(self, jobs):
        self.jobs = tuple(jobs)
        return self.search.recommend(jobs)


def source_jobs(world: World, cache: Path) -> tuple[JobObservation, ...]:
    path = cache / f"{world.name}.pickle"
    if path.exists():
        return pickle.loads(path.read_bytes())
    kept = []

    def make(context: SearchContext):
        kept.append(Remembering(TimeToTargetSearch(context)))
        return kept[-1]

    play(world, make)
    path.write_bytes(pickle.dumps(kept[-1].jobs))
    return kept[-1].jobs


def changed(world: World, factor: float, b_crit: float) -> World:
    """The same twin with another critical batch size: samples and seconds of every job scaled by batch size."""
    out = copy.deepcopy(world)

    def scale(batch):
        return (1 + batch / (factor * b_crit)) / (1 + batch / b_crit)

    for (batch, _, _), row in out.rows.items():
        for name in ("samples", "seconds", "sampling_seconds"):
            values = np.array(row[name], float) * scale(batch)
            row[name] = [max(1, round(v)) for v in values] if name == "samples" else values.tolist()
        row["samples"] = list(
            np.maximum.accumulate(np.array(row["samples"]) + np.arange(len(row["samples"])))
        )
    out.truth = {point: t * scale(point[0]) for point, t in out.truth.items()}
    return out


def twin_of(world: World, seed: int) -> World:
    """The same samples on another machine: new update seconds by batch size, seeds in another order."""
    rng = np.random.default_rng([seed, 77])
    b = np.exp(rng.uniform(np.log(3e-4), np.log(1e-2)))
    a, power = b * np.exp(rng.uniform(np.log(16), np.log(2500))), rng.choice([1.0, 1.0, 2.0])
    out = copy.deepcopy(world)
    out.name = f"{world.name}-gpu2"
    seeds = world.header["seeds"]
    factor = {}
    for batch in world.header["batch_sizes"]:
        rows = [r for (size, _, _), r in world.rows.items() if size == batch and r["samples"]]
        if rows:
            now = np.median([r["seconds"][-1] / r["samples"][-1] * batch for r in rows])
            factor[batch] = ((a**power + (b * batch) ** power) ** (1 / power)) / now
    for (batch, lr, s), row in world.rows.items():
        turned = seeds[(seeds.index(s) + 1) % len(seeds)]
        new = {**copy.deepcopy(row), "seed": turned}
        for name in ("seconds", "sampling_seconds"):
            new[name] = [v * factor.get(batch, 1.0) for v in row[name]]
        out.rows[batch, lr, turned] = new
    out.truth = {point: t * factor[point[0]] for point, t in world.truth.items()}
    return out


def drawn_pairs(count: int, seed: int) -> list[tuple[World, World, float]]:
    """Worlds of every family in turn, their twins, and the source's critical batch size."""
    pairs = []
    for k in range(count):
        source = draw_world(seed + k, FAMILIES[k % len(FAMILIES)])
        pairs.append((source, twin_of(source, seed + k), float(source.facts["b_crit"])))
    return pairs


def recorded_pairs(directory: Path, truth: Path) -> list[tuple[World, World, float]]:
    facts = json.loads(truth.read_text())
    twins = {w.name: w for w in load_worlds(directory, truth, twins=True)}
    return [
        (w, twins[f"{w.name}-gpu2"], float(facts[w.name]["parameters"].get("bcrit", 0.0)))
        for w in load_worlds(directory, truth)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=Path, nargs=2, metavar=("DIRECTORY", "TRUTH"))
    parser.add_argument("--drawn", type=int, default=0, help="that many worlds of our own making instead")
    parser.add_argument("--seed", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--changed", type=float, default=1.0)
    parser.add_argument("--cache", type=Path, default=Path("/tmp/batchscout-twins"))
    parser.add_argument("--trace", action="store_true")
    o = parser.parse_args()
    o.cache.mkdir(exist_ok=True)
    pairs = drawn_pairs(o.drawn, o.seed) if o.drawn else recorded_pairs(*o.worlds)
    rows = []
    for source, twin, b_crit in pairs[o.first : o.limit or None]:
        jobs = source_jobs(source, o.cache)
        if o.changed != 1:
            twin = changed(twin, o.changed, b_crit)
        kept = []

        def make(context, jobs=jobs, kept=kept):
            kept.append(Remembering(NewGpuSearch(context, jobs)))
            return kept[-1]

        start = time.perf_counter()
        played = play(twin, make, trace=print if o.trace else None)
        search = kept[-1].search
        transfer = search.transfer(kept[-1].jobs)
        rows.append((played.total, played.regret, transfer.is_failed))
        print(
            f"{twin.name:16s} {twin.family:18s} total {played.total:5.2f} regret {played.regret:6.1%} jobs "
            f"{played.jobs:2d} probes {played.probe:.2f} fired {rows[-1][2]:d} odds {transfer.odds:.1g} "
            f"deviations {', '.join(f'{c.deviations:+.1f}' for c in transfer.checks[:6])} "
            f"wall {time.perf_counter() - start:.0f} s",
            flush=True,
        )
    totals = sorted(r[0] for r in rows)
    print(
        f"median total {statistics.median(totals):.2f} p90 {totals[min(len(totals) - 1, int(0.9 * len(totals)))]:.2f}; "
        f"within 10% {sum(r[1] <= 0.1 for r in rows)}/{len(rows)}; "
        f"transfer check fired {sum(r[2] for r in rows)}/{len(rows)}"
    )


if __name__ == "__main__":
    main()
