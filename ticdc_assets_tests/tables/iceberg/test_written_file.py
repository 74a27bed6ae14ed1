"""A written file as Iceberg's Java code names it: as if Java had read the file's footer."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import GreaterThanOrEqual
from pyiceberg.table import Table

from ticdc_assets import spark
from ticdc_assets.changes.layout import LakeColumn
from ticdc_assets.tables.catalog import ensure_namespace
from ticdc_assets.tables.iceberg.jvm import JvmCatalog
from ticdc_assets.tables.iceberg.types import arrow_field
from ticdc_assets.tables.iceberg.written_file import WrittenFile, data_file_of, data_file_shown
from ticdc_assets_tests.pipeline.small_feeds import Sink

IDENTIFIER = ("shop", "t")
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [-1, None, 7]),
    "long": (pa.int64(), [-(10**12), 0, 10**12]),
    "float": (pa.float32(), [1.5, float("nan"), -0.0]),
    "double": (pa.float64(), [float("-inf"), 0.0, None]),
    "text": (pa.string(), ["é😀" * 20, "", "a" * 15 + "\U0010ffff" * 5]),
    "bytes": (pa.binary(), [b"\xff" * 20, b"", b"\x00"]),
    "day": (pa.date32(), [date(1950, 1, 1), date(9999, 12, 31), None]),
    "flag": (pa.bool_(), [True, False, None]),
    "wall": (pa.timestamp("us"), [datetime(1960, 1, 1, 1, 2, 3, 4), datetime(2030, 1, 1), None]),
    "instant": (pa.timestamp("us", tz="UTC"), [datetime(1960, 1, 1, tzinfo=UTC), None, None]),
    "price": (pa.decimal128(9, 2), [Decimal("-0.01"), Decimal("9999999.99"), None]),
    "large": (pa.decimal128(38, 10), [Decimal("-12345678901234567890.5"), Decimal(0), None]),
    "vector": (pa.list_(pa.float32()), [[1.0, 2.0], [], None]),
    "nothing": (pa.string(), [None, None, None]),
}


def test_the_statistics_are_those_that_java_reads_from_the_footer(tmp_path: Path):
    feed = Sink(tmp_path / "bucket").feed(tmp_path / "lake").lake
    catalog, jvm = feed.lake.catalog, JvmCatalog(spark.session(feed.config), feed.catalog_name)
    ensure_namespace(catalog, IDENTIFIER[:-1])
    columns = [LakeColumn(n, name, kind, name == "long") for n, (name, (kind, _)) in enumerate(VALUES.items(), 1)]
    java = jvm.create(IDENTIFIER, columns, ["long"], None, {"format-version": "3"})
    table = catalog.load_table(IDENTIFIER)
    schema = pa.schema([arrow_field(field) for field in table.schema().fields])
    path = tmp_path / "rows.parquet"
    with pq.ParquetWriter(path, schema, store_schema=False) as writer:
        rows = pa.table([pa.array(values, kind) for kind, values in VALUES.values()], schema=schema)
        writer.write_table(rows.slice(0, 2))
        writer.write_table(rows.slice(2))
    written = WrittenFile(f"file://{path}", path.stat().st_size, writer.writer.metadata)

    node = java.named("org.apache.iceberg.util.JsonUtil.mapper")().readTree(json.dumps(data_file_shown(table, written)))
    ours = _shown(java, java.named("org.apache.iceberg.ContentFileParser.fromJson")(node, java.java.spec()))

    assert len(ours.pop("split-offsets")) == 2, "one for each row group, which Java would not note here"
    assert ours == _as_java_reads_it(java, written)


def _as_java_reads_it(java: Any, written: WrittenFile) -> dict[str, Any]:
    of_table = java.named("org.apache.iceberg.MetricsConfig.forTable")(java.java)
    file = java.java.io().newInputFile(written.uri)
    metrics = java.named("org.apache.iceberg.parquet.ParquetUtil.fileMetrics")(file, of_table)
    made = java.named("org.apache.iceberg.DataFiles.builder")(java.java.spec()).withPath(written.uri)
    made = made.withFormat("PARQUET").withFileSizeInBytes(written.size_bytes).withMetrics(metrics)
    return _shown(java, made.build())


def _shown(java: Any, file: Any) -> dict[str, Any]:
    found = json.loads(java.named("org.apache.iceberg.ContentFileParser.toJson")(file, java.java.spec()))
    return {
        name: dict(zip(value["keys"], value["values"], strict=True)) if isinstance(value, dict) else value
        for name, value in found.items()
    }


@pytest.mark.parametrize(
    ("kind", "row_groups", "least"),
    [
        (pa.string(), [["a", "b"], ["z" * 5000]], "z"),
        (pa.string(), [["z" * 5000], ["a", None], [None]], "z"),
        (pa.binary(), [[b"a"], [b"z" * 5000, b"zz"]], b"z"),
        (pa.string(), [["a", "\ud7ff" * 17]], "\ud7ff"),
        (pa.string(), [["a", "b" * 15 + "\ud7ff" * 2]], "b"),
    ],
    ids=["long in the last group", "long in the first group", "long bytes", "no next character", "none after the cut"],
)
def test_a_reader_that_compares_finds_every_row(kind: pa.DataType, row_groups: list[list[Any]], least: Any, tmp_path):
    values = [value for group in row_groups for value in group]
    table = filled(tmp_path, kind, row_groups)

    found = table.scan(row_filter=GreaterThanOrEqual("value", least)).to_arrow()["value"].to_pylist()

    assert found == [value for value in values if value is not None and value >= least]
    assert table.scan().to_arrow()["value"].to_pylist() == values


def filled(folder: Path, kind: pa.DataType, row_groups: list[list[Any]]) -> Table:
    """A table of one file with these row groups."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/lake")
    catalog.create_namespace("shop")
    table = catalog.create_table(IDENTIFIER, pa.schema([("value", kind)]))
    schema = pa.schema([arrow_field(field) for field in table.schema().fields])
    path = folder / "rows.parquet"
    with pq.ParquetWriter(path, schema, store_schema=False) as writer:
        for group in row_groups:
            writer.write_table(pa.table([pa.array(group, kind)], schema=schema))
    written = WrittenFile(f"file://{path}", path.stat().st_size, writer.writer.metadata)
    with table.transaction() as tx, tx.update_snapshot().fast_append() as append:
        append.append_data_file(data_file_of(table, written))
    return table.refresh()
