"""A large table: its rows, the same in a Dumpling export and in the files of a storage sink."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets_tests.pipeline.load.dumps import METADATA
from ticdc_assets_tests.sources.storage.bucket import NONE, Bucket

SCHEMA: Final = "shop"
TABLE: Final = "orders"
TSO: Final = 470_000_000_000_000_000
ROWS_OF_FILE: Final = 200_000
COLUMNS: Final = {
    "id": "BIGINT",
    "user_id": "INT",
    "amount": "DECIMAL(12,2)",
    "name": "VARCHAR(40)",
    "note": "VARCHAR(100)",
    "ordered": "DATETIME",
    "due": "DATE",
    "weight": "DOUBLE",
    "is_paid": "TINYINT",
    "status": "VARCHAR(10)",
}
_QUOTED: Final = {"name", "note", "ordered", "due", "status"}
_EPOCH_DAY: Final = 20_454
"""2026-01-01 in days since 1970."""


def rows(ids: pa.Array) -> pa.Table:
    """The rows with these ids, each column with the type that the lake gives it. Every tenth row has no status."""
    number = np.asarray(ids, np.int64)
    text = ids.cast(pa.string())
    status = pa.array(["new", "sent", "done"]).take(pa.array(number % 3))
    return pa.table({
        "id": ids,
        "user_id": pa.array((number * 7919 % 1_000_003).astype(np.int32)),
        "amount": _hundredths(number % 10_000_019),
        "name": pc.binary_join_element_wise("customer ", text, ""),
        "note": pc.binary_join_element_wise("deliver to the second floor, the door on the left, bell ", text, ""),
        "ordered": pa.array((_EPOCH_DAY * 86_400 + number % 10_000_000) * 1_000_000).cast(pa.timestamp("us")),
        "due": pa.array((_EPOCH_DAY + number % 365).astype(np.int32)).cast(pa.date32()),
        "weight": pa.array(number % 100_000 / 8),
        "is_paid": pa.array((number % 2).astype(np.int32)),
        "status": pc.if_else(pa.array(number % 10 == 0), pa.scalar(None, pa.string()), status),
    })  # fmt: skip


def _hundredths(number: npt.NDArray[np.int64]) -> pa.Array:
    whole, part = (pa.array(one).cast(pa.string()) for one in divmod(number, 100))
    return pc.binary_join_element_wise(whole, pc.utf8_lpad(part, 2, "0"), ".").cast(pa.decimal128(12, 2))


def dump(folder: Path, count: int) -> Path:
    """A Dumpling export in CSV with so many rows, at TSO."""
    folder.mkdir(parents=True)
    (folder / "metadata").write_text(METADATA.format(TSO))
    (folder / f"{SCHEMA}-schema-create.sql").write_text(f"CREATE DATABASE `{SCHEMA}`;\n")
    (folder / f"{SCHEMA}.{TABLE}-schema.sql").write_text(f"{_create()};\n")
    head = ",".join(f'"{name}"' for name in COLUMNS).encode() + b"\r\n"
    for number, (_, table) in enumerate(_files(count)):
        (folder / f"{SCHEMA}.{TABLE}.{number:09d}.csv").write_bytes(head + _lines(table))
    return folder


def bucket(folder: Path, count: int, one_commit: bool = False) -> Path:
    """A storage sink's folder in CSV with the inserts of so many rows: one commit for each file, or one for all."""
    made = Bucket(folder, NONE, checkpoint=TSO + count)
    made.schema(SCHEMA, TABLE, TSO, [_column(name) for name in COLUMNS], query=_create())
    place = f"{SCHEMA}/{TABLE}/{TSO}"
    for number, (last_id, table) in enumerate(_files(count), start=1):
        commit_ts = TSO + (count if one_commit else last_id)
        made.data(place, number, _lines(table, f'"I","{TABLE}","{SCHEMA}",{commit_ts},'))
        made.index(place, number)
    return folder


def _files(count: int) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each file, after the last of their ids."""
    for first in range(0, count, ROWS_OF_FILE):
        last = min(first + ROWS_OF_FILE, count)
        yield last, rows(pa.array(np.arange(first + 1, last + 1)))


def _lines(table: pa.Table, before: str = "") -> bytes:
    """The rows as lines, each with this text before it."""
    cells = [_cells(name, table.column(name)) for name in COLUMNS]
    cells[0] = pc.binary_join_element_wise(before, cells[0], "")
    lines = pc.binary_join_element_wise(*cells, ",")
    return "\r\n".join(lines.to_pylist()).encode() + b"\r\n"


def _cells(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    text = pc.strftime(column, "%Y-%m-%d %H:%M:%S") if name == "ordered" else column.cast(pa.string())
    text = pc.utf8_slice_codeunits(text, 0, 19) if name == "ordered" else text
    quoted = pc.binary_join_element_wise('"', text, '"', "") if name in _QUOTED else text
    return quoted.fill_null("\\N")


def _create() -> str:
    columns = ", ".join(f"`{name}` {of}" for name, of in COLUMNS.items())
    return f"CREATE TABLE `{TABLE}` ({columns}, PRIMARY KEY (`id`))"


def _column(name: str) -> dict[str, Any]:
    of, _, size = COLUMNS[name].partition("(")
    precision, _, scale = size.rstrip(")").partition(",")
    shown = {"ColumnName": name, "ColumnType": of, "ColumnPrecision": precision, "ColumnScale": scale}
    key = {"ColumnNullable": "false", "ColumnIsPk": "true"} if name == "id" else {}
    return {part: value for part, value in shown.items() if value} | key
