"""The output while a command runs, and the file for the output of Spark and Dagster."""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ticdc_assets.commands.output import terminal as terminal_module
from ticdc_assets.commands.output.terminal import Terminal, noise_kept_in
from ticdc_assets.faults import LOGS, log_named
from ticdc_assets.work_progress import Count


def test_progress_is_shown_again_after_something_failed():
    terminal = Terminal()
    terminal.err = Console(file=io.StringIO(), force_terminal=True)
    with pytest.raises(ValueError, match="broken"), terminal.working("looking"):
        raise ValueError("broken")

    terminal.err = Console(file=(shown := io.StringIO()), force_terminal=True)
    with terminal.working("looking again"):
        terminal.on_progress("going on")

    assert "going on ..." in shown.getvalue()


def test_elsewhere_than_on_a_terminal_progress_prints_nothing():
    terminal = Terminal()
    terminal.err = Console(file=(shown := io.StringIO()))

    with terminal.working("looking"):
        terminal.on_progress("reading")
        terminal.on_progress(Count(1, 2, "file"))

    assert shown.getvalue() == ""


def test_progress_is_shown_while_the_next_item_is_awaited_and_not_while_one_is_printed():
    terminal = Terminal()
    terminal.err = Console(file=(shown := io.StringIO()), force_terminal=True)

    def items() -> Iterator[str]:
        for name in ("users", "orders"):
            terminal.on_progress(f"reading {name}")
            yield name

    for name in terminal.waiting("beginning", items()):
        terminal.on_progress("nothing is awaited")
        shown.write(f"<{name}>")

    text = shown.getvalue()
    places = [text.index(part) for part in ("reading users ...", "<users>", "reading orders ...", "<orders>")]
    assert places == sorted(places)
    assert "nothing is awaited" not in text
    assert text.rfind("\x1b[?25h") > text.rfind("\x1b[?25l")


# -- the log -----------------------------------------------------------------------------------------------------------


def noise(log: Path, text: str) -> Path:
    """Where the noise went, as faults name it meanwhile."""
    with noise_kept_in(log):
        os.write(1, text.encode())
        return Path(log_named())


def test_noise_goes_to_the_end_of_the_log_so_that_a_later_run_erases_nothing(tmp_path: Path):
    log = tmp_path / "folder" / "run.log"

    assert noise(log, "first\n") == log
    assert noise(log, "second\n") == log

    lines = log.read_text().splitlines()
    assert [line for line in lines if not line.startswith("== ")] == ["first", "second"]
    assert len(lines) == 4
    assert LOGS == []


def test_noise_of_python_goes_to_the_log_while_progress_is_shown(tmp_path: Path, capfd: Any):
    terminal = Terminal()
    terminal.err = Console(file=(shown := io.StringIO()), force_terminal=True)

    with capfd.disabled(), noise_kept_in(tmp_path / "run.log"), terminal.working("looking"):
        print("of a library", file=sys.stderr)

    assert "of a library" in (tmp_path / "run.log").read_text()
    assert "looking" in shown.getvalue()
    assert "of a library" not in shown.getvalue()


def test_a_long_log_is_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log = tmp_path / "run.log"
    log.write_text("of before\n")
    monkeypatch.setattr(terminal_module, "LOG_BYTES_MAX", 9)

    noise(log, "new\n")

    assert (tmp_path / "run.log.old").read_text() == "of before\n"
    assert "new" in log.read_text()


def test_a_folder_that_cannot_be_written_gives_a_temporary_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "closed").write_text("")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))

    place = noise(tmp_path / "closed" / "run.log", "new\n")
    noise(tmp_path / "closed" / "run.log", "")

    assert place.read_text() == "new\n"
    assert list((tmp_path / "tmp").iterdir()) == [place]


def test_a_log_that_is_removed_meanwhile_stops_nothing(tmp_path: Path):
    (tmp_path / "closed").write_text("")

    with noise_kept_in(tmp_path / "closed" / "run.log"):
        Path(log_named()).unlink()

    assert LOGS == []
