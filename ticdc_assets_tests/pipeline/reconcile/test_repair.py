"""`verify --repair` against a real TiDB that TICDC_ASSETS_TIDB names: damage of each kind is found, and ends equal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets import spark
from ticdc_assets.cli import main
from ticdc_assets.names import quote_path
from ticdc_assets_tests.pipeline.reconcile.tidb_database import SCHEMA, needs_tidb, upstream_of
from ticdc_assets_tests.pipeline.reconcile.tidb_database import tidb as tidb
from ticdc_assets_tests.pipeline.small_feeds import Feed, Sink
from ticdc_assets_tests.sources.upstream.real_tidb import Tidb

pytestmark = [pytest.mark.spark, needs_tidb]

USERS, ORDERS, LOST = ((SCHEMA, name) for name in ("users", "orders", "lost"))


def repaired(feed: Feed, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, dict[str, Any]]]:
    capsys.readouterr()
    code = main(["verify", "--repair", "--json", "--config", str(feed.lake.config.path)])
    return code, {table["table"]: table for table in json.loads(capsys.readouterr().out)}


def mirror(feed: Feed, name: tuple[str, str]) -> list[tuple[int, str]]:
    rows = feed.lake.lake.catalog.load_table(tuple(feed.record(name).mirror)).scan().to_arrow().to_pylist()
    return sorted((row["id"], row["name"]) for row in rows)


def test_mirrors_with_damage_of_any_kind_end_equal(tidb: Tidb, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """`users` is altered by hand, `orders` lacks a record in quarantine, and changes of `lost` never came. One is
    a DELETE that somebody ran in the mirror, so that only the changelog differs from TiDB."""
    sink = Sink(tmp_path / "bucket")
    lines: dict[tuple[str, str], list[bytes]] = {}
    for name in (USERS, ORDERS, LOST):
        tidb.run(f"CREATE TABLE {name[1]} (id INT PRIMARY KEY, name VARCHAR(200))")
        sink.table(name)
        for key in range(1, 6):
            ts = tidb.run(f"INSERT INTO {name[1]} VALUES (%s, %s)", values=(key, f"é{key}"))
            lines.setdefault(name, []).append(sink.insert(name, ts, key, f"é{key}"))
    ts = tidb.run("UPDATE orders SET name = 'new' WHERE id = 2")
    lines[ORDERS].append(sink.line(ORDERS, "U", ts, 2, "new").replace(b",2,", b',"x",'))
    tidb.run("DELETE FROM lost WHERE id = 3")
    ts = tidb.run("UPDATE lost SET name = '' WHERE id = 4")
    for name, written in lines.items():
        sink.file(name, 1, written)
    sink.bucket.checkpoint(ts)
    feed = sink.feed(tmp_path / "lake", upstream=upstream_of(tidb), on_bad_message="quarantine", history=["*.*"])
    feed.lake.run()
    catalog = feed.lake.catalog_name
    session = spark.session(feed.lake.config)
    target = quote_path((catalog, *feed.record(USERS).mirror))
    session.sql(f"UPDATE {target} SET name = 'hand' WHERE id = 1")
    session.sql(f"DELETE FROM {target} WHERE id = 2")
    session.sql(f"INSERT INTO {target} SELECT 9, 'hand', _ticdc_commit_ts FROM {target} WHERE id = 1")
    assert mirror(feed, USERS)[-1] == (9, "hand")
    session.sql(f"DELETE FROM {quote_path((catalog, *feed.record(LOST).mirror))} WHERE id = 3")

    code, found = repaired(feed, capsys)

    assert (code, {name: table["repaired"] for name, table in found.items()}) == (
        0,
        {"users": 0, "orders": 1, "lost": 2},  # a rebuild alone mends `users`
    )
    assert mirror(feed, USERS) == [(key, f"é{key}") for key in range(1, 6)]
    assert mirror(feed, ORDERS)[1] == (2, "new")
    assert mirror(feed, LOST) == [(1, "é1"), (2, "é2"), (4, ""), (5, "é5")]
    record = feed.lake.lake.control.newest()
    assert (record.complete, record.tso) == (True, ts)
    history = feed.lake.lake.catalog.load_table(tuple(feed.record(LOST).history_table)).scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["name"]) for row in history if row["_ticdc_is_current"]) == mirror(feed, LOST)

    # The stream goes on above the TSO, and its changes win.
    later = tidb.run("UPDATE lost SET name = 'later' WHERE id = 4")
    sink.file(LOST, 2, [sink.line(LOST, "U", later, 4, "later")])
    sink.bucket.checkpoint(later)
    feed.lake.run()
    code, found = repaired(feed, capsys)
    assert (code, {table["repaired"] for table in found.values()}) == (0, {0})
