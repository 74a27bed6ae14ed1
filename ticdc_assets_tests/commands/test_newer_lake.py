"""A lake of a newer release: every command that reads or writes it is refused, and nothing changes."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, Final

import pytest

from ticdc_assets.cli import main
from ticdc_assets.tables import lake_format
from ticdc_assets_tests.assets.feeds import Feed
from ticdc_assets_tests.assets.feeds import without_java as without_java
from ticdc_assets_tests.commands.called import no_dagster_home as no_dagster_home
from ticdc_assets_tests.commands.called import on, shop

COMMANDS: Final = (
    "run", "check", "maintain", "maintain --dry-run", "maintain --pin 5", "rebuild", "rebuild --from source",
    "replay --quarantine", "tables", "snapshot --list", "snapshot --at 9 --pin x", "diff 1 2",
    "schema shop.users --at 5",
)  # fmt: skip


def tables_of(feed: Feed) -> list[Any]:
    with sqlite3.connect(feed.path.parent / "lake" / "catalog.db") as database:
        return database.execute("SELECT table_name, metadata_location FROM iceberg_tables").fetchall()


def test_every_command_refuses_it_in_one_sentence_and_changes_nothing(
    tmp_path: Path, without_java: None, monkeypatch: pytest.MonkeyPatch, capfd: Any
):
    feed = shop(tmp_path)
    assert main(on(feed, "run")) == 0
    feed.rows("shop", "users", ("I", 3, "eve", 12)).checkpoint(20)
    before = tables_of(feed)
    monkeypatch.setattr(lake_format, "FORMAT", 0)  # as the release before this one
    capfd.readouterr()

    for command in COMMANDS:
        name, *arguments = command.split()
        code = main(on(feed, name, *arguments))
        printed = " ".join("".join(capfd.readouterr()).split())
        assert (command, code, printed.count("expected a lake of format 0 or lower")) == (command, 2, 1)
        assert "Nothing was changed." in printed, command
    assert tables_of(feed) == before
