"""`resync` against a real TiDB that TICDC_ASSETS_TIDB names: tables that are held or new go on, exact at the TSO."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets import spark
from ticdc_assets.cli import main
from ticdc_assets.errors import ConfigError
from ticdc_assets.failpoints import LISTENERS, Failpoint
from ticdc_assets.names import quote_path
from ticdc_assets.pipeline.reconcile.copy import copy_tables
from ticdc_assets.sources.upstream import ranges
from ticdc_assets.sources.upstream.rows import UpstreamRows
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.pipeline.reconcile.tidb_database import SCHEMA, needs_tidb, upstream_of
from ticdc_assets_tests.pipeline.reconcile.tidb_database import tidb as tidb
from ticdc_assets_tests.pipeline.small_feeds import BrokenRunError, Feed, Sink, column
from ticdc_assets_tests.sources.storage.bucket import ID, NAME
from ticdc_assets_tests.sources.upstream.real_tidb import Tidb

pytestmark = needs_tidb

USERS, ORDERS = (SCHEMA, "users"), (SCHEMA, "orders")


@pytest.fixture
def sink(tidb: Tidb, tmp_path: Path) -> Sink:
    """`users` is held by a statement that is not understood; `orders` is not selected, and has no key."""
    sink = Sink(tmp_path / "bucket")
    tidb.run("CREATE TABLE users (id INT PRIMARY KEY, name VARCHAR(200))", "CREATE TABLE orders (id INT, name TEXT)")
    sink.table(USERS)
    sink.table(ORDERS)
    ts = tidb.run("INSERT INTO users VALUES (1, 'ann'), (2, 'bob')")
    sink.file(USERS, 1, [sink.insert(USERS, ts, 1, "ann"), sink.insert(USERS, ts, 2, "bob")])
    ts = tidb.run("INSERT INTO orders VALUES (7, 'hat'), (7, 'hat')")
    sink.file(ORDERS, 1, [sink.insert(ORDERS, ts, 7, "hat")] * 2)
    tidb.run("ALTER TABLE users ADD COLUMN age INT DEFAULT 30")
    sink.alter(USERS, ts + 1, "ALTER TABLE users FROBNICATE", [ID, NAME, AGE])
    lost = tidb.run("UPDATE users SET name = 'Bob', age = 31 WHERE id = 2")
    sink.file(USERS, 1, [sink.line(USERS, "U", lost, 2, "Bob", 31)], version=ts + 1)
    sink.bucket.checkpoint(lost)
    return sink


AGE = column("age", "INT", ColumnNullable="true")


def tables_of(feed: Feed, name: tuple[str, str]) -> list[tuple[str, int]]:
    newest = feed.lake.lake.control.newest()
    return [(table.state, table.watermark) for table in newest.tables if (table.schema, table.table) == name]


def changes(feed: Feed, name: tuple[str, str]) -> list[dict[str, Any]]:
    newest = feed.lake.lake.control.newest()
    table = [t for t in newest.tables if (t.schema, t.table) == name][-1]
    rows = feed.lake.lake.catalog.load_table(tuple(table.changelog)).scan().to_arrow().to_pylist()
    system = ("_ticdc_commit_time", "_ticdc_table_version", "_ticdc_before", "_ticdc_commit_ts", "_ticdc_seq")
    rows.sort(key=lambda row: (row["_ticdc_commit_ts"], row["_ticdc_seq"]))
    return [{name: cell for name, cell in row.items() if name not in system} for row in rows]


def test_a_held_table_and_a_new_one_go_on_from_tidb(
    sink: Sink, tidb: Tidb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ranges, "RANGE_ROWS", 1)
    feed = sink.feed(tmp_path / "lake", upstream=upstream_of(tidb), tables=[f"{SCHEMA}.users"])
    feed.run()
    assert [state for state, _ in tables_of(feed, USERS)] == ["stopped"]
    feed = sink.feed(tmp_path / "lake", upstream=upstream_of(tidb), tables=[f"{SCHEMA}.*"])

    report = copy_tables(feed.lake.lake, [USERS, ORDERS], None, LocalWorkers())

    assert (report.rows, report.errors) == ({".".join(USERS): 2, ".".join(ORDERS): 2}, {})
    at = report.tsos[".".join(USERS)]
    assert tables_of(feed, USERS)[-1] == ("live", at)
    copied = [
        {"_ticdc_op": "R", "id": 1, "name": "ann", "age": 30},
        {"_ticdc_op": "R", "id": 2, "name": "Bob", "age": 31},
    ]
    assert changes(feed, USERS) == copied
    assert changes(feed, ORDERS) == [{"_ticdc_op": "R", "id": 7, "name": "hat"}] * 2

    # The stream goes on: what it has up to the TSO is in the copy.
    later = tidb.run("UPDATE users SET age = 32 WHERE id = 1")
    sink.file(USERS, 2, [sink.line(USERS, "U", later, 1, "ann", 32)], version=sink_version(sink))
    sink.file(ORDERS, 2, [sink.line(ORDERS, "I", later, 8, "cap")])
    sink.bucket.checkpoint(later)
    feed.run()
    assert changes(feed, USERS) == [*copied, {"_ticdc_op": "U", "id": 1, "name": "ann", "age": 32}]
    assert changes(feed, ORDERS)[2:] == [{"_ticdc_op": "I", "id": 8, "name": "cap"}]
    assert tables_of(feed, USERS)[-1] == tables_of(feed, ORDERS)[-1] == ("live", later)
    assert {state for state, _ in tables_of(feed, USERS)[:-1]} <= {"dropped"}

    sink.alter(USERS, later + 1, "ALTER TABLE users FROBNICATE AGAIN", [ID, NAME, AGE])
    again = tidb.run("DELETE FROM users WHERE id = 2")
    sink.file(USERS, 1, [sink.line(USERS, "D", again, 2, "Bob", 31)], version=later + 1)
    sink.bucket.checkpoint(again)
    feed.run()
    assert tables_of(feed, USERS)[-1][0] == "stopped"
    report = copy_tables(feed.lake.lake, [USERS], None, LocalWorkers())
    sink.bucket.checkpoint(report.tsos[".".join(USERS)] + 1)
    feed.run()
    assert tables_of(feed, USERS)[-1] == ("live", report.tsos[".".join(USERS)] + 1)
    assert changes(feed, USERS) == [{"_ticdc_op": "R", "id": 1, "name": "ann", "age": 32}]


def sink_version(sink: Sink) -> int:
    return max(int(folder.name) for folder in (sink.folder / SCHEMA / "users").iterdir() if folder.name.isdigit())


def test_a_copy_that_ends_early_is_held_until_it_is_made_again(sink: Sink, tidb: Tidb, tmp_path: Path):
    feed = sink.feed(tmp_path / "lake", upstream=upstream_of(tidb), tables=[f"{SCHEMA}.users"])
    feed.run()
    tidb.run("DELETE FROM users WHERE id = 1")
    for moment in (Failpoint.BEFORE_CHANGELOG_COMMIT, Failpoint.AFTER_CHANGELOG_COMMIT):

        def end(found: Failpoint, moment: Failpoint = moment) -> None:
            if found is moment:
                raise BrokenRunError

        LISTENERS.append(end)
        try:
            with pytest.raises(BrokenRunError):
                copy_tables(feed.lake.lake, [USERS], None, LocalWorkers())
        finally:
            LISTENERS.remove(end)
        feed.run()
        assert tables_of(feed, USERS)[-1][1] == 0
    note = feed.lake.lake.control.newest().tables[-1].note
    assert note.endswith(f"are not copied yet. Run `ticdc-assets resync {'.'.join(USERS)}` again.")
    tidb.run("DELETE FROM users")

    report = copy_tables(feed.lake.lake, [USERS], None, LocalWorkers())

    assert report.errors == {}
    assert tables_of(feed, USERS)[-1] == ("live", report.tsos[".".join(USERS)])
    assert [row["id"] for row in changes(feed, USERS)] == [2]


def test_a_table_that_cannot_be_copied_says_why_and_nothing_changes(sink: Sink, tidb: Tidb, tmp_path: Path):
    feed = sink.feed(tmp_path / "lake", upstream=upstream_of(tidb))
    feed.run()
    before = feed.lake.lake.control.newest()
    tidb.run("DROP USER IF EXISTS nobody", "CREATE USER nobody")
    stranger = sink.feed(tmp_path / "lake", upstream={**upstream_of(tidb), "user": "nobody"})

    gone = copy_tables(feed.lake.lake, [(SCHEMA, "gone")], None, LocalWorkers())
    denied = copy_tables(stranger.lake.lake, [USERS], None, LocalWorkers())
    early = copy_tables(feed.lake.lake, [USERS], now_of(tidb) + (3600_000 << 18), LocalWorkers())

    found = [error for report in (gone, denied, early) for error in report.errors.values()]
    assert ["found none (error 1146)" in found[0], "needs SELECT" in found[1], "error" in found[2]] == [True] * 3
    assert feed.lake.lake.control.newest() == before
    assert [report.rows for report in (gone, denied, early)] == [{}] * 3
    assert len(feed.lake.history.source_tables) == 2
    with pytest.raises(ConfigError, match="a TSO from"):
        copy_tables(feed.lake.lake, [USERS], before.tso - 1, LocalWorkers())
    with pytest.raises(ConfigError, match="a table of the changefeed"):
        copy_tables(feed.lake.lake, [("other", "")], None, LocalWorkers())


def now_of(tidb: Tidb) -> int:
    with UpstreamRows(tidb.upstream) as rows:
        return rows.now()


@pytest.mark.spark
def test_the_command_copies_a_held_table_and_its_mirror_follows(
    sink: Sink, tidb: Tidb, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    feed = sink.feed(tmp_path / "lake", upstream=upstream_of(tidb), tables=[f"{SCHEMA}.users"])
    feed.lake.run()
    capsys.readouterr()

    code = main(["resync", ".".join(USERS), "--json", "--config", str(feed.lake.config.path)])

    [found] = json.loads(capsys.readouterr().out)
    assert (code, found["copied"], found["repaired"]) == (0, 2, None)
    mirror = feed.lake.lake.catalog.load_table(USERS).scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["name"], row["age"]) for row in mirror) == [(1, "ann", 30), (2, "Bob", 31)]
    sink.bucket.checkpoint(found["tso"] + 1)
    feed.lake.run()
    record = feed.lake.lake.control.newest()
    assert (record.complete, record.tso) == (True, found["tso"] + 1)
    capsys.readouterr()
    assert main(["resync", ".".join(USERS), "--json", "--config", str(feed.lake.config.path)]) == 0
    [equal] = json.loads(capsys.readouterr().out)
    assert (equal["copied"], equal["repaired"], equal["tso"]) == (None, 0, found["tso"] + 1)

    # Another writer makes the mirror equal to what the changelog does not have.
    changed = quote_path((feed.lake.catalog_name, *USERS))
    spark.session(feed.lake.config).sql(f"UPDATE {changed} SET name = 'hand' WHERE id = 1")
    assert main(["resync", ".".join(USERS), "--json", "--config", str(feed.lake.config.path)]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == [equal]
    assert "another writer had changed it" in said.err
    mirror = feed.lake.lake.catalog.load_table(USERS).scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["name"]) for row in mirror) == [(1, "ann"), (2, "Bob")]
