"""Update-seconds law: how long one update takes at each batch size, sampling and learning apart (forms:
``update_forms``).

The affine law is the default and is fitted by least squares: absolute errors where the seconds span less than
a factor of four (what published fits do), relative ones beyond, where the largest batch would otherwise
decide alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from batchscout.errors import LawError
from batchscout.laws.observations import Array, Interval, positive
from batchscout.laws.update_forms import FORMS, PARAMETERS, SOLVERS, Form, UpdateSecondsLaw, gradient

_WIDE = 4.0
ASSUMED_SPREAD = 0.05
"""Relative spread of a row assumed where the rows are as few as the parameters."""


@dataclass(frozen=True, slots=True)
class PartFit:
    """A fitted law of one part of an update (sampling, learning, or all of it).

    a_interval, b_interval   Student's intervals at `level`, None ends where a sign bound is reached
    spread                   relative standard deviation of the rows about the law
    residuals                (n,) seconds, measured minus law
    errors                   "absolute" or "relative": what the squares were of
    b_per_token              seconds per token where tokens were given; b then is at their mean per rollout
    """

    law: UpdateSecondsLaw
    a: float
    a_interval: Interval
    b: float
    b_interval: Interval
    spread: float
    residuals: tuple[float, ...]
    errors: str
    level: float
    b_per_token: float | None
    warnings: tuple[str, ...]
    covariance: Array = field(repr=False, compare=False)
    degrees_of_freedom: float = field(repr=False, compare=False)

    def seconds(self, batch_size: ArrayLike) -> Array:
        return self.law.seconds(batch_size)

    def log_deviation(self, batch_size: ArrayLike) -> Array:
        """(n,) standard error of log t(B)."""
        basis = gradient(self.law, positive("batch_size", batch_size))
        variance = np.einsum("ni,ij,nj->n", basis, self.covariance, basis)
        return np.asarray(np.sqrt(np.maximum(variance, 0.0)) / self.law.seconds(batch_size))

    def draw(self, batch_size: ArrayLike, count: int, rng: np.random.Generator) -> Array:
        """(count, n) joint draws of t at n batch sizes, kept positive."""
        size = positive("batch_size", batch_size)
        basis = gradient(self.law, size)
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        move = rng.standard_t(max(self.degrees_of_freedom, 1.0), (count, len(values))) @ root.T @ basis.T
        centre = self.law.seconds(size)
        return np.asarray(centre * np.exp(np.clip(move / centre, -2.0, 2.0)))


@dataclass(frozen=True, slots=True)
class UpdateSecondsFit:
    """The law of whole updates, and of their parts where these were given."""

    total: PartFit
    sampling: PartFit | None
    learning: PartFit | None
    scanned: tuple[float, float]
    warnings: tuple[str, ...]

    def seconds(self, batch_size: ArrayLike) -> Array:
        return self.total.law.seconds(batch_size)

    def throughput(self, batch_size: ArrayLike) -> Array:
        return self.total.law.throughput(batch_size)


@dataclass(frozen=True, slots=True)
class UpdateSecondsSummary:
    """One job's updates. mean is after pauses were replaced; spread is the standard deviation over the
    mean."""

    mean: float
    median: float
    spread: float
    pauses: int
    updates: int


def summarise_update_seconds(seconds: ArrayLike) -> UpdateSecondsSummary:
    """Mean, median and spread of the (n,) seconds of updates that are not warm-up.

    Pauses, beyond 10 times the median and 20 median absolute deviations where there are 20 updates or more,
    are replaced by the median and counted; the long tail of generation stays, it is signal that depends on
    the batch size.
    """
    values = positive("update_seconds", seconds)
    median = float(np.median(values))
    deviation = float(np.median(np.abs(values - median)))
    is_pause = (values > 10 * median) & (values > median + 20 * deviation) & (len(values) >= 20)
    kept = np.where(is_pause, median, values)
    mean = float(kept.mean())
    return UpdateSecondsSummary(mean, median, float(kept.std() / mean), int(is_pause.sum()), len(values))


def fit_update_seconds(
    batch_size: ArrayLike,
    seconds: ArrayLike,
    *,
    sampling: ArrayLike | None = None,
    learning: ArrayLike | None = None,
    tokens: ArrayLike | None = None,
    form: Form | Literal["auto"] = "affine",
    errors: Literal["auto", "absolute", "relative"] = "auto",
    level: float = 0.9,
) -> UpdateSecondsFit:
    """Fit t(B) to rows of (batch size, mean seconds of one update).

    seconds             (n,) whole updates, mean over those that are not warm-up, pauses replaced
    sampling, learning  (n,) the parts, fitted apart where given (zero is allowed: the part then is not
                        fitted)
    tokens              (n,) tokens per rollout (give padded tokens where padding is computed): t = a +
                        b·B·tokens
    form                one of the module's forms, or "auto": the one with the least corrected Akaike
                        criterion
    Returns  UpdateSecondsFit. One batch size only gives a law proportional to B, with a warning.
    Raises   LawError for values that are not positive or lengths that differ.
    """
    size = positive("batch_size", batch_size)
    scale = None if tokens is None else positive("tokens", tokens)
    parts: dict[str, PartFit] = {}
    warnings: list[str] = []
    for name, column in (
        ("update_seconds", seconds),
        ("sampling_seconds", sampling),
        ("learning_seconds", learning),
    ):
        if column is None:
            continue
        values = np.atleast_1d(np.asarray(column, dtype=np.float64))
        if name != "update_seconds" and np.all(values == 0):
            warnings.append(f"{name} is zero in every row; this part is not fitted")
            continue
        values = positive(name, values)
        if len(values) != len(size):
            raise LawError(
                f"{name} has {len(values)} rows, batch_size has {len(size)}; they must be of one length"
            )
        parts[name] = _fit_part(size, values, scale, form=form, errors=errors, level=level)
        warnings += [f"{name}: {text}" for text in parts[name].warnings]
    return UpdateSecondsFit(
        parts["update_seconds"], parts.get("sampling_seconds"), parts.get("learning_seconds"),
        (float(size.min()), float(size.max())), tuple(warnings),
    )  # fmt: skip


def _fit_part(
    size: Array,
    seconds: Array,
    tokens: Array | None,
    *,
    form: Form | Literal["auto"],
    errors: str,
    level: float,
) -> PartFit:
    if errors == "auto":
        errors = "relative" if seconds.max() / seconds.min() > _WIDE else "absolute"
    if len(np.unique(size)) == 1:
        return _one_batch(size, seconds, tokens, errors=errors, level=level)
    chosen: Form = "affine" if form == "auto" else form
    fit = _fit_form(size, seconds, tokens, chosen, errors, level)
    others = {f: _fit_form(size, seconds, tokens, f, errors, level) for f in FORMS if f != chosen}
    mine = _akaike(fit, size, seconds)
    best = min(others, key=lambda f: _akaike(others[f], size, seconds))
    gain = mine - _akaike(others[best], size, seconds)
    if gain <= 2 or len(np.unique(size)) < PARAMETERS[best] + 2:
        return fit
    if form == "auto":
        return others[best]
    words = (
        f"AICc prefers the {best} form (lower by {gain:.1f}); the {chosen} law shown is off by up to "
        f"{np.max(np.abs(np.array(fit.residuals)) / seconds):.0%}"
    )
    return _replace(fit, warnings=(*fit.warnings, words))


def _akaike(fit: PartFit, size: Array, seconds: Array) -> float:
    """On relative residuals, so that forms fitted with other weights can be compared."""
    n, k = len(size), PARAMETERS[fit.law.form] + 1
    square = float(np.mean((np.array(fit.residuals) / seconds) ** 2))
    return n * float(np.log(max(square, 1e-12))) + 2 * k * n / max(n - k - 1, 0.5)


def _one_batch(size: Array, seconds: Array, tokens: Array | None, *, errors: str, level: float) -> PartFit:
    law = UpdateSecondsLaw("affine", 0.0, float(seconds.mean() / size[0]))
    per_token = None if tokens is None else law.b / float(tokens.mean())
    words = f"one batch size only ({size[0]:g}): its seconds are taken as proportional to the batch size"
    spread = float(seconds.std(ddof=1) / seconds.mean()) if len(seconds) > 1 else ASSUMED_SPREAD
    covariance = np.array([[0.0, 0.0], [0.0, (law.b * spread) ** 2 / len(size)]])
    return PartFit(law, 0.0, (None, None), law.b, (None, None), spread,
                   tuple(float(x) for x in seconds - law.seconds(size)), errors, level, per_token, (words,),
                   covariance, max(len(size) - 1.0, 1.0))  # fmt: skip


def _fit_form(
    size: Array, seconds: Array, tokens: Array | None, form: Form, errors: str, level: float
) -> PartFit:
    weight = 1 / seconds if errors == "relative" else np.full(len(seconds), 1 / seconds.mean())
    relative = 1.0 if tokens is None else tokens / tokens.mean()
    work = size * relative
    law = SOLVERS[form](work, seconds, weight)
    residual = seconds - law.seconds(work)
    freedom = len(size) - PARAMETERS[form]
    scaled = residual * weight
    spread = float(np.sqrt((scaled @ scaled) / freedom)) if freedom > 0 else ASSUMED_SPREAD
    basis = gradient(law, work)
    weighted = basis * weight[:, None]
    covariance = np.asarray(np.linalg.pinv(weighted.T @ weighted) * spread**2, dtype=np.float64)
    reach = (
        float(stats.t.ppf(0.5 + level / 2, freedom))
        if freedom > 0
        else float(stats.norm.ppf(0.5 + level / 2))
    )
    warnings = (
        [] if freedom > 0 else [f"as many rows as parameters; intervals assume {ASSUMED_SPREAD:.0%} spread"]
    )
    if form == "affine" and law.a == 0:
        warnings.append("a is at its bound 0: the fixed cost cannot be told from the cost per rollout")
    if form == "affine" and law.b == 0:
        warnings.append("b is at its bound 0: the seconds do not grow with the batch size")
    errors_of = np.sqrt(np.maximum(np.diag(covariance), 0.0)) * reach
    per_token = None if tokens is None or form == "power" else law.b / float(tokens.mean())
    return PartFit(
        law, law.a, _around(law.a, errors_of[0]), law.b, _around(law.b, errors_of[1]), spread,
        tuple(float(x) for x in residual), errors, level, per_token, tuple(warnings), covariance,
        float(max(freedom, 1)) if freedom > 0 else 1e6,
    )  # fmt: skip


def _around(value: float, half: float) -> Interval:
    """Ends that would be negative are open: the quantity cannot be told from zero."""
    low = value - half
    return (float(low) if low > 0 else None, float(value + half))


def _replace(fit: PartFit, *, warnings: tuple[str, ...]) -> PartFit:
    return PartFit(**{name: getattr(fit, name) for name in fit.__slots__} | {"warnings": warnings})
