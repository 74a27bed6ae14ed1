"""Columns that TiDB tells apart stay apart where an engine that ignores case takes them for one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ticdc_assets_tests.pipeline.small_feeds import ID, Feed, Sink, column

pytestmark = pytest.mark.spark

PAIRS: list[tuple[str, str, dict[str, Any]]] = [
    ("ı", "i", {}),
    ("ſ", "s", {"format_version": 2}),
    ("µ", "μ", {"partition": {"shop.p": "bucket(2)"}}),
    ("σ", "ς", {}),
]
P, Q = ("shop", "p"), ("shop", "q")
RANGE = "RANGE COLUMNS(`{}`) (PARTITION `p0` VALUES LESS THAN (10),PARTITION `p1` VALUES LESS THAN (MAXVALUE))"


def create(name: str, one: str, other: str, clause: str = "") -> str:
    return f"CREATE TABLE `{name}` (`id` INT NOT NULL,`{one}` INT,`{other}` INT,PRIMARY KEY(`id`)){clause}"


def columns(*names: str, texts: tuple[str, ...] = ()) -> list[dict[str, str]]:
    made = (column(n, "VARCHAR", ColumnLength="20") if n in texts else column(n, "INT") for n in names)
    return [ID, *made]


def shown(feed: Feed, table: tuple[str, str] = P) -> list[tuple[Any, ...]]:
    """The rows of the mirror; the history table has the same current rows."""
    report = feed.lake.run() or feed.lake.mirrors()
    assert report.errors == {}
    record = feed.record(table)
    assert (record.state, record.note) == ("live", "")
    mirror = feed.lake.lake.catalog.load_table(tuple(record.mirror or ()))
    rows = mirror.scan().to_arrow().drop_columns(["_ticdc_commit_ts"])
    if record.history_table:
        history = feed.lake.lake.catalog.load_table(tuple(record.history_table))
        current = history.scan(row_filter="_ticdc_is_current = true").to_arrow().select(rows.column_names)
        assert sorted(current.to_pylist(), key=str) == sorted(rows.to_pylist(), key=str)
    return sorted(tuple(row.values()) for row in rows.to_pylist())


@pytest.mark.variants(1)
@pytest.mark.parametrize(("one", "other", "settings"), PAIRS)
def test_statements_change_only_their_column(tmp_path: Path, one: str, other: str, settings: dict[str, Any]):
    sink = Sink(tmp_path / "bucket")
    sink.table(P, columns=columns(one, other), query=create("p", one, other))
    sink.file(P, 1, [sink.line(P, "I", 110, 1, 10, 20), sink.line(P, "I", 120, 2, 30, 40)])
    feed = sink.feed(tmp_path / "lake", history=["shop.p"], **settings)
    assert shown(feed) == [(1, 10, 20), (2, 30, 40)]

    sink.file(P, 2, [sink.line(P, "U", 1100, 1, 11, 21)])
    z = [*columns(one, other), column("z", "INT", ColumnDefault="5")]
    sink.alter(P, 1200, "ALTER TABLE `p` ADD COLUMN `z` INT DEFAULT 5", z)
    sink.bucket.checkpoint(2000)
    assert shown(feed) == [(1, 11, 21, 5), (2, 30, 40, 5)]

    z = [*columns(one, other, texts=(one,)), column("z", "INT", ColumnDefault="5")]
    sink.alter(P, 2100, f"ALTER TABLE `p` MODIFY COLUMN `{one}` VARCHAR(20)", z)
    sink.bucket.checkpoint(3000)
    assert shown(feed) == [(1, "11", 21, 5), (2, "30", 40, 5)]

    z = [*columns(other), column("z", "INT", ColumnDefault="5")]
    sink.alter(P, 3100, f"ALTER TABLE `p` DROP COLUMN `{one}`", z)
    sink.bucket.checkpoint(4000)
    assert shown(feed) == [(1, 21, 5), (2, 40, 5)]


# TiDB compares the columns of the two tables without regard to case.
@pytest.mark.variants(1)
@pytest.mark.parametrize(("one", "other", "in_q"), [("ſ", "s", "S"), ("Σ", "ς", "ς")])
def test_a_partition_is_exchanged_by_its_own_column(tmp_path: Path, one: str, other: str, in_q: str):
    sink = Sink(tmp_path / "bucket")
    clause = f" PARTITION BY {RANGE.format(other)}"
    create_p = create("p", one, other, clause).replace("KEY(`id`)", f"KEY(`id`,`{other}`)").replace(
        f"`{other}` INT,", f"`{other}` INT NOT NULL,"
    )  # fmt: skip
    sink.table(P, columns=columns(one, other), query=create_p)
    create_q = create_p.replace(clause, "").replace("`p`", "`q`").replace(f"`{other}`", f"`{in_q}`")
    sink.table(Q, columns=columns(one, in_q), query=create_q)
    sink.file(P, 1, [sink.line(P, "I", 110, 1, 50, 5), sink.line(P, "I", 120, 2, 5, 50)])
    sink.file(Q, 1, [sink.line(Q, "I", 130, 3, 70, 7)])
    feed = sink.feed(tmp_path / "lake", history=["*.*"])
    assert (shown(feed), shown(feed, Q)) == ([(1, 50, 5), (2, 5, 50)], [(3, 70, 7)])
    swap = "ALTER TABLE `p` EXCHANGE PARTITION `p0` WITH TABLE `q`"
    for table, name in ((P, other), (Q, in_q)):
        sink.alter(table, 1200, swap, columns(one, name))
    sink.bucket.checkpoint(2000)

    assert (shown(feed), shown(feed, Q)) == ([(2, 5, 50), (3, 70, 7)], [(1, 50, 5)])
