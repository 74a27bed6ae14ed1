"""The bulk decoders of JSON messages tell what the reference tells, and leave to it what they are not sure of.

A batch's rows from the bulk form, and the reference's events of the messages it left, are together the reference's
events of all messages. What a column's values become is the same in both, errors included.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import duckdb
import orjson
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols import (
    canal_json_messages,
    canal_json_messages_bulk,
    open_protocol,
    open_protocol_bulk,
    simple,
    simple_bulk,
)
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.protocols.frame import Compression
from ticdc_assets.protocols.message_images import NUMBER_TYPE
from ticdc_assets.protocols.message_rows import Bulk, Messages, TableRows
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.model import Column
from ticdc_assets.sources.capture import messages as captured
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.protocols import happened

Pair = tuple[bytes | None, bytes | None]
Told = dict[int, list[Any]]
CONNECTION = duckdb.connect(config={"threads": 1})
FORMS: dict[str, tuple[str, Bulk]] = {
    "canal-json": ("canal-json", canal_json_messages_bulk.BULK),
    "simple-json": ("simple", simple_bulk.BULK),
    "open": ("open-protocol", open_protocol_bulk.BULK),
}
EVERY = [w for prefix in FORMS for w in workloads(prefix)]
CUT = ("handle-key-only", "claim-check", "checksum", "delete-key")
"""Streams in which many rows are not whole, or have a checksum: left by design."""
every_workload = pytest.mark.parametrize("workload", EVERY, ids=lambda w: w.name)
slow_enough = settings(deadline=None, suppress_health_check=list(HealthCheck))


@dataclass(frozen=True)
class Stream:
    """How a stream is decoded."""

    protocol: str
    bulk: Bulk
    options: Any
    zone: str = "UTC"


def stream_of(workload: Workload) -> Stream:
    protocol, bulk = next(form for prefix, form in FORMS.items() if workload.name.startswith(prefix))
    sink, uri = workload.variant["config"]["sink"], workload.variant["sink_uri"]
    large = sink.get("kafka-config", {}).get("large-message-handle", {})
    compression = Compression(large.get("large-message-handle-compression") or "none")
    options: Any = open_protocol.Options(
        compression,
        output_old_value=sink.get("open", {}).get("output-old-value", True),
        only_output_updated_columns="only-output-updated-columns=true" in uri,
    )
    if protocol != "open-protocol":
        kind = simple.Options if protocol == "simple" else canal_json_messages.Options
        options = kind(compression, bool(large.get("claim-check-raw-value")))
    return Stream(protocol, bulk, options, workload.time_zone)


def pairs_of(workload: Workload) -> list[Pair]:
    return [(message.key, message.value) for message in captured(workload.root / "messages.jsonl")]


# --- what both tell -------------------------------------------------------------------------------------------------


def reference(stream: Stream, pair: Pair) -> list[Any]:
    """The events of a message as comparable rows, its other events as they are, or its error."""
    try:
        events = list(REGISTRY[stream.protocol].decode(*pair, "here", stream.options))
    except DecodeError as error:
        return [str(error)]
    return [row_told(event) if isinstance(event, RowEvent) else event for event in events]


def row_told(row: RowEvent) -> Any:
    if row.handle_only or row.claim or row.checksum_error:
        return row
    old = {**row.wire, **row.before} if row.before is not None and row.before_is_partial else row.before
    ids = (row.schema_version, row.table_id, row.partition_id)
    return (row.schema, row.table, str(row.op), row.commit_ts, row.commit_ms, *ids, row.upsert, dict(row.wire), old)


def bulk_told(stream: Stream, pairs: list[Pair]) -> tuple[Told, list[TableRows]]:
    """What the bulk form tells by message, what it left told by the reference."""
    told = stream.bulk.rows(Messages.from_pairs(pairs), stream.options, CONNECTION)
    found: dict[int, dict[int, Any]] = defaultdict(dict)
    for table in told.tables:
        places = list(zip(table.rows.line.to_pylist(), table.position.to_pylist(), strict=True))
        assert sorted(places) == places
        for (line, position), row in zip(places, bulk_rows(table), strict=True):
            assert position not in found[line]
            found[line][position] = row
    assert not set(found) & {n for n, left in enumerate(told.left) if left}
    complete: Told = {}
    for number, pair in enumerate(pairs):
        if told.left[number]:
            complete[number] = reference(stream, pair)
        else:
            complete[number] = [found[number][position] for position in range(len(found[number]))]
    return complete, list(told.tables)


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
        yield (table.schema, table.table, op, ts, ms, *version, table.upsert and op == "I", wire, old)


def wire_values(array: pa.Array) -> list[Any]:
    if array.type == NUMBER_TYPE:
        return [None if found is None else orjson.loads(found["number"]) for found in array.to_pylist()]
    return array.to_pylist()


def agree(stream: Stream, pairs: list[Pair]) -> list[TableRows]:
    """The tables that bulk found, once it is clear that both forms tell the same."""
    found, tables = bulk_told(stream, pairs)
    wanted = {number: reference(stream, pair) for number, pair in enumerate(pairs)}
    # NaN never occurs on the wire, and 1 == 1.0 must not pass.
    assert repr(wanted) == repr(found)
    heads_agree(stream, pairs, wanted)
    return tables


def heads_agree(stream: Stream, pairs: list[Pair], wanted: Told) -> None:
    heads = stream.bulk.heads(Messages.from_pairs(pairs), stream.options)
    names = [heads.names[number] for number in heads.name.to_pylist()]
    others = (heads.op, heads.commit_ts, heads.commit_ms, heads.schema_version)
    found = defaultdict(list)
    for line, name, *rest in zip(heads.message.to_pylist(), names, *(a.to_pylist() for a in others), strict=True):
        found[line].append((*name, *rest))
    taken = {number: rows for number, rows in wanted.items() if not heads.left[number]}
    assert {number: [row[:6] for row in rows] for number, rows in taken.items()} == found
    assert heads.message.to_pylist() == sorted(heads.message.to_pylist())


# --- the logs -------------------------------------------------------------------------------------------------------


@every_workload
def test_bulk_and_reference_tell_the_same_of_every_stream(workload):
    stream, pairs = stream_of(workload), pairs_of(workload)

    agree(stream, pairs)


@every_workload
def test_columns_have_the_values_that_the_reference_reads_one_by_one(workload):
    stream = stream_of(workload)
    shapes = happened.tables(workload.events)
    value = REGISTRY[stream.protocol].value
    compared = 0

    for table in stream.bulk.rows(Messages.from_pairs(pairs_of(workload)), stream.options, CONNECTION).tables:
        for name, wire, old in zip(
            table.rows.columns, table.rows.wire, table.rows.before or table.rows.wire, strict=True
        ):
            for _, shape in shapes.versions[table.schema, table.table]:
                if name in {column.name for column in shape.columns}:
                    for array in (wire, old):
                        columns_agree(stream, value, shape.column(name), array)
                        compared += len(array)

    assert compared > 0 or "checksum" in workload.name


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


@every_workload
def test_bulk_takes_the_rows_of_plain_streams(workload):
    stream, pairs = stream_of(workload), pairs_of(workload)
    told = stream.bulk.rows(Messages.from_pairs(pairs), stream.options, CONNECTION)
    rows = [n for n, pair in enumerate(pairs) if any(isinstance(row, tuple) for row in reference(stream, pair))]

    assert rows
    if not any(word in workload.name for word in CUT):
        assert sum(not told.left[n] for n in rows) > 0.95 * len(rows)
