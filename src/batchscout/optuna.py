"""batchscout's search in an Optuna study of your own; docs/search.md has an example."""

from batchscout.search.optuna_pruner import TimeToTargetPruner
from batchscout.search.optuna_sampler import TimeToTargetSampler
from batchscout.search.optuna_trials import ended, probe_updates, report

__all__ = ["TimeToTargetPruner", "TimeToTargetSampler", "ended", "probe_updates", "report"]
