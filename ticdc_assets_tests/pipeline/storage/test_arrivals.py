"""Files without commit_ts: each file that comes has a place of its own, after all that was there."""

from __future__ import annotations

from pathlib import Path

from ticdc_assets.changes.order import next_position
from ticdc_assets.pipeline.storage.arrivals import next_ordinal
from ticdc_assets.tables.progress import Progress
from ticdc_assets_tests.pipeline.small_feeds import Sink

T = ("s", "t")


def test_a_file_of_one_row_is_before_the_file_that_comes_next(tmp_path: Path):
    sink = Sink(tmp_path / "bucket", commit_ts=False)
    sink.table(T)
    sink.file(T, 1, [sink.insert(T, 0, 1, "first")])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    sink.file(T, 2, [sink.insert(T, 0, 1, "second")])
    feed.run()

    table = feed.lake.lake.catalog.load_table(tuple(feed.record(T).changelog or ()))
    rows = {row["_ticdc_seq"]: row["name"] for row in table.scan().to_arrow().to_pylist()}
    assert [rows[seq] for seq in sorted(rows)] == ["first", "second"]


def test_the_next_ordinal_is_behind_every_position_that_was_taken():
    assert next_ordinal(Progress()) == 0
    for ordinal in (0, 1, 7):
        begin, end = next_position(ordinal), next_position(ordinal + 1)
        assert [next_ordinal(Progress(position=place)) for place in (begin, end - 1)] == [ordinal + 1] * 2
