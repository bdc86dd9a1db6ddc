"""Numbers as people read them."""

import pytest

from batchscout.report import numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.012345, "0.0123"), (4.1, "4.1"), (61.52, "61.5"), (610.4, "610"), (25012, "25,012"), (0, "0"),
     (0.00012345, "1.23e-4"), (99.96, "100"), (-3.0, "-3"), (None, "–")],
)  # fmt: skip
def test_three_significant_digits(value, text):
    assert numbers.digits(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (940, "940"),
        (999.6, "1.00k"),
        (25000, "25.0k"),
        (1.239e6, "1.24M"),
        (999_960, "1.00M"),
        (None, "–"),
    ],
)
def test_counts_carry_their_thousands_as_a_letter(value, text):
    assert numbers.count(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(4e-4, "4e-4"), (1.6e-3, "1.6e-3"), (0.01, "0.01"), (2.47e-6, "2.47e-6")]
)
def test_learning_rates_are_written_as_they_are_typed(value, text):
    assert numbers.rate(value) == text
    assert float(text) == value


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0123, "0.0123 s"), (0.66, "0.660 s"), (41.23, "41.2 s"), (99.96, "1 min 40 s"), (200, "3 min 20 s"),
     (5999, "99 min 59 s"),
     (8640, "2.4 h"), (400_000, "4.63 days")],
)  # fmt: skip
def test_durations_in_a_sentence(seconds, text):
    assert numbers.duration(seconds) == text


def test_a_column_has_one_unit_that_fits_its_smallest_time():
    assert numbers.time_unit([None, 41.0, 700.0]).name == "s"
    assert numbers.time_unit([130.0, 7000.0]).name == "min"
    assert numbers.time_unit([]).name == "s"
    assert numbers.time_unit([8000.0]).text(9000.0) == "2.50"


def test_lists_read_like_a_sentence():
    assert numbers.listed([64]) == "64"
    assert numbers.listed([64, 128]) == "64 and 128"
    assert numbers.listed([32, 64, 128]) == "32, 64 and 128"
