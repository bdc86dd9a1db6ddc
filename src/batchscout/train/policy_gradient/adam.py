"""Adam on one vector.

torch.optim.Adam gives the same, but its first use imports a compiler: a second of every job's start-up,
while the best job of the demo takes three to reach its target.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

EPSILON = 1e-8


class Adam:
    """Kingma & Ba 2015 (arXiv 1412.6980), algorithm 1, with bias correction and no weight decay.

    parameters   (p,) changed in place
    betas        decay rates of the running means of gradient and squared gradient
    """

    def __init__(self, parameters: Tensor, betas: tuple[float, float]) -> None:
        self.parameters, self.betas = parameters, betas
        self.mean, self.square = torch.zeros_like(parameters), torch.zeros_like(parameters)
        self.steps = 0

    def step(self, gradient: Tensor, lr: float) -> None:
        """Move against the (p,) ``gradient``."""
        first, second = self.betas
        self.steps += 1
        self.mean.lerp_(gradient, 1 - first)
        self.square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        deviation = self.square.sqrt().div_(math.sqrt(1 - second**self.steps)).add_(EPSILON)
        self.parameters.addcdiv_(self.mean, deviation, value=-lr / (1 - first**self.steps))

    def state(self) -> dict[str, Tensor | int]:
        """What a checkpoint keeps."""
        return {"mean": self.mean, "square": self.square, "steps": self.steps}

    def load(self, state: dict[str, Tensor | int]) -> None:
        """Go on from a state."""
        self.mean, self.square = torch.as_tensor(state["mean"]), torch.as_tensor(state["square"])
        self.steps = int(state["steps"])
