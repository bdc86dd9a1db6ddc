"""What the numbers mean: pure functions from measured arrays to laws, their uncertainty and the best batch
size."""

from batchscout.laws.benchmarks import (
    algoperf_score,
    algoperf_time,
    minimum_acceptable_mean,
    minimum_mean,
    olympic_mean,
    performance_profile,
    prune_reference_points,
)
from batchscout.laws.best import BestBatch, best_batch, price_of_wrong_batch
from batchscout.laws.closed_forms import (
    Optimum,
    ScaleOut,
    accumulation_optimum,
    capped_optimum,
    compute_to_score,
    flatness,
    larger_batch_wins,
    optimum,
    power_optimum,
    roofline_optimum,
    scale_out,
    time_to_target,
    twenty_percent_batch,
    with_evaluation,
)
from batchscout.laws.invariance import Distance, Invariance, invariance
from batchscout.laws.learning_rate import LearningRateFit, fit_learning_rate, fit_lr_exponent
from batchscout.laws.levels import levels_of_points
from batchscout.laws.lr_rules import (
    decay_of_half_life,
    default_rule,
    scaled_adam,
    scaled_ewma_decay,
    scaled_lr,
)
from batchscout.laws.noise_scale import NoiseScale, gradient_squares, noise_scale
from batchscout.laws.points import PointRow, laws_of_points
from batchscout.laws.prediction import SquaredNorms, predicted_b_crit
from batchscout.laws.samples import SamplesFit, fit_samples
from batchscout.laws.samples_law import SamplesLaw
from batchscout.laws.statistics import (
    Comparison,
    LogNormalFit,
    compare_batches,
    crossing_by_luck,
    expected_first_crossing,
    fit_log_normal,
    median_with_misses,
    probability_of_least,
    seeds_needed,
    welch_log,
)
from batchscout.laws.table import fit_table, read_table
from batchscout.laws.update_forms import UpdateSecondsLaw
from batchscout.laws.update_seconds import (
    PartFit,
    UpdateSecondsFit,
    UpdateSecondsSummary,
    fit_update_seconds,
    summarise_update_seconds,
)

__all__ = [
    "BestBatch",
    "Comparison",
    "Distance",
    "Invariance",
    "LearningRateFit",
    "LogNormalFit",
    "NoiseScale",
    "Optimum",
    "PartFit",
    "PointRow",
    "SamplesFit",
    "SamplesLaw",
    "ScaleOut",
    "SquaredNorms",
    "UpdateSecondsFit",
    "UpdateSecondsLaw",
    "UpdateSecondsSummary",
    "accumulation_optimum",
    "algoperf_score",
    "algoperf_time",
    "best_batch",
    "capped_optimum",
    "compare_batches",
    "compute_to_score",
    "crossing_by_luck",
    "decay_of_half_life",
    "default_rule",
    "expected_first_crossing",
    "fit_learning_rate",
    "fit_log_normal",
    "fit_lr_exponent",
    "fit_samples",
    "fit_table",
    "fit_update_seconds",
    "flatness",
    "gradient_squares",
    "invariance",
    "larger_batch_wins",
    "laws_of_points",
    "levels_of_points",
    "median_with_misses",
    "minimum_acceptable_mean",
    "minimum_mean",
    "noise_scale",
    "olympic_mean",
    "optimum",
    "performance_profile",
    "power_optimum",
    "predicted_b_crit",
    "price_of_wrong_batch",
    "probability_of_least",
    "prune_reference_points",
    "read_table",
    "roofline_optimum",
    "scale_out",
    "scaled_adam",
    "scaled_ewma_decay",
    "scaled_lr",
    "seeds_needed",
    "summarise_update_seconds",
    "time_to_target",
    "twenty_percent_batch",
    "welch_log",
    "with_evaluation",
]
