"""Elements and charts of a report."""

import pytest

from keras_attn.reports.charts import Chart, number, ticks
from keras_attn.reports.page import cut, page, table, tag
from tests.support.small_reports import TEXTS, Reader


@pytest.mark.parametrize("text", TEXTS)
def test_text_is_escaped(text):
    reader = Reader(tag("p", tag("bdi", cut(text, most=10_000)), title=text))
    assert [name for name, _ in reader.elements] == ["p", "bdi"]
    shown = text.replace("\x07", "\ufffd").replace("\x1b", "\ufffd")
    assert reader.elements[0][1]["title"] == shown
    assert reader.text == shown.strip()


def test_lone_surrogates_can_be_written():
    assert b"\xef\xbf\xbd" in page("a \ud800 b", tag("p", "\udfff"))


def test_long_texts_are_truncated():
    assert cut("word " * 100) == "word " * 59 + "word…"
    assert cut("a\n b\t\x0bc") == "a b c"


def test_tables_have_row_and_column_headers():
    reader = Reader(table("Sizes", ["what", "size"], [["a", 1], ["b", (2, {"title": "two"})]]))
    assert reader.tables == {"Sizes": [["what", "size"], ["a", "1"], ["b", "2"]]}
    heads = [given["scope"] for name, given in reader.elements if name == "th"]
    assert heads == ["col", "col", "row", "row"]
    assert {"title": "two"} in [given for name, given in reader.elements if name == "td"]


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.1, 0.93), (-3, 5), (0, 1e-4), (7, 120_000)])
def test_ticks_are_round_and_inside(low, high):
    found = ticks(low, high)
    assert 2 <= len(found) <= 6
    assert all(low - 1e-9 <= value <= high + 1e-9 for value in found)
    assert f"{found[1] - found[0]:.9e}"[:11] in ("1.000000000", "2.000000000", "5.000000000")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.25, "0.25"),
        (1500, "1500"),
        (20_000, "20k"),
        (6e-4, "6e-4"),
        (1.5e-5, "1.5e-5"),
        (-2.0, "-2"),
    ],
)
def test_numbers_of_axes_are_short(value, text):
    assert number(value) == text


def test_points_are_at_the_coordinates_of_the_axes():
    chart = Chart("x", (0, 10), (1, 3), ("", ""))
    corners = [tuple(map(float, chart.at(*point))) for point in ((0, 1), (10, 3), (5, 2))]
    (left, bottom), (right, top), middle = corners
    assert left < right and top < bottom
    assert middle == pytest.approx(((left + right) / 2, (bottom + top) / 2), abs=0.1)
    # An accuracy that is always 1 has no axis above 1.
    assert Chart("x", (4, 4), (0, 0), ("", "")).x == (0, 4)
    assert [Chart("x", (0, 1), (y, y), ("", "")).y for y in (0, -2)] == [(0, 1), (-2, 0)]
