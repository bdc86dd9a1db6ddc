"""Every listed setting once, in order: the first seed of all points before the second one."""

from __future__ import annotations

from collections.abc import Sequence

from batchscout.search.pooled import recommend_measured
from batchscout.search.protocol import Finished, JobObservation, Proposal, Recommendation, SearchContext


class GridSearch:
    """The whole list is known beforehand (`plan`), and nothing is ever stopped.

    Small batch sizes come first, so that an out-of-memory error spares the larger ones.
    """

    watches_curves = False

    def __init__(self, context: SearchContext) -> None:
        self._context = context

    def plan(self) -> list[Proposal]:
        """All jobs, in the order in which they run."""
        space = self._context.space
        return [
            Proposal("run", point, seed, "listed")
            for seed in space.all_seeds()
            for point in space.all_points()
            if space.has(point, seed)
        ]

    def propose(self, jobs: Sequence[JobObservation]) -> Proposal | Finished | None:
        known = {(job.point, job.seed) for job in jobs if job.kind != "probe"}
        for proposal in self.plan():
            if (proposal.point, proposal.seed) not in known:
                return proposal
        return Finished("every listed setting has its job")

    def stop(self, job: JobObservation, jobs: Sequence[JobObservation]) -> str | None:
        return None

    def recommend(self, jobs: Sequence[JobObservation]) -> Recommendation | None:
        return recommend_measured(jobs, self._context.target)
