"""The score curve that all jobs of a sweep share, seen at ln(n / S): a generalised logistic.

    p(u) = lo + (hi - lo) sigmoid(u / w + c)^nu,   u = ln n - ln S,   p(0) = target

Scores are scaled so that 0 is about the untrained model and 1 the target. ``nu`` bends the left end (Gompertz-like
above 1, Weibull-like below), so the family covers the usual saturating curves. The floor may follow the lr,

    p_job(u) = p(u) + tilt log2(lr / middle lr) (1 - p(u)),

for a curve at a low lr is often the first half-way up and the last to arrive. The posterior over the six numbers (lo,
ln gap, ln w, ln nu, ln noise, tilt; gap = hi - 1) is found by Gauss-Newton with each job's ln S as a nuisance, then
sampled by adaptive importance sampling on the exact marginal likelihood, in which each job may be an outlier
(`wandering`): no odd job may bend the common shape.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from batchscout.search.belief.particles import evenly

Array = NDArray[np.float64]
Table = NDArray[np.float32]

NOISE, TILT, SIZE = 4, 5, 6
PRIOR_MEAN = np.array([0.0, np.log(0.2), np.log(0.4), 0.0, np.log(0.03), 0.0])
PRIOR_SD = np.array([0.06, 0.6, 0.4, 0.45, 0.6, 0.12])
SAME_FLOOR_SD = 0.02  # of the tilt where, as likely as not, floors do not follow the lr
_CURVED = [0, 1, 2, 3, TILT]  # all but the noise
STEP = 0.05  # of the ln S lattice
OUTLIER, BEYOND = 0.05, 0.8
"""Probability that a job is odd: of one below the edge of divergence, of one beyond it."""
_NOISE_DOF = 4.0
_FLOOR = 0.004  # sd that no noise goes below: scores are quantised
_WOBBLE = 0.005  # sd of a curve around the shared shape, however often it is evaluated, in units of the rise


@dataclass(frozen=True, eq=False)
class CurveBlock:
    """Scaled curves of J jobs, padded to b bins (count 0).

    ln_n, y, count  (J, b);   ln_wandering  (J,) log marginal likelihood of each as an outlier
    count   evaluations in each bin; those of a job that is louder than the usual one count for less
    ln_noise, ln_noise_sd  what is expected of the shape's ln noise, from the curves' own jitter
    dip     (J,) sd of a job's own floor around the shared one: `floor`, and more where its scores fell below the
            untrained model's
    octaves (J,) log2 lr minus `log2_lr`, that of the middle
    ln_jitter  ln of the noise of one evaluation that the jobs show on average, NaN where none shows it
    beyond  (M, J) share 0 or 1: the M ways in which an edge of divergence may part the jobs, equally likely a priori
    scale, start    raw score = start + scale * y; is_fraction: raw scores are shares in [0, 1], noise is binomial-like
    """

    ln_n: Array
    y: Array
    count: Array
    ln_wandering: Array
    ln_last: Array
    scale: float
    start: float
    is_fraction: bool
    beyond: Array
    ln_noise: float
    ln_noise_sd: float
    dip: Array
    octaves: Array
    log2_lr: float = 0.0
    ln_jitter: float = float("nan")
    floor: float = 0.0

    def take(self, jobs: list[int]) -> CurveBlock:
        """Some of the jobs, on the same scale."""
        return replace(
            self, ln_n=self.ln_n[jobs], y=self.y[jobs], count=self.count[jobs], ln_wandering=self.ln_wandering[jobs],
            ln_last=self.ln_last[jobs], beyond=np.unique(self.beyond[:, jobs], axis=0), dip=self.dip[jobs],
            octaves=self.octaves[jobs],
        )  # fmt: skip

    def with_floors(self, sd: float) -> CurveBlock:
        """The same curves, each job with a floor of its own."""
        return replace(self, dip=np.hypot(self.dip, sd), floor=sd)

    def risen(self, score: float) -> float:
        """Share of the way from the untrained score to the target at a raw score."""
        return (score - self.start) / self.scale

    def ln_prior(self, shapes: Array) -> Array:
        """(K,) up to a constant."""
        mean, sd = PRIOR_MEAN.copy(), PRIOR_SD.copy()
        mean[NOISE], sd[NOISE] = self.ln_noise, self.ln_noise_sd
        away = -0.5 * ((shapes - mean) / sd) ** 2
        same = -0.5 * (shapes[..., TILT] / SAME_FLOOR_SD) ** 2
        away[..., TILT] = np.logaddexp(away[..., TILT], same + np.log(sd[TILT] / SAME_FLOOR_SD))
        return np.asarray(away.sum(-1))

    def noise_factor(self, p: Array) -> Array:
        """Relative variance of one evaluation at scaled score p: 4 q (1 - q) for a share q of solved prompts."""
        if not self.is_fraction:
            return np.ones_like(p)
        q = self.start + self.scale * p
        return np.clip(4 * q * (1 - q), 0.12, 1.0)

    def variance(self, p: Array, ln_noise: Array) -> Array:
        """Of one evaluation at scaled score p, under a shape's noise; the two broadcast."""
        return np.asarray(np.exp(2 * ln_noise) * self.noise_factor(p) + _FLOOR**2)

    def raised(self, shapes: Array) -> Array:
        """(K, J) how far the lr of each job lifts its floor, under each shape."""
        return np.asarray(shapes[:, TILT, None] * self.octaves)

    def precision(self, p: Array, ln_noise: Array) -> Array:
        """(..., J, b) of each bin at scaled score p; 0 where there is none."""
        return np.asarray(self.count / (self.variance(p, ln_noise) + self.count * _WOBBLE**2))


