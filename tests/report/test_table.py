"""The final table in all its forms, and the sentence."""

from __future__ import annotations

import csv
import io

import pytest
from rich.console import Console
from tests.made_sweep import Made, make_sweep

from batchscout.report import table
from batchscout.report.sentence import recommendation


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return make_sweep(tmp_path_factory.mktemp("sweep") / "demo", Made())


@pytest.fixture(scope="module")
def nothing(tmp_path_factory):
    made = Made(reachable=False, batch_sizes=(16, 128, 1024))
    return make_sweep(tmp_path_factory.mktemp("sweep") / "null", made)


def text_of(renderable, width: int = 200) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(renderable)
    return console.export_text()


def test_the_sentence_says_what_how_sure_and_what_it_cost(result):
    answer = result["recommendation"]
    assert answer["batch_size"] == 256
    sentence = recommendation(result)
    assert sentence.startswith("batch_size=256 lr=4e-4 reaches score 0.7 soonest, in 8.99 s (90% interval ")
    assert "; 128 cannot be told from it; " in sentence
    assert "this took 16 jobs and " in sentence
    assert sentence.count(".") >= 1
    assert sentence.endswith(".")


def test_without_an_answer_the_sentence_says_how_far_each_batch_size_came(nothing):
    sentence = recommendation(nothing)
    assert sentence.startswith(
        "No job reached score 0.7; the best scores were 0.64 at batch_size=16, 0.64 at"
    )
    assert "the highest level reached is 0.56, soonest by batch_size=128 lr=2.8e-4 in " in sentence


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        (None, "8.99 s, from"),
        ([8.0, None], "8.99 s (90% interval: at least 8.00 s), "),
        ([None, 9.0], ": at most 9.00 s), "),
    ],
)
def test_open_and_missing_intervals_are_words(result, interval, words):
    sentence = recommendation(
        {**result, "recommendation": {**result["recommendation"], "interval": interval}}
    )
    assert words in sentence
    assert "None" not in sentence


def test_every_form_shows_the_same_numbers(result):
    chosen, cells = table.cells(result["table"])
    assert [column.key for column in chosen][:3] == ["batch_size", "lr", "time_to_target"]
    forms = [text_of(table.render(result)), table.plain(result), table.markdown(result).replace("**", "")]
    for form in forms:
        for line in cells:
            for cell in line:
                assert cell in form
    row = next(line for line in forms[1].splitlines() if line.startswith(">"))
    assert row.split()[1:4] == ["256", "4e-4", "8.99"]


def test_a_narrow_terminal_loses_columns_but_never_the_answer(result):
    for width in (60, 80, 100):
        for line in table.plain(result, width).splitlines():
            assert len(line) <= width
        assert "…" not in text_of(table.render(result), width)
    narrow = table.plain(result, 60)
    assert "time to target" in narrow
    assert "sampling" not in narrow


def test_an_unreached_batch_size_shows_its_best_score_and_no_time(nothing):
    text = table.plain(nothing)
    assert "best score" in text
    assert text.splitlines()[2].split()[:4] == ["16", "5e-5", "–", "0.0896"]


def test_csv_keeps_every_digit_and_formulas_stay_text(result):
    rows = list(csv.DictReader(io.StringIO(table.to_csv(result["jobs"]))))
    for row, job in zip(rows, result["jobs"], strict=True):
        assert float(row["time_to_target"]) == job["time_to_target"]
        assert float(row["seconds"]) == job["seconds"]
        assert row["id"] == job["id"]
    points = list(csv.DictReader(io.StringIO(table.to_csv(result["points"]))))
    assert float(points[0]["interval_low"]) == result["points"][0]["interval"][0]
    hostile = table.to_csv([{"reason": "=HYPERLINK(1)", "text": 'a "quoted"\nline'}])
    assert list(csv.reader(io.StringIO(hostile)))[1] == ["'=HYPERLINK(1)", 'a "quoted"\nline']


def test_an_empty_sweep_still_has_a_table_and_a_sentence(result):
    empty = {**result, "recommendation": None, "table": [], "points": [], "jobs": [], "levels": []}
    assert "batch size" in table.plain(empty)
    assert recommendation(empty).startswith("No job reached score 0.7; this took 0 jobs")
    assert "batch size" in text_of(table.render(empty))
