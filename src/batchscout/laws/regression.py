"""Linear regression of log values, some of them censored: least squares where all are exact, Tobit
otherwise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from batchscout.errors import LawError
from batchscout.laws.likelihood import NOISE_CEILING, NOISE_FLOOR, log_likelihood, log_probability
from batchscout.laws.observations import Array, Observations

_EXACT_FLOOR = 1e-9
_HALF_LOG_2PI = 0.5 * float(np.log(2 * np.pi))


@dataclass(frozen=True, slots=True)
class Regression:
    """(p,) coefficients, their (p, p) covariance, the noise (maximum likelihood) and the log-likelihood.

    degrees_of_freedom  rows, each counted for what it tells, less the coefficients; at least 1
    """

    coefficients: Array
    covariance: Array
    noise: float
    log_likelihood: float
    effective_rows: float
    degrees_of_freedom: float


def regress(rows: Observations, design: Array) -> Regression:
    """Fit log value = design · coefficients + noise by maximum likelihood.

    design  (n, p) of full column rank
    Raises  LawError where the columns cannot be told apart by the rows.
    """
    if np.linalg.matrix_rank(design) < design.shape[1]:
        raise LawError(f"{len(rows)} rows cannot tell {design.shape[1]} coefficients apart; add settings")
    root = np.sqrt(rows.weight)
    solved = np.linalg.lstsq(design * root[:, None], rows.middle * root, rcond=None)[0]
    start: Array = np.asarray(solved, dtype=np.float64)
    residual = rows.middle - design @ start
    sigma = max(float(np.sqrt((residual**2 @ rows.weight) / len(rows))), _EXACT_FLOOR)
    if rows.all_exact:
        value = float(log_likelihood(rows, design @ start, sigma).sum())
        scaled = design * root[:, None]
        return _result(start, _inverse(scaled.T @ scaled), sigma, value, float(len(rows)))
    return _newton(rows, design, start, min(max(sigma, 0.05), 1.0))


def _result(coefficients: Array, inverse: Array, sigma: float, value: float, effective: float) -> Regression:
    freedom = max(effective - len(coefficients), 1.0)
    covariance = inverse * sigma**2 * max(effective, freedom) / freedom
    return Regression(coefficients, covariance, sigma, value, effective, freedom)


def _newton(rows: Observations, design: Array, start: Array, sigma: float) -> Regression:
    """Newton in (coefficients/noise, 1/noise), where the log-likelihood is concave."""
    theta = np.append(start / sigma, 1 / sigma)
    value, gradient, hessian, information = _terms(rows, design, theta)
    for _ in range(100):
        damped = hessian - 1e-9 * np.eye(len(theta)) * (1 + np.abs(np.diag(hessian)))
        step = -np.linalg.solve(damped, gradient)
        step *= min(1.0, 0.7 * theta[-1] / max(-step[-1], 1e-300)) if step[-1] < 0 else 1.0
        size = 1.0
        for _ in range(30):
            trial = theta + size * step
            trial[-1] = np.clip(trial[-1], 1 / NOISE_CEILING, 1 / NOISE_FLOOR)
            new = _terms(rows, design, trial)
            if new[0] >= value - 1e-12:
                break
            size /= 2
        gain = new[0] - value
        if gain < 0:
            break
        theta, (value, gradient, hessian, information) = trial, new
        if gain < 1e-10:
            break
    h = float(theta[-1])
    inverse = _inverse(-hessian[:-1, :-1])
    return _result(theta[:-1] / h, inverse, 1 / h, value, information)


def _terms(rows: Observations, design: Array, theta: Array) -> tuple[float, Array, Array, float]:
    """Log-likelihood, gradient, Hessian in theta and the effective number of rows."""
    h, root, exact = theta[-1], np.sqrt(rows.weight), rows.is_exact
    mean = design @ theta[:-1]
    low_finite, high_finite = np.isfinite(rows.lower), np.isfinite(rows.upper)
    low = np.where(low_finite, root * (h * _finite(rows.lower) - mean), -np.inf)
    high = np.where(high_finite, root * (h * _finite(rows.upper) - mean), np.inf)
    log_p = log_probability(np.where(exact, -1.0, low), np.where(exact, 1.0, high))
    z = np.where(exact, high, 0.0)
    value = float(np.where(exact, np.log(h * root) - _HALF_LOG_2PI - 0.5 * z**2, log_p).sum())
    # d(z)/d(theta) of both ends; their densities over the probability between them (0 for an open end).
    d_low = np.column_stack([-root[:, None] * design, root * _finite(rows.lower)])
    d_high = np.column_stack([-root[:, None] * design, root * _finite(rows.upper)])
    f_low, f_high = (
        np.where(
            exact | ~finite, 0.0, np.exp(np.minimum(-0.5 * _finite(end) ** 2 - _HALF_LOG_2PI - log_p, 200))
        )
        for end, finite in ((low, low_finite), (high, high_finite))
    )
    each = f_high[:, None] * d_high - f_low[:, None] * d_low
    k_low, k_high = _finite(low) * f_low, _finite(high) * f_high
    hessian = (d_low.T * k_low) @ d_low - (d_high.T * k_high) @ d_high - each.T @ each
    each = each - (z * exact)[:, None] * d_high
    hessian -= (d_high.T * exact) @ d_high
    gradient = each.sum(axis=0)
    gradient[-1] += exact.sum() / h
    hessian[-1, -1] -= exact.sum() / h**2
    told = np.where(exact, 1.0, np.clip(k_high - k_low + (f_high - f_low) ** 2, 0.0, 1.0))
    return value, gradient, hessian, float(told.sum())


def _inverse(matrix: Array) -> Array:
    return np.asarray(np.linalg.pinv(matrix), dtype=np.float64)


def _finite(bound: Array) -> Array:
    return np.where(np.isfinite(bound), bound, 0.0)
