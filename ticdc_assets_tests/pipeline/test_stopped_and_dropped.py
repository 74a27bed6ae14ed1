"""Tables that stopped and were then dropped at the source: nobody can help them, and they hold nothing back."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets_tests.pipeline.canal_streams import Stream, at, ids
from ticdc_assets_tests.pipeline.small_feeds import Feed, Sink

A, B = ("s", "a"), ("s", "b")
EXCHANGE = "ALTER TABLE `b` EXCHANGE PARTITION `p0` WITH TABLE `x`"


def states(feed: Feed) -> list[tuple[str, str]]:
    newest = feed.lake.lake.control.newest()
    assert newest is not None
    return sorted((t.table, t.state) for t in newest.tables)


def stopped_stream(folder: Path) -> Stream:
    """`b` stops at 20, and has rows before and behind that."""
    made = Stream(folder)
    for name in (A, B):
        made.create(name, 1)
        made.insert(name, 5, 1)
    made.ddl(B, 20, EXCHANGE)
    made.insert(B, 25, 2)
    return made


@pytest.mark.parametrize("run_between", [True, False])
def test_in_a_stream_all_go_on_once_the_table_is_made_anew(tmp_path: Path, run_between: bool):
    made = stopped_stream(tmp_path)
    feed = made.feed()
    if run_between:
        made.watermark(29)
        feed.run()
        assert states(feed) == [("a", "live"), ("b", "stopped")]
        assert feed.complete_tso() == 0
    made.ddl(B, 30, "DROP TABLE `s`.`b`")
    made.create(B, 31)
    made.insert(B, 35, 3)
    made.watermark(39)

    feed.run()

    assert states(feed) == [("a", "live"), ("b", "dropped"), ("b", "live")]
    [over] = (t for t in feed.lake.lake.control.newest().tables if t.state == "dropped")
    assert (over.watermark, "EXCHANGE PARTITION" in over.note) == (at(20), True)
    assert ids(feed) == {A: [1], B: [1, 3]}
    assert feed.complete_tso() == at(39)
    assert feed.run() is None
    made.insert(A, 45, 4)
    made.watermark(49)
    report = feed.run()
    assert report is not None
    assert report.files == 2  # nothing that came before is read again
    assert feed.complete_tso() == at(49)


def test_in_a_stream_a_statement_on_a_database_that_cannot_be_read_stops_its_tables_until_it_is_made_anew(
    tmp_path: Path,
):
    made = Stream(tmp_path)
    for name in (A, B, ("r", "c")):
        made.create(name, 1)
        made.insert(name, 5, 1)
    made.ddl(("s", ""), 20, "FLASHBACK DATABASE `s`")
    for name in (A, B, ("r", "c")):
        made.insert(name, 25, 2)
    made.watermark(29)
    feed = made.feed()
    feed.run()
    assert states(feed) == [("a", "stopped"), ("b", "stopped"), ("c", "live")]
    assert ids(feed) == {A: [1], B: [1], ("r", "c"): [1, 2]}
    made.ddl(("s", ""), 30, "DROP DATABASE `s`")
    made.ddl(("s", ""), 31, "CREATE DATABASE `s`")
    made.create(A, 32)
    made.insert(A, 35, 3)
    made.watermark(39)

    feed.run()

    assert states(feed) == [("a", "dropped"), ("a", "live"), ("b", "dropped"), ("c", "live")]
    assert ids(feed) == {A: [1, 3], B: [1], ("r", "c"): [1, 2]}
    assert feed.complete_tso() == at(39)


@pytest.mark.parametrize("commit_ts", [True, False])
def test_in_a_bucket_all_go_on_once_the_table_is_made_anew(tmp_path: Path, commit_ts: bool):
    sink = Sink(tmp_path / "bucket", commit_ts=commit_ts)
    for name in (A, B):
        sink.table(name)
        sink.file(name, 1, [sink.insert(name, 110, 1, "one")])
    sink.alter(B, 200, EXCHANGE)
    given_up = sink.file(B, 1, [sink.line(B, "I", 210, 2, "two")], version=200)
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    assert states(feed) == [("a", "live"), ("b", "stopped")]
    sink.alter(B, 1200, "DROP TABLE `b`", [])
    sink.table(B, 1300)
    sink.file(B, 1, [sink.insert(B, 1310, 3, "three")], version=1300)
    sink.bucket.checkpoint(2000)
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    assert states(feed) == [("a", "live"), ("b", "dropped"), ("b", "live")]
    assert feed.found() == feed.expected()
    assert feed.complete_tso() == 2000
    given_up.write_bytes(b"nobody reads this")
    sink.file(A, 2, [sink.insert(A, 2110, 4, "four")])
    sink.bucket.checkpoint(3000)
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    assert feed.found() == feed.expected()
    assert feed.complete_tso() == 3000
    assert feed.look()[1].scan.data == ()