@dataclass(frozen=True, eq=False)
class ShapeEnsemble:
    """K equally likely shapes and, on the lattice ln S = z0 + STEP i, what each job says.

    shapes    (K, 6);  ln_like (J, K, Z) ln likelihood of ln S (density of the curve)
    ln_mass   (J, K) ln of its integral over the lattice; ln_outlier (J,) of the curve as an outlier
    floor     sd of the jobs' own floors, 0 where they share one
    """

    shapes: Array
    z: Array
    ln_like: Table
    ln_mass: Array
    ln_outlier: Array
    effective: float
    floor: float = 0.0

    def take(self, jobs: list[int]) -> ShapeEnsemble:
        return replace(
            self, ln_like=self.ln_like[jobs], ln_mass=self.ln_mass[jobs], ln_outlier=self.ln_outlier[jobs]
        )


def height(shapes: Array, u: Array) -> Array:
    """Scaled score at u; shapes (..., 6) broadcast against u (...)."""
    lo, hi, w, nu = shapes[..., 0], 1 + np.exp(shapes[..., 1]), np.exp(shapes[..., 2]), np.exp(shapes[..., 3])
    share = ((1 - lo) / (hi - lo)) ** (1 / nu)
    x = u / w + np.log(share / (1 - share))
    # sigmoid(x)^nu without overflow
    return np.asarray(lo + (hi - lo) * np.exp(-nu * np.logaddexp(0.0, -x)))


def ln_likelihood(block: CurveBlock, shapes: Array, z: Array) -> Table:
    """(J, K, Z) ln likelihood of each job's ln S on the lattice z, under each shape.

    The curve is tabulated once per shape on the lattice of u; a bin's position lies between two lattice points, with
    the same fraction for every z, so each bin is a window of the table and costs no exponentials.

    A job that dipped has a floor of its own, p - a (1 - p) with a ~ N(0, dip^2), integrated out (Woodbury).
    """
    jobs, size = len(block.y), len(z)
    used = block.count > 0
    low = np.floor((block.ln_n - z[0]) / STEP).astype(int)
    u_min, u_max = int(low[used].min()) - size, int(low[used].max()) + 2
    u: Array = np.asarray(STEP * np.arange(u_min, u_max + 1), dtype=np.float64)
    exact = height(shapes[:, None, :], u[None])
    v = block.variance(exact, shapes[:, NOISE, None])
    # single precision: at its best place a curve's terms are small, elsewhere their third digit does not matter
    p = exact.astype(np.float32)
    counts, which = np.unique(block.count[used], return_inverse=True)
    spread = v[None] / counts[:, None, None] + _WOBBLE**2
    inverse, ln_v = (1 / spread).astype(np.float32), np.log(2 * np.pi * spread).astype(np.float32)
    count_of = np.zeros(block.count.shape, int)
    count_of[used] = which.ravel()
    # (U, K, size) of windows, z[i] is seen at u index low - i: turned round at the end
    heights, rises = (_windows(a, size).swapaxes(0, 1) for a in (p, np.diff(p, axis=1)))
    inverses, ln_vs = _windows(inverse, size), _windows(ln_v, size)
    position = ((block.ln_n - z[0]) / STEP - low).astype(np.float32)
    raised = block.raised(shapes).T[..., None].astype(np.float32)
    out = np.empty((jobs, len(shapes), size), np.float32)
    for j in range(jobs):
        bins = np.flatnonzero(used[j])
        at, c = low[j, bins] - u_min + 1 - size, count_of[j, bins]
        term = rises[at]
        term *= position[j, bins, None, None]
        term += heights[at]
        if block.octaves[j]:
            term *= 1 - raised[j]
            term += raised[j]
        weight = inverses[c, :, at]
        below = np.maximum(1 - term, 0) if block.dip[j] else None
        term -= block.y[j, bins, None, None].astype(np.float32)
        scaled = term * weight
        total = np.einsum("bkz,bkz->kz", term, scaled) + ln_vs[c, :, at].sum(0)
        if below is not None:
            var = np.float32(block.dip[j] ** 2)
            along = np.einsum("bkz,bkz->kz", below, scaled)
            below *= below
            square = np.einsum("bkz,bkz->kz", below, weight)
            total += np.log1p(var * square) - var * along**2 / (1 + var * square)
        np.multiply(total[:, ::-1], np.float32(-0.5), out=out[j])
    return out


