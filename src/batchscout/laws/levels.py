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
    levels = []
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
    warnings = moves([(x["target"], x["recommendation"]) for x in levels])
    return {"levels": levels, "warnings": warnings + b_crit_moves([x["samples"] for x in levels])}


def moves(answers: Sequence[tuple[float, Mapping[str, Any] | None]]) -> list[str]:
    """Where the recommendation changes between levels, one line each.

    answers  (target, recommendation with batch_size and near_ties, None where there is none), from the
             easiest on
    """
    out = []
    for (before, old), (after, new) in pairwise((t, x) for t, x in answers if x is not None):
        if old["batch_size"] != new["batch_size"]:
            tied = new["batch_size"] in old["near_ties"] and old["batch_size"] in new["near_ties"]
            words = "within near ties" if tied else "beyond near ties"
            out.append(
                f"the best batch size moves from {old['batch_size']} at target {before:g} to "
                f"{new['batch_size']} at {after:g}, {words}"
            )
    return out


def b_crit_moves(laws: Sequence[Mapping[str, Any] | None]) -> list[str]:
    """One line where the b_crit of samples laws at several targets differ by more than a factor of two."""
    crits = [(x["target"], x["b_crit"]) for x in laws if x is not None and x["b_crit"]]
    if len(crits) < 2 or max(c for _, c in crits) <= 2 * min(c for _, c in crits):
        return []
    listed = ", ".join(f"{c:.4g} at {t:g}" for t, c in crits)
    return [f"B_crit depends on the target: {listed}; name the target with it"]
