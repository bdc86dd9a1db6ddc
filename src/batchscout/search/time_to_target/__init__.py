"""The search of batchscout's own. See docs/search.md."""

from batchscout.search.time_to_target.search import TimeToTargetSearch

__all__ = ["TimeToTargetSearch"]
