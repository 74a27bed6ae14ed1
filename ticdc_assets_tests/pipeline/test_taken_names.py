"""Names that tables take which were another's: at the source without a word, or in the lake."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from ticdc_assets.pipeline.mirror_work import MirrorWork, pending_work
from ticdc_assets_tests.pipeline.canal_streams import Stream, at, ids
from ticdc_assets_tests.pipeline.small_feeds import Feed

A, B, C, OTHER = ("s", "a"), ("s", "b"), ("s", "c"), ("s", "other")


def stream(folder: Path) -> Stream:
    """Three tables with a row each."""
    made = Stream(folder)
    for n, name in enumerate((A, B, OTHER)):
        made.create(name, 1 + n)
        made.insert(name, 5, n)
    made.watermark(9)
    return made


def rename_onto_b(made: Stream) -> None:
    """The stream does not tell that `b` was dropped before, as with `ignore-event = ["drop table"]`."""
    made.rename(A, B, 10)
    made.insert(B, 11, 7)
    made.insert(OTHER, 11, 8)
    made.watermark(19)


def test_a_table_that_is_renamed_to_a_name_that_was_not_told_to_be_free_takes_it(tmp_path: Path):
    made = stream(tmp_path)
    feed = made.feed()
    feed.run()
    rename_onto_b(made)

    feed.run()

    newest = feed.lake.lake.control.newest()
    assert newest is not None
    assert [(t.table, t.state, t.watermark) for t in newest.tables] == [
        ("b", "live", at(19)),
        ("b", "dropped", at(19)),
        ("other", "live", at(19)),
    ]
    assert [".".join(t.changelog or ()) for t in newest.tables] == [
        "s__changes.b",
        f"s__changes.b__dropped_{at(10)}",
        "s__changes.other",
    ]
    assert ids(feed) == {A: [0], B: [1, 7], OTHER: [2, 8]}


def mirrors_behind(feed: Feed) -> list[MirrorWork]:
    record = feed.lake.lake.control.newest()
    assert record is not None
    return pending_work(feed.lake.lake, feed.lake.history, record)


def test_a_table_of_somebody_else_under_its_new_name_holds_a_renamed_table_and_no_other(tmp_path: Path):
    made = stream(tmp_path)
    feed = made.feed()
    feed.run()
    catalog = feed.lake.lake.catalog
    catalog.create_table(("s__changes", "c"), pa.schema([("mine", pa.int64())]))
    made.rename(A, C, 10)
    made.create(A, 11)
    for name in (A, C, OTHER):
        made.insert(name, 12, 7)
    made.watermark(19)

    feed.run()

    assert {record.state for record in (feed.record(C), feed.record(A))} == {"stopped"}
    assert "s__changes.c: expected no table, or the changelog of s.c, found another" in feed.note(C)
    assert feed.record(C).changelog == ["s__changes", "a"]
    assert ids(feed) == {A: [0], B: [1], OTHER: [2, 7]}
    assert {work.lineage.name for work in mirrors_behind(feed)} == {B, OTHER}
    catalog.drop_table(("s__changes", "c"))
    feed.run()
    assert {work.lineage.name for work in mirrors_behind(feed)} == {A, B, C, OTHER}
    assert {feed.state(name) for name in (A, B, C, OTHER)} == {"live"}
    assert ids(feed) == {A: [0, 7], B: [1], C: [7], OTHER: [2, 7]}
    assert feed.run() is None
