"""What the numbers mean: pure functions from measured arrays to laws, their uncertainty and the best batch
size."""

from batchscout.laws.best import BestBatch, best_batch, price_of_wrong_batch
from batchscout.laws.learning_rate import LearningRateFit, fit_learning_rate, fit_lr_exponent
from batchscout.laws.points import PointRow, laws_of_points
from batchscout.laws.samples import SamplesFit, fit_samples
from batchscout.laws.samples_law import SamplesLaw
from batchscout.laws.update_forms import UpdateSecondsLaw
from batchscout.laws.update_seconds import PartFit, UpdateSecondsFit, fit_update_seconds

__all__ = [
    "BestBatch",
    "LearningRateFit",
    "PartFit",
    "PointRow",
    "SamplesFit",
    "SamplesLaw",
    "UpdateSecondsFit",
    "UpdateSecondsLaw",
    "best_batch",
    "fit_learning_rate",
    "fit_lr_exponent",
    "fit_samples",
    "fit_update_seconds",
    "laws_of_points",
    "price_of_wrong_batch",
]
