"""Stops trials of a plain Optuna study whose time cannot be the best, or that have told what they can tell."""

from __future__ import annotations

from optuna.pruners import BasePruner
from optuna.study import Study
from optuna.trial import FrozenTrial

from batchscout.search.optuna_sampler import TimeToTargetSampler, set_attributes
from batchscout.search.optuna_trials import REASON


class TimeToTargetPruner(BasePruner):
    """Shares the sampler's belief. The reason becomes the trial's user attribute `reason`."""

    def __init__(self, sampler: TimeToTargetSampler) -> None:
        self._sampler = sampler

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        reason = self._sampler.why_stop(study, trial)
        if reason is not None:
            set_attributes(study, trial, {REASON: reason})
        return reason is not None
