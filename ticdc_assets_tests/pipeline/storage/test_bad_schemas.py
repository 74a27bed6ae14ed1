"""Bad schemas: rows up to an unreadable schema file or statement are published, the rest after its correction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from ticdc_assets_tests.pipeline.faults.broken_tables import T, U, assert_held, assert_whole, one_table_each, written
from ticdc_assets_tests.pipeline.small_feeds import CREATE, Feed, JsonSink, Name, Sink, column
from ticdc_assets_tests.protocols.happened import Change
from ticdc_assets_tests.sources.storage.bucket import ID, NAME, schema_document


def test_a_schema_file_whose_checksum_differs_is_believed_and_noted_for_good(sink: Sink, tmp_path: Path):
    [right] = (tmp_path / "bucket/s/t/meta").iterdir()
    wrong = right.rename(right.with_name("schema_100_0000000007.json"))
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins")])
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    note = f"s/t/meta/{wrong.name}: not the checksum of its name"
    assert feed.note(T) == note
    assert_whole(feed)
    sink.file(T, 2, [sink.insert(T, 1200, 2, "zwei")[:-1]])
    sink.bucket.checkpoint(2000)
    feed.run()
    assert feed.state(T) == "waiting"
    assert feed.note(T).endswith(f"; {note}")
    sink.file(T, 2, [sink.line(T, "I", 1200, 2, "zwei")])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    assert feed.note(T) == note
    assert_whole(feed)


BROKEN_SCHEMAS: dict[str, tuple[Callable[[str], str], str, str]] = {
    "unknown column type": (lambda text: text.replace('"INT"', '"GEOMETRY"'), "stopped", "GEOMETRY"),
    "truncated": (lambda text: text[: len(text) // 2], "waiting", "whole schema file"),
    "empty": (lambda text: "", "waiting", "schema"),
    "not JSON": (lambda text: text.replace(":", "=", 1), "stopped", "JSON"),
}


def test_a_schema_file_that_cannot_be_read_holds_its_table_even_if_it_is_its_first(sink: Sink, tmp_path: Path):
    names, originals = one_table_each(BROKEN_SCHEMAS), {}
    for hazard, name in names.items():
        path = tmp_path / "bucket" / sink.table(name)
        sink.file(name, 1, [sink.insert(name, 110, 1, "eins")])
        originals[path] = path.read_text()
        path.write_text(BROKEN_SCHEMAS[hazard][0](originals[path]))
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    assert_held(feed, {names[hazard]: (state, said) for hazard, (_, state, said) in BROKEN_SCHEMAS.items()})
    for path, whole in originals.items():
        path.write_text(whole)
    feed.run()
    assert_whole(feed)


def altered(sink: Sink, query: str) -> str:
    """A second version of the table, rows on both sides of it; the path of its schema file."""
    more = column("more", "INT", ColumnPrecision="11")
    path = sink.alter(T, 200, query, [ID, NAME, more])
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), sink.insert(T, 200, 2, "zwei")])
    sink.file(T, 1, [sink.insert(T, 210, 3, "drei", 33, columns=("id", "name", "more"))], version=200)
    return path


def before(feed: Feed, name: Name, ts: int) -> Counter[Change]:
    return Counter(change for change in feed.expected(name).elements() if change.commit_ts <= ts)


@pytest.mark.parametrize("kind", [Sink, JsonSink])
def test_rows_up_to_a_statement_that_cannot_be_read_are_published_and_the_rest_when_it_is_corrected(
    tmp_path: Path, kind: type[Sink]
):
    sink = written(tmp_path, kind)
    path = altered(sink, "ALTER TABLE `t` FROBNICATE")
    feed = sink.feed(tmp_path / "lake")
    sink.bucket.checkpoint(150)
    feed.run()
    assert feed.lake.complete_tso() == 150
    sink.bucket.checkpoint(1000)

    for _ in range(2):
        feed.run()
        assert feed.state(T) == "stopped"
        assert "FROBNICATE" in feed.note(T)
        assert feed.record(T).watermark == 200
        assert feed.found(T) == before(feed, T, 200)
        assert feed.found(U) == feed.expected(U)
        assert feed.record(U).watermark == 1000
        assert feed.lake.complete_tso() == 150

    file = feed.bucket / path
    file.write_text(file.read_text().replace("FROBNICATE", "ADD COLUMN `more` INT"))
    feed.run()
    assert_whole(feed)
    assert feed.lake.complete_tso() == 1000


def test_rows_that_a_restart_put_behind_a_statement_that_cannot_be_read_are_not_forgotten(sink: Sink, tmp_path: Path):
    """TiCDC writes on into the newest folder with the same columns, also rows that are older than it."""
    path = sink.alter(T, 200, "ALTER TABLE `t` FROBNICATE")
    sink.file(T, 1, [sink.insert(T, 150, 1, "eins"), sink.insert(T, 210, 2, "zwei")], version=200)
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    assert feed.record(T).watermark == 200
    assert feed.found(T) == before(feed, T, 200)
    file = feed.bucket / path
    file.write_text(file.read_text().replace("FROBNICATE", "ADD INDEX `n`(`name`)"))
    feed.run()
    assert_whole(feed)


def test_a_truncated_later_schema_file_holds_the_table_where_it_is(sink: Sink, tmp_path: Path):
    path = feed_path = altered(sink, "ALTER TABLE `t` ADD COLUMN `more` INT")
    feed = sink.feed(tmp_path / "lake")
    file = feed.bucket / path
    whole = file.read_bytes()
    sink.bucket.checkpoint(150)
    feed.run()
    file.write_bytes(whole[:-20])
    sink.bucket.checkpoint(1000)

    feed.run()

    assert feed.state(T) == "waiting"
    assert feed_path in feed.note(T)
    assert feed.record(T).watermark == 150
    assert feed.found(T) == before(feed, T, 150)
    file.write_bytes(whole)
    feed.run()
    assert_whole(feed)


def test_a_table_older_than_the_stream_goes_on_when_its_schema_is_given(sink: Sink, tmp_path: Path):
    """The stream does not tell the partitions of such a table, and nobody guesses which rows their drop removes."""
    [first] = (tmp_path / "bucket/s/t/meta").iterdir()
    first.write_bytes(schema_document(*T, 100, [ID, NAME], ""))
    sink.alter(T, 200, "ALTER TABLE `t` DROP PARTITION `p0`")
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins")])
    sink.file(T, 1, [sink.insert(T, 210, 3, "drei")], version=200)
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    assert feed.state(T) == "stopped"
    assert feed.found(T) == before(feed, T, 200)
    dump = tmp_path / "s.t-schema.sql"
    ranges = "PARTITION BY RANGE (`id`) (PARTITION `p0` VALUES LESS THAN (1),PARTITION `p1` VALUES LESS THAN (9))"
    dump.write_text(f"{CREATE.format('t')} {ranges};\n")

    feed = sink.feed(tmp_path / "lake", schema_files=[str(dump)])
    feed.run()

    found = Counter(change._replace(partitioned=False) for change in feed.found().elements())
    assert found == feed.expected()
    assert feed.state(T) == "live"


def test_a_statement_on_a_database_that_cannot_be_read_stops_its_tables_only(sink: Sink, tmp_path: Path):
    other = ("r", "w")
    sink.table(other)
    sink.file(other, 1, [sink.insert(other, 110, 1, "one")])
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), sink.insert(T, 210, 2, "zwei")])
    path = sink.bucket.schema("s", "", 200, None, "FLASHBACK DATABASE `s`", folder="s")
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    assert {name: feed.state(name) for name in (T, U, other)} == {T: "stopped", U: "stopped", other: "live"}
    assert feed.found(T) == before(feed, T, 200)
    assert feed.found(other) == feed.expected(other)
    assert feed.lake.complete_tso() == 0
    file = feed.bucket / path
    file.write_text(file.read_text().replace("FLASHBACK DATABASE `s`", "ALTER DATABASE `s` CHARACTER SET = utf8mb4"))
    feed.run()
    assert_whole(feed)
