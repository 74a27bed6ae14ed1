"""While records of a table are in quarantine, its records say so; readers may stay before the first of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest

from ticdc_assets.commands.read.listing import recorded_snapshot, table_rows
from ticdc_assets.errors import NotYetError
from ticdc_assets.pipeline.recorded.lake import recorded_lake
from ticdc_assets.pipeline.replay.run import ReplayRequest, replay
from ticdc_assets.pipeline.run.mirrors import run_mirrors
from ticdc_assets.tables.control.records import TableRecord
from ticdc_assets_tests.deliveries.wires import CanalJson
from ticdc_assets_tests.pipeline.small_feeds import Feed, Sink
from ticdc_assets_tests.pipeline.small_streams import SmallStream, at, shape

T = ("s", "t")
FILE = "s/t/100/CDC0000000000000000000{}.csv"


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    """A table without a key, so that no mirror needs Java."""
    made = Sink(tmp_path / "bucket")
    made.table(T, query="CREATE TABLE `t` (`id` INT,`name` VARCHAR(200))")
    return made


def without_java() -> NoReturn:
    raise AssertionError("no mirror needs work")


def run(feed: Feed) -> None:
    feed.run()
    run_mirrors(feed.lake.lake, "mirrors", without_java)


def row_of(feed: Feed) -> dict[str, Any]:
    [row] = table_rows(feed.lake.lake)
    return row


def marks(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["codes"], row["quarantined"], row["quarantined_since"], row["discarded"]


def recorded_marks(record: TableRecord) -> tuple[Any, ...]:
    codes = [note.code for note in record.notes]
    return codes, record.quarantined or 0, record.quarantined_since, record.discarded or 0


def misfit(line: bytes) -> bytes:
    """The record with an id that is no number."""
    fields = line.split(b",")
    return b",".join([*fields[:4], b'"x"', *fields[5:]])


def test_a_table_says_how_many_records_it_lacks_and_since_when_until_they_are_replayed(sink: Sink, tmp_path: Path):
    lost = [sink.insert(T, 120, 2, "zwei"), sink.insert(T, 130, 3, "drei")]
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), *map(misfit, lost)])
    feed = sink.feed(tmp_path / "lake")
    run(feed)

    assert row_of(feed)["state"] == "live"
    assert marks(row_of(feed)) == recorded_marks(feed.record(T)) == (["quarantine"], 2, 120, 0)
    assert "2 records in quarantine, the first at 120 or later" in feed.note(T)
    [table] = recorded_snapshot_tables(feed)
    assert table == (2, 120)

    replay(feed.lake.lake, ReplayRequest(corrected={(FILE.format(1), 1): lost[0]}))
    assert marks(row_of(feed)) == recorded_marks(feed.record(T)) == (["quarantine"], 1, 130, 0)
    replay(feed.lake.lake, ReplayRequest(corrected={(FILE.format(1), 2): lost[1]}))
    assert marks(row_of(feed)) == recorded_marks(feed.record(T)) == ([], 0, None, 0)


def recorded_snapshot_tables(feed: Feed) -> list[tuple[int, int]]:
    newest = feed.lake.lake.control.newest(complete=True)
    assert newest is not None
    assert recorded_snapshot(feed.lake.lake, newest.tso)["tso"] == newest.tso
    return [(table.quarantined or 0, table.quarantined_since or 0) for table in newest.tables]


def test_a_discarded_record_is_counted_and_given_up(sink: Sink, tmp_path: Path):
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), b"rubbish\r\n"])
    feed = sink.feed(tmp_path / "lake")
    run(feed)
    assert marks(row_of(feed)) == (["quarantine"], 1, 100, 0)

    replay(feed.lake.lake, ReplayRequest(only=frozenset(), discarded=frozenset({(FILE.format(1), 1)})))

    assert marks(row_of(feed)) == recorded_marks(feed.record(T)) == (["discarded"], 0, None, 1)
    assert feed.note(T) == "1 record given up with --discard"


def test_readers_stay_before_the_first_record_in_quarantine_where_they_ask_for_it(sink: Sink, tmp_path: Path):
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins")])
    run(sink.feed(tmp_path / "lake"))
    lost = sink.insert(T, 1100, 2, "zwei")
    sink.file(T, 2, [misfit(lost)])
    sink.bucket.checkpoint(2000)
    feed = sink.feed(tmp_path / "lake")
    run(feed)
    sink.bucket.checkpoint(3000)
    run(feed)
    config, changefeed = feed.lake.config, feed.lake.config.changefeed("feed")

    assert (recorded_lake(config, changefeed).tso, recorded_lake(config, changefeed).lacking) == (3000, {"s.t": 1})
    assert recorded_lake(config, changefeed, stays_before_quarantine=True).tso == 1000
    asked = sink.feed(tmp_path / "lake", readers="before_quarantine")
    asked_of = asked.lake.config.changefeed("feed")
    assert recorded_lake(asked.lake.config, asked_of).tso == 1000
    assert recorded_lake(asked.lake.config, asked_of, stays_before_quarantine=False).tso == 3000

    replay(feed.lake.lake, ReplayRequest(corrected={(FILE.format(2), 0): lost}))
    run_mirrors(feed.lake.lake, "mirrors", without_java)
    whole = recorded_lake(asked.lake.config, asked_of)
    assert (whole.tso, whole.lacking) == (3000, {})


def test_no_record_is_before_the_quarantine_of_a_first_run(sink: Sink, tmp_path: Path):
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), b"rubbish\r\n"])
    feed = sink.feed(tmp_path / "lake", readers="before_quarantine")
    run(feed)

    with pytest.raises(NotYetError, match="before the first one in quarantine"):
        recorded_lake(feed.lake.config, feed.lake.config.changefeed("feed"))


def test_a_message_that_names_no_table_may_be_of_each_and_one_that_does_of_its_own(tmp_path: Path):
    stream = SmallStream(tmp_path, CanalJson())
    for table in ("a", "b"):
        stream.create(1, shape(table))
        stream.put(2, shape(table), 1)
    stream.watermark(3)
    lake = stream.lake()
    lake.publish()
    stream.send("feed", 0, (None, b"rubbish"))
    stream.put(4, shape("a"), 2)
    stream.watermark(5)
    lake.publish()

    found = {name: (record.quarantined, record.quarantined_since) for (_, name), record in lake.records().items()}

    assert found == {"a": (1, at(3) + 1), "b": (1, at(3) + 1)}
