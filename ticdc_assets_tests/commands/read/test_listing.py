"""`tables` and `snapshot`: they only read, and this is what they print."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets import __version__
from ticdc_assets.cli import main
from ticdc_assets.tso import now
from ticdc_assets_tests.assets.feeds import Feed, ts
from ticdc_assets_tests.assets.feeds import without_java as without_java
from ticdc_assets_tests.commands.called import no_dagster_home as no_dagster_home
from ticdc_assets_tests.commands.called import on, shop


def test_tables_is_a_json_list_of_every_table_dropped_ones_included(tmp_path: Path, without_java: None, capfd: Any):
    feed = shop(tmp_path).table("shop", "gone").rows("shop", "gone", ("I", 1, "x", 2))
    feed.statement("shop", "gone", "DROP TABLE `gone`", 5, type_=4)
    main(on(feed, "run"))
    capfd.readouterr()

    assert main(on(feed, "tables", "--json")) == 0

    rows = json.loads(capfd.readouterr().out)
    users = feed.records()["shop.users"]
    assert [(row["table"], row["state"]) for row in rows] == [("gone", "dropped"), ("users", "live")]
    assert rows[1] == {
        "changefeed": "shop",
        "schema": "shop",
        "table": "users",
        "table_id": None,
        "mirror": ["shop", "users"],
        "changelog": ["shop__changes", "users"],
        "key": ["id"],
        "watermark": ts(10),
        "messages_read": None,
        "rows": 1,
        "state": "live",
        "note": "",
        "notes": [],
        "codes": [],
        "quarantined": 0,
        "quarantined_since": None,
        "discarded": 0,
        "mirror_snapshot_id": users.mirror_snapshot_id,
        "history_table": None,
    }


def test_tables_says_why_a_table_is_held(tmp_path: Path, without_java: None, capfd: Any):
    feed = shop(tmp_path).statement("shop", "users", "ALTER TABLE `users` FROBNICATE `id`", 5, type_=5)
    main(on(feed, "run"))
    capfd.readouterr()

    assert main(on(feed, "tables", "--json")) == 0

    [row] = json.loads(capfd.readouterr().out)
    assert row["state"] == "stopped"
    assert row["note"] == feed.records()["shop.users"].note != ""
    assert row["codes"] == ["statement"]
    [note] = row["notes"]
    assert (note["code"], note["advice"]) == ("statement", ["newer_version", "create_again"])
    assert row["note"].startswith(note["detail"].removesuffix("."))


def test_tables_tells_a_count_of_messages_apart_from_a_tso(tmp_path: Path, without_java: None, capfd: Any):
    feed = shop(tmp_path)
    main(on(feed, "run"))
    newest = feed.lake.control.newest()
    assert newest is not None
    tables = tuple(replace(table, watermark=17) for table in newest.tables)
    feed.lake.control.record(replace(newest, recorded_at=now(), tables=tables))
    capfd.readouterr()

    assert main(on(feed, "tables", "--json")) == 0
    [row] = json.loads(capfd.readouterr().out)
    assert main(on(feed, "tables")) == 0

    assert (row["watermark"], row["messages_read"]) == (None, 17)
    assert "message 17" in capfd.readouterr().out


def test_tables_for_people_shows_names_whole(tmp_path: Path, without_java: None, capfd: Any):
    feed = Feed(tmp_path).table("shop", "[bold]表").rows("shop", "[bold]表", ("I", 1, "x", 2)).checkpoint(10)
    main(on(feed, "run"))
    capfd.readouterr()

    assert main(on(feed, "tables")) == 0

    assert "shop.[bold]表" in capfd.readouterr().out


def test_tables_before_any_run_is_an_empty_list(tmp_path: Path, capfd: Any):
    assert main(on(shop(tmp_path), "tables", "--json")) == 0
    assert json.loads(capfd.readouterr().out) == []


def test_snapshot_gives_the_newest_record_up_to_a_tso_under_the_names_of_then(
    tmp_path: Path, without_java: None, capfd: Any
):
    feed = shop(tmp_path)
    main(on(feed, "run"))
    then = feed.records()["shop.users"]
    feed.statement("shop", "people", "RENAME TABLE `shop`.`users` TO `shop`.`people`", 11, type_=14)
    feed.rows("shop", "people", ("I", 3, "x", 12)).checkpoint(20)
    main(on(feed, "run"))
    capfd.readouterr()

    assert main(on(feed, "snapshot", "--at", str(ts(15)), "--json")) == 0

    assert json.loads(capfd.readouterr().out) == {
        "tso": ts(10),
        "tables": [
            {
                "schema": "shop",
                "table": "users",
                "mirror": ["shop", "people"],
                "snapshot_id": then.mirror_snapshot_id,
                "quarantined": 0,
                "quarantined_since": None,
                "leaves_out": [],
            }
        ],
        "held": [],
    }


def test_snapshot_before_the_first_record_is_one_sentence(tmp_path: Path, without_java: None, capfd: Any):
    feed = shop(tmp_path)
    before = main(on(feed, "snapshot", "--at", "5")), capfd.readouterr().err
    main(on(feed, "run"))
    capfd.readouterr()

    assert main(on(feed, "snapshot", "--at", "5", "--json")) == 1

    printed = capfd.readouterr()
    assert printed.out == ""
    found = f"{ts(10)} (2025-10-09 08:53:30 UTC) as the first one. Take {ts(10)} or a later TSO."
    assert printed.err == f"changefeed shop: expected a recorded TSO up to 5, found {found}\n"
    none = "changefeed shop: expected a recorded TSO up to 5, found none. Run `ticdc-assets run`."
    assert before == (1, f"{none}\n")


def test_snapshot_of_several_changefeeds_asks_which(tmp_path: Path, capfd: Any):
    Feed(tmp_path, "a")

    assert main(on(Feed(tmp_path, "b"), "snapshot", "--at", "5")) == 2
    assert "--changefeed" in capfd.readouterr().err


@pytest.mark.parametrize("command", [["tables", "--json"], ["snapshot", "--at", "5"], ["maintain"]])
def test_commands_that_only_read_create_no_lake(tmp_path: Path, capfd: Any, command: list[str]):
    main(on(shop(tmp_path), *command))

    assert not (tmp_path / "lake").exists()
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("there", [True, False])
def test_without_a_config_the_packaged_sample_is_named(
    tmp_path: Path, capfd: Any, there: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    if there:
        shop(tmp_path)

    assert main(["tables"]) == 0

    printed = capfd.readouterr().err
    assert "No config is given: this is the packaged sample. Give --config FILE" in printed
    assert ("--config changefeeds.yaml" in printed) == there
    assert not (tmp_path / "lake").exists()


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as exited:
        main(["--version"])

    assert exited.value.code == 0
    assert capsys.readouterr().out == f"ticdc-assets {__version__}\n"
