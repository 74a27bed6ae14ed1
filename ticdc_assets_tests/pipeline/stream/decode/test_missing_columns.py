"""Rows that lack a column of their table: noticed, unless the changefeed leaves the column out by intent."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets_tests.deliveries.database import Column
from ticdc_assets_tests.deliveries.wires import WIRES, Wire
from ticdc_assets_tests.pipeline.small_streams import SmallStream, ids, shape, states

C, D = Column("c", "VARCHAR(20)"), Column("d", "VARCHAR(20)")
A, A_WITHOUT_C, B = shape("a", C, D), shape("a", D), shape("b")
WITHOUT_C = {"sink": {"column-selectors": [{"matcher": ["s.a"], "columns": ["*", "!C"]}]}}
WITHOUT_D = {"sink": {"column-selectors": [{"matcher": ["s.a"], "columns": ["*", "!d"]}]}}
BY_WIRE = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)


def stream_of(folder: Path, wire: Wire, config: dict | None = None) -> SmallStream:
    stream = SmallStream(folder, wire, config or {})
    for table in (A, B):
        stream.create(1, table)
    stream.put(2, B, 1)
    return stream


@BY_WIRE
@pytest.mark.parametrize("config", [{}, WITHOUT_D], ids=["no-selectors", "other-selectors"])
def test_a_row_without_a_column_stops_its_table_alone_and_names_the_column(wire: Wire, config: dict, tmp_path: Path):
    stream = stream_of(tmp_path, wire, config)
    stream.put(2, A, 1, c="sent", d="sent")
    stream.put(3, A_WITHOUT_C, 2, d="sent")
    stream.watermark(5)
    lake = stream.lake()

    lake.publish()

    assert states(lake) == {"a": "stopped", "b": "live"}
    assert ids(lake) == {"a": [1], "b": [1]}
    note = lake.records()["s", "a"].note
    assert "found a row without 'c'" in note
    assert "`column-selectors`" in note


@BY_WIRE
def test_what_the_changefeed_leaves_out_by_intent_is_null(wire: Wire, tmp_path: Path):
    stream = stream_of(tmp_path, wire, WITHOUT_C)
    stream.put(3, A_WITHOUT_C, 2, d="sent")
    stream.watermark(5)
    lake = stream.lake()

    lake.publish()

    assert states(lake) == {"a": "live", "b": "live"}
    assert ids(lake) == {"a": [2], "b": [1]}
    [change] = [change for change in lake.changes() if change.table == "a"]
    assert dict(change.new) == {"id": 2, "name": "name 2", "c": None, "d": "sent"}
