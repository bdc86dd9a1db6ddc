"""The best batch size at several target levels: "which one if you stop at 0.6, 0.7, 0.8?"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from batchscout.laws.points import PointRow, best_lr_rows, laws_of_points


def levels_of_points(
    by_level: Mapping[float, Sequence[PointRow]], *, rising: bool = True, seed: int = 0
) -> dict[str, Any]:
    """The answer at each target level, from the rows measured at it.

    by_level  target level → rows (one a job; the same journals read at another level)
    rising    whether harder levels are the higher ones
    Returns   {"levels": [{"target", "recommendation": {…} | None, "samples": {…} | None, "never_reached": [B,
              …]}, …] from the easiest on, "warnings": […]}. A warning says where the recommendation moves,
              and that B_crit belongs to its level.
    """
    levels, warnings = [], []
    for target in sorted(by_level, reverse=not rising):
        found = laws_of_points(by_level[target], target=target, seed=seed)
        chosen = best_lr_rows(by_level[target])
        levels.append(
            {
                "target": target,
                "recommendation": found["best"],
                "samples": found["laws"]["samples"],
                "never_reached": [b for b, rows in chosen.items() if all(r.is_miss for r in rows)],
            }
        )
    answered = [x for x in levels if x["recommendation"]]
    for before, after in pairwise(answered):
        old, new = before["recommendation"], after["recommendation"]
        if old["batch_size"] != new["batch_size"]:
            tied = new["batch_size"] in old["near_ties"] and old["batch_size"] in new["near_ties"]
            words = "within near ties" if tied else "beyond near ties"
            warnings.append(
                f"the best batch size moves from {old['batch_size']} at target {before['target']:g} to "
                f"{new['batch_size']} at {after['target']:g}, {words}"
            )
    crits = [(x["target"], x["samples"]["b_crit"]) for x in levels if x["samples"] and x["samples"]["b_crit"]]
    if len(crits) > 1 and max(c for _, c in crits) > 2 * min(c for _, c in crits):
        listed = ", ".join(f"{c:.4g} at {t:g}" for t, c in crits)
        warnings.append(f"B_crit depends on the target: {listed}; name the target with it")
    return {"levels": levels, "warnings": warnings}