def _windows(a: NDArray[np.float32], size: int) -> NDArray[np.float32]:
    """(..., U - size + 1, size) views of a (..., U)."""
    return np.lib.stride_tricks.sliding_window_view(a, size, axis=-1)


def lattice(block: CurveBlock) -> Array:
    """ln S values from below the first evaluation of any job to far beyond the last."""
    used = block.count > 0
    low = np.floor((block.ln_n[used].min() - 0.5) / STEP)
    high = np.ceil((block.ln_last.max() + 3.5) / STEP)
    return STEP * np.arange(low, high + 1)


def ln_mass(ln_like: Table) -> Array:
    """ln of the integral over the lattice (last axis), flat in ln S over one unit-free range."""
    peak = ln_like.max(-1)
    mass = np.exp(ln_like - peak[..., None]).sum(-1)
    return np.asarray(peak + np.log(mass * (STEP / 8.0)), np.float64)


def ln_evidence(block: CurveBlock, shapes: Array, mass: Array) -> Array:
    """(K,) ln prior + ln marginal likelihood, each job either of the common shape or an outlier.

    Jobs diverge together, where the lr is too high for their batch size: five of them beyond one edge are one
    surprise, not five. Counted as five, a shape that passes through them all would win over the one that the
    others share.
    """
    return np.asarray(
        block.ln_prior(shapes)
        + np.logaddexp.reduce(_joint(block, *_by_side(block, mass)), axis=0)
        - np.log(len(block.beyond))
    )


def _by_side(block: CurveBlock, mass: Array) -> tuple[Array, Array]:
    """(J, K) ln likelihood of each job below the edge, and beyond it."""
    odd = block.ln_wandering[:, None]
    below, beyond = (np.logaddexp(np.log1p(-q) + mass, np.log(q) + odd) for q in (OUTLIER, BEYOND))
    return below, beyond


def _joint(block: CurveBlock, below: Array, beyond: Array) -> Array:
    """(M, K) ln likelihood of all jobs under each edge."""
    return np.asarray(below.sum(0) + block.beyond @ (beyond - below))


def normality(block: CurveBlock, mass: Array) -> Array:
    """(J, K) probability that each job is of the common shape, the edge averaged over."""
    below, beyond = _by_side(block, mass)
    odd = block.ln_wandering[:, None]
    odd_below, odd_beyond = np.exp(np.log(OUTLIER) + odd - below), np.exp(np.log(BEYOND) + odd - beyond)
    joint = _joint(block, below, beyond)
    weight = np.exp(joint - joint.max(0))
    share = block.beyond.T @ (weight / weight.sum(0))  # (J, K) probability of lying beyond the edge
    return np.asarray(np.clip(1 - (1 - share) * odd_below - share * odd_beyond, 0.0, 1.0))


