"""Reads a table of TiDB at a TSO in ranges of its key, each in one statement, and writes the rows as changelog files.

Workers read at the same time, each through one connection. A statement reads a bounded number of rows, unless TiDB
cannot be read in ranges of the key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyiceberg.io import load_file_io

from ticdc_assets.changes import layout
from ticdc_assets.pipeline.reconcile.changes import Image, changes_of
from ticdc_assets.sources.upstream.key_ranges import Key, KeyOrder, key_order
from ticdc_assets.sources.upstream.rows import UpstreamRows
from ticdc_assets.sources.upstream.sql import image, listed, table_reference
from ticdc_assets.tables.iceberg.parquet import DataFileWriter
from ticdc_assets.tables.iceberg.written_file import WrittenFile

if TYPE_CHECKING:
    from ticdc_assets.config import Upstream
    from ticdc_assets.schema.history.source_table import Version

Range = tuple[Key | None, Key | None]
"""The keys in `(after, until]`; None is no limit."""

RANGE_ROWS: Final = 20_000


@dataclass(frozen=True, slots=True)
class CopyTask:
    """Ranges of a table for one worker, and the file that gets their rows. The first row has the `_ticdc_seq` `first`.

    schema: the columns of the file.
    """

    upstream: Upstream
    name: tuple[str, str]
    version: Version
    tso: int
    ranges: tuple[Range, ...]
    uri: str
    schema: pa.Schema
    first: int
    io_properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Copied:
    """The file of a task and its rows; no file without rows."""

    file: WrittenFile | None
    rows: int


def order_of(version: Version) -> KeyOrder:
    """The columns by which the table is read in ranges; none for a table without a key."""
    key = version.table.ordered_key
    return key_order(key) if key else KeyOrder((), in_lake=False)


def ranges_of(rows: UpstreamRows, name: tuple[str, str], order: KeyOrder, tso: int) -> Iterator[Range]:
    """The ranges of the table at the TSO. TiDB is asked for the key at the end of each."""
    after: Key | None = None
    while order.columns:
        where, parameters = order.condition(after, None)
        statement = (
            f"SELECT {listed(order.columns)} FROM {table_reference(*name)} WHERE {where} "  # noqa: S608
            f"ORDER BY {order.listed} LIMIT 1 OFFSET {RANGE_ROWS - 1}"
        )
        found = rows.answers(statement, parameters, tso)
        if not found:
            break
        until = tuple(image(order.columns, found[0]).values())
        yield after, until
        after = until
    yield after, None


def dealt(ranges: Sequence[Range], tasks: int) -> list[tuple[int, tuple[Range, ...]]]:
    """The ranges in at most so many groups of neighbours, each with the number of its first range."""
    step = -(-len(ranges) // max(1, tasks))
    return [(begin, tuple(ranges[begin : begin + step])) for begin in range(0, len(ranges), step)]


def first_seq(number: int) -> int:
    """The `_ticdc_seq` of the first row of a range."""
    return layout.FROM_TIDB_SEQ + number * RANGE_ROWS


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


def _read(rows: UpstreamRows, task: CopyTask, one: Range) -> list[Image]:
    columns, order = task.version.table.stored_columns, order_of(task.version)
    where, parameters = order.condition(*one)
    statement = f"SELECT {listed(columns)} FROM {table_reference(*task.name)} WHERE {where}"  # noqa: S608
    return [image(columns, answer) for answer in rows.answers(statement, parameters, task.tso)]
