"""`ticdc-assets diff`: what it prints, and how it exits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ticdc_assets.cli import main
from ticdc_assets.tso import to_datetime
from ticdc_assets_tests.assets.feeds import ts
from ticdc_assets_tests.assets.feeds import without_java as without_java
from ticdc_assets_tests.commands.called import no_dagster_home as no_dagster_home
from ticdc_assets_tests.commands.called import on, shop


def test_a_row_and_an_object_of_difference_have_the_same_counts(tmp_path: Path, without_java: None, capfd: Any):
    feed = shop(tmp_path).table("shop", "log", keyless=True)
    feed.run()
    after, until = to_datetime(ts(2.5)).isoformat(), str(ts(10))
    capfd.readouterr()

    assert main(on(feed, "diff", after, until)) == 1
    assert capfd.readouterr().out.splitlines() == [
        "shop.log: not compared: the table has no key, so its rows cannot be compared.",
        "shop.users: 1 added, 0 changed, 1 removed",
    ]

    assert main(on(feed, "diff", after, until, "--table", "shop.users", "--rows")) == 0
    printed = capfd.readouterr()
    assert [json.loads(line) for line in printed.out.splitlines()] == [
        {
            "table": "shop.users",
            "change": "removed",
            "key": {"id": 1},
            "old": {"id": 1, "name": "ann"},
            "new": None,
        },
        {"table": "shop.users", "change": "added", "key": {"id": 2}, "old": None, "new": {"id": 2, "name": "bob"}},
    ]
    assert "1 added, 0 changed, 1 removed" in printed.err

    assert main(on(feed, "diff", "0", until, "--table", "shop.users", "--json")) == 0
    found = json.loads(capfd.readouterr().out)
    [table] = found["tables"]
    assert (found["after"], found["until"]) == (0, ts(10))
    assert (table["added"], table["changed"], table["removed"]) == (1, 0, 0)
    assert [statement["commit_ts"] for statement in table["statements"]] == [ts(1)]


def test_the_wrong_order_of_tsos_is_one_sentence(tmp_path: Path, capfd: Any):
    assert main(on(shop(tmp_path), "diff", "9", "5")) == 2

    assert "expected the earlier TSO first, found 9 before 5" in capfd.readouterr().err
