"""The progress line of long work: its content, and that it fits any terminal."""

from __future__ import annotations

import fcntl
import io
import itertools
import os
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from ticdc_assets.commands.output.progress import Stage, clock, fitted, named, rate
from ticdc_assets.config import PACKAGED_SAMPLE
from ticdc_assets.work_progress import Count, each_counted

NAME = "open: decoding 251 messages in 8 tasks"


class Clock:
    """A clock that a test sets."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def stage(clock: Clock, width: int = 120, tasks: Any = lambda: None) -> Stage:
    return Stage(NAME, lambda: width, clock, tasks)


def shown(stage: Stage) -> str:
    return stage.line()


def test_a_stage_without_counts_shows_its_name():
    assert shown(stage(Clock())) == f"{NAME} ..."


def test_the_rate_and_the_time_left_are_shown_once_they_can_be_estimated():
    clock = Clock()
    line = stage(clock)

    clock.now_s += 1
    line.reached(Count(10, 40, "file"))
    early = shown(line)
    clock.now_s += 4
    line.reached(Count(20, 40, "file"))

    assert early == f"{NAME} ...  10 of 40 files"
    assert shown(line) == f"{NAME} ...  20 of 40 files, 4.0 files/s, 0:05 left"


def test_the_time_left_falls_until_the_next_count_and_is_not_shown_beyond_it():
    clock = Clock()
    line = stage(clock)
    clock.now_s += 10
    line.reached(Count(2, 4, "table"))

    said = []
    for _ in range(3):
        said.append(shown(line).rpartition(", ")[2])
        clock.now_s += 6

    assert said == ["0:10 left", "0:04 left", f"{NAME} ...  2 of 4 tables"]


def test_the_rate_stands_still_between_counts_and_goes_when_nothing_comes_or_all_is_done():
    clock = Clock()
    line = stage(clock)
    clock.now_s += 10
    line.reached(Count(100, None, "message"))
    said = []
    for _ in range(3):
        said.append(shown(line).partition("  ")[2])
        clock.now_s += 6
    assert said == ["100 messages, 10 messages/s", "100 messages, 10 messages/s", "100 messages"]

    line.reached(Count(8, 8, "table"))
    clock.now_s += 4
    line.reached(Count(8, 8, "table"))
    assert shown(line) == f"{NAME} ...  8 of 8 tables"


def test_a_line_that_grows_while_it_is_drawn_is_not_cut():
    """Rich measures a line before it draws it."""
    clock, width = Clock(), 70
    line = stage(clock, width)
    console = Console(file=io.StringIO(), width=width + 3, force_terminal=True)
    table = Table.grid(padding=1)
    table.add_row("*", line)
    calls = itertools.count(1)
    line._figures = lambda: ["9" * next(calls)]  # type: ignore[method-assign]

    console.print(table)

    assert "9" in (drawn := console.file.getvalue())  # type: ignore[attr-defined]
    assert "\u2026" not in drawn


def test_where_the_total_is_not_known_there_is_a_rate_and_no_time_left():
    clock = Clock()
    line = stage(clock)

    clock.now_s += 10
    line.reached(Count(25_000, None, "message"))

    assert shown(line) == f"{NAME} ...  25,000 messages, 2,500 messages/s"


def test_an_estimate_begins_again_with_other_work():
    clock = Clock()
    line = stage(clock)
    clock.now_s += 10
    line.reached(Count(30, 40, "file"))

    line.reached(Count(0, 8, "table"))
    clock.now_s += 4
    line.reached(Count(2, 8, "table"))

    assert shown(line) == f"{NAME} ...  2 of 8 tables, 30 tables/min, 0:12 left"


def test_a_stage_that_reports_nothing_shows_the_tasks_of_spark():
    clock, done = Clock(), [2]
    line = stage(clock, tasks=lambda: Count(done[0], 8, "task"))
    clock.now_s += 1
    assert shown(line) == f"{NAME} ...  2 of 8 tasks"

    clock.now_s, done[0] = clock.now_s + 4, 4

    assert shown(line) == f"{NAME} ...  4 of 8 tasks, 30 tasks/min, 0:08 left"


@pytest.mark.parametrize("width", [10, 20, 40, 60, 80, 120])
@pytest.mark.parametrize("name", [NAME, "\u5e97\u8217: \u8bfb\u53d6 " * 9])
def test_the_line_is_never_wider_than_the_terminal(width: int, name: str):
    clock = Clock()
    line = Stage(name, lambda: width, clock, lambda: None)
    clock.now_s += 60
    line.reached(Count(12_345, 67_890, "message"))

    assert cell_len(shown(line)) <= width


def test_a_name_that_is_cut_at_its_dots_ends_in_one_ellipsis():
    assert [fitted("decoding ...", [], width) for width in (12, 11, 10, 9)] == [
        "decoding ...", "decoding…", "decoding…", "decoding…"
    ]  # fmt: skip


def test_a_narrower_terminal_shows_less_of_the_name_and_fewer_figures():
    clock = Clock()
    lines = {}
    for width in (80, 62, 46, 20):
        line = stage(clock, width)
        clock.now_s += 10
        line.reached(Count(20, 40, "file"))
        lines[width] = shown(line)

    assert lines[80] == "open: decoding 251 messages in 8 tasks\u2026  20 of 40 files, 2.0 files/s, 0:10 left"
    assert lines[62] == "open: decoding 251 messages in 8 t\u2026  20 of 40 files, 0:10 left"
    assert lines[46] == "open: decoding 251 messages i\u2026  20 of 40 files"
    assert lines[20] == "open: decoding 251\u2026"


def test_rates_and_durations_are_short():
    assert [rate(0.05, "table"), rate(1.25, "file"), rate(12_345.6, "message")] == [
        "3.0 tables/min", "1.2 files/s", "12,346 messages/s"
    ]  # fmt: skip
    assert [clock(s) for s in (0.4, 59, 61, 3_723)] == ["0:00", "0:59", "1:01", "1:02:03"]


def test_counted_work_is_named_with_its_changefeed():
    said: list[str | Count] = []
    on_progress = named("shop", said.append)

    on_progress("compacting")
    assert list(each_counted("ab", "table", on_progress)) == ["a", "b"]

    assert said == ["shop: compacting", Count(1, 2, "table"), Count(2, 2, "table")]


# -- on a terminal and in a pipe ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [60, 120])
def test_inspect_shows_one_line_that_fits_the_terminal(columns: int):
    printed = _in_terminal(["inspect", str(_bucket()), "--all"], columns)

    drawn = re.split(r"\r|\n", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", printed))
    assert any("looking at folders ..." in line for line in drawn)
    assert all(cell_len(line) <= columns for line in drawn if "..." in line)


def test_in_a_pipe_nothing_is_printed_but_the_result():
    done = subprocess.run(
        [sys.executable, "-m", "ticdc_assets.cli", "inspect", str(_bucket()), "--all"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip

    assert done.stderr == ""
    assert "looking" not in done.stdout


def _bucket() -> Path:
    return PACKAGED_SAMPLE / "storage_csv"


def _in_terminal(command: list[str], columns: int) -> str:
    """What the command prints on a terminal of this width."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environ = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-m", "ticdc_assets.cli", *command],
        stdin=theirs, stdout=theirs, stderr=theirs, env={**environ, "TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    printed = bytearray()
    try:
        while part := _read(ours):
            printed += part
        assert process.wait(timeout=120) == 0, printed.decode()
    finally:
        process.kill()
        os.close(ours)
    return printed.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # Linux: the last process that had the terminal has closed it
        return b""
