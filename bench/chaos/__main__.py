"""Run the scenarios, two at a time, and print what they cost."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from batchscout.measure.attempt import attempt_paths
from bench.chaos.cluster import Cluster
from bench.chaos.faults import (
    SCENARIOS,
    Scenario,
    Scene,
    full_disk,
    kill_slurmctld,
    prepare_disks,
    resume_drained,
)
from bench.chaos.trial import Trial, Verdict, judge

OUT = Path("bench/out/chaos.md")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", help="scenarios whose name contains one of these words; default all"
    )
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--jobs", type=int, default=2, help="scenarios at a time")
    parser.add_argument("--keep", type=Path, help="keep clusters and sweeps below this directory")
    options = parser.parse_args(arguments)
    chosen = [s for s in SCENARIOS if not options.names or any(n in s.name for n in options.names)]
    folder = options.keep or Path(tempfile.mkdtemp(prefix="batchscout-chaos-"))
    print(f"seed {options.seed}, {len(chosen)} scenarios, below {folder}", flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        verdicts = list(pool.map(lambda s: run(s, folder, options.seed), chosen))
    table = render(chosen, verdicts)
    print(table)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(table)
    if options.keep is None:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if any(v.lost or v.duplicates or v.wrong for v in verdicts) else 0


def run(scenario: Scenario, folder: Path, seed: int) -> Verdict:
    """One scenario on a cluster of its own: the undisturbed sweep of the same jobs, then the disturbed
    one."""
    place = folder / "".join(c if c.isalnum() else "-" for c in scenario.name)
    cluster = Cluster(
        place / "cluster", "--set", "KillWait=2", "--set", "scavenge.GraceTime=8", *scenario.options
    )
    began = time.monotonic()
    cluster.up()
    try:
        trial = Trial(place / "sweep", cluster, scenario.hardware, scenario.overrides)
        scene = Scene(trial, cluster, random.Random(f"{seed} {scenario.name}"))
        if scenario.fault is full_disk:
            prepare_disks(scene)
        injected = disturb(scenario, scene)
        reference = undisturbed(scenario, place, cluster)
        if scenario.counts == "attempts":
            injected = sum(
                max(1, len(attempt_paths(p)) - (scenario.all_expected is None)) for p in ran(trial)
            )
        expected = {
            **scene.expected,
            **(dict.fromkeys(reference, scenario.all_expected) if scenario.all_expected else {}),
        }
        verdict = judge(trial, reference, expected, injected)
    finally:
        trial.stop()
        for undo in scene.undo:
            undo()
        cluster.down()
    state = "ok" if not (verdict.lost or verdict.duplicates or verdict.wrong) else "; ".join(verdict.notes)
    print(
        f"{scenario.name}: {verdict.injected} faults, {time.monotonic() - began:.0f} s: {state}", flush=True
    )
    return verdict


def ran(trial: Trial) -> list[Path]:
    return [p for p in trial.job_directories() if attempt_paths(p)]


def disturb(scenario: Scenario, scene: Scene) -> int:
    """Start the sweep and strike until it is over. Returns how often."""
    injected = 0
    scene.trial.start()
    end = time.monotonic() + scenario.seconds
    administrator_at = time.monotonic() + 10
    while not scene.trial.is_over() and time.monotonic() < end:
        if scenario.fault is not None and injected < scenario.times:
            time.sleep(scene.random.uniform(*scenario.gap))
            if not scene.trial.is_over():
                injected += scenario.fault(scene)
        else:
            time.sleep(0.2)
        if scenario.fault is kill_slurmctld and time.monotonic() > administrator_at:
            resume_drained(scene)
            administrator_at = time.monotonic() + 10
    return injected


def undisturbed(scenario: Scenario, place: Path, cluster: Cluster) -> dict[str, float | None]:
    """samples_to_target by job without faults; on this machine's processes, ten times as fast."""
    overrides = tuple(
        o for o in scenario.overrides if "misbehave" not in o and "time_" not in o and "signal" not in o
    )
    trial = Trial(
        place / "undisturbed", cluster, "local", (*overrides, "trainer.time_scale=0.2", "hardware.slots=1")
    )
    trial.start()
    while not trial.is_over():
        time.sleep(0.2)
    return trial.samples_to_target()


def render(scenarios: Sequence[Scenario], verdicts: Sequence[Verdict]) -> str:
    """A Markdown table."""
    lines = [
        "| fault | times injected | measurements lost | duplicates | wrong states |",
        "|---|---:|---:|---:|---:|",
        *(
            f"| {s.name} | {v.injected} | {v.lost} | {v.duplicates} | {v.wrong} |"
            for s, v in zip(scenarios, verdicts, strict=True)
        ),
        "| **all** | " + " | ".join(
            f"**{sum(getattr(v, n) for v in verdicts)}**" for n in ("injected", "lost", "duplicates", "wrong")
        ) + " |",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
