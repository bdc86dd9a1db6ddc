"""All searches on recorded worlds: what each pays, and how right it is.

    python bench/search [full=1] [worlds=DIRECTORY,TRUTH] [searches=tpe,gp] [per_family=1] [seeds=1] [slots=1,8]
                        [startups=0,0.2] [workers=2] [out=build/bench-search] [family=NAME,…] [first_seed=36000]

Costs are in units of a world's best expected time-to-target. Rows are kept in OUT/rows.jsonl, so that an interrupted
bench goes on where it was. full=1 writes docs/search-bench.md and docs/images/search.png; a subset
writes into OUT only.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from cases import Case, play_case, recorded
from contenders import CONTENDERS
from tables import write_figure, write_table
from worlds import FAMILIES, OFF_FAMILIES

DOCS = Path(__file__).resolve().parents[2] / "docs"


@dataclass(frozen=True)
class Options:
    full: bool = False
    worlds: str = ""
    searches: str = ",".join(CONTENDERS)
    per_family: int = 0  # 0: 2 in full, else 1
    seeds: int = 0  # 0: 3 in full, else 1
    slots: str = ""
    startups: str = ""
    workers: int = 0
    out: str = "build/bench-search"
    family: str = ""
    first_seed: int = 36000

    def cases(self) -> list[Case]:
        """Worlds first, so that an interrupted bench has all searches on the worlds it came to."""
        seeds = self.seeds or (3 if self.full else 1)
        slots = [int(s) for s in (self.slots or ("1,8" if self.full else "1")).split(",")]
        startups = [float(s) for s in (self.startups or ("0,0.2" if self.full else "0")).split(",")]
        return [
            Case(search, world, seed, k, startup)
            for seed in range(seeds)
            for world in self.names()
            for k in slots
            for startup in startups
            for search in self.searches.split(",")
        ]

    def names(self) -> list[str]:
        if self.worlds:
            return [w.name for w in recorded(self.worlds)]
        families = self.family.split(",") if self.family else [*FAMILIES, *OFF_FAMILIES]
        each = self.per_family or (2 if self.full else 1)
        return [f"{family}:{self.first_seed + k}" for k in range(each) for family in families]


def main(options: Options) -> int:
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    path = out / "rows.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    known = {row["key"] for row in rows}
    cases = [case for case in options.cases() if case.key not in known]
    wanted = {case.key for case in options.cases()}
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    start = time.perf_counter()
    workers = options.workers or os.cpu_count() or 1
    # fresh processes now and then: some libraries keep what each study took
    with get_context("spawn").Pool(workers, maxtasksperchild=50) as pool, path.open("a") as file:
        for row in pool.imap_unordered(partial(play_case, places=options.worlds), cases):
            rows.append(row)
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(
                f"{row['search']:16s} {row['world']:26s} slots {row['slots']} startup {row['startup']:g} "
                f"total {row['total']:7.2f} elapsed {row['elapsed']:6.2f} regret {row['regret']:6.1%} "
                f"jobs {row['jobs']:3d} wall {row['wall']:.1f}",
                flush=True,
            )
    shown = [row for row in rows if row["key"] in wanted]
    minutes = (time.perf_counter() - start) / 60
    place = DOCS if options.full else out
    cpu = sum(row["wall"] for row in shown) / 60
    note = f"{len(shown)} searches took {cpu:.0f} minutes of one core; this call {minutes:.0f}, on {workers} cores"
    print(write_table(shown, place / "search-bench.md", note=note))
    write_figure(shown, place / ("images/search.png" if options.full else "search.png"))
    return 0


def read_options(words: list[str]) -> Options:
    types = {name: type(value) for name, value in asdict(Options()).items()}
    pairs = dict(word.split("=", 1) for word in words)
    unknown = sorted(set(pairs) - set(types))
    if unknown:
        raise SystemExit(f"{unknown[0]} is unknown; use {', '.join(types)}")
    searches = [s for s in pairs.get("searches", "").split(",") if s and s not in CONTENDERS]
    if searches:
        raise SystemExit(f"searches={searches[0]} is unknown; use {', '.join(CONTENDERS)}")
    return Options(**{k: bool(int(v)) if types[k] is bool else types[k](v) for k, v in pairs.items()})


if __name__ == "__main__":
    raise SystemExit(main(read_options(sys.argv[1:])))
