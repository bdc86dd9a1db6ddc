"""Jobs of one sweep on different GPU models: samples can be compared, times cannot, so nothing is ranked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from batchscout.measure.target import Target
from batchscout.run.watch import Watched
from batchscout.search.pooled import best_point, pool_points

REASON = "different_hardware"


def by_gpu(jobs: Sequence[Watched]) -> dict[str, list[Watched]]:
    """Jobs that have trained, by the model that their newest attempt ran on; unknown models do not count.

    A job whose attempts ran on several models belongs to none of them alone: "A + B".
    """
    found: dict[str, list[Watched]] = defaultdict(list)
    for watched in jobs:
        models = {str(start["gpu"]) for start in watched.view.starts if start.get("gpu")}
        if models and watched.seconds > 0:
            found[" + ".join(sorted(models))].append(watched)
    return dict(sorted(found.items()))


def is_mixed(jobs: Sequence[Watched]) -> bool:
    """Whether no two times of these jobs should be compared without a look at where they ran."""
    return len(by_gpu(jobs)) > 1


def refusal(jobs: Sequence[Watched], target: Target) -> str:
    """Why nothing is ranked, what each model alone says, and what to do."""
    groups = by_gpu(jobs)
    counts = ", ".join(f"{len(found)} on {gpu}" for gpu, found in groups.items())
    answers = "; ".join(_alone(gpu, found, target) for gpu, found in groups.items())
    return (
        f"No ranking: jobs ran on different GPUs ({counts}), whose times cannot be compared; {answers}. "
        "Pin one type by hardware.gres or hardware.constraint and start anew with fresh=true, or run a sweep on "
        "each and look at them with `batchscout compare`"
    )


def _alone(gpu: str, jobs: Sequence[Watched], target: Target) -> str:
    best = best_point(pool_points([w.observation() for w in jobs], target))
    if best is None or best.time_to_target is None:
        return f"on {gpu} none reached the target"
    setting = f"batch_size={best.point.batch_size} lr={best.point.lr:g}"
    return f"on {gpu} alone {setting} is the fastest ({best.time_to_target:.3g} s)"
