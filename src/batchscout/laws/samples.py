"""Fit of the samples law (``samples_law``): how many samples each batch size needs to reach the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from batchscout.errors import LawError
from batchscout.laws.likelihood import NOISE_FLOOR
from batchscout.laws.observations import Array, Interval, Observations, observations, positive
from batchscout.laws.profile import Profile, exponential, profile
from batchscout.laws.samples_checks import (
    extrapolation_warning,
    fit_warnings,
    richer_form_warnings,
    widening,
)
from batchscout.laws.samples_law import SamplesLaw, full_shape, log_offset

ASSUMED_NOISE = 0.1
"""Log-scale noise assumed where the rows are too few to estimate one (seeds of one point differ by about
this)."""
_REACH = float(np.log(1000.0))


@dataclass(frozen=True, slots=True)
class SamplesFit:
    """A fitted samples law.

    law                               None where every row is left-censored: then only upper bounds are known
    s_min, b_crit, gamma, b_small     estimates; None where the rows only bound them
    …_interval                        profile-likelihood interval at `level`, an open end is None; of a
                                      parameter that was fixed, (value, value)
    noise                             log-scale spread of a row about the law
    residuals                         (n,) log of given value over law (of the bound, where a row is only
                                      bounded)
    scanned                           smallest and largest batch size of the rows
    target                            the level this was measured at, where told
    upper_bounds                      (batch size, samples) where law is None
    """

    law: SamplesLaw | None
    s_min: float | None
    s_min_interval: Interval
    b_crit: float | None
    b_crit_interval: Interval
    gamma: float | None
    gamma_interval: Interval
    b_small: float | None
    b_small_interval: Interval
    noise: float
    level: float
    method: str
    residuals: tuple[float, ...]
    rows: int
    scanned: tuple[float, float]
    target: float | None
    warnings: tuple[str, ...]
    upper_bounds: tuple[tuple[float, float], ...] = ()
    profile: Profile | None = field(default=None, repr=False, compare=False)

    @property
    def rms(self) -> float:
        """Root mean square of the log residuals."""
        return float(np.sqrt(np.mean(np.square(self.residuals))))

    def samples(self, batch_size: ArrayLike) -> Array:
        """(n,) samples to target by the fitted law; LawError where the rows only bound it."""
        return self._known()[0].samples(batch_size)

    def interval(self, batch_size: float, *, level: float | None = None) -> Interval:
        """Interval of S at one batch size; outside the scanned range it is widened, ±30% and more at 8
        times."""
        b = float(positive("batch_size", [batch_size])[0])
        if self.law is None:
            return None, self._bound_above(b)
        law, found = self._known()
        low, high = found.of(
            lambda shapes: log_offset(np.array([np.log(b)]), full_shape(shapes, law))[:, 0],
            level or self.level,
        )
        wider = widening(b, self.scanned)
        return exponential((None if low is None else low - wider, None if high is None else high + wider))

    def extrapolation(self, batch_size: float) -> str | None:
        """A warning where this batch size lies outside the scanned ones, else None."""
        return extrapolation_warning(batch_size, self.scanned)

    def draw(self, batch_size: ArrayLike, count: int, rng: np.random.Generator) -> Array:
        """(count, n) joint draws of S at n batch sizes from the posterior of the law (flat priors on the
        logs)."""
        b = positive("batch_size", batch_size)
        law, found = self._known()
        location, shapes = found.draw(count, rng)
        logs = location[:, None] + log_offset(np.log(b), full_shape(shapes, law))
        wider = np.array([widening(float(x), self.scanned) for x in b])
        return np.asarray(np.exp(logs + rng.standard_normal((count, 1)) * wider / 1.645))

    def _known(self) -> tuple[SamplesLaw, Profile]:
        if self.law is None or self.profile is None:
            raise LawError(f"only upper bounds of S are known ({self.warnings[0]})")
        return self.law, self.profile

    def _bound_above(self, batch_size: float) -> float | None:
        """S grows with B, so it is at most the least bound at this batch size or a larger one."""
        at = [bound for size, bound in self.upper_bounds if size >= batch_size]
        return min(at) if at else None


def fit_samples(
    batch_size: ArrayLike,
    samples: Sequence[float | None] | ArrayLike,
    *,
    lower: Sequence[float | None] | None = None,
    upper: Sequence[float | None] | None = None,
    censored: Sequence[str | None] | None = None,
    weights: ArrayLike | None = None,
    gamma: float | Literal["free"] = 1.0,
    small_batch: bool = False,
    noise: float | None = None,
    level: float = 0.9,
    target: float | None = None,
) -> SamplesFit:
    """Fit S(B) to rows of (batch size, samples to target).

    batch_size, samples      (n,) rollouts per update; samples at which the target was reached
    lower, upper, censored   (n,) see ``observations``: "right", "left", "interval" rows enter by their
                             probability
    weights                  (n,) relative precision of a row (number of seeds it is the mean of), 1 by
                             default
    gamma                    held at this value (1), or "free"
    small_batch              also fit the small-batch term
    noise                    log-scale spread of a row, estimated where None
    Returns  SamplesFit. With the defaults and exact rows: exactly the two-parameter law by least squares in
             log space. Intervals by profile likelihood, Student's threshold. A richer form that an
             information criterion prefers is named in `warnings`, never switched to.
    Raises   LawError: fewer than two batch sizes, values that are not positive, no row that reached the
             target.
    """
    b = positive("batch_size", batch_size)
    rows = observations(
        "samples_to_target", samples, lower=lower, upper=upper, censored=censored, weights=weights
    )
    if len(b) != len(rows):
        raise LawError(
            f"batch_size has {len(b)} rows, samples_to_target has {len(rows)}; they must be of one length"
        )
    if len(np.unique(b)) < 2:
        raise LawError(f"batch_size={b[0]:g} in every row; a law over batch sizes needs at least two of them")
    fixed = None if gamma == "free" else _checked_gamma(gamma)
    if np.all(np.isinf(rows.upper)):
        raise LawError(
            "every row is right-censored: no batch size reached the target; raise the caps or lower it"
        )
    if np.all(np.isinf(rows.lower)):
        return _bounds_only(rows, b, fixed, level, target)
    warnings: list[str] = []
    free = 2 + (fixed is None) + small_batch
    if noise is None and rows.all_exact and len(rows) <= free:
        noise = ASSUMED_NOISE
        warnings.append(
            f"{len(rows)} rows determine {free} parameters: their spread cannot be estimated, intervals "
            f"assume {ASSUMED_NOISE:.0%} noise; add batch sizes or seeds"
        )
    found = _profile(rows, b, gamma=fixed, small_batch=small_batch, noise=noise, level=level)
    fit = _result(found, b, fixed, small_batch, level, target)
    warnings += fit_warnings(
        rows, b, s_min=fit.s_min, b_crit=fit.b_crit, b_crit_interval=fit.b_crit_interval, noise=fit.noise
    )
    if rows.all_exact and noise is None:
        warnings += richer_form_warnings(
            len(rows),
            len(np.unique(b)),
            found,
            lambda g, s: _profile(rows, b, gamma=g, small_batch=s, noise=None, level=level),
            free_gamma=fixed is None,
            small_batch=small_batch,
        )
    return _with_warnings(fit, tuple(warnings))


def _checked_gamma(gamma: float | str) -> float:
    if isinstance(gamma, str) or not (gamma > 0 and np.isfinite(gamma)):
        raise LawError(f"gamma={gamma}; use a positive number, or free")
    return float(gamma)


def _profile(
    rows: Observations, b: Array, *, gamma: float | None, small_batch: bool, noise: float | None, level: float
) -> Profile:
    log_b = np.log(b)
    sizes, row_of = np.unique(log_b, return_inverse=True)  # many seeds cost little
    bounds = [(log_b.min() - _REACH, log_b.max() + _REACH)]
    if gamma is None:
        bounds.append((float(np.log(0.3)), float(np.log(12.0))))
    if small_batch:
        bounds.append((log_b.min() - _REACH / 2, log_b.max()))
    fixed = SamplesLaw(1.0, 1.0, gamma or 1.0, 1.0 if small_batch else 0.0)
    return profile(
        rows,
        lambda shapes: log_offset(sizes, full_shape(shapes, fixed))[:, row_of],
        tuple(bounds),
        level=level,
        noise=noise,
    )


def _result(
    found: Profile, b: Array, gamma: float | None, small_batch: bool, level: float, target: float | None
) -> SamplesFit:
    fixed = SamplesLaw(1.0, 1.0, gamma or 1.0, 1.0 if small_batch else 0.0)
    log_crit, log_gamma, log_small = full_shape(found.shape[None], fixed)[0]
    law = SamplesLaw(
        float(np.exp(found.best.location[0])), float(np.exp(log_crit)),
        gamma or float(np.exp(log_gamma)), float(np.exp(log_small)) if small_batch else 0.0,
    )  # fmt: skip
    at_low, at_high = found.is_open[0]
    b_crit_interval = exponential(found.of_shape(0, level))
    s_low, s_high = exponential(found.of(lambda shapes: np.zeros(len(shapes)), level))
    residuals = found.rows.middle - found.best.location[0] - found.offsets(found.shape[None])[0]
    small_open = small_batch and found.is_open[-1][0]
    return SamplesFit(
        law=law,
        s_min=None if at_low else law.s_min,
        s_min_interval=(None if b_crit_interval[0] is None else s_low, s_high),
        b_crit=None if at_low or at_high else law.b_crit,
        b_crit_interval=b_crit_interval,
        gamma=law.gamma,
        gamma_interval=(gamma, gamma) if gamma else exponential(found.of_shape(1, level)),
        b_small=0.0 if small_open else law.b_small,
        b_small_interval=exponential(found.of_shape(len(found.shape) - 1, level))
        if small_batch
        else (0.0, 0.0),
        noise=float(max(found.best.noise[0], 0.0 if found.rows.all_exact else NOISE_FLOOR)),
        level=level,
        method="profile likelihood"
        + ("" if found.rows.all_exact else ", censored rows by their probability"),
        residuals=tuple(float(x) for x in residuals),
        rows=len(found.rows),
        scanned=(float(b.min()), float(b.max())),
        target=target,
        warnings=(),
        profile=found,
    )


def _bounds_only(
    rows: Observations, b: Array, gamma: float | None, level: float, target: float | None
) -> SamplesFit:
    """Every row left-censored: the likelihood has no maximum (S_min → 0), so bounds are all there is."""
    bounds = tuple(sorted((float(x), float(f"{u:.12g}")) for x, u in zip(b, np.exp(rows.upper), strict=True)))
    least = min(u for _, u in bounds)
    words = (
        "every row is left-censored: the target was reached by the first evaluation everywhere, so S is only "
        f"bounded from above (S_min ≤ {least:.6g}) and B_crit is not identified; evaluate more often"
    )
    return SamplesFit(
        law=None,
        s_min=None,
        s_min_interval=(None, least),
        b_crit=None,
        b_crit_interval=(None, None),
        gamma=gamma,
        gamma_interval=(gamma, gamma),
        b_small=None,
        b_small_interval=(None, None),
        noise=0.0,
        level=level,
        method="bounds",
        residuals=tuple(0.0 for _ in b),
        rows=len(rows),
        scanned=(float(b.min()), float(b.max())),
        target=target,
        warnings=(words,),
        upper_bounds=bounds,
    )


def _with_warnings(fit: SamplesFit, warnings: tuple[str, ...]) -> SamplesFit:
    return SamplesFit(**{name: getattr(fit, name) for name in fit.__slots__} | {"warnings": warnings})
