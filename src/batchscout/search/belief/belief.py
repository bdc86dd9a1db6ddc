"""The belief of one search: a pure, cached function from the jobs to a posterior."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from batchscout.measure.target import Target
from batchscout.search.belief.curve_shape import PRIOR_MEAN, PRIOR_SD
from batchscout.search.belief.evidence import SHAPES, shape_normals, weigh_curves
from batchscout.search.belief.law import LawPrior
from batchscout.search.belief.law_draws import LawEngine
from batchscout.search.belief.posterior import Posterior
from batchscout.search.belief.records import JobRecord
from batchscout.search.protocol import Space

Array = NDArray[np.float64]
_CACHED = 64


class Belief:
    """Posterior of the laws on a space, given jobs.

    A fresh instance answers exactly what an old one does: the caches only save time.
    """

    def __init__(self, space: Space, target: Target, seed: int) -> None:
        points = space.all_points()
        batches = sorted({p.batch_size for p in points})
        lr2 = np.log2([p.lr for p in points])
        self.target_score = target.score if target.direction == "max" else -target.score
        self.is_share = target.direction == "max" and 0 < target.score <= 1
        self.prior = LawPrior(float(batches[0]), float(batches[-1]), float(lr2.min()), float(lr2.max()))
        self.seed = seed
        self._engine = LawEngine(self.prior, seed)
        self._known: OrderedDict[tuple[object, ...], Posterior] = OrderedDict()

    def posterior(self, records: Sequence[JobRecord]) -> Posterior:
        """Equal records (in the same order) give an equal posterior."""
        useful = [r for r in records if len(r.score)]
        key = tuple(r.key for r in useful)
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        if useful:
            is_fraction = self.is_share and all(r.score.min() >= 0 and r.score.max() <= 1 for r in useful)
            evidence = weigh_curves(useful, self.target_score, is_fraction, self.seed)
            cloud = self._engine.draw(evidence)
            answer = Posterior(self.prior, cloud.x, cloud, evidence)
        else:
            answer = Posterior(self.prior, self._engine.prior_draws(), None, None)
        self._known[key] = answer
        if len(self._known) > _CACHED:
            self._known.popitem(last=False)
        return answer

    def prior_shapes(self) -> Array:
        """(K, 6) curve shapes before any curve was seen."""
        return np.asarray(PRIOR_MEAN + PRIOR_SD * shape_normals(self.seed)[:SHAPES])
