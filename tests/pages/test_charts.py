"""Charts as SVG: points and bars where their numbers belong, names escaped, gaps left open."""

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mtkit.pages.charts import Band, Bars, Point, Series, bar_chart, line_chart, scatter_chart


def parsed(chart):
    return ElementTree.fromstring(str(chart))


def elements(chart, tag, **attributes):
    found = parsed(chart).iter(tag)
    return [e for e in found if all(e.get(key.rstrip("_")) == value for key, value in attributes.items())]


def lines(*series):
    return line_chart(series, x_label="step", y_label="loss", title="Loss")


def scattered(*points):
    return scatter_chart(points, x_label="words a second", y_label="BLEU", title="Quality and speed")


def bars(groups, *series):
    return bar_chart(groups, series, y_label="BLEU", title="Scores")


def places(chart):
    """(x, y) of each point drawn."""
    return [(float(c.get("cx")), float(c.get("cy"))) for c in elements(chart, "circle")]


def test_values_that_differ_by_less_than_can_be_drawn_are_one():
    low = 96.42504254534667
    assert len({y for _, y in places(lines(Series("a", [0, 1], [low, math.nextafter(low, 100)])))}) == 1


def test_points_lie_in_proportion_to_their_values():
    (x0, y0), (x1, y1), (x2, y2) = places(lines(Series("a", [0, 10, 40], [0, 1, 8])))
    assert (x2 - x0) == pytest.approx(4 * (x1 - x0), abs=0.5) and x0 < x1
    assert (y0 - y2) == pytest.approx(8 * (y0 - y1), abs=0.5) and y0 > y1  # upwards is smaller in SVG


def test_several_lines_share_their_axes():
    chart = lines(Series("a", [0, 10], [0, 4]), Series("b", [5, 10], [2, 4]))
    (ax0, ay0), (ax1, ay1), (bx0, by0), (bx1, by1) = places(chart)
    assert (bx1, by1) == (ax1, ay1)
    assert (bx0, by0) == pytest.approx(((ax0 + ax1) / 2, (ay0 + ay1) / 2), abs=0.1)


def test_a_band_lies_between_its_lows_and_highs_and_shares_the_axes():
    band = Band("expected", [0, 10], [1, 2], [3, 8])
    chart = line_chart([Series("a", [0, 10], [1, 8])], x_label="step", y_label="BLEU", title="BLEU", band=band)
    (low, high), (outline, _) = places(chart), elements(chart, "path", class_="band")
    corners = [tuple(map(float, corner.split())) for corner in outline.get("d")[1:-1].split("L")]
    assert corners[0] == low and corners[2] == high  # the first low and the last high are the ends of the line
    assert corners[1][0] == high[0] and high[1] < corners[1][1] < low[1]
    assert "expected" in str(chart)


def test_a_missing_value_is_a_gap_and_not_zero():
    chart = lines(Series("a", [0, 1, 2, 3, 4], [5, 4, None, 2, math.nan]))
    (path,) = [p.get("d") for p in elements(chart, "path") if "--c0" in p.get("style", "") and p.get("d") != "M0 6H26"]
    assert re.sub(r"[^ML]", "", path) == "MLM"
    assert len(places(chart)) == 3


def test_every_point_shows_its_value_on_hover():
    titles = [c.find("title").text for c in elements(lines(Series("dev", [100], [-0.5])), "circle")]
    assert titles == ["dev: \N{MINUS SIGN}0.5 at step 100"]


def test_a_long_line_is_drawn_whole_with_some_of_its_points_to_hover():
    chart = lines(Series("a", range(5000), [x % 7 for x in range(5000)]))
    assert max(p.get("d").count("L") for p in elements(chart, "path")) == 4999
    assert 100 <= len(places(chart)) <= 200
    assert {c.get("class") for c in elements(chart, "circle")} == {"point hidden"}


def test_bars_are_as_high_as_their_values_and_hang_below_zero():
    chart = bars(["x", "y"], Bars("a", [10.0, -5.0]), Bars("b", [20.0, None]))
    ten, twenty, below = [e for e in elements(chart, "rect") if e.get("y")]
    heights = [float(e.get("height")) for e in (ten, twenty, below)]
    assert heights == pytest.approx([heights[0], 2 * heights[0], heights[0] / 2], abs=0.2)
    zero = float(ten.get("y")) + heights[0]
    assert float(twenty.get("y")) + heights[1] == pytest.approx(zero, abs=0.11)
    assert float(below.get("y")) == pytest.approx(zero, abs=0.11)


def test_intervals_stand_on_their_bars():
    chart = bars(["x", "y"], Bars("a", [10.0, 10.0], lows=[8.0, None], highs=[14.0, None]))
    (interval,) = elements(chart, "path", class_="range")
    path = re.fullmatch(r"M([\d.]+) ([\d.]+)V([\d.]+)", interval.get("d"))
    assert path
    x, low, high = map(float, path.groups())
    bar = next(e for e in elements(chart, "rect") if e.get("y"))
    top, height = float(bar.get("y")), float(bar.get("height"))
    assert x == pytest.approx(float(bar.get("x")) + float(bar.get("width")) / 2, abs=0.1)
    assert (low - top, top - high) == pytest.approx((0.2 * height, 0.4 * height), abs=0.2)
    titles = [g.find("title").text for g in elements(chart, "g")]
    assert titles == ["a, x: 10 (8 to 14)", "a, y: 10"]


