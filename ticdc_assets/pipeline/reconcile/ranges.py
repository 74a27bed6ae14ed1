"""Reads a table of TiDB at a TSO in ranges of its key, each in one statement, and writes the rows as changelog files.

Workers read at the same time, each through one connection. A statement reads a bounded number of rows, unless TiDB
cannot be read in ranges of the key.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.io import load_file_io

from ticdc_assets.changes import layout
from ticdc_assets.pipeline.reconcile.changes import Image, changes_of
from ticdc_assets.sources.upstream import ranges
from ticdc_assets.sources.upstream.key_ranges import key_order
from ticdc_assets.sources.upstream.rows import UpstreamRows
from ticdc_assets.sources.upstream.sql import image, listed, table_reference
from ticdc_assets.tables.iceberg.parquet import DataFileWriter
from ticdc_assets.tables.iceberg.written_file import WrittenFile

if TYPE_CHECKING:
    from ticdc_assets.config import Upstream
    from ticdc_assets.schema.history.source_table import Version


@dataclass(frozen=True, slots=True)
class CopyTask:
    """Ranges of a table for one worker, and the file that gets their rows. The first row has the `_ticdc_seq` `first`.

    schema: the columns of the file.
    """

    upstream: Upstream
    name: tuple[str, str]
    version: Version
    tso: int
    ranges: tuple[ranges.Range, ...]
    uri: str
    schema: pa.Schema
    first: int
    io_properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Copied:
    """The file of a task and its rows; no file without rows."""

    file: WrittenFile | None
    rows: int


def first_seq(number: int) -> int:
    """The `_ticdc_seq` of the first row of a range."""
    return layout.FROM_TIDB_SEQ + number * ranges.RANGE_ROWS


def copy(task: CopyTask) -> Copied:
    """Read the ranges and write their rows. A task that fails leaves no file."""
    io = load_file_io(dict(task.io_properties), location=task.uri)
    count, began = 0, False
    try:
        with UpstreamRows(task.upstream) as rows:
            chunks = (chunk for one in task.ranges if (chunk := _read(rows, task, one)))
            first = next(chunks, None)
            if first is None:
                return Copied(None, 0)
            began = True
            with DataFileWriter(io, task.uri, task.schema) as file:
                for chunk in chain((first,), chunks):
                    file.write(changes_of(task.version, task.tso, chunk, (), task.schema, task.first + count))
                    count += len(chunk)
                return Copied(file.close(), count)
    except BaseException:
        if began:
            io.delete(task.uri)
        raise


def _read(rows: UpstreamRows, task: CopyTask, one: ranges.Range) -> list[Image]:
    columns, key = task.version.table.stored_columns, task.version.table.ordered_key
    where, parameters = key_order(key).condition(*one)
    statement = f"SELECT {listed(columns)} FROM {table_reference(*task.name)} WHERE {where}"  # noqa: S608
    return [image(columns, answer) for answer in rows.answers(statement, parameters, task.tso)]
