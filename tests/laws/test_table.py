"""`batchscout fit`: good and bad tables."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchscout.errors import LawError
from batchscout.laws import SamplesLaw, fit_table, read_table
from batchscout.laws.table import column_names

SIZES = [16, 64, 256, 1024]
LAW = SamplesLaw(20000.0, 300.0)
HEAD = "batch_size,samples_to_target"


def rows(extra=lambda b: "", header=""):
    samples = LAW.samples(SIZES)
    return HEAD + header + "\n" + "".join(f"{b},{s}{extra(b)}\n" for b, s in zip(SIZES, samples, strict=True))


def test_a_plain_table_gives_the_law():
    found = fit_table(rows())
    assert found["samples"]["s_min"] == pytest.approx(20000, rel=1e-6)
    assert found["samples"]["b_crit"] == pytest.approx(300, rel=1e-6)
    assert found["samples"]["gamma"] == 1.0
    assert found["update_seconds"] is None
    assert "recommendation" not in found


def test_a_file_with_comments_blank_lines_and_a_byte_order_mark_is_read(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("\ufeff# source\n" + rows().replace(",", " , ", 3) + "\n\n", encoding="utf-8")
    assert fit_table(path)["samples"]["b_crit"] == pytest.approx(300, rel=1e-6)
    assert fit_table(str(path))["samples"]["b_crit"] == pytest.approx(300, rel=1e-6)


def test_seconds_add_a_recommendation():
    found = fit_table(
        rows(lambda b: f",{0.3 + 0.001 * b},{0.1 + 0.002 * b}", ",sampling_seconds,learning_seconds")
    )
    assert found["update_seconds"]["sampling"]["a"] == pytest.approx(0.3)
    assert found["update_seconds"]["learning"]["b"] == pytest.approx(0.002)
    assert found["update_seconds"]["total"]["a"] == pytest.approx(0.4)
    best = found["recommendation"]
    assert best["batch_size"] == 256
    assert best["time_to_target"] == pytest.approx(LAW.updates([256])[0] * (0.4 + 0.003 * 256), rel=1e-6)
    assert set(best) == {
        "batch_size", "lr", "time_to_target", "interval", "samples_to_target", "throughput", "near_ties",
        "probability_best",
    }  # fmt: skip
    json.dumps(found, allow_nan=False)


def test_gamma_free_on_demand():
    law = SamplesLaw(20000.0, 300.0, 4.0)
    text = HEAD + "\n" + "".join(f"{b},{law.samples([b])[0]}\n" for b in (16, 32, 64, 128, 256, 512, 1024))
    assert fit_table(text)["samples"]["gamma"] == 1.0
    assert fit_table(text, gamma="free")["samples"]["gamma"] == pytest.approx(4.0, rel=1e-3)


def test_censored_rows_and_other_columns():
    text = (
        "batch_size,samples_to_target,lower,upper,censored,seed,note\n"
        "16,21066,,,,0,x\n64,,23000,26000,interval,0,\n256,37066,,,,1,\n"
        "1024,60000,,,right,0,capped\n32,,,26000,left,0,\n"
    )
    found, unknown = read_table(text)
    assert unknown == ["note"]
    assert [r.censored for r in found] == [None, "interval", None, "right", "left"]
    assert found[3].lower == 60000
    assert found[3].samples is None
    fit = fit_table(text)
    assert fit["samples"]["s_min"] == pytest.approx(20000, rel=0.05)
    assert "columns ignored: note" in fit["warnings"]


def test_lr_column_feeds_the_learning_rate_law():
    text = HEAD + ",lr\n" + "".join(
        f"{b},{LAW.samples([b])[0] * np.exp(0.4 * np.log(lr / (1e-4 * (b / 64) ** 0.5)) ** 2)},{lr}\n"
        for b in SIZES for lr in (5e-5, 1e-4, 2e-4, 4e-4)
    )  # fmt: skip
    assert fit_table(text)["learning_rate"]["exponent"] == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "table is empty"),
        ("\n# nothing\n", "table is empty"),
        (HEAD + "\n", "no rows"),
        ("batch_size\n16\n", "column samples_to_target is missing"),
        ("batch_size,S\n16,2\n", "column samples_to_target is missing; the table has batch_size, S"),
        ("batch_size;samples_to_target\n16;2\n", "separate cells by commas, not semicolons"),
        ("batch_size\tsamples_to_target\n16\t2\n", "separate cells by commas, not tabs"),
        (HEAD + "\n16,1\x0000\n32,100\n", "in row 1 is not a number"),
        (HEAD + ",lr,lr\n16,1,2,3\n", "column lr appears 2 times"),
        (HEAD + "\n16,100\n16,110\n", "at least two batch sizes"),
        (HEAD + "\n16,100\n32,0\n", "samples_to_target=0 in row 2; it must be positive"),
        (HEAD + "\n16,100\n32,-5\n", "samples_to_target=-5 in row 2"),
        (
            HEAD + "\n16,100\n32,1e308\n",
            "samples_to_target=1e+308 in row 2; it must lie between 1e-15 and 1e+18",
        ),
        (HEAD + "\n1e308,100\n32,10\n", "batch_size=1e+308 in row 1; it must lie between 1e-15 and 1e+18"),
        (HEAD + "\n16,100\n32,nan\n", "samples_to_target=nan in row 2; it must be finite"),
        (HEAD + "\n16,100\n32,inf\n", "censored=right"),
        (HEAD + "\n16,100\n32,many\n", "samples_to_target=many in row 2 is not a number"),
        (HEAD + "\n16,100\n32,\n", "samples_to_target is empty in row 2"),
        (HEAD + "\n16.5,100\n32,100\n", "batch_size=16.5 in row 1"),
        (HEAD + "\n,100\n32,100\n", "batch_size=empty in row 1"),
        (HEAD + "\n16,100,3\n32,100\n", "row 1 has more cells"),
        (HEAD + ",censored\n16,100,right\n32,100,right\n", "every row is right-censored"),
        (HEAD + ",censored\n16,100,never\n32,100,\n", "censored=never in row 1"),
        (HEAD + ",censored\n16,100,\n32,,left\n", "without upper"),
        (HEAD + ",lower,upper\n16,100,90,80\n32,100,,\n", "lower=90 is above upper=80 in row 1"),
        (HEAD + ",update_seconds\n16,100,0\n32,100,1\n", "update_seconds=0 in row 1"),
        (HEAD + ',seed\n16,"100,1\n32,100,2\n', "not CSV"),
        ("/no/such/table.csv", "cannot be read: No such file"),
    ],
)
def test_a_bad_table_is_one_line(text, words):
    with pytest.raises(LawError) as error:
        fit_table(text)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_binary_file_is_not_a_table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(b"\x80\x81\xff\n")
    with pytest.raises(LawError, match="not UTF-8 text"):
        fit_table(path)
    with pytest.raises(LawError, match="cannot be read"):
        fit_table(tmp_path)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_byte_order_marks_do_not_matter(tmp_path, end, mark):
    path = tmp_path / "table.csv"
    path.write_bytes(mark + rows().replace("\n", end).encode())
    assert fit_table(path) == fit_table(rows())


def test_a_table_of_thousands_of_rows_is_fitted():
    generator = np.random.default_rng(0)
    sizes = np.tile(2 ** np.arange(4, 12), 500)
    samples = 3e4 * (1 + sizes / 300) * np.exp(0.1 * generator.standard_normal(len(sizes)))
    lines = [f"{b},{s:.6g},{i}" for i, (b, s) in enumerate(zip(sizes, samples, strict=True))]
    law = fit_table(HEAD + ",seed\n" + "\n".join(lines) + "\n")["samples"]
    assert law["rows"] == 4000
    assert law["b_crit"] == pytest.approx(300, rel=0.05)


def test_tables_that_say_little_are_fitted_with_a_warning():
    duplicated = rows() + rows().split("\n")[1] + "\n"
    assert any("duplicated" in w for w in fit_table(duplicated)["warnings"])
    left = fit_table(HEAD + ",censored\n16,100,left\n32,110,left\n")
    assert left["samples"]["s_min_interval"] == [None, 100.0]
    assert any("left-censored" in w for w in left["warnings"])
    narrow = fit_table(HEAD + "\n16,100\n20,110\n24,115\n")
    assert any("range too narrow" in w for w in narrow["warnings"])


WORDS = ["", "nan", "inf", "-1", "0", "left", "right", "interval", "1e308", "1e-308", "1e18", "1e-15"]
CELL = st.one_of(st.sampled_from(WORDS), st.floats(1, 1e6).map(str), st.integers(1, 4096).map(str))
NUMBERS = st.tuples(
    st.sampled_from([16, 32, 64, 128, 1024]),
    st.floats(1e-3, 1e12),
    st.sampled_from(["", "left", "right"]),
    st.floats(1e-9, 1e9),
)


def answer_is_strict_json_or_one_line(text):
    try:
        json.dumps(fit_table(text), allow_nan=False)
    except LawError as error:
        return "\n" not in str(error)
    return True


@settings(deadline=None, max_examples=150)
@given(
    columns=st.lists(st.sampled_from(list(column_names())), min_size=2, max_size=6, unique=True),
    cells=st.lists(st.lists(CELL, min_size=6, max_size=6), min_size=1, max_size=6),
)
def test_no_table_causes_a_traceback(columns, cells):
    text = ",".join(columns) + "\n" + "".join(",".join(row[: len(columns)]) + "\n" for row in cells)
    assert answer_is_strict_json_or_one_line(text)


@settings(deadline=None, max_examples=40)
@given(cells=st.lists(NUMBERS, min_size=1, max_size=8))
def test_any_positive_numbers_give_a_fit_or_one_line(cells):
    text = HEAD + ",censored,update_seconds\n" + "".join(f"{b},{s},{c},{t}\n" for b, s, c, t in cells)
    assert answer_is_strict_json_or_one_line(text)
