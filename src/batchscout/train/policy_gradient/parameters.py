"""All parameters of a model as one vector, so that optimizer, norms and checks are one operation each."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class FlatParameters:
    """Lays a model's parameters and their gradients out in two vectors, of which they become views.

    vector, gradient   (p,) each

    The model must stay on its device from then on. Gradients accumulate until ``zero_gradient``.
    """

    def __init__(self, model: nn.Module) -> None:
        parameters = list(model.parameters())
        self.vector: Tensor = torch.cat([p.detach().flatten() for p in parameters])
        self.gradient: Tensor = torch.zeros_like(self.vector)
        start = 0
        for parameter in parameters:
            stop = start + parameter.numel()
            parameter.data = self.vector[start:stop].view_as(parameter)
            parameter.grad = self.gradient[start:stop].view_as(parameter)
            start = stop

    def zero_gradient(self) -> None:
        """Start a new sum of gradients."""
        self.gradient.zero_()

    def load(self, values: Tensor) -> None:
        """Take over (p,) ``values``."""
        self.vector.copy_(values)
