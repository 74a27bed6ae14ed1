"""`resync --all` against a real TiDB that TICDC_ASSETS_TIDB names: a lake goes on after its stream was lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.cli import main
from ticdc_assets.failpoints import LISTENERS, Failpoint
from ticdc_assets.sources.upstream.rows import UpstreamRows
from ticdc_assets_tests.pipeline.reconcile.tidb_database import SCHEMA, needs_tidb, upstream_of
from ticdc_assets_tests.pipeline.reconcile.tidb_database import tidb as tidb
from ticdc_assets_tests.pipeline.small_feeds import BrokenRunError, Feed, Sink, column
from ticdc_assets_tests.sources.storage.bucket import ID, NAME
from ticdc_assets_tests.sources.upstream.real_tidb import Tidb

pytestmark = [pytest.mark.spark, needs_tidb]

USERS, ORDERS, GONE, FRESH = ((SCHEMA, name) for name in ("users", "orders", "gone", "fresh"))
CREATE = "CREATE TABLE {} (id INT PRIMARY KEY, name VARCHAR(200))"
AGE = column("age", "INT", ColumnNullable="true")


class Lost:
    """A lake that is complete up to `tso`, and tables that have changed since without a stream: `orders` has another
    column, `gone` is dropped, `fresh` is new."""

    def __init__(self, tidb: Tidb, folder: Path) -> None:
        self.tidb, self.folder = tidb, folder
        sink = Sink(folder / "bucket")
        for name in (USERS, ORDERS, GONE):
            tidb.run(CREATE.format(name[1]))
            sink.table(name)
            ts = tidb.run(f"INSERT INTO {name[1]} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
            sink.file(name, 1, [sink.insert(name, ts, key, text) for key, text in zip((1, 2, 3), "abc", strict=True)])
        sink.bucket.checkpoint(ts)
        self.tso = ts
        self.feed(sink).lake.run()
        tidb.run("UPDATE users SET name = 'B' WHERE id = 2")
        tidb.run("DELETE FROM users WHERE id = 3")
        tidb.run("INSERT INTO users VALUES (4, 'd')")
        tidb.run("DROP TABLE gone", CREATE.format("fresh"), "ALTER TABLE orders ADD COLUMN age INT DEFAULT 30")
        tidb.run("INSERT INTO fresh VALUES (1, 'f')")

    def feed(self, sink: Sink) -> Feed:
        more = {"tables": [f"{SCHEMA}.*"], "history": ["*.*"]}
        return sink.feed(self.folder / "lake", upstream=upstream_of(self.tidb), **more)

    def new_stream(self) -> tuple[Sink, Feed]:
        """Another bucket, whose stream begins inside the time that is lost."""
        sink = Sink(self.folder / "bucket2")
        self.begin = begin = self.tidb.run("UPDATE users SET name = 'x' WHERE id = 1")
        ts = self.tidb.run("UPDATE users SET name = 'a' WHERE id = 1")
        sink.bucket.schema(*USERS, 100, [ID, NAME], "")
        sink.table(FRESH, begin)
        sink.table(ORDERS, begin, [ID, NAME, AGE])
        sink.file(USERS, 1, [sink.line(USERS, "U", begin, 1, "x"), sink.line(USERS, "U", ts, 1, "a")])
        sink.bucket.checkpoint(ts)
        return sink, self.feed(sink)


def mirror(feed: Feed, name: tuple[str, str]) -> list[tuple[Any, ...]]:
    table = [t for t in feed.lake.lake.control.newest().tables if (t.schema, t.table) == name][-1]
    rows = feed.lake.lake.catalog.load_table(tuple(table.mirror)).scan().to_arrow().to_pylist()
    return sorted(tuple(cell for name, cell in row.items() if not name.startswith("_ticdc")) for row in rows)


def in_tidb(tidb: Tidb, name: tuple[str, str], tso: int) -> list[tuple[Any, ...]]:
    with UpstreamRows(tidb.upstream) as rows:
        found = rows.answers(f"SELECT * FROM `{SCHEMA}`.`{name[1]}`", [], tso)
    return sorted((int(i or 0), (text or b"").decode(), *(int(cell or 0) for cell in rest)) for i, text, *rest in found)


def called(feed: Feed, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any, str]:
    capsys.readouterr()
    code = main([*arguments, "--json", "--config", str(feed.lake.config.path)])
    said = capsys.readouterr()
    return code, json.loads(said.out or "null"), said.err


def test_a_lake_goes_on_with_another_bucket(tidb: Tidb, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    lost = Lost(tidb, tmp_path)
    sink, feed = lost.new_stream()

    code, found, said = called(feed, capsys, "resync", "--all")

    assert code == 0, said
    done = {table["table"]: (table["copied"], table["repaired"]) for table in found}
    assert done == {"users": (None, 3), "orders": (3, None), "fresh": (1, None)}
    record = feed.lake.lake.control.newest()
    end = record.tso
    assert (record.complete, {table["tso"] for table in found}) == (True, {end})
    for name in (USERS, ORDERS, FRESH):
        assert mirror(feed, name) == in_tidb(tidb, name, end)

    # The stream goes on. What it has of the gap is not read.
    ts = tidb.run("UPDATE users SET name = 'later' WHERE id = 1")
    more = tidb.run("INSERT INTO orders VALUES (9, 'nine', 9)")
    sink.file(USERS, 2, [sink.line(USERS, "U", ts, 1, "later")])
    sink.file(ORDERS, 1, [sink.line(ORDERS, "I", more, 9, "nine", 9)], version=lost.begin)
    sink.bucket.checkpoint(more)
    feed.lake.run()
    record = feed.lake.lake.control.newest()
    assert (record.complete, record.tso) == (True, more), [(t.table, t.state, t.note) for t in record.tables]
    for name in (USERS, ORDERS, FRESH):
        assert mirror(feed, name) == in_tidb(tidb, name, more)
    assert called(feed, capsys, "verify")[0] == 0

    # Readers are told.
    _, compared, _ = called(feed, capsys, "diff", str(lost.tso), str(more), "--table", ".".join(USERS))
    [users] = compared["tables"]
    assert (users["added"], users["changed"], users["removed"]) == (1, 2, 1)
    assert [lack["code"] for lack in users["leaves_out"]] == ["gap"]
    code, _, said = called(feed, capsys, "diff", str(lost.tso + 1), str(more))
    assert (code, f"a TSO outside the gap from {lost.tso} to {end}" in said) == (2, True)


def test_a_call_that_ends_early_is_completed_at_its_tso(tidb: Tidb, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    lost = Lost(tidb, tmp_path)
    _, feed = lost.new_stream()
    ends = set()
    for moment in (Failpoint.BEFORE_CHANGELOG_COMMIT, Failpoint.AFTER_CHANGELOG_COMMIT):

        def end(found: Failpoint, moment: Failpoint = moment) -> None:
            if found is moment:
                raise BrokenRunError

        LISTENERS.append(end)
        try:
            with pytest.raises(BrokenRunError):
                called(feed, capsys, "resync", "--all")
        finally:
            LISTENERS.remove(end)
        feed.lake.run()
        assert mirror(feed, USERS) == [(1, "a"), (2, "b"), (3, "c")]
        assert feed.state(USERS) == "waiting"
        assert feed.note(USERS).endswith("Run `ticdc-assets resync --all` again.")
        ends.add(max(table.copied_ts for table in feed.lake.history.source_tables))
    tidb.run("DELETE FROM users")

    code, found, said = called(feed, capsys, "resync", "--all")

    assert code == 0, said
    assert {table["tso"] for table in found} == ends
    record = feed.lake.lake.control.newest()
    assert (record.complete, {record.tso}) == (True, ends)
    assert mirror(feed, USERS) == [(1, "a"), (2, "B"), (4, "d")]
