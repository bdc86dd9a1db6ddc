"""Joint posterior over the laws of samples-to-target, curve shape and update time. See docs/search.md."""

from batchscout.search.belief.belief import Belief
from batchscout.search.belief.posterior import Posterior
from batchscout.search.belief.prospects import Prospects, prospects
from batchscout.search.belief.records import JobRecord, record_of
from batchscout.search.belief.update_time import UpdateTime, fit_update_time

__all__ = [
    "Belief", "JobRecord", "Posterior", "Prospects", "UpdateTime", "fit_update_time", "prospects", "record_of",
]  # fmt: skip
