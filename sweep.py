"""Finds the batch size with the shortest time-to-target: `python sweep.py -m`."""

from typing import Any

import hydra

from batchscout.hydra_main import run_job, start


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def sweep(config: Any) -> float | None:
    """One job; its time-to-target in seconds, None where the target was not reached."""
    return run_job(config)


if __name__ == "__main__":
    start(sweep)
