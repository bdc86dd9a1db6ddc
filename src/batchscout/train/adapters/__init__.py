"""For trainers that are not ours."""

from batchscout.train.adapters.arithmetic import trl_arithmetic, verl_arithmetic
from batchscout.train.adapters.callback import LoopCallback

__all__ = ["LoopCallback", "trl_arithmetic", "verl_arithmetic"]
