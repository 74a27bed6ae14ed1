"""Names that tables take which were another's: at the source without a word, or in the lake."""

from __future__ import annotations

from pathlib import Path

from ticdc_assets_tests.pipeline.canal_streams import Stream, at, ids

A, B, OTHER = ("s", "a"), ("s", "b"), ("s", "other")


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
