"""The search's own numbers, in one place. None was tuned to a particular task."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """
    known_sd        a job is stopped once its ln S is known this well, given the curve's shape
    least_risen     … and it has come this share of the way up: below, any curve fits
    hopeless        a job is stopped when it takes this much longer than the best …
    hopeless_sure   … with this probability
    suspect         a job that diverges with at least this probability is watched for longer (Evidence.confirmed)
    contends        so is one that beats all others with this probability, while none at so high an lr came so far up
    seen            how far up the rise a job must be to set the bar for others
    end_regret      the sweep ends when the expected regret, as a share of the tolerance, is below this …
    end_bad         … or when the probability of losing more than twice the tolerance is
    fantasies       imagined results per candidate
    candidates      points compared for the next job
    worth           expected regret that a job beside others must remove per best-time it costs
    probe_share     of a job that a probe may cost
    """

    known_sd: float = 0.09
    least_risen: float = 0.1
    hopeless: float = 1.4
    hopeless_sure: float = 0.93
    suspect: float = 0.2
    contends: float = 0.5
    seen: float = 0.15
    end_regret: float = 0.4
    end_bad: float = 0.08
    fantasies: int = 24
    candidates: int = 40
    probe_share: float = 0.02
    worth: float = 0.01
