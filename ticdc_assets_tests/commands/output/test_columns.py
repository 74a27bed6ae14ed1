"""Rows in columns: words stay whole on terminals of any width."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from ticdc_assets.commands.output.columns import in_columns

NAMES = ("changefeed", "table", "rows", "state")
NOTE = "stopped: the statement at 459802261460090884 is not understood"
ROWS = [("shop", "shop.users", "1,204", "live"), ("shop", "shop.表", "7", NOTE)]
WORDS = sorted(word for row in ROWS for text in row for word in text.split())


def test_a_pipe_gets_one_line_for_each_row():
    assert in_columns(NAMES, ROWS, None, right=["rows"]) == [
        "changefeed  table        rows  state",
        "shop        shop.users  1,204  live",
        f"shop        shop.表         7  {NOTE}",
    ]


def test_the_last_column_is_wrapped_at_spaces():
    assert in_columns(NAMES, ROWS, 60, right=["rows"])[2:] == [
        "shop        shop.表         7  stopped: the statement at",
        "                               459802261460090884 is not",
        "                               understood",
    ]


def test_a_narrow_terminal_gets_the_columns_that_fit_and_further_lines():
    assert in_columns(NAMES, ROWS, 30, right=["rows"]) == [
        "changefeed  table        rows",
        "shop        shop.users  1,204",
        "    state: live",
        "shop        shop.表         7",
        "    state: stopped: the",
        "    statement at",
        "    459802261460090884 is not",
        "    understood",
    ]
    assert in_columns(NAMES, ROWS, 26, right=["rows"])[:3] == [
        "changefeed  table",
        "shop        shop.users",
        "    rows: 1,204",
    ]
    assert in_columns(NAMES, ROWS[:1], 21, right=["rows"]) == [
        "changefeed",
        "shop",
        "    table: shop.users",
        "    rows: 1,204",
        "    state: live",
    ]


def test_short_cells_share_a_further_line():
    assert in_columns(("table", "a longer name", "b", "c"), [("shop.users", "1", "2", "3")], 24)[1:] == [
        "shop.users",
        "    a longer name: 1",
        "    b: 2  c: 3",
    ]


@pytest.mark.parametrize("width", [1, 10, 24, 30, 45, 54, 55, 80, 200])
def test_no_width_breaks_a_word_or_exceeds_the_terminal(width: int):
    lines = in_columns(NAMES, ROWS, width, right=["rows"])

    found = [word for line in lines for word in line.split()]
    assert not set(WORDS) - set(found)
    assert all(cell_len(line) <= width or len(line.split()) <= 2 for line in lines)


def test_no_rows_leave_the_names():
    assert in_columns(NAMES, [], 80) == ["changefeed  table  rows  state"]
