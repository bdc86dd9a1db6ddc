"""Rows of the search bench as a table in Markdown and as a figure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from contenders import CONTENDERS
from scipy.stats import beta
from worlds import OFF_FAMILIES

Row = dict[str, Any]

COLUMNS = (
    "search", "searches", "total, median", "total, p90", "elapsed, median", "within 5 %", "within 10 % (95 % interval)",
    "cost until right for good", "jobs",
)  # fmt: skip


def binomial(good: int, number: int) -> tuple[float, float]:
    """Clopper and Pearson's 95 % interval of a share."""
    low = beta.ppf(0.025, good, number - good + 1) if good else 0.0
    high = beta.ppf(0.975, good + 1, number - good) if good < number else 1.0
    return float(low), float(high)


def quantile(values: Sequence[float], share: float) -> float:
    """The value that `share` of all do not exceed; infinite ones count."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]


def summary(rows: Sequence[Row]) -> list[str]:
    """The cells of one search after its name."""
    totals, number = [r["total"] for r in rows], len(rows)
    within = {share: sum(r["regret"] <= share for r in rows) for share in (0.05, 0.10)}
    low, high = binomial(within[0.10], number)
    good = statistics.median(math.inf if r["good_since"] is None else r["good_since"] for r in rows)
    return [
        str(number), f"{statistics.median(totals):.1f}", f"{quantile(totals, 0.9):.1f}",
        f"{statistics.median(r['elapsed'] for r in rows):.1f}", f"{within[0.05] / number:.0%}",
        f"{within[0.10] / number:.0%} ({low:.0%}–{high:.0%})", "never" if math.isinf(good) else f"{good:.1f}",
        f"{statistics.median(r['jobs'] for r in rows):g}",
    ]  # fmt: skip


def write_table(rows: Sequence[Row], path: Path, *, note: str) -> str:
    """One table for each number of slots and start-up time, families of the belief's own kind apart from others."""
    lines = [
        "# The search, measured", "",
        "Written by `make bench-search FULL=1` (bench/search). Costs are in best-times: the best point's expected",
        "time-to-target. *Right for good*: what had been spent when the recommendation came within 10 % of the best",
        "and stayed there; the median counts searches that never got there as infinite.", "", note + ".", "",
    ]  # fmt: skip
    for title, chosen in _parts(rows):
        lines += [f"## {title}", "", _line(COLUMNS), _line(["---"] + ["---:"] * (len(COLUMNS) - 1))]
        for name, contender in CONTENDERS.items():
            own = [r for r in chosen if r["search"] == name]
            if own:
                lines.append(_line([contender.words, *summary(own)]))
        lines.append("")
    ours = [r for r in rows if r["search"] == "time_to_target" and r["covered"] is not None]
    if ours:
        covered = sum(r["covered"] for r in ours)
        low, high = binomial(covered, len(ours))
        each = statistics.median(r["decision_seconds"] / max(r["decisions"], 1) for r in ours)
        lines += [
            f"batchscout's stated 90 % interval of the time held the true one in {covered / len(ours):.0%} of",
            f"{len(ours)} searches ({low:.0%}–{high:.0%}); a proposal and the looks before it took {each:.2f} s.",
            "",
        ]
    text = "\n".join(lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return text


def _parts(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    parts = []
    for slots, startup in sorted({(r["slots"], r["startup"]) for r in rows}):
        here = [r for r in rows if (r["slots"], r["startup"]) == (slots, startup)]
        words = f"{slots} slot{'s' if slots > 1 else ''}, start-up {startup:g} best-times"
        for is_off, kind in ((False, ""), (True, ": families that the belief is not built for")):
            chosen = [r for r in here if (r["family"] in OFF_FAMILIES) is is_off]
            if chosen:
                worlds = len({r["world"] for r in chosen})
                parts.append((f"{words}{kind} ({worlds} worlds)", chosen))
    return parts


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def write_figure(rows: Sequence[Row], path: Path) -> None:
    """Cost against the share that is within 10 %, and the distribution of the cost, each search in its colour."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    slots, startup = min({(r["slots"], r["startup"]) for r in rows})
    here = [
        r for r in rows if (r["slots"], r["startup"]) == (slots, startup) and r["family"] not in OFF_FAMILIES
    ]
    names = [n for n in CONTENDERS if any(r["search"] == n for r in here)]
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    colours = {name: plt.get_cmap("tab20")(i) for i, name in enumerate(names)}
    for name in names:
        own = [r for r in here if r["search"] == name]
        totals = sorted(r["total"] for r in own)
        good, number = sum(r["regret"] <= 0.1 for r in own), len(own)
        low, high = binomial(good, number)
        share, middle = good / number, statistics.median(totals)
        width = 2.4 if name == "time_to_target" else 1.2
        left.errorbar(
            middle, share,
            xerr=[[middle - quantile(totals, 0.1)], [quantile(totals, 0.9) - middle]],
            yerr=[[share - low], [high - share]],
            fmt="o", color=colours[name], lw=width, ms=7, label=CONTENDERS[name].words,
        )  # fmt: skip
        right.step(
            totals, [(i + 1) / number for i in range(number)], where="post", color=colours[name], lw=width
        )
    for axis in (left, right):
        axis.set_xscale("log")
        axis.set_xticks([3, 10, 30, 100, 300], ["3", "10", "30", "100", "300"])
        axis.set_xlabel("total cost, best-times")
        axis.grid(alpha=0.25, which="both", lw=0.5)
        axis.spines[["top", "right"]].set_visible(False)
    left.set_ylabel("share recommended within 10 % of the best")
    left.set_ylim(0, 1.02)
    left.set_title("Right and cheap is top left (bars: 10–90 % of the cost, 95 % of the share)", fontsize=9.5)
    right.set_ylabel("share of searches that cost at most this")
    right.set_title(f"Distribution of the cost, {slots} slot, start-up {startup:g}", fontsize=9.5)
    figure.legend(
        *left.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=8.5
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)