def fit_shapes(block: CurveBlock, *, size: int, normals: Array) -> ShapeEnsemble:
    """`size` equally weighted shapes from the posterior. normals: (N, 6) fixed standard normals, N >= 2 size.

    Whether jobs share their floor is decided by the evidence at the best mode: where they do not, half-risen jobs say
    less of their S, and the early updates at a high lr, which may cost before they pay, do not count against it.
    """
    z = lattice(block)
    best, proposals = _modes(block, z)
    if len(block.y) >= LEAST_FOR_FLOORS:
        loose = block.with_floors(FLOOR_SD)
        other, loose_proposals = _modes(loose, z)
        if other > best + FLOORS_PRICE:
            block, proposals = loose, loose_proposals
    pool_shapes, pool_like, pool_evidence, pool_ln_q = [], [], [], []
    rounds, per_round = 3, len(normals) // 3
    for r in range(rounds):
        e = normals[r * per_round : (r + 1) * per_round]
        # a quarter of the draws twice as wide: the Gaussian's tails are not to be trusted
        wide = np.where(np.arange(len(e)) % 4 == 0, 2.0, 1.0)[:, None]
        shapes = np.empty((len(e), SIZE))
        each = -(-len(e) // len(proposals))
        for i, (centre, cov) in enumerate(proposals):
            root: Array = np.asarray(np.linalg.cholesky(cov + 1e-10 * np.eye(SIZE)), dtype=np.float64)
            mine = slice(i * each, (i + 1) * each)
            shapes[mine] = centre + (wide[mine] * e[mine]) @ root.T
            pool_ln_q.append((centre, root, float(len(shapes[mine]))))
        pool_shapes.append(shapes)
        pool_like.append(ln_likelihood(block, shapes, z))
        pool_evidence.append(ln_evidence(block, shapes, ln_mass(pool_like[-1])))
        shapes_all, lp = np.concatenate(pool_shapes), np.concatenate(pool_evidence)
        weight = np.asarray(lp - _ln_mixture(shapes_all, pool_ln_q))
        w = np.exp(weight - weight.max())
        w /= w.sum()
        effective = float(1 / (w**2).sum())
        if effective > 0.25 * per_round:
            break
        # tempered adaptation: weights flattened until a sixth of the draws counts
        flat, power = w, 1.0
        while 1 / (flat**2).sum() < per_round / 6 and power > 0.02:
            power *= 0.7
            flat = np.exp(power * (weight - weight.max()))
            flat /= flat.sum()
        centre = flat @ shapes_all
        spread = shapes_all - centre
        proposals = [(centre, (flat[:, None] * spread).T @ spread * 1.2 + np.diag((0.02 * PRIOR_SD) ** 2))]
    picked = evenly(w, size)
    like = np.concatenate(pool_like, axis=1)[:, picked]
    return ShapeEnsemble(
        shapes_all[picked], z, like, ln_mass(like), block.ln_wandering, effective, block.floor
    )


def _ln_mixture(shapes: Array, proposals: list[tuple[Array, Array, float]]) -> Array:
    """ln density of the draws under the mixture of all proposals used so far (deterministic mixture weights)."""
    parts = []
    for centre, root, draws in proposals:
        x = np.linalg.solve(root, (shapes - centre).T)
        square, ln_det = (x**2).sum(0), np.log(np.diag(root)).sum()
        parts.append(
            np.logaddexp(
                np.log(0.75) - 0.5 * square, np.log(0.25) - 0.125 * square - SIZE * np.log(2.0)
            ) - ln_det + np.log(draws)
        )  # fmt: skip
    return np.asarray(np.logaddexp.reduce(parts, axis=0))


LEAST_FOR_FLOORS, FLOOR_SD, FLOORS_PRICE = 3, 0.1, 6.0  # jobs; of the rise; nats
ANOTHER_MODE, FAR_BELOW = 0.2, 8.0  # difference of ln w; nats
_STARTS = np.array(
    [[0.0, -1.6, lw, ln_nu, -3.4, 0.0] for lw in (-1.3, -0.9, -0.5) for ln_nu in (-0.35, 0.35)]
)


def _modes(block: CurveBlock, z: Array) -> tuple[float, list[tuple[Array, Array]]]:
    """Modes of the posterior of the shape and their covariances (Gauss-Newton, several starts, odd jobs weighed
    down): the highest, and the next one where it is another and not far below. With the height of the highest."""
    shapes = _STARTS.copy()
    shapes[:, NOISE] = block.ln_noise
    damping = np.full(len(shapes), 1e-2)
    for _outer in range(3):
        like = ln_likelihood(block, shapes, z)
        normal = normality(block, ln_mass(like))
        position = z[like.argmax(-1)].T  # (starts, J)
        shapes, position, damping = _gauss_newton(block, shapes, position, normal.T, damping)
        shapes[:, NOISE] = _noise_mode(block, shapes, position, normal.T)
    height_of = ln_evidence(block, shapes, ln_mass(ln_likelihood(block, shapes, z)))
    order = np.argsort(-height_of, kind="stable")
    best = int(order[0])
    apart = np.abs(shapes[:, 2] - shapes[best, 2]) > ANOTHER_MODE
    rivals = [int(i) for i in order if apart[i] and height_of[best] - height_of[i] < FAR_BELOW]
    modes = [(shapes[i], _covariance(block, shapes, position, normal.T, i)) for i in (best, *rivals[:1])]
    return float(height_of[best]), modes


def _covariance(block: CurveBlock, shapes: Array, position: Array, normal: Array, i: int) -> Array:
    mine = slice(i, i + 1)
    residual = _residuals(block, shapes[mine], position[mine], normal[mine])
    precision = _schur(*residual)[0][0] + np.diag(PRIOR_SD[_CURVED] ** -2)
    cov = np.zeros((SIZE, SIZE))
    cov[np.ix_(_CURVED, _CURVED)] = np.linalg.inv(precision)
    count = float((block.count > 0).sum())
    cov[NOISE, NOISE] = 1 / (2 * (_NOISE_DOF + 0.5 * count))
    return cov


def _residuals(
    block: CurveBlock, shapes: Array, position: Array, normal: Array
) -> tuple[Array, Array, Array]:
    """Weighted residuals (s, J, b), derivatives by the curved shape numbers (s, J, b, 5) and by ln S (s, J, b)."""
    u = block.ln_n[None] - position[:, :, None]
    p, *slopes, along = _slopes(shapes[:, None, None, :], u)
    raised = block.raised(shapes)[..., None]
    slopes = [(1 - raised) * s for s in slopes] + [block.octaves[:, None] * (1 - p)]
    p = p + raised * (1 - p)
    weight, white = _whitening(block, shapes, p, normal)
    by_shape = np.stack([white(s) for s in slopes], axis=-1)
    by_position = -white((1 - raised) * along)
    return weight * white(block.y - p), weight[..., None] * by_shape, weight * by_position


def _heights(block: CurveBlock, shapes: Array, u: Array) -> Array:
    """(s, J, b) scaled scores of each job at u, its floor where its lr puts it."""
    p = height(shapes[:, None, None, :], u)
    return np.asarray(p + block.raised(shapes)[..., None] * (1 - p))


def _off(block: CurveBlock, shapes: Array, position: Array, normal: Array) -> Array:
    """Weighted residuals (s, J, b) alone."""
    p = _heights(block, shapes, block.ln_n[None] - position[:, :, None])
    weight, white = _whitening(block, shapes, p, normal)
    return weight * white(block.y - p)


def _whitening(
    block: CurveBlock, shapes: Array, p: Array, normal: Array
) -> tuple[Array, Callable[[Array], Array]]:
    """Root of the weight of each bin (s, J, b) at heights p, and what takes the jobs' own floors out of residuals."""
    inverse = block.precision(p, shapes[:, NOISE, None, None])
    return np.sqrt(normal[:, :, None] * inverse), _without_floor(block, p, inverse)


def _slopes(shapes: Array, u: Array) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Scaled score at u and its derivatives by lo, ln gap, ln w, ln nu and u."""
    lo, gap, w, nu = shapes[..., 0], np.exp(shapes[..., 1]), np.exp(shapes[..., 2]), np.exp(shapes[..., 3])
    rise = 1 + gap - lo
    ln_q = np.log((1 - lo) / rise)
    left = 1 - np.exp(ln_q / nu)  # 1 - sigmoid at the target
    x = u / w + ln_q / nu - np.log(left)
    ln_sigmoid = -np.logaddexp(0.0, -x)
    share = np.exp(nu * ln_sigmoid)
    by_x = rise * nu * share * -np.expm1(ln_sigmoid)
    by_ln_q = by_x / (nu * left)
    return (
        lo + rise * share,
        1 - share - by_ln_q * gap / (rise * (1 - lo)),
        gap * share - by_ln_q * gap / rise,
        -by_x * u / w,
        rise * share * nu * ln_sigmoid - by_ln_q * ln_q,
        by_x / w,
    )


def _without_floor(block: CurveBlock, p: Array, inverse: Array) -> Callable[[Array], Array]:
    """Takes out of (s, J, b) residuals what floors of the jobs' own explain at heights p: with the weights `inverse`
    their squares are then those of the covariance diag(1 / inverse) + dip^2 g g', g = 1 - p."""
    if not block.dip.any():
        return lambda x: x
    g = np.maximum(1 - p, 0)
    square = (g * g * inverse).sum(-1, keepdims=True) + 1e-12
    share = (1 - 1 / np.sqrt(1 + block.dip[:, None] ** 2 * square)) / square
    return lambda x: np.asarray(x - g * share * (x * g * inverse).sum(-1, keepdims=True))


def _schur(residual: Array, by_shape: Array, by_position: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Normal equations with the positions eliminated."""
    A = np.einsum("sjbk,sjbl->skl", by_shape, by_shape)
    B = np.einsum("sjbk,sjb->sjk", by_shape, by_position)
    D = (by_position**2).sum(-1) + 0.16
    g = np.einsum("sjbk,sjb->sk", by_shape, residual)
    h = (by_position * residual).sum(-1)
    reduced = A - np.einsum("sjk,sjl->skl", B / D[..., None], B)
    right = g - np.einsum("sjk,sj->sk", B, h / D)
    return reduced, right, B, D, h


def _gauss_newton(
    block: CurveBlock, shapes: Array, position: Array, normal: Array, damping: Array
) -> tuple[Array, Array, Array]:
    prior_precision, prior_mean = PRIOR_SD[_CURVED] ** -2, PRIOR_MEAN[_CURVED]
    eye = np.eye(len(_CURVED))

    def objective(s: Array, x: Array) -> Array:
        r = _off(block, s, x, normal)
        away = (((s[:, _CURVED] - prior_mean) ** 2) * prior_precision).sum(-1)
        return np.asarray((r**2).sum((1, 2)) + away)

    current = objective(shapes, position)
    for _ in range(6):
        parts = _residuals(block, shapes, position, normal)
        reduced, right, B, D, h = _schur(*parts)
        right = right - prior_precision * (shapes[:, _CURVED] - prior_mean)
        system = reduced + (prior_precision * (1 + damping[:, None]))[:, :, None] * eye
        system = system + damping[:, None, None] * np.einsum("skk->sk", reduced)[:, :, None] * eye
        step = np.linalg.solve(system, right[..., None])[..., 0]
        step = np.clip(step, -0.5, 0.5)
        move = np.clip((h - np.einsum("sjk,sk->sj", B, step)) / D, -0.7, 0.7)
        tried = shapes.copy()
        tried[:, _CURVED] += step
        tried[:, 0] = np.minimum(tried[:, 0], 0.5)
        value = objective(tried, position + move)
        better = value < current
        shapes, position = (
            np.where(better[:, None], tried, shapes),
            np.where(better[:, None], position + move, position),
        )
        current = np.where(better, value, current)
        damping = np.where(better, damping / 4, np.minimum(damping * 6, 1e3))
    return shapes, position, damping


def _noise_mode(block: CurveBlock, shapes: Array, position: Array, normal: Array) -> Array:
    """ln of the noise that the residuals show, shrunk to the prior's by a few pseudo-observations."""
    u = block.ln_n[None] - position[:, :, None]
    p = _heights(block, shapes, u)
    weight = normal[:, :, None] * (block.count > 0)
    inverse = block.precision(p, shapes[:, NOISE, None, None])
    off = _without_floor(block, p, inverse)(block.y - p)
    squares = (weight * block.count * off**2 / block.noise_factor(p)).sum((1, 2))
    jobs = normal.sum(1)
    free = np.maximum(weight.sum((1, 2)) - jobs - np.minimum(3, jobs * 2), 0.3 * weight.sum((1, 2)))
    prior = np.exp(2 * block.ln_noise)
    return np.asarray(0.5 * np.log((_NOISE_DOF * prior + squares) / (_NOISE_DOF + free)))
