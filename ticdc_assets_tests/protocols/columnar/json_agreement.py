"""Compares the bulk decoders of JSON messages with the reference decoders.

A batch's rows from the bulk form, and the reference's events of the messages it left, are together the reference's
events of all messages. What a column's values become is the same in both, errors included.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pytest

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.columnar.message_rows import Bulk, Messages, TableRows
from ticdc_assets.protocols.columnar.raw_rows import NUMBER_TYPE
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.protocols.values.checksum import ChecksummedRow
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.model import Column
from ticdc_assets.sources.capture import messages as captured
from ticdc_assets_tests.fixtures import Workload

Pair = tuple[bytes | None, bytes | None]
RowsByMessage = dict[int, list[Any]]


@dataclass(frozen=True)
class Stream:
    """How a stream is decoded."""

    protocol: str
    bulk: Bulk
    options: Any
    zone: str = "UTC"


def pairs_of(workload: Workload) -> list[Pair]:
    return [(message.key, message.value) for message in captured(workload.root / "messages.jsonl")]


def reference(stream: Stream, pair: Pair) -> list[Any]:
    """The events of a message as comparable rows, its other events as they are, or its error."""
    try:
        events = list(REGISTRY[stream.protocol].decode(*pair, "here", stream.options))
    except DecodeError as error:
        return [str(error)]
    return [plain_row(event) if isinstance(event, RowEvent) else event for event in events]


def plain_row(row: RowEvent) -> Any:
    if row.handle_only or row.claim or (isinstance(row, ChecksummedRow) and row.checksum.corrupted):
        return row
    old = {**row.wire, **row.before} if row.before is not None and row.before_is_partial else row.before
    ids = (row.hints.schema_version, row.hints.table_id, row.hints.partition_id)
    return (
        row.schema,
        row.table,
        str(row.op),
        row.commit_ts,
        row.time.commit_ms,
        *ids,
        row.upsert,
        by_name(row.wire),
        by_name(old),
    )


def by_name(image: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The columns of an image in one order, whatever order they were sent in."""
    return None if image is None else dict(sorted(image.items()))


def of_bulk(stream: Stream, pairs: list[Pair]) -> tuple[RowsByMessage, list[TableRows]]:
    """The rows of the bulk decoder by message, and for what it left those of the reference decoder."""
    rows = stream.bulk.rows(Messages.from_pairs(pairs), stream.options)
    found: dict[int, dict[int, Any]] = defaultdict(dict)
    for table in rows.tables:
        places = list(zip(table.rows.line.to_pylist(), table.position.to_pylist(), strict=True))
        assert sorted(places) == places
        for (line, position), row in zip(places, bulk_rows(table), strict=True):
            assert position not in found[line]
            found[line][position] = row
    assert not set(found) & {n for n, left in enumerate(rows.left) if left}
    complete: RowsByMessage = {}
    for number, pair in enumerate(pairs):
        if rows.left[number]:
            complete[number] = reference(stream, pair)
        else:
            complete[number] = [found[number][position] for position in range(len(found[number]))]
    return complete, list(rows.tables)


def bulk_rows(table: TableRows) -> Iterable[Any]:
    rows = table.rows
    ids = [i.to_pylist() if i is not None else [None] * len(table) for i in (table.table_id, table.partition_id)]
    wires = [wire_values(array) for array in rows.wire]
    olds = [wire_values(array) for array in rows.before or ()]
    has_before = rows.has_before.to_pylist() if rows.has_before is not None else [False] * len(table)
    head = (array.to_pylist() for array in (rows.op, rows.commit_ts, rows.commit_ms))
    for n, (op, ts, ms) in enumerate(zip(*head, strict=True)):
        wire = {name: values[n] for name, values in zip(rows.columns, wires, strict=True)}
        old = {name: values[n] for name, values in zip(rows.columns, olds, strict=True)} if has_before[n] else None
        version = (table.schema_version, ids[0][n], ids[1][n])
        yield (table.schema, table.table, op, ts, ms, *version, table.upsert and op == "I", by_name(wire), by_name(old))


def wire_values(array: pa.Array) -> list[Any]:
    if array.type == NUMBER_TYPE:
        return [None if found is None else orjson.loads(found["number"]) for found in array.to_pylist()]
    return array.to_pylist()


def agree(stream: Stream, pairs: list[Pair]) -> list[TableRows]:
    """The tables of the bulk decoder, after a check that both decoders agree."""
    found, tables = of_bulk(stream, pairs)
    wanted = {number: reference(stream, pair) for number, pair in enumerate(pairs)}
    # NaN never occurs on the wire, and 1 == 1.0 must not pass.
    assert repr(wanted) == repr(found)
    heads_agree(stream, pairs, wanted)
    return tables


def heads_agree(stream: Stream, pairs: list[Pair], wanted: RowsByMessage) -> None:
    heads = stream.bulk.heads(Messages.from_pairs(pairs), stream.options)
    names = [heads.names[number] for number in heads.name.to_pylist()]
    others = (heads.op, heads.commit_ts, heads.commit_ms, heads.schema_version)
    found = defaultdict(list)
    for line, name, *rest in zip(heads.message.to_pylist(), names, *(a.to_pylist() for a in others), strict=True):
        found[line].append((*name, *rest))
    taken = {number: rows for number, rows in wanted.items() if not heads.left[number]}
    assert {number: [row[:6] for row in rows] for number, rows in taken.items()} == found
    assert heads.message.to_pylist() == sorted(heads.message.to_pylist())


def columns_agree(stream: Stream, value: Any, column: Column, array: pa.Array) -> None:
    try:
        wanted = [value(column, wire, stream.zone) for wire in wire_values(array)]
    except DecodeError:
        with pytest.raises(DecodeError):
            stream.bulk.column(column, array, stream.zone)
        return
    found = stream.bulk.column(column, array, stream.zone)
    assert arrow_type(column.type) == found.type
    assert pa.array(wanted, found.type).to_pylist() == found.to_pylist()
