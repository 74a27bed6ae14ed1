"""Tables that stopped and were then dropped at the source: they cannot continue, and they hold nothing back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ticdc_assets_tests.pipeline.small_feeds import Sink
from ticdc_assets_tests.pipeline.small_streams import SmallStream, at, ids, shape, states
from ticdc_assets_tests.sources.storage.bucket import PHYSICAL_DAY

A, B, ELSEWHERE = shape("a"), shape("b"), replace(shape("c"), schema="r")
DATABASE = shape("")
EXCHANGE = "ALTER TABLE `b` EXCHANGE PARTITION `p0` WITH TABLE `x`"


@pytest.fixture
def stream(tmp_path: Path) -> SmallStream:
    """`b` stops at 20, and has rows before and behind that."""
    made = SmallStream(tmp_path)
    for table in (A, B):
        made.create(1, table)
        made.put(5, table, 1)
    made.ddl(20, EXCHANGE, B)
    made.put(25, B, 2)
    return made


@pytest.mark.parametrize("run_between", [True, False])
def test_in_a_stream_all_go_on_once_the_table_is_made_again(stream: SmallStream, run_between: bool):
    lake = stream.lake()
    if run_between:
        stream.watermark(29)
        lake.publish()
        assert states(lake) == {"a": "live", "b": "stopped"}
        assert lake.complete_tso() == 0
    stream.drop(30, B)
    stream.create(31, B)
    stream.put(35, B, 3)
    stream.watermark(39)

    lake.publish()

    assert states(lake) == {"a": "live", "b": "dropped, live"}
    [over] = (t for t in lake.lake.control.newest().tables if t.state == "dropped")
    assert (over.watermark, "EXCHANGE PARTITION" in over.note) == (at(20), True)
    assert ids(lake) == {"a": [1], "b": [1, 3]}
    assert lake.complete_tso() == at(39)
    assert lake.publish() is None
    stream.put(45, A, 4)
    stream.watermark(49)
    report = lake.publish()
    assert report is not None
    assert report.records_read == 2  # nothing that came before is read again
    assert lake.complete_tso() == at(49)


def test_in_a_stream_a_statement_on_a_database_that_cannot_be_read_stops_its_tables_until_it_is_made_again(
    tmp_path: Path,
):
    stream = SmallStream(tmp_path)
    for table in (A, B, ELSEWHERE):
        stream.create(1, table)
        stream.put(5, table, 1)
    stream.ddl(20, "FLASHBACK DATABASE `s`", DATABASE)
    for table in (A, B, ELSEWHERE):
        stream.put(25, table, 2)
    stream.watermark(29)
    lake = stream.lake()
    lake.publish()
    assert states(lake) == {"a": "stopped", "b": "stopped", "r.c": "live"}
    assert ids(lake) == {"a": [1], "b": [1], "r.c": [1, 2]}
    stream.ddl(30, "DROP DATABASE `s`", DATABASE)
    stream.ddl(31, "CREATE DATABASE `s`", DATABASE)
    stream.create(32, A)
    stream.put(35, A, 3)
    stream.watermark(39)

    lake.publish()

    assert states(lake) == {"a": "dropped, live", "b": "dropped", "r.c": "live"}
    assert ids(lake) == {"a": [1, 3], "b": [1], "r.c": [1, 2]}
    assert lake.complete_tso() == at(39)


@pytest.mark.parametrize("commit_ts", [True, False])
def test_in_a_bucket_all_go_on_once_the_table_is_made_again(tmp_path: Path, commit_ts: bool):
    a, b = ("s", "a"), ("s", "b")
    sink = Sink(tmp_path / "bucket", commit_ts=commit_ts)
    for name in (a, b):
        sink.table(name)
        sink.file(name, 1, [sink.insert(name, 110, 1, "one")])
    sink.alter(b, 200, EXCHANGE)
    given_up = sink.file(b, 1, [sink.line(b, "I", 210, 2, "two")], version=200)
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    assert states(feed.lake) == {"a": "live", "b": "stopped"}
    sink.alter(b, 1200, "DROP TABLE `b`", [])
    sink.table(b, 1300)
    sink.file(b, 1, [sink.insert(b, 1310, 3, "three")], version=1300)
    sink.bucket.checkpoint(2000)
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    assert states(feed.lake) == {"a": "live", "b": "dropped, live"}
    assert feed.found() == feed.expected()
    assert feed.lake.complete_tso() == 2000
    sink.bucket.checkpoint(2 * PHYSICAL_DAY)  # the folder of the version that was given up closes
    feed.run()
    given_up.write_bytes(b"nobody reads this")
    sink.file(a, 2, [sink.insert(a, 2 * PHYSICAL_DAY + 110, 4, "four")])
    sink.bucket.checkpoint(2 * PHYSICAL_DAY + 1000)
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    assert feed.found() == feed.expected()
    assert feed.lake.complete_tso() == 2 * PHYSICAL_DAY + 1000
    assert feed.scan()[1].scan.data == ()


def test_a_table_whose_mirror_cannot_go_on_holds_nothing_back_once_it_is_dropped(tmp_path: Path):
    stream = SmallStream(tmp_path)
    for table in (A, B):
        stream.create(1, table)
        stream.put(5, table, 1)
    for tick, statement in ((10, "DROP PRIMARY KEY"), (20, "ADD PRIMARY KEY(`id`)")):
        stream.ddl(tick, f"ALTER TABLE `b` {statement}", B)
    stream.put(25, B, 2)
    stream.watermark(29)
    lake = stream.lake()
    lake.publish()
    assert lake.complete_tso() == 0
    assert states(lake) == {"a": "live", "b": "stopped"}

    stream.drop(30, B)
    stream.watermark(39)
    lake.publish()

    assert lake.complete_tso() == at(39)
    assert states(lake) == {"a": "live", "b": "dropped"}
    [gone] = (t for t in lake.lake.control.newest().tables if t.state == "dropped")
    assert gone.note.startswith("its mirror: ")
    assert lake.publish() is None