def test_names_are_escaped_and_stand_in_the_legend():
    chart = lines(Series("<b>&", [0], [1]), Series("dev", [0], [1]))
    assert [item.find("svg").tail for item in elements(chart, "li")] == ["<b>&", "dev"]
    assert "<b>" not in str(chart)


def test_a_chart_has_a_label_for_screen_readers():
    (svg,) = elements(bars(["x"], Bars("ours", [1.0]), Bars("theirs", [2.0])), "svg", role="img")
    assert svg.get("aria-label") == "Scores: ours, theirs"


def test_a_chart_wider_than_its_box_can_be_scrolled_by_keyboard():
    (box,) = elements(bars(["x"], Bars("ours", [1.0])), "div", class_="scroll")
    assert (box.get("tabindex"), box.get("role"), box.get("aria-label")) == ("0", "region", "Scores")


@pytest.mark.parametrize("series", [[], [Series("a", [], [])], [Series("a", [1], [None])], [Series("a", [3], [7.0])]])
def test_a_chart_of_nothing_or_of_one_point_can_be_drawn(series):
    assert "NaN" not in str(lines(*series)) and "nan" not in str(lines(*series))
    assert parsed(bars([], Bars("a", []))).tag == "figure"


def test_lengths_that_differ_are_refused():
    with pytest.raises(ValueError, match="a: 2 xs but 1 ys"):
        lines(Series("a", [1, 2], [1]))
    with pytest.raises(ValueError, match="a: 1 values but 2 groups"):
        bars(["x", "y"], Bars("a", [1]))
    with pytest.raises(ValueError, match="a: 2 lows but 1 groups"):
        bars(["x"], Bars("a", [1], lows=[1, 1]))


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9))
def test_the_marked_values_are_round_few_and_around_the_data(low, width):
    high = low + width
    texts = elements(lines(Series("a", [0, 1], [low, high])), "text", **{"text-anchor": "end", "x": "69"})
    assert 2 <= len(texts) <= 8
    heights = [float(text.get("y")) - 4 for text in texts]
    (_, bottom), (_, top) = places(lines(Series("a", [0, 1], [low, high])))
    assert heights[0] >= bottom >= top >= heights[-1] - 0.1


@pytest.mark.parametrize(
    ("low", "high", "marked"),
    [
        (0, 8, ["0", "2", "4", "6", "8"]),
        (0.1, 0.93, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (-3, 31, ["\N{MINUS SIGN}10", "0", "10", "20", "30", "40"]),
        (0, 0, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (5e-4, 5e-4, [f"0.000{n}" for n in range(2, 9)]),
        (0, 23_000, ["0", "5000", *(f"{n}\N{NARROW NO-BREAK SPACE}000" for n in (10, 15, 20, 25))]),
    ],
)
def test_the_marked_values_are_as_a_person_would_mark_them(low, high, marked):
    texts = elements(lines(Series("a", [0, 1], [low, high])), "text", **{"text-anchor": "end", "x": "69"})
    assert [text.text for text in texts] == marked


def test_points_of_a_plane_lie_in_proportion_and_have_their_names_and_notes():
    chart = scattered(Point("a", 0, 30, "27 MB"), Point("b", 100, 32, "<11> MB"), Point("c", 400, 38))
    (x0, y0), (x1, y1), (x2, y2) = places(chart)
    assert (x2 - x0) == pytest.approx(4 * (x1 - x0), abs=0.5) and x0 < x1
    assert (y0 - y2) == pytest.approx(4 * (y0 - y1), abs=0.5) and y0 > y1
    labels = [text.text for text in elements(chart, "text")]
    assert {"a, 27 MB", "b, <11> MB", "c", "words a second", "BLEU"} <= set(labels)
    assert elements(chart, "circle")[1].find("title").text == "b: BLEU 32, words a second 100"


@example([(0, 5), (1, 5), (9, 0), (9, 9)])  # the second point is where the first name would be
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=4))
def test_the_names_of_a_few_points_neither_overlap_nor_leave_the_drawing(pairs):
    chart = scattered(*(Point(f"student-{i}", x, y, "10.9 MB") for i, (x, y) in enumerate(pairs)))
    texts = [e for e in elements(chart, "text") if e.text.startswith("student-")]
    width = 7 * len("student-0, 10.9 MB")  # letters at 13 pixels
    spans = []
    for text in texts:
        x, y = float(text.get("x")), float(text.get("y"))
        left = x if text.get("text-anchor") == "start" else x - width
        assert left >= 0 and left + width <= 760 and 12 <= y <= 274, "within the plot"
        spans.append((left, left + width, y))
    for x, y in places(chart):
        assert all(abs(y - at) >= 10 or x + 6 <= left or right <= x - 6 for left, right, at in spans), "on a point"
    for i, (left, right, y) in enumerate(spans):
        for other_left, other_right, other_y in spans[:i]:
            assert abs(y - other_y) >= 13 or right <= other_left or other_right <= left
