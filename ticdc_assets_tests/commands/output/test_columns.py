"""Rows in columns: words stay whole on terminals of any width."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from ticdc_assets.cli import main
from ticdc_assets.commands.output import terminal
from ticdc_assets.commands.output.terminal import in_columns
from ticdc_assets_tests.assets.feeds import ts
from ticdc_assets_tests.assets.feeds import without_java as without_java
from ticdc_assets_tests.commands.called import no_dagster_home as no_dagster_home
from ticdc_assets_tests.commands.called import on, shop

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


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize("command", ["inspect", "schema"])
def test_no_command_breaks_a_word_or_cuts_a_value(
    tmp_path: Path, without_java: None, monkeypatch: pytest.MonkeyPatch, capfd: Any, command: str, width: int
):
    feed = shop(tmp_path)
    if command == "schema":
        main(on(feed, "run"))
        arguments = on(feed, "schema", "shop.users", "--at", str(ts(10)))
        whole = {"VARCHAR(200)", "name", "string"}
    else:
        arguments = ["inspect", str(feed.bucket.base)]
        whole = {"shop.users", "deletes", "statements", "first", "(UTC)"}
    console = terminal._console
    monkeypatch.setattr(terminal, "_console", lambda file: _narrow(console(file), width))
    capfd.readouterr()

    main(arguments)

    printed = capfd.readouterr().out
    assert "…" not in printed
    assert whole <= {word.rstrip(":") for word in printed.split()}


def _narrow(console: Console, width: int) -> Console:
    return Console(file=console.file, force_terminal=True, width=width)
