"""The chart of rows and lag is well-formed, small, and correct at both ends."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest

from ticdc_assets.assets.metadata.history_points import RECORDS_MAX, Point
from ticdc_assets.assets.metadata.sparkline import HEIGHT, WIDTH, chart_markdown, plain_seconds, svg
from ticdc_assets.plurals import duration

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def points(*rows: int | None) -> list[Point]:
    return [Point(NOW, count, 10.0 * number) for number, count in enumerate(rows)]


def test_a_sparkline_is_valid_svg():
    drawn = ElementTree.fromstring(svg(points(5, 0, 10, None, 3)))

    lines = drawn.findall("{http://www.w3.org/2000/svg}polyline")
    places = [tuple(map(float, p.split(","))) for line in lines for p in line.attrib["points"].split()]
    assert len(lines) == 2
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in places)


@pytest.mark.parametrize("rows", [(7,), (3, 3, 3), (0,)])
def test_both_lines_are_visible_with_one_point_and_with_equal_points(rows: tuple[int, ...]):
    lines = [line.split() for line in re.findall(r'points="([^"]*)"', svg(points(*rows)))]

    heights = [{place.partition(",")[2] for place in line} for line in lines]
    assert [len(line) >= 2 for line in lines] == [True, True]
    assert not heights[0] & heights[1]


def test_more_rows_are_drawn_higher():
    first_line = re.search(r'points="([^"]*)"', svg(points(1, 2, 4))).group(1).split()

    heights = [float(place.split(",")[1]) for place in first_line]
    assert heights[0] > heights[1] > heights[2]


def test_a_sparkline_of_a_long_history_is_small():
    assert len(chart_markdown(points(*range(RECORDS_MAX)))) < 4096


def test_a_sparkline_has_its_numbers_as_text():
    text = chart_markdown(points(7, 1234))

    assert "1,234 rows, 10 s behind the clock, over 2 records" in text
    encoded = re.search(r"base64,([^)]*)\)", text).group(1)
    assert base64.b64decode(encoded).startswith(b"<svg")


def test_a_chart_without_a_record_says_so():
    assert chart_markdown([]) == "no record yet"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.9, "59 s"), (60, "1 min"), (3_601, "1 h 1 s"), (90_061, "1 d 1 h"), (-5, "0 s")],
)
def test_durations_are_written_in_their_two_largest_units(seconds: float, text: str):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, 0), (0.12345, 0.123), (59.99999, 60), (60.9, 61), (41_372_012.076, 41_372_012)]
)
def test_seconds_are_shown_with_few_digits(seconds: float, shown: float):
    assert plain_seconds(seconds) == shown
