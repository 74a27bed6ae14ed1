"""Streams of messages without commit_ts: progress is by position alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.errors import SchemaError
from ticdc_assets.pipeline.replay.run import ReplayRequest, Resolution, replay
from ticdc_assets.schema.ddl import statements as ddl
from ticdc_assets.schema.ddl.parser import parse
from ticdc_assets.schema.history import sent_statements
from ticdc_assets.tables.control.tables import Control
from ticdc_assets_tests.deliveries.database import Column, RowChange
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_feeds import BrokenRunError
from ticdc_assets_tests.pipeline.small_streams import (
    SmallStream,
    UndatedCanalJson,
    at,
    ids,
    in_bulk_or_one_by_one,
    shape,
    states,
)

C = Column("c", "VARCHAR(20)")
A, A_WITH_C, B = shape("a"), shape("a", C), shape("b")
ADD_C = "ALTER TABLE `a` ADD COLUMN `c` VARCHAR(20)"


@pytest.fixture
def stream(tmp_path: Path) -> SmallStream:
    """Two tables, each with a row."""
    made = SmallStream(tmp_path, UndatedCanalJson())
    for table in (A, B):
        made.create(1, table)
        made.put(2, table, 1)
    return made


def arrived(lake: FeedLake, table: str) -> list[tuple[Any, Any]]:
    """The id and the column `c` of every change of a table, in the order of arrival."""
    newest = lake.lake.control.newest()
    assert newest is not None
    [changelog] = [r.changelog for r in newest.tables if r.table == table]
    rows = lake.lake.catalog.load_table(tuple(changelog or ())).scan().to_arrow().to_pylist()
    return [(row["id"], row.get("c")) for row in sorted(rows, key=lambda row: row["_ticdc_seq"])]


def test_rows_behind_a_statement_that_cannot_be_read_wait_until_it_can(
    stream: SmallStream, monkeypatch: pytest.MonkeyPatch
):
    lake = stream.lake()
    lake.publish()
    stream.put(3, A, 2)
    stream.ddl(4, ADD_C, A, A_WITH_C)
    stream.put(5, A_WITH_C, 3, c="new", partition=1)
    stream.put(6, A_WITH_C, 4, c="newer")
    stream.put(6, B, 2)
    with monkeypatch.context() as patch:
        patch.setattr(sent_statements, "statements_in", refused)
        lake.publish()
        assert states(lake) == {"a": "stopped", "b": "live"}
        assert ids(lake) == {"a": [1, 2], "b": [1, 2]}
        stream.put(7, A_WITH_C, 5, c="newest", partition=1)
        lake.publish()
        assert ids(lake) == {"a": [1, 2], "b": [1, 2]}
    lake = stream.lake()

    lake.publish()

    assert states(lake) == {"a": "live", "b": "live"}
    assert arrived(lake, "a") == [(1, None), (2, None), (3, "new"), (4, "newer"), (5, "newest")]
    assert ids(lake)["b"] == [1, 2]


def refused(text: str) -> tuple[ddl.Statement, ...]:
    if "ADD COLUMN" in text:
        raise SchemaError("here", "a statement that this version can read", "another", "Take a newer version.")
    return parse(text, "", restored=True)


def test_a_row_with_a_column_whose_statement_was_not_captured_yet_stops_its_table_until_then(stream: SmallStream):
    stream.put(5, A_WITH_C, 2, c="new", partition=1)
    lake = stream.lake()
    lake.publish()
    assert states(lake) == {"a": "stopped", "b": "live"}
    assert ids(lake) == {"a": [1], "b": [1]}

    stream.ddl(4, ADD_C, A, A_WITH_C)
    lake.publish()

    assert states(lake) == {"a": "live", "b": "live"}
    assert arrived(lake, "a") == [(1, None), (2, "new")]


# -- partitions that grow side by side --------------------------------------------------------------------------------


@pytest.fixture(params=[True, False], ids=["in bulk", "by the reference"])
def sides(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallStream:
    """A table whose rows are in two partitions, each captured in a file of its own."""
    in_bulk_or_one_by_one(monkeypatch, request.param)
    made = SmallStream(tmp_path, UndatedCanalJson(), binary=True)
    made.create(1, A)
    made.put(2, A, 1)
    for number in (101, 102, 103):
        made.put(2, A, number, partition=1)
    return made


def both_grow(stream: SmallStream, tick: int) -> None:
    stream.put(tick, A, tick)
    stream.put(tick, A, 100 + tick, partition=1)


def test_new_messages_of_every_partition_come_after_all_that_was_there(sides: SmallStream):
    lake = sides.lake()
    lake.publish()
    for tick in (10, 11):
        both_grow(sides, tick)
        lake.publish()

    assert [number for number, _ in arrived(lake, "a")] == [1, 101, 102, 103, 10, 110, 11, 111]
    assert lake.publish() is None


def test_what_was_published_by_a_run_that_could_not_record_is_not_read_again(
    sides: SmallStream, monkeypatch: pytest.MonkeyPatch
):
    lake = sides.lake()
    lake.publish()
    both_grow(sides, 10)
    with monkeypatch.context() as patch:
        patch.setattr(Control, "record", broken)
        with pytest.raises(BrokenRunError):
            lake.publish()
    both_grow(sides, 11)

    lake.publish()

    assert [number for number, _ in arrived(lake, "a")] == [1, 101, 102, 103, 10, 110, 11, 111]


def broken(*arguments: Any) -> None:
    raise BrokenRunError


def test_what_is_behind_the_cursor_for_another_held_table_is_not_read_again(
    sides: SmallStream, monkeypatch: pytest.MonkeyPatch
):
    """Each table stops on its own, and goes on with all that came meanwhile."""
    sides.create(3, B)
    sides.put(4, B, 1, partition=1)
    sides.ddl(5, "ALTER TABLE `b` ADD COLUMN `c` VARCHAR(20)", B, shape("b", C))
    sides.put(5, B, 2, partition=1)
    sides.put(6, shape("b", C), 3, c="new", partition=1)
    lake = sides.lake()
    with monkeypatch.context() as patch:
        patch.setattr(sent_statements, "statements_in", refused)
        for tick in (10, 11):
            both_grow(sides, tick)
            lake.publish()
            assert states(lake) == {"a": "live", "b": "stopped"}
            assert arrived(lake, "b") == [(1, None), (2, None)]
    both_grow(sides, 12)

    lake.publish()

    assert states(lake) == {"a": "live", "b": "live"}
    assert [number for number, _ in arrived(lake, "a")] == [1, 10, 101, 102, 103, 110, 11, 111, 12, 112]
    assert arrived(lake, "b") == [(1, None), (2, None), (3, "new")]


def test_a_message_that_was_set_aside_cannot_be_placed_among_them_any_more(sides: SmallStream):
    [(key, value)] = sides.wire.rows([RowChange(at(3), A, "I", {"id": "one", "name": "no number"})])
    sides.send("feed", 0, (key, value))
    lake = sides.lake()
    lake.publish()
    both_grow(sides, 10)
    lake.publish()
    assert len(lake.lake.control.quarantined()) == 1

    report = replay(lake.lake, ReplayRequest())

    [outcome] = report.outcomes
    assert outcome.resolution is Resolution.STILL_BAD
    assert "a file for each partition" in outcome.reason
    assert replay(lake.lake, ReplayRequest(discarded=frozenset({outcome.record.position}))).is_clean
