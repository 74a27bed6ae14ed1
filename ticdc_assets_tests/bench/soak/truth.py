"""Whether mirrors have the rows that the stream has."""

from __future__ import annotations

from ticdc_assets.pipeline.lake import Lake
from ticdc_assets_tests.bench.soak.stream import SCHEMA, Stream


def differences(lake: Lake, stream: Stream) -> list[str]:
    """The tables whose mirror has other rows than the stream."""
    wrong = []
    for table in stream.tables:
        found = lake.catalog.load_table((SCHEMA, table.name)).scan(selected_fields=tuple(table.columns)).to_arrow()
        rows = {row["id"]: row for row in found.to_pylist()}
        if len(found) != len(rows) or rows != table.rows:
            wrong.append(table.name)
    return wrong
