"""Tables that take the name of another table: at the source without a statement, or in the lake."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from ticdc_assets.pipeline.mirror.pending import pending_work
from ticdc_assets.pipeline.plan import Plan
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_streams import SmallStream, at, ids, shape, states

A, B, C, OTHER = shape("a"), shape("b"), shape("c"), shape("other")


@pytest.fixture
def stream(tmp_path: Path) -> SmallStream:
    """Three tables with a row each."""
    made = SmallStream(tmp_path)
    for number, table in enumerate((A, B, OTHER)):
        made.create(1 + number, table)
        made.put(5, table, number)
    made.watermark(9)
    return made


def rename_onto_b(stream: SmallStream) -> None:
    """The stream does not tell that `b` was dropped before, as with `ignore-event = ["drop table"]`."""
    stream.rename(10, A, B)
    stream.put(11, B, 7)
    stream.put(11, OTHER, 8)
    stream.watermark(19)


def test_a_table_that_is_renamed_to_a_name_not_known_to_be_free_takes_it(stream: SmallStream):
    lake = stream.lake()
    lake.publish()
    rename_onto_b(stream)

    lake.publish()

    newest = lake.lake.control.newest()
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
    assert ids(lake) == {"a": [0], "b": [1, 7], "other": [2, 8]}


def mirrors_behind(lake: FeedLake) -> set[str]:
    record = lake.lake.control.newest()
    assert record is not None
    return {
        ".".join(work.source_table.name) for work in pending_work(lake.lake, Plan.of(lake.lake, record, lake.history))
    }


def test_a_foreign_table_under_its_new_name_holds_a_renamed_table_and_no_other(stream: SmallStream):
    lake = stream.lake()
    lake.publish()
    catalog = lake.lake.catalog
    catalog.create_table(("s__changes", "c"), pa.schema([("mine", pa.int64())]))
    stream.rename(10, A, C)
    stream.create(11, A)
    for table in (A, C, OTHER):
        stream.put(12, table, 7)
    stream.watermark(19)

    lake.publish()

    assert states(lake) == {"a": "stopped", "b": "live", "c": "stopped", "other": "live"}
    held = lake.records()["s", "c"]
    assert "s__changes.c: expected no table, or the changelog of s.c, found another" in held.note
    assert held.changelog == ["s__changes", "a"]
    assert ids(lake) == {"a": [0], "b": [1], "other": [2, 7]}
    assert mirrors_behind(lake) == {"s.b", "s.other"}
    catalog.drop_table(("s__changes", "c"))
    lake.publish()
    assert mirrors_behind(lake) == {"s.a", "s.b", "s.c", "s.other"}
    assert states(lake) == {"a": "live", "b": "live", "c": "live", "other": "live"}
    assert ids(lake) == {"a": [0, 7], "b": [1], "c": [7], "other": [2, 7]}
    assert lake.publish() is None
