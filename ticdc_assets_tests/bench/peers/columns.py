"""The recorded table's columns as the peers know them: written down by hand, as their authors would."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

COLUMNS: Final = {
    "id": pa.int64(),
    "user_id": pa.int64(),
    "sku": pa.string(),
    "qty": pa.int32(),
    "price": pa.decimal128(12, 2),
    "discount": pa.float32(),
    "total": pa.float64(),
    "status": pa.int32(),
    "tags": pa.int32(),
    "note": pa.string(),
    "addr": pa.string(),
    "meta": pa.string(),
    "payload": pa.string(),
    "flags": pa.int64(),
    "created": pa.timestamp("us"),
    "updated": pa.timestamp("us"),
    "day": pa.date32(),
    "dur": pa.string(),
    "big": pa.decimal128(20, 0),
    "opt": pa.int32(),
}

_SQL: Final = {
    pa.int64(): "BIGINT",
    pa.int32(): "INT",
    pa.string(): "STRING",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.timestamp("us"): "TIMESTAMP",
    pa.date32(): "DATE",
}


def sql_type(arrow: pa.DataType) -> str:
    """The type's name, alike in Spark and DuckDB."""
    if pa.types.is_decimal(arrow):
        return f"DECIMAL({arrow.precision},{arrow.scale})"
    return _SQL[arrow]


CASTS: Final = ", ".join(f"CAST(row.{name} AS {sql_type(arrow)}) AS {name}" for name, arrow in COLUMNS.items())
"""The columns out of a struct `row` of text."""


CHANGE: Final = (
    f"type string, data array<struct<{','.join(f'{name}:string' for name in COLUMNS)}>>, _tidb struct<commitTs:bigint>"
)
"""A line of Canal-JSON as Spark's schemas are written."""


def newest_change(lines: str) -> str:
    """Spark SQL for the newest change of every key in a view of text lines: its `type` and the columns."""
    return f"""
        SELECT type, {CASTS} FROM (
            SELECT type, row, row_number() OVER (PARTITION BY row.id ORDER BY commit_ts DESC) AS age FROM (
                SELECT change.type AS type, change.data[0] AS row, change._tidb.commitTs AS commit_ts
                FROM (SELECT from_json(value, '{CHANGE}') AS change FROM {lines})
            )
        ) WHERE age = 1
    """
