"""One case of the bench of searches, in a module of its own: a fresh process finds it by name."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from contenders import CONTENDERS
from simulate import play
from worlds import World, draw_world, load_worlds


@dataclass(frozen=True)
class Case:
    """One search on one world. world: "family:seed" of a drawn one, or the name of a recorded one."""

    search: str
    world: str
    seed: int
    slots: int
    startup: float

    @property
    def key(self) -> str:
        return "|".join(map(str, (self.search, self.world, self.seed, self.slots, self.startup)))


@cache
def recorded(places: str) -> tuple[World, ...]:
    directory, truth = places.split(",")
    return tuple(load_worlds(Path(directory), Path(truth)))


def play_case(case: Case, places: str) -> dict[str, Any]:
    """One row of the results."""
    if places:
        world = next(w for w in recorded(places) if w.name == case.world)
    else:
        family, _, seed = case.world.partition(":")
        world = draw_world(int(seed), family)
    contender = CONTENDERS[case.search]
    start = time.perf_counter()
    played = play(
        world, contender.make, slots=case.slots, seed=case.seed, startup=case.startup, max_jobs=contender.max_jobs
    )  # fmt: skip
    row = {k: v for k, v in asdict(played).items() if k not in ("history", "world", "stated")}
    return {"key": case.key, **asdict(case), **row, "wall": time.perf_counter() - start}
