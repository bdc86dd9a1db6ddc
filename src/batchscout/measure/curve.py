"""One job's measurements as arrays, and what they say of a target.

Everything that others use of a job, the search, the tables, MLflow and the figures, comes from here: seconds
are corrected (docs/measure.md, equation 4), attempts are joined, and both are done in this one place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from batchscout.errors import CurveError
from batchscout.measure.detect import Crossing, first_passage
from batchscout.measure.journal import Event
from batchscout.measure.target import CLOCKS, ClockName, Target
from batchscout.measure.trajectory import Joined, Rows, join, parts_of

Array = NDArray[np.float64]

PAUSE_MEDIANS, PAUSE_MADS, PAUSE_UPDATES = 10.0, 20.0, 20
"""An update is a pause beyond so many medians and median absolute deviations, where there are so many
updates."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one curve says of one level. Clock-dependent values are on the target's clock.

    samples_to_target       S; the upper bound where left-censored; None where not reached or nothing had to
                            be trained
    samples_lower/_upper    the evaluations around S, see Crossing
    time_to_target          T, the clock at S
    wall_seconds_to_target  the wall clock at S, None where a recording has none
    throughput              samples per second up to S (not reached: to the last update), so that T = S / R
    update_seconds          mean over the updates that are no warm-up, pauses replaced by the median
    sampling_share          of the seconds of these updates
    pauses                  updates so replaced
    """

    samples_to_target: float | None
    samples_lower: float | None
    samples_upper: float | None
    censored: Literal["left", "right"] | None
    time_to_target: float | None
    wall_seconds_to_target: float | None
    throughput: float | None
    update_seconds: float | None
    sampling_share: float | None
    pauses: int


@dataclass(frozen=True, eq=False)
class Curve:
    """A job's surviving trajectory. Arrays are read-only; n updates, m evaluations.

    update_samples          (n,) cumulative samples at the end of each update
    update_seconds_each     (n,) corrected seconds of each update
    update_end_seconds      (n,) corrected training clock at its end
    parts                   sampling, reward, learning, sync, other → (n,) corrected seconds of each update
    warmup                  (n,) first update of an attempt
    generated_samples, generated_tokens, trained_tokens   (n,) cumulative, None where not reported
    samples, score          (m,) at each evaluation, cumulative; a score may be NaN
    score_n                 (m,) questions behind it, NaN where unknown
    seconds                 (m,) corrected training clock
    sampling_seconds        (m,) its part, cumulative, NaN where unknown
    evaluation_seconds      (m,) cumulative, the evaluation itself included, NaN where unknown
    wall_seconds            (m,) allocated time since the job's first start, NaN where unknown
    total_…                 at the last update; evaluation_total_seconds, checkpoint_seconds, startup_seconds
                            likewise
    warmup_seconds          what the correction took off
    lost_seconds            raw seconds of updates that are not on this trajectory
    mean_update_seconds     as a recording states it, None where the updates themselves say it
    abandoned               trajectories that a restart cut, oldest first: a target reached there counts
    """

    batch_size: int | None
    update_samples: Array
    update_seconds_each: Array
    update_end_seconds: Array
    parts: Mapping[str, Array]
    warmup: NDArray[np.bool_]
    generated_samples: Array | None
    generated_tokens: Array | None
    trained_tokens: Array | None
    samples: Array
    score: Array
    score_n: Array
    seconds: Array
    sampling_seconds: Array
    evaluation_seconds: Array
    wall_seconds: Array
    total_updates: int
    total_samples: int
    total_seconds: float
    total_wall_seconds: float | None
    warmup_seconds: float
    lost_seconds: float
    evaluation_total_seconds: float
    checkpoint_seconds: float
    startup_seconds: float
    attempts: int
    mean_update_seconds: float | None = None
    abandoned: tuple[Curve, ...] = ()

    def __post_init__(self) -> None:
        arrays = [value for value in vars(self).values() if isinstance(value, np.ndarray)]
        for array in (*arrays, *self.parts.values()):
            array.setflags(write=False)
        for axis in (self.update_samples, self.samples):
            if axis.size > 1 and not (axis[1:] > axis[:-1]).all():
                raise CurveError("samples go back along the trajectory; a journal was changed or mixed up")

    @classmethod
    def from_attempts(cls, attempts: Sequence[Sequence[Event]]) -> Curve:
        """Join the journals of a job's attempts, oldest first; [] is an empty curve.

        Raises   CurveError where an attempt resumes from an update that no earlier journal holds, or counts
                 go back.
        """
        joined = join(attempts)
        abandoned = tuple(_curve(rows, joined) for rows in joined.abandoned)
        return replace(_curve(joined.surviving, joined), abandoned=abandoned)

    @classmethod
    def from_recorded(cls, record: Mapping[str, Any]) -> Curve:
        """The curve of one job of a recorded sweep, see ``batchscout.measure.recorded``."""
        from batchscout.measure.recorded import curve_from_record

        return curve_from_record(record)

    def to_recorded(self, *, learning_rate: float, seed: int, status: str) -> dict[str, Any]:
        """The inverse of ``from_recorded``, to the digit, see ``batchscout.measure.recorded``."""
        from batchscout.measure.recorded import record_from_curve

        return record_from_curve(self, learning_rate=learning_rate, seed=seed, status=status)

    def crossing(self, target: Target, level: float | None = None, ended: bool = False) -> Crossing:
        """Where the level was reached first, in an attempt that died too."""
        return self._reaching(target, level, ended)[1]

    def seconds_at(self, samples: float, clock: ClockName = "training") -> float:
        """The clock at a number of samples, linear between evaluations (and the start and the last update).

        Raises   CurveError beyond the last update, for a clock that the recording does not have.
        """
        at, seconds = self._knots(clock)
        if not 0 <= samples <= at[-1]:
            raise CurveError(f"samples={samples:g} is outside of this curve; it holds 0 to {at[-1]:g}")
        value = float(np.interp(samples, at, seconds))
        if not np.isfinite(value):
            raise CurveError(f"clock={clock} is not in this recording; use training")
        return value

    def measure(self, target: Target, level: float | None = None, ended: bool = False) -> Measurement:
        """All that this job alone says of the target, or of another level."""
        curve, crossing = self._reaching(target, level, ended)
        estimate = crossing.estimate
        time = None if estimate is None else curve.seconds_at(estimate, target.clock)
        update_seconds, share, pauses = self.update_means
        return Measurement(
            samples_to_target=estimate,
            samples_lower=crossing.lower,
            samples_upper=crossing.upper,
            censored=crossing.censored,
            time_to_target=time,
            wall_seconds_to_target=None if estimate is None else curve._wall_at(estimate),
            throughput=self._throughput(estimate, time, target.clock),
            update_seconds=update_seconds,
            sampling_share=share,
            pauses=pauses,
        )

    def _reaching(self, target: Target, level: float | None, ended: bool) -> tuple[Curve, Crossing]:
        for curve in (*self.abandoned, self):
            crossing = first_passage(
                curve.samples, curve.score, target=target, level=level, score_n=curve.score_n, ended=ended
            )
            if crossing.censored != "right":
                return curve, crossing
        return self, crossing

    def _knots(self, clock: ClockName) -> tuple[Array, Array]:
        if clock not in CLOCKS:
            raise CurveError(f"clock={clock} is unknown; use one of {', '.join(CLOCKS)}")
        if clock == "wall":
            seconds, end = self.wall_seconds, self.total_wall_seconds
        elif clock == "training_evaluation":
            seconds, end = (
                self.seconds + self.evaluation_seconds,
                self.total_seconds + self.evaluation_total_seconds,
            )
        else:
            seconds, end = self.seconds, self.total_seconds
        at = self.samples
        if not at.size or at[0] > 0:
            at, seconds = np.append(0.0, at), np.append(0.0, seconds)
        if self.total_samples > at[-1]:
            at, seconds = (
                np.append(at, self.total_samples),
                np.append(seconds, np.nan if end is None else end),
            )
        return at, seconds

    def _wall_at(self, samples: float) -> float | None:
        at, seconds = self._knots("wall")
        value = float(np.interp(samples, at, seconds))
        return value if np.isfinite(value) else None

    def _throughput(self, samples: float | None, time: float | None, clock: ClockName) -> float | None:
        if samples is None:
            samples = float(self.total_samples)
            _, seconds = self._knots(clock)
            time = float(seconds[-1])
        return samples / time if samples and time and np.isfinite(time) else None

    @cached_property
    def update_means(self) -> tuple[float | None, float | None, int]:
        """Equation 5: seconds of an ordinary update, the share of sampling in it, and pauses replaced."""
        ordinary = ~self.warmup if not self.warmup.all() else np.ones_like(self.warmup)
        each = self.update_seconds_each[ordinary]
        if not each.size:
            return self.mean_update_seconds, None, 0
        pause = pauses(each)
        share = self._share(ordinary, pause)
        if self.mean_update_seconds is not None:
            return self.mean_update_seconds, share, 0
        return float(np.where(pause, np.median(each), each).mean()), share, int(pause.sum())

    def _share(self, ordinary: NDArray[np.bool_], pause: NDArray[np.bool_]) -> float | None:
        sampling, total = self.parts.get("sampling"), float(self.update_seconds_each[ordinary][~pause].sum())
        return float(sampling[ordinary][~pause].sum()) / total if sampling is not None and total > 0 else None


def pauses(each: Array) -> NDArray[np.bool_]:
    """Which of (n,) update times are no updates' times but pauses of the machine: 10 medians and 20 MAD
    beyond."""
    if each.size < PAUSE_UPDATES:
        return np.zeros(each.shape, dtype=bool)
    median = float(np.median(each))
    deviation = float(np.median(np.abs(each - median)))
    return (each > PAUSE_MEDIANS * median) & (each - median > PAUSE_MADS * deviation)


def _curve(rows: Rows, joined: Joined) -> Curve:
    rows = rows.one_by_one()
    updates, evaluations = rows.updates, rows.evaluations
    clock = updates["seconds"] - np.cumsum(rows.excess)
    parts = parts_of(rows)
    done = np.searchsorted(updates["updates"], evaluations["updates"], side="right")
    spent = np.maximum.accumulate(evaluations["evaluation_seconds"])
    return Curve(
        batch_size=joined.start.get("batch_size"),
        update_samples=updates["samples"],
        update_seconds_each=rows.each["seconds"] - rows.excess,
        update_end_seconds=clock,
        parts=parts,
        warmup=rows.is_warmup,
        generated_samples=_known(updates["generated_samples"]),
        generated_tokens=_known(updates["generated_tokens"]),
        trained_tokens=_known(updates["trained_tokens"]),
        samples=evaluations["samples"],
        score=evaluations["score"],
        score_n=evaluations["score_n"],
        seconds=np.append(0.0, clock)[done],
        sampling_seconds=_cumulative(parts.get("sampling"), len(rows))[done],
        evaluation_seconds=spent,
        wall_seconds=np.maximum.accumulate(evaluations["wall_seconds"]),
        total_updates=int(updates["updates"][-1]) if len(rows) else 0,
        total_samples=int(updates["samples"][-1]) if len(rows) else 0,
        total_seconds=float(clock[-1]) if len(rows) else 0.0,
        total_wall_seconds=joined.wall_seconds,
        warmup_seconds=float(rows.excess.sum()),
        lost_seconds=joined.lost_seconds,
        evaluation_total_seconds=float(spent[-1]) if spent.size and np.isfinite(spent[-1]) else 0.0,
        checkpoint_seconds=joined.checkpoint_seconds,
        startup_seconds=joined.startup_seconds,
        attempts=joined.attempts,
    )


def _known(column: Array) -> Array | None:
    return column if column.size and not np.isnan(column).any() else None


def _cumulative(each: Array | None, count: int) -> Array:
    return np.full(count + 1, np.nan) if each is None else np.append(0.0, np.cumsum(each))
