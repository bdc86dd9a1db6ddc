"""The forms of the update-seconds law, and how each is fitted by weighted least squares.

affine     t = a + b·B               fixed cost and cost per rollout
roofline   t = max(a, b·B)           flat up to the knee a/b, then linear
hinge      t = a + b·max(0, B − k)   flat up to the knee k, then linear from there
long_tail  t = a + b·B + c·ln B      the longest of B responses grows with ln B
power      t = c·B^p
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize

from batchscout.errors import LawError
from batchscout.laws.observations import Array, positive

Form = Literal["affine", "roofline", "hinge", "long_tail", "power"]
FORMS: tuple[Form, ...] = ("affine", "roofline", "hinge", "long_tail", "power")
PARAMETERS: dict[str, int] = {"affine": 2, "roofline": 2, "hinge": 3, "long_tail": 3, "power": 2}


@dataclass(frozen=True, slots=True)
class UpdateSecondsLaw:
    """t(B) for one form; a in seconds, b in seconds per rollout; c, knee and power where the form has
    them."""

    form: Form
    a: float
    b: float
    c: float = 0.0
    knee: float = 0.0
    power: float = 0.0

    def seconds(self, batch_size: ArrayLike) -> Array:
        """(n,) seconds of one update at (n,) batch sizes."""
        size = positive("batch_size", batch_size)
        if self.form == "roofline":
            return np.maximum(self.a, self.b * size)
        if self.form == "hinge":
            return np.asarray(self.a + self.b * np.maximum(0.0, size - self.knee))
        if self.form == "power":
            return np.asarray(self.c * size**self.power)
        return np.asarray(self.a + self.b * size + self.c * np.log(size))

    def throughput(self, batch_size: ArrayLike) -> Array:
        """(n,) rollouts per second."""
        return np.asarray(positive("batch_size", batch_size) / self.seconds(batch_size))

    def saturation_batch(self, share: float = 0.5) -> float | None:
        """Batch size at which throughput is this share of its limit 1/b; at 0.5 the knee a/b of the affine
        law.

        None where throughput has no limit (b = 0, power law) or is flat from the start.
        """
        if not 0 < share < 1:
            raise LawError(f"share={share:g}; it must lie between 0 and 1")
        if self.b <= 0 or self.form == "power":
            return None
        if self.form == "roofline":
            return share * self.a / self.b
        low, high = 1e-6, 1e15
        if self.b * low / float(self.seconds([low])[0]) >= share:
            return None
        for _ in range(120):
            middle = float(np.sqrt(low * high))
            below = self.b * middle / float(self.seconds([middle])[0]) < share
            low, high = (middle, high) if below else (low, middle)
        return low


def gradient(law: UpdateSecondsLaw, size: Array) -> Array:
    """(n, k) derivative of t with respect to the free parameters, a and b first."""
    one = np.ones_like(size)
    if law.form == "roofline":
        flat = law.a >= law.b * size
        return np.stack([np.where(flat, one, 0.0), np.where(flat, 0.0, size)], axis=1)
    if law.form == "hinge":
        over = np.maximum(0.0, size - law.knee)
        return np.stack([one, over, np.where(over > 0, -law.b, 0.0)], axis=1)
    if law.form == "long_tail":
        return np.stack([one, size, np.log(size)], axis=1)
    if law.form == "power":
        return np.stack([size**law.power, law.c * size**law.power * np.log(size)], axis=1)
    return np.stack([one, size], axis=1)


def _nonnegative(columns: list[Array], seconds: Array, weight: Array) -> Array:
    basis = np.stack(columns, axis=1) * weight[:, None]
    scale = np.sqrt((basis**2).sum(0))
    solved, _ = optimize.nnls(basis / scale, seconds * weight)
    return np.asarray(solved / scale)


def _affine(size: Array, seconds: Array, weight: Array) -> UpdateSecondsLaw:
    a, b = _nonnegative([np.ones_like(size), size], seconds, weight)
    return UpdateSecondsLaw("affine", float(a), float(b))


def _long_tail(size: Array, seconds: Array, weight: Array) -> UpdateSecondsLaw:
    a, b, c = _nonnegative([np.ones_like(size), size, np.log(size)], seconds, weight)
    return UpdateSecondsLaw("long_tail", float(a), float(b), c=float(c))


def _roofline(size: Array, seconds: Array, weight: Array) -> UpdateSecondsLaw:
    """Best split of the sorted rows into a flat and a linear part."""
    best: tuple[float, UpdateSecondsLaw] | None = None
    sizes = np.unique(size)
    for split in sizes:
        flat = size <= split
        a = _weighted(np.ones_like(size[flat]), seconds[flat], weight[flat])
        b = _weighted(size[~flat], seconds[~flat], weight[~flat]) if (~flat).any() else 0.0
        law = UpdateSecondsLaw("roofline", a, b)
        loss = float((((seconds - law.seconds(size)) * weight) ** 2).sum())
        if best is None or loss < best[0]:
            best = (loss, law)
    assert best is not None
    return best[1]


def _weighted(x: Array, y: Array, weight: Array) -> float:
    return float((x * y * weight**2).sum() / (x * x * weight**2).sum())


def _hinge(size: Array, seconds: Array, weight: Array) -> UpdateSecondsLaw:
    best: tuple[float, UpdateSecondsLaw] | None = None
    for knee in np.exp(np.linspace(np.log(size.min()), np.log(size.max()), 61))[:-1]:
        a, b = _nonnegative([np.ones_like(size), np.maximum(0.0, size - knee)], seconds, weight)
        law = UpdateSecondsLaw("hinge", float(a), float(b), knee=float(knee))
        loss = float((((seconds - law.seconds(size)) * weight) ** 2).sum())
        if best is None or loss < best[0] * (1 - 1e-9):
            best = (loss, law)
    assert best is not None
    return best[1]


def _power(size: Array, seconds: Array, weight: Array) -> UpdateSecondsLaw:
    power, log_c = np.polyfit(np.log(size), np.log(seconds), 1, w=weight * seconds)
    return UpdateSecondsLaw("power", 0.0, 0.0, c=float(np.exp(log_c)), power=float(power))


SOLVERS: dict[str, Callable[[Array, Array, Array], UpdateSecondsLaw]] = {
    "affine": _affine,
    "roofline": _roofline,
    "hinge": _hinge,
    "long_tail": _long_tail,
    "power": _power,
}
