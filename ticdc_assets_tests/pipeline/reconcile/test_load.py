"""`load --from-upstream` from a real TiDB that TICDC_ASSETS_TIDB names: every value of every type, then the stream."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ticdc_assets.cli import main
from ticdc_assets.failpoints import LISTENERS, Failpoint
from ticdc_assets.pipeline.reconcile.load import UpstreamChanges
from ticdc_assets.pipeline.run.load import LoadReport, load_changelogs
from ticdc_assets.sources.upstream import ranges
from ticdc_assets.spark import LocalWorkers
from ticdc_assets.work_progress import no_progress
from ticdc_assets_tests.pipeline.reconcile.tidb_database import SCHEMA, needs_tidb, upstream_of
from ticdc_assets_tests.pipeline.reconcile.tidb_database import tidb as tidb
from ticdc_assets_tests.pipeline.small_feeds import BrokenRunError, Feed, Sink
from ticdc_assets_tests.sources.upstream.kinds import KEYLESS, KINDS
from ticdc_assets_tests.sources.upstream.real_tidb import Tidb

pytestmark = needs_tidb

USERS, ORDERS, LATE = ((SCHEMA, name) for name in ("users", "orders", "late"))


def loaded(feed: Feed) -> LoadReport:
    lake = feed.lake.lake
    return load_changelogs(lake, UpstreamChanges(lake, None), LocalWorkers, no_progress)


def rows(feed: Feed, table: str) -> list[dict[str, Any]]:
    record = feed.record((SCHEMA, table))
    found = feed.lake.lake.catalog.load_table(tuple(record.changelog)).scan().to_arrow().to_pylist()
    return sorted(found, key=lambda row: (row["_ticdc_commit_ts"], row["_ticdc_seq"]))


def test_every_value_of_every_type_is_that_of_the_stream(tidb: Tidb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ranges, "RANGE_ROWS", 2)
    values = [(text, *KINDS.get(text, KEYLESS.get(text, (None, None)))) for text in (*KINDS, "JSON", "MEDIUMBLOB")]
    columns = ", ".join(f"c{number} {text} NULL" for number, (text, _, _) in enumerate(values))
    generated = "s INT AS (id * 2) STORED, v INT AS (id * 3), digits FLOAT DEFAULT 1.2345678"
    tidb.run(f"CREATE TABLE kinds (id INT PRIMARY KEY, {generated}, {columns})")
    names = ", ".join(["id", *(f"c{number}" for number in range(len(values)))])
    marks = ", ".join(["%s"] * (len(values) + 1))
    for key in range(5):
        sent = [b64decode(v["b64"]) if isinstance(v, dict) else v for _, v, _ in values]
        tidb.run(f"INSERT INTO kinds ({names}) VALUES ({marks})", values=(key, *sent))
    tidb.run("CREATE TABLE none (id VARCHAR(9) PRIMARY KEY)", "CREATE VIEW seen AS SELECT id FROM kinds")
    feed = Sink(tmp_path / "bucket").feed(tmp_path / "lake", upstream=upstream_of(tidb), tables=[f"{SCHEMA}.*"])

    report = loaded(feed)

    assert (sum(report.rows.values()), report.errors) == (5, {})
    found = rows(feed, "kinds")
    assert [(row["_ticdc_op"], row["id"], row["s"]) for row in found] == [("R", key, key * 2) for key in range(5)]
    assert {row["digits"] for row in found} == {float(np.float32(1.2345678))}
    for row in found:
        assert [row[f"c{number}"] for number in range(len(values))] == [wanted for _, _, wanted in values]
    assert rows(feed, "none") == []
    assert {record.state for record in feed.lake.lake.control.newest().tables} == {"live"}


KEYS = {
    "id BIGINT UNSIGNED PRIMARY KEY": [(2**64 - 1 - number,) for number in range(9)],
    "id DECIMAL(20, 3) PRIMARY KEY": [(f"{number - 4}.125",) for number in range(9)],
    "id VARCHAR(9) PRIMARY KEY": [(f"é{number}",) for number in range(9)],
    "id VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY": [("aB"[number % 2] + str(number),) for number in range(9)],
    "id VARBINARY(9) PRIMARY KEY": [(bytes([250 - number]),) for number in range(9)],
    "id DATETIME(3) PRIMARY KEY": [(f"2024-02-29 01:02:03.{number:03}",) for number in range(9)],
    "id TIMESTAMP(3) PRIMARY KEY": [(f"2024-02-29 01:02:03.{number:03}",) for number in range(9)],
    "id ENUM('b','a'), n INT, PRIMARY KEY (id, n)": [("ab"[number % 2], number) for number in range(9)],
    "id FLOAT PRIMARY KEY": [(number / 3,) for number in range(9)],
    "n INT, `a%b` VARCHAR(9), PRIMARY KEY (`a%b`, n)": [(number, "xyz"[number % 3]) for number in range(9)],
    "n INT": [(7,)] * 9,
}


def test_tables_with_keys_of_any_type_have_each_row_once(tidb: Tidb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ranges, "RANGE_ROWS", 2)
    for number, (columns, keys) in enumerate(KEYS.items()):
        tidb.run(f"CREATE TABLE t{number} ({columns}, v INT)")
        marks = ", ".join([f"({', '.join(['%s'] * len(keys[0]))}, %s)"] * len(keys))
        tidb.run(
            f"INSERT INTO t{number} VALUES {marks}", values=tuple(c for v, key in enumerate(keys) for c in (*key, v))
        )
    feed = Sink(tmp_path / "bucket").feed(tmp_path / "lake", upstream=upstream_of(tidb), tables=[f"{SCHEMA}.*"])

    report = loaded(feed)

    assert report.errors == {}
    found = {columns: sorted(row["v"] for row in rows(feed, f"t{number}")) for number, columns in enumerate(KEYS)}
    assert found == {columns: list(range(9)) for columns in KEYS}


def test_the_stream_goes_on_from_the_load_that_was_interrupted(tidb: Tidb, tmp_path: Path):
    sink = Sink(tmp_path / "bucket")
    tidb.run("CREATE TABLE users (id INT PRIMARY KEY, name VARCHAR(200))")
    sink.table(USERS)
    ts = tidb.run("INSERT INTO users VALUES (1, 'ann'), (2, 'bob')")
    before = [sink.insert(USERS, ts, 1, "ann"), sink.insert(USERS, ts, 2, "bob")]
    feed = sink.feed(tmp_path / "lake", upstream=upstream_of(tidb), tables=[f"{SCHEMA}.*"])

    def end(moment: Failpoint) -> None:
        if moment is Failpoint.BEFORE_CHANGELOG_COMMIT:
            raise BrokenRunError

    LISTENERS.append(end)
    try:
        with pytest.raises(BrokenRunError):
            loaded(feed)
    finally:
        LISTENERS.remove(end)
    later = tidb.run("UPDATE users SET name = 'Ann' WHERE id = 1")
    report = loaded(feed)
    assert sum(report.rows.values()) == 2
    assert report.record.tso < later

    sink.file(USERS, 1, [*before, sink.line(USERS, "U", later, 1, "Ann")])
    sink.bucket.checkpoint(later)
    feed.run()
    found = [(row["_ticdc_op"], row["id"], row["name"]) for row in rows(feed, "users")]
    assert found == [("R", 1, "ann"), ("R", 2, "bob"), ("U", 1, "Ann")]
    assert loaded(feed).rows == {}


@pytest.mark.spark
def test_resync_brings_the_earlier_rows_of_tables_that_were_not_loaded(
    tidb: Tidb, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """`users` is loaded, `orders` begins with the stream, and `late` enters `tables` in mid-life."""
    sink = Sink(tmp_path / "bucket")
    for name in (USERS, ORDERS, LATE):
        tidb.run(f"CREATE TABLE {name[1]} (id INT PRIMARY KEY, name VARCHAR(200))")
        tidb.run(f"INSERT INTO {name[1]} VALUES (1, 'before')")
    settings = {"upstream": upstream_of(tidb), "tables": [f"{SCHEMA}.*", f"!{SCHEMA}.late"]}
    feed = sink.feed(tmp_path / "lake", **settings)
    config = ("--config", str(feed.lake.config.path))
    assert main(["load", "--from-upstream", "--tables", "*.us*", *config]) == 0
    for name in (USERS, ORDERS, LATE):
        sink.table(name)
        ts = tidb.run(f"INSERT INTO {name[1]} VALUES (2, 'streamed')")
        sink.file(name, 1, [sink.line(name, "I", ts, 2, "streamed")])
    sink.bucket.checkpoint(ts)
    feed.lake.run()
    feed = sink.feed(tmp_path / "lake", **{**settings, "tables": [f"{SCHEMA}.*"]})
    feed.lake.run()
    assert [len(rows(feed, table)) for table in ("users", "orders", "late")] == [2, 1, 1]
    capsys.readouterr()

    assert main(["resync", *(".".join(name) for name in (USERS, ORDERS, LATE)), "--json", *config]) == 0

    found = {table["table"]: table["repaired"] for table in json.loads(capsys.readouterr().out)}
    assert found == {"users": 0, "orders": 1, "late": 1}
    for name in (ORDERS, LATE):
        mirror = feed.lake.lake.catalog.load_table(tuple(feed.record(name).mirror)).scan().to_arrow().to_pylist()
        assert sorted((row["id"], row["name"]) for row in mirror) == [(1, "before"), (2, "streamed")]
