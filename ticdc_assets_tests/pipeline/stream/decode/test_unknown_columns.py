"""Rows with a column that no statement has added: the value is not lost silently."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets_tests.deliveries.database import Column
from ticdc_assets_tests.deliveries.wires import WIRES, Wire
from ticdc_assets_tests.pipeline.small_streams import SmallStream, ids, shape, states

C = Column("c", "VARCHAR(20)")
A, A_WITH_C, B = shape("a"), shape("a", C), shape("b")


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
def test_a_row_with_an_unknown_column_stops_its_table_alone_and_names_it(wire: Wire, tmp_path: Path):
    """The rows before it are published."""
    stream = SmallStream(tmp_path, wire)
    for table in (A, B):
        stream.create(1, table)
        stream.put(2, table, 1)
    stream.put(3, A_WITH_C, 2, c="sent")
    stream.watermark(5)
    lake = stream.lake()

    lake.publish()

    assert states(lake) == {"a": "stopped", "b": "live"}
    assert ids(lake) == {"a": [1], "b": [1]}
    assert "found 'c'" in lake.records()["s", "a"].note
