"""The difference between two TSOs, compared with the true rows at both, and with bounded memory."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.errors import ConfigError
from ticdc_assets.pipeline.history import changes
from ticdc_assets.pipeline.history.differences import TableDifference, table_differences
from ticdc_assets.schema.evolution.schema_state import ConvertColumn
from ticdc_assets_tests.assets.feeds import Feed, ts
from ticdc_assets_tests.assets.feeds import without_java as without_java
from ticdc_assets_tests.fixtures import CORPUS, Workload
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.truth import comparable, truth_rows, truth_types

Row = tuple[Any, ...]
Rows = dict[Row, Row]
MORE = ("storage-csv", "open", "simple-json", "simple-avro", "storage-csv-special")


def true_rows(workload: Workload, at: int) -> dict[tuple[str, str], tuple[list[str], Rows]]:
    """By table, its columns and its rows by key."""
    found = {}
    for entry in workload.truth:
        if entry["ts"] == at and entry["key"]:
            names = list(truth_types(entry))
            places = [names.index(name) for name in entry["key"]]
            rows = {tuple(row[i] for i in places): row for row in truth_rows(entry, workload.time_zone)}
            found[entry["schema"], entry["table"]] = (names, rows)
    return found


def compared(lake: Any, after: int, until: int, *chosen: str) -> list[tuple[TableDifference, list[dict[str, Any]]]]:
    rows: dict[str, list[dict[str, Any]]] = {}

    def on_rows(table: TableDifference, part: Any) -> None:
        rows.setdefault(table.source_table.id, []).extend(part.to_pylist())

    tables = list(table_differences(lake, after, until, chosen, on_rows))
    return [(table, rows.get(table.source_table.id, [])) for table in tables]


def by_key(table: TableDifference, rows: list[dict[str, Any]], change: str, side: str) -> dict[Row, dict[str, Any]]:
    return {tuple(comparable(r[side][k]) for k in table.key): r for r in rows if r["change"] == change}


def check(table: TableDifference, rows: list[dict[str, Any]], before: Rows, names: list[str], now: Rows) -> None:
    changed = by_key(table, rows, "changed", "new")
    added, removed = by_key(table, rows, "added", "new"), by_key(table, rows, "removed", "old")
    assert (table.added, table.changed, table.removed) == (len(added), len(changed), len(removed))
    assert added.keys() == now.keys() - before.keys()
    assert removed.keys() == before.keys() - now.keys()
    converts = any(isinstance(e, ConvertColumn) for v in table.source_table.versions for e in v.effects)
    for key, row in ({} if converts else {**added, **changed}).items():
        assert tuple(comparable(row["new"][name]) for name in names) == now[key]
    if not table.statements and not converts:
        assert changed.keys() == {key for key in now.keys() & before.keys() if now[key] != before[key]}


@pytest.mark.variants(2)
@pytest.mark.parametrize("variant", ["canal-json-tidb", *(pytest.param(v, marks=pytest.mark.matrix) for v in MORE)])
def test_rows_that_differ_are_those_of_the_truth(variant: str, tmp_path: Path):
    workload = Workload(CORPUS / "fixtures" / variant / "seed1")
    lake = FeedLake(workload, tmp_path)
    lake.publish()
    times = sorted({entry["ts"] for entry in workload.truth})
    seen = {"added": 0, "changed": 0, "removed": 0, "statements": 0}
    for after, until in [(times[0], times[-1]), *pairwise(times)]:
        before, now = true_rows(workload, after), true_rows(workload, until)
        for table, rows in compared(lake.lake, after, until):
            if not table.is_compared or table.name not in now:
                continue
            names, wanted = now[table.name]
            was = before.get(table.source_table.name_at(after) or ("", ""), ([], {}))[1]
            check(table, rows, was, names, wanted)
            seen["statements"] += len(table.statements)
            for change in ("added", "changed", "removed"):
                seen[change] += getattr(table, change)
    assert all(seen.values()), seen


def old_and_new(rows: list[dict[str, Any]]) -> list[tuple[str, Any, Any]]:
    return [(r["change"], r["old"] and tuple(r["old"].values()), r["new"] and tuple(r["new"].values())) for r in rows]


@pytest.fixture
def feed(tmp_path: Path, without_java: None) -> Feed:
    """CSV without old values."""
    feed = Feed(tmp_path).table("shop", "users")
    feed.rows("shop", "users", ("I", 1, "ann", 2), ("I", 2, "bob", 2), ("I", 3, "cid", 2), ("I", 4, "dan", 2))
    feed.rows("shop", "users", ("U", 1, "eve", 11), ("U", 1, "ann", 12), ("U", 2, "fay", 12), ("D", 3, "cid", 13))
    feed.rows("shop", "users", ("I", 5, "gus", 14), ("D", 5, "gus", 15), ("I", 6, "hal", 16))
    return feed


CHANGED_BACK_AND_FORTH = [
    ("changed", (2, "bob"), (2, "fay")),
    ("removed", (3, "cid"), None),
    ("added", None, (6, "hal")),
]


def test_what_was_undone_is_no_difference_and_old_values_come_from_earlier_changes(feed: Feed):
    feed.checkpoint(20).run()

    [(table, rows)] = compared(feed.lake, ts(10), ts(20))

    assert old_and_new(rows) == CHANGED_BACK_AND_FORTH
    assert (table.added, table.changed, table.removed) == (1, 1, 1)
    assert compared(feed.lake, ts(16), ts(20))[0][1] == []


def test_a_range_with_too_many_keys_is_read_in_parts_of_the_keys(feed: Feed, monkeypatch: pytest.MonkeyPatch):
    feed.checkpoint(20).run()
    monkeypatch.setattr(changes, "HELD_BYTES_MAX", 900)

    [(_, rows)] = compared(feed.lake, ts(10), ts(20))

    assert sorted(old_and_new(rows), key=str) == sorted(CHANGED_BACK_AND_FORTH, key=str)


def test_a_truncate_removes_the_rows_from_before_it(feed: Feed):
    feed.statement("shop", "users", "TRUNCATE TABLE `users`", 17, type_=11)
    feed.rows("shop", "users", ("I", 2, "bob", 18), ("I", 9, "ida", 18)).checkpoint(20).run()

    [(table, rows)] = compared(feed.lake, ts(10), ts(20))

    assert old_and_new(rows) == [
        ("removed", (1, "ann"), None),
        ("removed", (3, "cid"), None),
        ("removed", (4, "dan"), None),
        ("added", None, (9, "ida")),
    ]
    assert [event.query for event in table.statements] == ["TRUNCATE TABLE `users`"]


def test_a_dropped_table_loses_all_its_rows(feed: Feed):
    feed.statement("shop", "users", "DROP TABLE `users`", 17, type_=4).checkpoint(20).run()

    [(table, _)] = compared(feed.lake, ts(10), ts(20))

    assert (table.added, table.changed, table.removed) == (0, 0, 4)
    assert compared(feed.lake, ts(18), ts(20)) == []


def test_a_column_that_a_statement_added_has_its_default_in_earlier_rows(feed: Feed):
    columns = [
        {"ColumnName": "id", "ColumnType": "INT", "ColumnPrecision": "11", "ColumnIsPk": "true"},
        {"ColumnName": "name", "ColumnType": "VARCHAR", "ColumnLength": "200"},
        {"ColumnName": "n", "ColumnType": "INT", "ColumnPrecision": "11", "ColumnDefault": "7"},
    ]
    feed.statement("shop", "users", "ALTER TABLE `users` ADD COLUMN `n` INT DEFAULT 7", 17, columns, type_=5)
    number = feed._files["shop", "users"] = 1
    folder = f"shop/users/{ts(17)}"
    feed.bucket.index(folder, number)
    lines = [f'"U","users","shop",{ts(18)},1,"ann",7', f'"U","users","shop",{ts(18)},4,"dan",8']
    feed.bucket.data(folder, number, "".join(f"{line}\r\n" for line in lines).encode())
    feed.checkpoint(20).run()

    [(_, rows)] = compared(feed.lake, ts(16), ts(20))

    assert old_and_new(rows) == [("changed", (4, "dan", 7), (4, "dan", 8))]


def test_a_table_without_a_key_is_named_and_the_others_go_on(feed: Feed):
    feed.table("shop", "log", keyless=True).rows("shop", "log", ("I", 1, "x", 12)).checkpoint(20).run()

    [(log, _), (users, _)] = compared(feed.lake, ts(10), ts(20))

    assert (log.is_compared, log.reason) == (False, "the table has no key, so its rows cannot be compared")
    assert users.is_compared


def test_a_tso_above_the_watermark_and_wrong_arguments_are_refused(feed: Feed):
    feed.checkpoint(20).run()

    [(table, _)] = compared(feed.lake, ts(10), ts(21))
    assert table.reason == f"its changelog is complete up to {ts(20)} only"
    with pytest.raises(ConfigError, match="the earlier TSO first"):
        compared(feed.lake, ts(20), ts(10))
    with pytest.raises(ConfigError, match="found shop"):
        compared(feed.lake, ts(10), ts(20), "shop.nobody")
