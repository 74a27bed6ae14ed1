"""Streams of messages without commit_ts: what is taken is known by place alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.errors import SchemaError
from ticdc_assets.schema import ddl
from ticdc_assets.schema.ddl import parse
from ticdc_assets_tests.deliveries.database import Column
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_streams import SmallStream, UndatedCanalJson, ids, shape, states

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


def told(lake: FeedLake, table: str) -> list[tuple[Any, Any]]:
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
    stream.alter(4, ADD_C, A, A_WITH_C)
    stream.put(5, A_WITH_C, 3, c="new", partition=1)
    stream.put(6, A_WITH_C, 4, c="newer")
    stream.put(6, B, 2)
    with monkeypatch.context() as patch:
        patch.setattr(ddl, "parse", refused)
        lake.publish()
        assert states(lake) == {"a": "stopped", "b": "live"}
        assert ids(lake) == {"a": [1, 2], "b": [1, 2]}
        stream.put(7, A_WITH_C, 5, c="newest", partition=1)
        lake.publish()
        assert ids(lake) == {"a": [1, 2], "b": [1, 2]}

    lake.publish()

    assert states(lake) == {"a": "live", "b": "live"}
    assert told(lake, "a") == [(1, None), (2, None), (3, "new"), (4, "newer"), (5, "newest")]
    assert ids(lake)["b"] == [1, 2]


def refused(text: str, *more: Any, **options: Any) -> Any:
    if "ADD COLUMN" in text:
        raise SchemaError("here", "a statement that this version can read", "another", "Take a newer version.")
    return parse(text, *more, **options)


def test_a_row_with_a_column_whose_statement_was_not_captured_yet_waits_for_it(stream: SmallStream):
    stream.put(5, A_WITH_C, 2, c="new", partition=1)
    lake = stream.lake()
    lake.publish()
    assert states(lake) == {"a": "waiting", "b": "live"}
    assert ids(lake) == {"b": [1]}

    stream.alter(4, ADD_C, A, A_WITH_C)
    lake.publish()

    assert states(lake) == {"a": "live", "b": "live"}
    assert told(lake, "a") == [(1, None), (2, "new")]
