"""Curves joined from journals written by hand: every number follows from those written."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchscout.errors import CurveError
from batchscout.measure import Curve, Target

T7 = Target(0.7)


def simple(made: Any) -> Any:
    """Four updates of 2 s (1.5 sampling), evaluated after each; target between the second and the third."""
    journal = made().evaluation(0.1)
    for score in (0.4, 0.6, 0.8, 0.9):
        journal.update(1.5, 0.5).evaluation(score)
    return journal


def test_curve_holds_what_the_journal_says(made: Any) -> None:
    curve = Curve.from_attempts([simple(made).events])
    assert curve.samples.tolist() == [0, 8, 16, 24, 32]
    assert curve.seconds.tolist() == [0, 2, 4, 6, 8]
    assert curve.sampling_seconds.tolist() == [0, 1.5, 3, 4.5, 6]
    assert curve.evaluation_seconds.tolist() == [0.5, 1, 1.5, 2, 2.5]
    assert curve.wall_seconds.tolist() == [0.5, 3, 5.5, 8, 10.5]
    assert curve.update_samples.tolist() == [8, 16, 24, 32]
    assert curve.update_seconds_each.tolist() == [2, 2, 2, 2]
    assert curve.generated_samples is not None
    assert curve.generated_samples.tolist() == [8, 16, 24, 32]
    assert curve.generated_tokens is None
    assert (curve.total_updates, curve.total_samples, curve.total_seconds) == (4, 32, 8.0)
    assert (curve.warmup_seconds, curve.lost_seconds, curve.attempts, curve.batch_size) == (0, 0, 1, 8)
    assert (curve.evaluation_total_seconds, curve.startup_seconds) == (2.5, 1.0)


def test_measurement_to_the_digit(made: Any) -> None:
    found = Curve.from_attempts([simple(made).events]).measure(T7)
    assert found.samples_to_target == pytest.approx(20)
    assert (found.samples_lower, found.samples_upper, found.censored) == (16, 24, None)
    assert found.time_to_target == pytest.approx(5)
    assert found.wall_seconds_to_target == pytest.approx(6.75)
    assert found.throughput == pytest.approx(4)
    assert (found.update_seconds, found.sampling_share, found.pauses) == (2, 0.75, 0)


@pytest.mark.parametrize(
    ("clock", "expected"), [("training", 5), ("training_evaluation", 6.75), ("wall", 6.75)]
)
def test_c31_clock_of_the_target_can_be_chosen_afterwards(made: Any, clock: Any, expected: float) -> None:
    found = Curve.from_attempts([simple(made).events]).measure(Target(0.7, clock=clock))
    assert found.time_to_target == pytest.approx(expected)
    assert found.throughput == pytest.approx(20 / expected)


def test_unreached_target_is_censored_and_throughput_runs_to_the_last_update(made: Any) -> None:
    journal = simple(made)
    journal.update(3.0, 1.0)
    found = Curve.from_attempts([journal.events]).measure(Target(0.95))
    assert (found.samples_to_target, found.time_to_target, found.censored) == (None, None, "right")
    assert found.samples_lower == 32
    assert found.throughput == pytest.approx(40 / 12)


def test_several_levels_from_one_journal(made: Any) -> None:
    curve = Curve.from_attempts([simple(made).events])
    times = [curve.measure(T7, level=level).time_to_target for level in (0.5, 0.6, 0.85)]
    assert times == [pytest.approx(3), pytest.approx(4), None]  # .85 was seen once only


def test_start_model_at_the_target_has_no_time(made: Any) -> None:
    found = Curve.from_attempts([made().evaluation(0.8).events]).measure(T7)
    assert (found.samples_to_target, found.time_to_target, found.samples_upper) == (None, None, 0)
    assert found.censored == "left"


def test_left_censored_time_is_that_of_the_upper_bound(made: Any) -> None:
    journal = made().evaluation(0.1).update(2).evaluation(0.8).update(2).evaluation(0.8)
    found = Curve.from_attempts([journal.events]).measure(T7)
    assert (found.samples_to_target, found.time_to_target, found.censored) == (8, 2, "left")


# the correction of warm-up


def test_warmup_update_counts_as_the_mean_of_the_others_of_its_attempt(made: Any) -> None:
    journal = made().update(9, 3, warmup=True).update(1, 1).update(2, 2)
    curve = Curve.from_attempts([journal.events])
    assert curve.update_seconds_each.tolist() == [3, 2, 4]  # min(12, (2 + 4) / 2)
    assert curve.warmup_seconds == 9
    assert curve.total_seconds == 9
    assert curve.parts["sampling"].tolist() == [9 / 4, 1, 2]  # every part scaled alike
    assert curve.parts["learning"].tolist() == [3 / 4, 1, 2]
    assert curve.measure(T7).update_seconds == 3  # warm-up left out


def test_quick_warmup_update_stays_as_it_is(made: Any) -> None:
    curve = Curve.from_attempts([made().update(1, warmup=True).update(2).update(2).events])
    assert curve.update_seconds_each.tolist() == [1, 2, 2]
    assert curve.warmup_seconds == 0


def test_lone_warmup_update_of_an_attempt_takes_the_mean_of_the_job(made: Any) -> None:
    first = made().update(5, warmup=True).update(2).update(4)
    second = first.goes_on(3).update(10, warmup=True)
    curve = Curve.from_attempts([first.events, second.events])
    assert curve.update_seconds_each.tolist() == [3, 2, 4, 3]
    assert curve.warmup_seconds == pytest.approx(2 + 7)


def test_lone_warmup_update_of_a_job_counts_in_full(made: Any) -> None:
    curve = Curve.from_attempts([made().update(5, 1, warmup=True).events])
    assert (curve.total_seconds, curve.warmup_seconds) == (6, 0)
    assert curve.measure(T7).update_seconds == 6


def test_other_updates_of_the_attempt_count_in_its_mean_though_they_were_lost(made: Any) -> None:
    first = made().update(9, warmup=True).update(2).update(6)
    second = first.goes_on(1).update(4, warmup=True).update(4)
    curve = Curve.from_attempts([first.events, second.events])
    assert curve.update_seconds_each.tolist() == [4, 4, 4]
    assert curve.lost_seconds == 8


# attempts


def test_resume_cuts_what_came_after_its_checkpoint(made: Any) -> None:
    first = made().evaluation(0.1).update(2).evaluation(0.2).update(3).evaluation(0.3).update(4)
    second = first.goes_on(1).update(5).evaluation(0.35).update(6)
    curve = Curve.from_attempts([first.events, second.events])
    assert curve.update_samples.tolist() == [8, 16, 24]
    assert curve.update_seconds_each.tolist() == [2, 5, 6]
    assert curve.score.tolist() == [0.1, 0.2, 0.35]
    assert curve.seconds.tolist() == [0, 2, 7]
    assert (curve.lost_seconds, curve.attempts, curve.startup_seconds) == (7, 2, 2)
    assert (np.diff(curve.wall_seconds) > 0).all()


def test_attempt_without_resume_starts_anew_and_all_before_is_lost(made: Any) -> None:
    first = made().evaluation(0.1).update(2).update(3)
    second = made(2).evaluation(0.1).update(4)
    curve = Curve.from_attempts([first.events, second.events])
    assert (curve.update_seconds_each.tolist(), curve.lost_seconds) == ([4], 5)
    assert curve.samples.tolist() == [0]


def test_attempt_that_died_before_any_work_takes_nothing_away(made: Any) -> None:
    first = made().evaluation(0.1).update(2).update(3)
    curve = Curve.from_attempts([first.events, made(2).events])
    assert (curve.total_updates, curve.lost_seconds, curve.attempts) == (2, 0, 2)


def test_attempt_resumes_from_a_checkpoint_of_one_before_the_last(made: Any) -> None:
    first = made().update(1).update(1).update(1)
    second = first.goes_on(2).update(7).update(7)
    third = first.goes_on(2, number=3).update(5)
    curve = Curve.from_attempts([first.events, second.events, third.events])
    assert curve.update_seconds_each.tolist() == [1, 1, 5]
    assert curve.lost_seconds == 1 + 14


def test_attempt_resumes_past_one_that_started_anew(made: Any) -> None:
    first = made().evaluation(0.1).update(1).update(1).update(1)
    second = made(2).evaluation(0.1).update(7)
    third = first.goes_on(3, number=3).update(5)
    curve = Curve.from_attempts([first.events, second.events, third.events])
    assert curve.update_seconds_each.tolist() == [1, 1, 1, 5]
    assert curve.lost_seconds == 7


def test_evaluation_repeated_after_a_resume_takes_the_place_of_the_older(made: Any) -> None:
    first = made().evaluation(0.1).update(2).evaluation(0.2)
    second = first.goes_on(1).evaluation(0.25).update(2).evaluation(0.3)
    curve = Curve.from_attempts([first.events, second.events])
    assert curve.score.tolist() == [0.1, 0.25, 0.3]


def test_preempted_before_the_first_update_keeps_the_evaluation_of_the_start(made: Any) -> None:
    first = made().evaluation(0.1)
    second = first.goes_on(0).update(2).evaluation(0.2)
    assert Curve.from_attempts([first.events, second.events]).score.tolist() == [0.1, 0.2]


def test_target_reached_in_an_attempt_that_died_counts(made: Any) -> None:
    first = made().evaluation(0.1)
    for score in (0.6, 0.8, 0.9):
        first.update(2).evaluation(score)
    second = first.goes_on(1).update(9).evaluation(0.5).update(9).evaluation(0.6)
    curve = Curve.from_attempts([first.events, second.events])
    found = curve.measure(T7)
    assert curve.score.tolist() == [0.1, 0.6, 0.5, 0.6]
    assert (found.samples_to_target, found.time_to_target) == (pytest.approx(12), pytest.approx(3))
    assert curve.lost_seconds == 4


def test_resume_from_an_update_that_no_journal_holds_is_an_error(made: Any) -> None:
    first = made().update(1)
    second = made(2).event("resume", path="checkpoint/5", from_updates=5)
    with pytest.raises(CurveError, match="attempt 2 resumes from update 5, which no earlier journal holds"):
        Curve.from_attempts([first.events, second.events])


def test_resume_event_without_parts_goes_on_from_the_row_it_names(made: Any) -> None:
    first = made().update(1, 2).update(3, 4)
    second = first.goes_on(2).update(5, 6)
    curve = Curve.from_attempts([first.events, second.events])
    assert curve.parts["sampling"].tolist() == [1, 3, 5]
    assert curve.parts["learning"].tolist() == [2, 4, 6]


def test_no_journal_is_an_empty_curve() -> None:
    curve = Curve.from_attempts([])
    found = curve.measure(T7)
    assert (curve.total_samples, found.censored, found.throughput, found.update_seconds) == (
        0,
        "right",
        None,
        None,
    )


def test_journals_mixed_up_are_an_error(made: Any) -> None:
    events = made().update(1).update(1).events
    with pytest.raises(CurveError, match="samples go back"):
        Curve.from_attempts([[*events, *events[1:]]])


def test_score_that_was_not_finite_is_read_as_nan(made: Any) -> None:
    curve = Curve.from_attempts([made().evaluation(0.1).update(1).evaluation(None).events])
    assert np.isnan(curve.score[1])


# means and pauses


def test_pause_is_replaced_by_the_median_in_update_seconds_only(made: Any) -> None:
    journal = made()
    for _ in range(30):
        journal.update(1.0, 1.0)
    journal.update(1.0, 99.0)
    curve = Curve.from_attempts([journal.events])
    found = curve.measure(T7)
    assert (found.update_seconds, found.pauses, found.sampling_share) == (2, 1, 0.5)
    assert curve.total_seconds == 160


def test_long_tail_of_generation_is_no_pause(made: Any) -> None:
    journal = made()
    for seconds in np.random.default_rng(0).lognormal(0, 0.7, 400):
        journal.update(float(seconds))
    found = Curve.from_attempts([journal.events]).measure(T7)
    assert found.pauses == 0
    assert found.update_seconds == pytest.approx(journal.state["seconds"] / 400)


def test_few_updates_have_no_pauses(made: Any) -> None:
    journal = made()
    for seconds in [1.0] * 18 + [100.0]:
        journal.update(seconds)
    assert Curve.from_attempts([journal.events]).measure(T7).pauses == 0


def test_clock_outside_of_the_curve_is_an_error(made: Any) -> None:
    curve = Curve.from_attempts([simple(made).events])
    assert curve.seconds_at(20) == pytest.approx(5)
    with pytest.raises(CurveError, match="outside"):
        curve.seconds_at(33)
    with pytest.raises(CurveError, match="clock=cpu is unknown"):
        curve.seconds_at(3, "cpu")  # type: ignore[arg-type]


def test_arrays_are_read_only(made: Any) -> None:
    curve = Curve.from_attempts([simple(made).events])
    for array in (curve.samples, curve.update_seconds_each, curve.parts["sampling"]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@settings(deadline=None)
@given(st.data())
def test_parts_add_up_and_nothing_is_lost_whatever_the_attempts(made: Any, data: st.DataObject) -> None:
    """total + warm-up + lost = all raw seconds; parts add up to each update; samples and seconds grow."""
    journals, raw = [made().evaluation(0.1)], 0.0
    for _ in range(data.draw(st.integers(1, 4))):
        for index in range(data.draw(st.integers(0, 4))):
            seconds = data.draw(st.tuples(st.floats(0.01, 50), st.floats(0.01, 50)))
            raw += sum(seconds)
            journals[-1].update(*seconds, warmup=index == 0).evaluation(0.2)
        kept = data.draw(st.sampled_from(sorted(journals[-1].states)))
        journals.append(journals[-1].goes_on(kept))
    curve = Curve.from_attempts([j.events for j in journals])
    assert curve.total_seconds + curve.warmup_seconds + curve.lost_seconds == pytest.approx(raw)
    if curve.total_updates:
        assert sum(curve.parts.values()) == pytest.approx(curve.update_seconds_each)
        assert curve.update_seconds_each.sum() == pytest.approx(curve.total_seconds)
    for array in (curve.update_samples, curve.update_end_seconds, curve.samples):
        assert (np.diff(array) > 0).all()
    assert (np.diff(curve.seconds) >= 0).all()
    assert (np.diff(curve.wall_seconds) >= 0).all()


def test_measuring_a_long_curve_is_fast(made: Any) -> None:
    journal, random = made(), np.random.default_rng(0)
    for index in range(200):
        journal.update(1.0, 1.0).evaluation(float(min(1, 0.1 + index / 230 + random.normal(0, 0.03))))
    curve = Curve.from_attempts([journal.events])
    began = time.process_time()
    for _ in range(100):
        curve.measure(T7)
    assert (time.process_time() - began) / 100 < 0.002  # 0.2 ms here; slow machines are given tenfold
