"""`ticdc-assets schema`: the columns of a table as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.cli import main
from ticdc_assets.commands.read.schema import schema_at
from ticdc_assets.schema.ddl.mysql_types import parse_type, type_text
from ticdc_assets_tests.assets.feeds import ts
from ticdc_assets_tests.assets.feeds import without_java as without_java
from ticdc_assets_tests.commands.called import no_dagster_home as no_dagster_home
from ticdc_assets_tests.commands.called import on, shop
from ticdc_assets_tests.pipeline.small_streams import SmallStream, at, shape

MORE = [
    {"ColumnName": "id", "ColumnType": "INT", "ColumnPrecision": "11", "ColumnIsPk": "true"},
    {"ColumnName": "name", "ColumnType": "VARCHAR", "ColumnLength": "200"},
    {"ColumnName": "n", "ColumnType": "INT", "ColumnPrecision": "11", "ColumnDefault": "7"},
]


def test_a_table_is_listed_as_it_was_under_its_name_of_then(tmp_path: Path, without_java: None, capfd: Any):
    feed = shop(tmp_path)
    added, renamed = "ALTER TABLE `users` ADD COLUMN `n` INT DEFAULT 7", "RENAME TABLE `users` TO `people`"
    feed.statement("shop", "users", added, 11, MORE, type_=5)
    feed.statement("shop", "people", renamed, 13, MORE, type_=14).checkpoint(20)
    feed.run()
    capfd.readouterr()

    assert main(on(feed, "schema", "shop.users", "--at", str(ts(10)), "--json")) == 0
    found = json.loads(capfd.readouterr().out)
    assert [column["name"] for column in found["columns"]] == ["id", "name"]
    assert found["columns"][1] == {
        "name": "name",
        "type": "VARCHAR(200)",
        "nullable": True,
        "default": None,
        "virtual": False,
        "lake_column": "name",
        "lake_type": "string",
    }
    assert (found["key"], found["since"]) == (["id"], ts(1))
    assert found["statements_since"] == [
        {"commit_ts": ts(11), "query": added},
        {"commit_ts": ts(13), "query": renamed},
    ]

    assert main(on(feed, "schema", "shop.people", "--at", str(ts(13)))) == 0
    printed = capfd.readouterr().out
    assert "key: id" in printed
    assert ["n", "INT", "yes", "'7'", "n", "int"] in [line.split() for line in printed.splitlines()]
    assert "since" not in printed

    assert main(on(feed, "schema", "shop.users", "--at", str(ts(13)))) == 2
    assert f"Tables had the name from {ts(1)} until {ts(13)}." in capfd.readouterr().err


VIRTUAL = "INT GENERATED ALWAYS AS (`id` + 1) VIRTUAL"


def test_columns_that_rows_do_not_have_are_those_of_then_too(tmp_path: Path):
    stream, t, u = SmallStream(tmp_path), shape("t"), shape("u")
    stream.create(1, t)
    stream.put(2, t, 1)
    stream.ddl(3, f"ALTER TABLE `t` ADD COLUMN `a` {VIRTUAL}", t)
    stream.ddl(5, f"ALTER TABLE `t` DROP COLUMN `a`, ADD COLUMN `b` {VIRTUAL} FIRST", t)
    stream.rename(7, t, u)
    stream.ddl(9, f"ALTER TABLE `u` ADD COLUMN `c` INT, ADD COLUMN `d` {VIRTUAL}", u)
    stream.ddl(11, "ALTER TABLE `u` DROP COLUMN `d`", u)
    stream.watermark(20)
    lake = stream.lake()
    lake.publish()

    columns = {tick: schema_at(lake.lake, "s.t" if tick < 7 else "s.u", at(tick))["columns"] for tick in range(1, 13)}

    names = {tick: [column["name"] for column in of_tick] for tick, of_tick in columns.items()}
    assert names == {
        **{key: ["id", "name"] for key in (1, 2)},
        **{key: ["id", "name", "a"] for key in (3, 4)},
        **{key: ["b", "id", "name"] for key in (5, 6, 7, 8)},
        **{key: ["b", "id", "name", "c", "d"] for key in (9, 10)},
        **{key: ["b", "id", "name", "c"] for key in (11, 12)},
    }
    assert [column["virtual"] for column in columns[9]] == [True, False, False, False, True]


@pytest.mark.parametrize("told", [[], ["ALTER TABLE `t` ADD COLUMN `c` INT"]])
def test_a_table_that_is_known_from_a_row_after_the_tso_has_its_columns(told: list[str], tmp_path: Path):
    stream, t = SmallStream(tmp_path), shape("t")
    stream.put(5, t, 1)
    for query in told:
        stream.ddl(6, query, t)
    stream.watermark(20)
    lake = stream.lake()
    lake.publish()

    assert [column["name"] for column in schema_at(lake.lake, "s.t", at(2))["columns"]] == ["id", "name"]


@pytest.mark.parametrize(
    "text",
    ["INT(11) UNSIGNED", "DECIMAL(10,2)", "ENUM('a','it''s')", "SET('a','b')", "VARCHAR(9)", "DATETIME(6)", "JSON"],
)
def test_a_type_is_written_as_it_is_read(text: str):
    assert type_text(parse_type(text)) == text
