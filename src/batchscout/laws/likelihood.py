"""Log-normal likelihood of exact, left-, right- and interval-censored rows, maximised over location and
noise.

A law gives each row an offset m; the row's log value is location + m + noise·ε with ε standard normal (a
Tobit model on the log scale). In (location/noise, 1/noise) the log-likelihood is concave (Burridge 1981), so
Newton's method finds its one maximum; it runs here for many candidate laws at once. Where all rows are exact
the answer is closed form and equals unweighted (weighted) least squares in log space.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from batchscout.errors import LawError
from batchscout.laws.observations import Array, Observations

NOISE_FLOOR = 0.01
"""Smallest noise (log scale) considered where rows are censored: brackets alone would let it shrink to
nothing."""
NOISE_CEILING = 3.0
_EXACT_FLOOR = 1e-9
_HALF_LOG_2PI = 0.5 * float(np.log(2 * np.pi))
_STEPS = 60


@dataclass(frozen=True, slots=True)
class Maximum:
    """For each of K candidate laws: the log-likelihood at its best location and noise.

    information  (K,) how many exact rows the rows are worth, for the location (n where all are exact)
    """

    log_likelihood: Array
    location: Array
    noise: Array
    information: Array


def maximise(
    rows: Observations, offsets: Array, *, location: Array | None = None, noise: float | None = None
) -> Maximum:
    """Maximise the log-likelihood over location and noise, for K candidates at once.

    offsets   (K, n) what each candidate law says of each row, up to the location
    location  (K,) held fixed instead, where given
    noise     held fixed instead, where given
    Raises    LawError if the location is free and no row bounds it on one side.
    """
    offsets = np.atleast_2d(offsets)
    if rows.all_exact:
        return _closed_form(rows, offsets, location, noise)
    if location is None and (np.all(np.isinf(rows.lower)) or np.all(np.isinf(rows.upper))):
        side = "left" if np.all(np.isinf(rows.lower)) else "right"
        raise LawError(f"all rows are {side}-censored; at least one row must bound the other side")
    return _newton(rows, offsets, location, noise)


def log_likelihood(rows: Observations, mean: Array, noise: float) -> Array:
    """(n,) terms at log-scale means and a noise: densities of log values for exact rows, probabilities for
    others."""
    scale = np.sqrt(rows.weight) / noise
    low, high = (rows.lower - mean) * scale, (rows.upper - mean) * scale
    density = np.log(scale) - 0.5 * np.where(rows.is_exact, high, 0.0) ** 2 - _HALF_LOG_2PI
    return np.where(rows.is_exact, density, log_probability(low, high))


def _closed_form(rows: Observations, offsets: Array, location: Array | None, noise: float | None) -> Maximum:
    weight, n = rows.weight, len(rows)
    residual = rows.middle - offsets
    if location is None:
        location = residual @ weight / weight.sum()
    square = ((residual - location[:, None]) ** 2) @ weight
    sigma = np.maximum(np.sqrt(square / n), _EXACT_FLOOR) if noise is None else np.full(len(offsets), noise)
    value = -n * (np.log(sigma) + _HALF_LOG_2PI) + 0.5 * np.log(weight).sum() - 0.5 * square / sigma**2
    return Maximum(value, location, sigma, np.full(len(offsets), float(n)))


def log_probability(low: Array, high: Array) -> Array:
    """log(Φ(high) − Φ(low)) without cancellation: worked in the lower tail."""
    flip = low + high > 0
    with np.errstate(invalid="ignore"):
        a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    log_a, log_b = special.log_ndtr(a), special.log_ndtr(b)
    with np.errstate(divide="ignore", invalid="ignore"):
        out = log_b + np.log(-np.expm1(np.where(log_a < log_b, log_a - log_b, -1e-300)))
    return np.where(np.isinf(out) & (out < 0), -1e6, out)


@dataclass(slots=True)
class _Derivatives:
    value: Array
    gradient: tuple[Array, Array]
    hessian: tuple[Array, Array, Array]
    information: Array


def _derivatives(rows: Observations, offsets: Array, alpha: Array, h: Array) -> _Derivatives:
    """Sums over rows of the log-likelihood and its derivatives in (alpha = location/noise, h = 1/noise)."""
    root = np.sqrt(rows.weight)
    exact = rows.is_exact
    value, ga, gh = np.zeros_like(h), np.zeros_like(h), np.zeros_like(h)
    haa, hah, hhh, information = (np.zeros_like(h) for _ in range(4))
    if exact.any():
        r, w, q = rows.middle[exact] - offsets[:, exact], rows.weight[exact], root[exact]
        z = q * (h[:, None] * r - alpha[:, None])
        m = int(exact.sum())
        value += m * (np.log(h) - _HALF_LOG_2PI) + np.log(q).sum() - 0.5 * (z**2).sum(1)
        ga += (z * q).sum(1)
        gh += m / h - (z * q * r).sum(1)
        haa -= w.sum()
        hah += (w * r).sum(1)
        hhh -= m / h**2 + (w * r**2).sum(1)
        information += m
    if not exact.all():
        q, c = root[~exact], ~exact
        ends = []
        for bound, sign in ((rows.lower[c], -1.0), (rows.upper[c], 1.0)):
            finite = np.isfinite(bound)
            r = np.where(finite, bound, 0.0) - offsets[:, c]
            z = np.where(finite, q * (h[:, None] * r - alpha[:, None]), sign * np.inf)
            ends.append((z, np.where(finite, q * r, 0.0), np.where(finite, q, 0.0)))
        (zl, rl, ql), (zu, ru, qu) = ends
        log_p = log_probability(zl, zu)
        fl, fu = (np.exp(np.minimum(-0.5 * z**2 - _HALF_LOG_2PI - log_p, 200)) for z in (zl, zu))
        kl, ku = (np.where(np.isfinite(z), z, 0.0) * f for z, f in ((zl, fl), (zu, fu)))
        a, b = -fu * qu + fl * ql, fu * ru - fl * rl
        value += log_p.sum(1)
        ga += a.sum(1)
        gh += b.sum(1)
        daa = -ku * qu**2 + kl * ql**2 - a**2
        haa += daa.sum(1)
        hah += (ku * ru * qu - kl * rl * ql - a * b).sum(1)
        hhh += (-ku * ru**2 + kl * rl**2 - b**2).sum(1)
        information += np.clip(-daa / q**2, 0.0, 1.0).sum(1)
    return _Derivatives(value, (ga, gh), (haa, hah, hhh), information)


def _newton(rows: Observations, offsets: Array, location: Array | None, noise: float | None) -> Maximum:
    """Damped Newton in (alpha, h), or in one of them where the other is held."""
    held_location, held_noise = location is not None, noise is not None
    shift = np.zeros(len(offsets)) if location is None else location
    work = offsets + shift[:, None]
    centre = np.zeros(len(offsets)) if held_location else (rows.middle - work).mean(1)
    work = work + centre[:, None]
    start = noise if noise is not None else 0.2
    h, alpha = np.full(len(work), 1.0 / start), np.zeros(len(work))
    state = _derivatives(rows, work, alpha, h)
    for _ in range(_STEPS):
        da, dh = _direction(state, h, held_location, held_noise)
        step = np.ones_like(h)
        for _ in range(12):
            new_h = np.clip(h + step * dh, 1 / NOISE_CEILING, 1 / NOISE_FLOOR) if not held_noise else h
            trial = _derivatives(rows, work, alpha + step * da, new_h)
            worse = trial.value < state.value - 1e-12
            if not worse.any():
                break
            step = np.where(worse, step / 2, step)
        ok = trial.value >= state.value - 1e-12
        gain = np.where(ok, trial.value - state.value, 0.0)
        alpha = np.where(ok, alpha + step * da, alpha)
        h = np.where(ok, new_h, h)
        state = trial if ok.all() else _derivatives(rows, work, alpha, h)
        if np.max(gain) < 1e-9:
            break
    return Maximum(state.value, shift + centre + alpha / h, 1 / h, state.information)


def _direction(state: _Derivatives, h: Array, held_location: bool, held_noise: bool) -> tuple[Array, Array]:
    """Newton's step, kept inside the bounds of the noise: on a bound, only the other variable moves."""
    (ga, gh), (haa, hah, hhh) = state.gradient, state.hessian
    haa, hhh = np.minimum(haa, -1e-9), np.minimum(hhh, -1e-12)
    at_bound = ((h >= 1 / NOISE_FLOOR * (1 - 1e-9)) & (gh > 0)) | (
        (h <= 1 / NOISE_CEILING * (1 + 1e-9)) & (gh < 0)
    )
    if held_location:
        return np.zeros_like(h), np.where(held_noise or at_bound, 0.0, np.clip(-gh / hhh, -0.7 * h, 3 * h))
    alone = -ga / haa
    if held_noise:
        return alone, np.zeros_like(h)
    det = haa * hhh - hah**2
    safe = det > 1e-9 * haa * hhh
    det = np.where(safe, det, 1.0)
    da = np.where(safe, -(hhh * ga - hah * gh) / det, alone)
    dh = np.where(safe, -(haa * gh - hah * ga) / det, -gh / hhh)
    limited = np.clip(dh, -0.7 * h, 3 * h)
    da = np.where(dh != 0, da * np.where(dh != 0, limited / np.where(dh != 0, dh, 1.0), 1.0), da)
    return np.where(at_bound, alone, da), np.where(at_bound, 0.0, limited)
