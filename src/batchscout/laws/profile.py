"""Fit of a law whose shape has up to three parameters, and profile-likelihood intervals of anything it says.

A law gives log value = location + offset(row; shape) + noise. The shape is searched on a grid, so that no
local maximum is taken for the best one; location and noise are maximised inside (``likelihood``). A parameter
whose likelihood does not fall before the grid ends is open there, and its end of the interval is None.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

from batchscout.laws.likelihood import Maximum, maximise
from batchscout.laws.observations import Array, Interval, Observations

Offset = Callable[[Array], Array]
"""(K, d) shapes → (K,) offset of one quantity, or (K, n) offsets of the rows."""

_GRID = {0: 1, 1: 241, 2: 61, 3: 25}
_COMPANIONS = {0: 1, 1: 101, 2: 41, 3: 15}
_OPEN = 1e-3
"""A shape parameter is open towards an end of its grid where the likelihood there is within this of the
best."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The best law and all laws that the rows leave plausible.

    shape        (d,) best shape (logs)
    best         Maximum of the best shape (K = 1)
    companions   (K, d) shapes whose likelihood is near the best, on a grid; `at` their maxima
    bounds       d pairs, the ends of the grid
    is_open      d pairs: does the likelihood still hold at that end
    noise        noise held fixed, None where it was estimated
    """

    rows: Observations
    offsets: Offset
    shape: Array
    best: Maximum
    companions: Array
    at: Maximum
    bounds: tuple[tuple[float, float], ...]
    is_open: tuple[tuple[bool, bool], ...]
    noise: float | None

    @property
    def effective_rows(self) -> float:
        return max(float(self.best.information[0]), 1e-3)

    @property
    def degrees_of_freedom(self) -> float:
        """Rows beyond the parameters; a row that is only bounded counts for the part that it tells."""
        return max(self.effective_rows - 1 - len(self.shape), 1.0)

    def drop(self, level: float) -> float:
        """How far the log-likelihood may fall inside an interval of this level.

        Exact for a linear law with normal noise (it then is Student's interval); χ²/2 for many rows.
        """
        if self.noise is not None:
            return float(stats.chi2.ppf(level, 1)) / 2
        n, v = max(self.effective_rows, len(self.shape) + 2.0), self.degrees_of_freedom
        return float(0.5 * n * np.log1p(stats.t.ppf(0.5 + level / 2, v) ** 2 / v))

    def of_shape(self, index: int, level: float) -> tuple[float | None, float | None]:
        """Interval of one shape parameter (log)."""
        others = np.delete(np.arange(len(self.shape)), index)
        rest = self.companions if len(others) else self.shape[None]

        def fall(value: float) -> float:
            shapes = np.array(rest)
            shapes[:, index] = value
            return float(self.best.log_likelihood[0] - maximise(
                self.rows, self.offsets(shapes), noise=self.noise).log_likelihood.max())  # fmt: skip

        low, high = self.bounds[index]
        drop = self.drop(level)
        return _end(fall, self.shape[index], low, drop), _end(fall, self.shape[index], high, drop)

    def of(self, quantity: Offset, level: float) -> tuple[float | None, float | None]:
        """Interval (log) of location + quantity(shape), e.g. of the law's value at one batch size."""
        shapes = np.vstack([self.shape[None], self.companions])
        offsets, here = self.offsets(shapes), quantity(shapes)
        centre = float(self.best.location[0] + here[0])

        def fall(value: float) -> float:
            held = maximise(self.rows, offsets, location=value - here, noise=self.noise)
            return float(self.best.log_likelihood[0] - held.log_likelihood.max())

        drop, reach = self.drop(level), 14.0
        return _end(fall, centre, centre - reach, drop), _end(fall, centre, centre + reach, drop)

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Draws (count,) of the location and (count, d) of the shape from the posterior under flat priors.

        The marginal over location and noise of a normal model has (n−1)/n of the profile's log-likelihood and
        a location with Student's distribution; both are used here with the effective number of rows.
        """
        v, n = self.degrees_of_freedom, max(self.effective_rows, 1.0)
        power = 1.0 if self.noise is not None else min(1.0, (v + len(self.shape)) / n)
        logs = power * (self.at.log_likelihood - self.at.log_likelihood.max())
        chance = np.exp(logs)
        picked = rng.choice(len(chance), size=count, p=chance / chance.sum())
        shape = self.companions[picked]
        if self.noise is not None:
            deviation = rng.standard_normal(count)
        else:
            deviation = rng.standard_t(v, count) * np.sqrt(n / max(v, 1.0))
        weight = np.maximum(self.at.information[picked], 0.5) * float(np.mean(self.rows.weight))
        # With one degree of freedom the tails are Cauchy's; e^±50 is as good as never.
        move = np.clip(deviation * self.at.noise[picked] / np.sqrt(weight), -50.0, 50.0)
        return self.at.location[picked] + move, shape


def profile(
    rows: Observations,
    offsets: Offset,
    bounds: tuple[tuple[float, float], ...],
    *,
    level: float = 0.9,
    noise: float | None = None,
) -> Profile:
    """Fit a law with d = len(bounds) shape parameters, each searched between its two bounds.

    Raises LawError where the rows bound the law from one side only.
    """
    d = len(bounds)
    axes = [np.linspace(a, b, _GRID[d]) for a, b in bounds]
    grid = _product(axes)
    on_grid = maximise(rows, offsets(grid), noise=noise)
    shape = _polish(rows, offsets, grid[int(np.argmax(on_grid.log_likelihood))], axes, bounds, noise)
    best = maximise(rows, offsets(shape[None]), noise=noise)
    fall = best.log_likelihood[0] - on_grid.log_likelihood
    is_open = tuple(
        (bool(fall[grid[:, i] == axis[0]].min() < _OPEN), bool(fall[grid[:, i] == axis[-1]].min() < _OPEN))
        for i, axis in enumerate(axes)
    )
    rough = Profile(rows, offsets, shape, best, shape[None], best, bounds, is_open, noise)
    near = _plausible(rough, grid, fall, axes, margin=1.5 * rough.drop(max(level, 0.99)))
    at = maximise(rows, offsets(near), noise=noise)
    return Profile(rows, offsets, shape, best, near, at, bounds, is_open, noise)


def _product(axes: list[Array]) -> Array:
    """(K, d) all combinations; one empty row for no axes."""
    if not axes:
        return np.zeros((1, 0))
    return np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=1)


def _polish(
    rows: Observations,
    offsets: Offset,
    start: Array,
    axes: list[Array],
    bounds: tuple[tuple[float, float], ...],
    noise: float | None,
) -> Array:
    """The best shape near the best grid point, to 1e-9 in log."""
    if not axes:
        return start
    low, high = np.array(bounds).T

    def loss(shape: Array) -> float:
        return -float(maximise(rows, offsets(np.clip(shape, low, high)[None]), noise=noise).log_likelihood[0])

    steps = np.array([axis[1] - axis[0] for axis in axes])
    if len(axes) == 1:
        ends = (max(start[0] - steps[0], low[0]), min(start[0] + steps[0], high[0]))
        found = optimize.minimize_scalar(
            lambda x: loss(np.array([x])), bounds=ends, method="bounded", options={"xatol": 1e-10}
        )
        return np.array([found.x]) if found.fun <= loss(start) else start
    simplex = np.vstack([start, start + np.diag(steps)])
    simplest = optimize.minimize(
        loss,
        start,
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-12, "initial_simplex": simplex, "maxiter": 2000, "maxfev": 2000},
    )
    return np.asarray(np.clip(simplest.x, low, high))


def _plausible(rough: Profile, grid: Array, fall: Array, axes: list[Array], *, margin: float) -> Array:
    """A finer grid over the box of shapes whose likelihood is within the margin of the best."""
    kept = grid[fall <= margin]
    fine = []
    for i, axis in enumerate(axes):
        step = axis[1] - axis[0]
        if len(kept):
            low, high = kept[:, i].min() - step, kept[:, i].max() + step
        else:
            low, high = rough.shape[i] - step, rough.shape[i] + step
        low, high = max(low, axis[0]), min(high, axis[-1])
        if len(axes) == 1 and high - low < 6 * step:
            low, high = _narrow(rough, low, high, margin)
        fine.append(np.linspace(low, high, _COMPANIONS[len(axes)]))
    return _product(fine)


def _narrow(rough: Profile, low: float, high: float, margin: float) -> tuple[float, float]:
    """The interval where one shape parameter is plausible, where it is narrower than the grid's spacing."""

    def fall(value: float) -> float:
        shapes = np.array([[value]])
        return float(
            rough.best.log_likelihood[0]
            - maximise(rough.rows, rough.offsets(shapes), noise=rough.noise).log_likelihood[0]
        )

    left, right = _end(fall, rough.shape[0], low, margin), _end(fall, rough.shape[0], high, margin)
    return low if left is None else left, high if right is None else right


def _end(fall: Callable[[float], float], centre: float, limit: float, drop: float) -> float | None:
    """Where the log-likelihood has fallen by `drop` between the centre and the limit; None where it does
    not."""
    if centre == limit or fall(limit) < drop:
        return None
    # The likelihood falls about quadratically: step to where it should have fallen far enough, then solve.
    sign, reach = np.sign(limit - centre), abs(limit - centre)
    inner, outer = 0.0, min(0.02, reach)
    while (fallen := fall(centre + sign * outer)) < drop and outer < reach:
        inner = outer
        outer = min(reach, outer * float(np.clip(1.2 * np.sqrt(drop / max(fallen, 1e-12)), 1.3, 8.0)))
    while inner == 0.0 and fallen > 4 * drop and outer > 1e-9:
        closer = fall(centre + sign * outer / 4)
        inner, outer, fallen = (outer / 4, outer, 0.0) if closer < drop else (0.0, outer / 4, closer)
    if fall(centre + sign * inner) >= drop:
        return centre
    solved = optimize.brentq(lambda x: fall(centre + sign * x) - drop, inner, outer, xtol=1e-6, rtol=1e-5)
    return float(centre + sign * solved)


def exponential(ends: tuple[float | None, float | None]) -> Interval:
    """Ends on the log scale as ends of the quantity."""
    low, high = ends
    return (None if low is None else float(np.exp(low)), None if high is None else float(np.exp(high)))
