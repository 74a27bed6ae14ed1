"""A Parquet file that a worker wrote, as a commit names it: with its partition and the statistics of its footer.

The footer comes with the worker's answer, so that the driver opens no data file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    DataFileStatistics,
    StatsAggregator,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

if TYPE_CHECKING:
    from pyiceberg.table import Table


_ROW_LINEAGE: Final = (
    NestedField(2147483540, "_row_id", LongType(), required=False),
    NestedField(2147483539, "_last_updated_sequence_number", LongType(), required=False),
)
"""The columns of Iceberg's format 3 that are in no schema; a file that was rewritten has them."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """The file's URI, size and footer."""

    uri: str
    size_bytes: int
    footer: pq.FileMetaData


def data_file_of(table: Table, file: WrittenFile) -> DataFile:
    """The file as a manifest names it."""
    spec, statistics = table.spec(), _statistics(table, file)
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.uri,
        file_format=FileFormat.PARQUET,
        partition=statistics.partition(spec, table.schema()),
        file_size_in_bytes=file.size_bytes,
        sort_order_id=None,
        spec_id=spec.spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


def data_file_shown(table: Table, file: WrittenFile, partition: Any = ()) -> dict[str, Any]:
    """The file in the JSON form of Iceberg's Java `ContentFileParser`, which `partition` has too."""
    found = _statistics(table, file).to_serialized_dict()
    columns = {field.field_id for field in table.schema().fields}  # Java counts no values inside lists
    counts = {
        name: {i: n for i, n in found[name].items() if i in columns}
        for name in ("value_counts", "null_value_counts", "nan_value_counts")
    }
    metrics = {_dashed(name): _listed(n, int) for name, n in {"column_sizes": found["column_sizes"], **counts}.items()}
    bounds = {_dashed(name): _listed(found[name], _hexed) for name in ("lower_bounds", "upper_bounds")}
    plain = {
        "spec-id": table.spec().spec_id,
        "content": "data",
        "file-path": file.uri,
        "file-format": "parquet",
        "partition": partition,
        "file-size-in-bytes": file.size_bytes,
        "record-count": found["record_count"],
        "split-offsets": found["split_offsets"],
        "sort-order-id": 0,
    }
    return {**plain, **metrics, **bounds}


def _statistics(table: Table, file: WrittenFile) -> DataFileStatistics:
    named = {_name(file.footer, number) for number in range(file.footer.num_columns)}
    added = [column for column in _ROW_LINEAGE if column.name in named]
    schema = Schema(*table.schema().fields, *added) if added else table.schema()
    ids = parquet_path_to_id_mapping(schema)
    found = data_file_statistics_from_parquet_metadata(
        parquet_metadata=file.footer,
        stats_columns=compute_statistics_plan(schema, table.properties),
        parquet_column_mapping=ids,
    )
    # pyiceberg takes the bounds of the other row groups then, and a reader would skip the file.
    unbounded = {ids[name] for name in _columns_with_a_group_without_bounds(file.footer)}
    unwritable = {field_id for field_id, bounds in found.column_aggregates.items() if _is_unwritable(bounds)}
    for field_id in unbounded | unwritable:
        found.column_aggregates.pop(field_id, None)
    return found


def _columns_with_a_group_without_bounds(footer: pq.FileMetaData) -> Iterator[str]:
    """The columns with values in a row group that has no bounds of them: a bound may have 4096 bytes at most."""
    if footer.num_row_groups == 1:
        return
    for number in range(footer.num_columns):
        chunks = (footer.row_group(group).column(number).statistics for group in range(footer.num_row_groups))
        if any(chunk is not None and chunk.num_values and not chunk.has_min_max for chunk in chunks):
            yield _name(footer, number)


def _is_unwritable(bounds: StatsAggregator) -> bool:
    """Whether the upper bound cannot be UTF-8: cut after U+D7FF, pyiceberg makes it end with the next number, which is
    no character."""
    try:
        bounds.max_as_bytes()
    except UnicodeEncodeError:
        return True
    return False


def _name(footer: pq.FileMetaData, number: int) -> str:
    return str(footer.schema.column(number).path)


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _listed(values: Mapping[int, Any], form: Callable[[Any], Any]) -> dict[str, list[Any]]:
    return {"keys": [*values], "values": [form(value) for value in values.values()]}


def _hexed(bound: bytes) -> str:
    return bound.hex().upper()
