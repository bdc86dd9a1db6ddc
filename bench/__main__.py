"""Do intervals cover the truth, how fast are the built-in trainer and MLflow, what do 1,000 jobs ask of a Slurm?

    python -m bench [sweeps=300]

Exit status 1 where a coverage lies outside of its band; speed is shown, never judged.
"""

from __future__ import annotations

import sys

import torch

from bench import laws_coverage, slurm_load, tracking, trainer


def main(sweeps: int = 300) -> int:
    """sweeps: simulated for each kind of censoring."""
    print("Laws\n", flush=True)
    status = laws_coverage.main(sweeps=sweeps)
    print(f"\nBuilt-in trainer, torch {torch.__version__}\n", flush=True)
    trainer.main()
    print("\nSlurm: 1,000 queued jobs, their controller watched for a minute\n", flush=True)
    slurm_load.main([])
    print("\nMLflow: a large sweep from its journals\n", flush=True)
    tracking.main()
    return status


if __name__ == "__main__":
    options = dict(argument.split("=") for argument in sys.argv[1:])
    raise SystemExit(main(**{name: int(value) for name, value in options.items()}))
