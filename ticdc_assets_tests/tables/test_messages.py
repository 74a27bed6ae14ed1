"""The control table of landed messages."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from ticdc_assets.tables import messages
from ticdc_assets.tables.iceberg.parquet import DataFileWriter
from ticdc_assets.tables.messages import LandedOffsets, LandedPartition


@pytest.mark.parametrize("count", [1, 0])
def test_an_emptied_table_has_landed_nothing_of_its_topics(count: int, tmp_path: Path):
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/lake.db", warehouse=f"file://{tmp_path}/lake")
    table = messages.ensure(catalog, ("control",))
    schema = messages.file_schema(table)
    message = {"topic": "t", "partition": 0, "offset": 6, "timestamp": datetime(2026, 1, 1, tzinfo=UTC)}
    files = []
    for number in range(count):
        writer = DataFileWriter(table.io, f"{table.location()}/data/{number}.parquet", schema)
        writer.write(pa.Table.from_pylist([message], schema))
        files.append(writer.close())
    landed = LandedOffsets({("t", 0): LandedPartition(7, "mark")}, 7, "run", {"t": "id"})
    table = messages.append(table, "feed", files, LandedOffsets(), landed)
    assert len(table.scan().to_arrow()) == count

    messages.empty(table, "feed")

    assert len(table.refresh().scan().to_arrow()) == 0
    assert messages.landed_offsets(table) == LandedOffsets(messages=7)
