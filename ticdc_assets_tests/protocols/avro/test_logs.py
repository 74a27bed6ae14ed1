"""Avro protocol: every change of every log is decoded as far as the stream carries it."""

from __future__ import annotations

import json
import re
from collections import Counter
from decimal import Decimal
from functools import cache
from io import BytesIO
from typing import Any

import fastavro
import pytest

from ticdc_assets.protocols.avro.decoder import decode, registry_from_json, schema_event, schema_ids, value, verify
from ticdc_assets.protocols.events import Op, RowEvent, WatermarkEvent
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.values.checksum import ChecksummedRow
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.model import Column, Kind, TableSchema
from ticdc_assets.sources.capture import Message, messages
from ticdc_assets_tests.fixtures import Workload, of_full_set, workloads
from ticdc_assets_tests.protocols import happened
from ticdc_assets_tests.protocols.happened import Change

every_workload = pytest.mark.parametrize("workload", workloads("avro"), ids=lambda w: w.name)


@cache
def decoded_events(workload: Workload) -> list[tuple[Message, Any, TableSchema | None]]:
    """Every event with its message and the schema that comes with a row's values."""
    registry = registry_from_json((workload.root / "registry.json").read_bytes(), "registry.json")
    options = DecoderOptions(schemas=registry.__getitem__)
    schemas: dict[Any, DdlEvent | None] = {}
    found = []
    for message in messages(workload.root / "messages.jsonl"):
        (event,) = decode(message.key, message.value, message.where, options)
        ids = schema_ids(message.key, message.value, message.where)
        if ids not in schemas:
            schemas[ids] = schema_event(message.key, message.value, message.where, options)
        shape = schemas[ids]
        found.append((message, event, shape.after if shape else None))
    return found


def rows_of(workload: Workload) -> list[tuple[RowEvent, TableSchema | None]]:
    return [(event, shape) for _, event, shape in decoded_events(workload) if isinstance(event, RowEvent)]


def has_extension(workload: Workload) -> bool:
    return "enable-tidb-extension=true" in workload.variant["sink_uri"]


def sanitised(name: str) -> str:
    return re.sub(r"^(?=[0-9])", "_", re.sub(r"[^A-Za-z0-9_]", "_", name))


def expected(change: Change, tables: happened.Tables, extension: bool) -> Change:
    """The change as this protocol carries it."""
    key = tables.as_of(change.schema, change.table, change.commit_ts).key
    pairs = [pair for pair in change.new or () if change.op != "D" or pair[0] in key]
    new = tuple(sorted((sanitised(name), found) for name, found in pairs))
    op = change.op if extension or change.op == "D" else "I"
    commit_ts = change.commit_ts if extension and op != "D" else None
    return Change(sanitised(change.schema), sanitised(change.table), op, commit_ts, new, None)


def typed(column: Column, wire: Any, digits: bool) -> Any:
    found = value(column, wire, "UTC")
    if isinstance(found, list):
        return tuple(found)
    # Decimals of unknown precision stay text.
    return Decimal(found) if digits and column.type.kind is Kind.DECIMAL and found is not None else found


def change_of(event: RowEvent, columns: dict[str, Column], digits: bool = False) -> Change:
    new = tuple(sorted((name, typed(columns[name], wire, digits)) for name, wire in event.wire.items()))
    return Change(event.schema, event.table, event.op, event.commit_ts, new, None)


def true_columns(event: RowEvent, tables: happened.Tables) -> dict[str, Column]:
    """Types of the table at any time that has the event's columns; names never change their type in these logs."""
    found: dict[str, Column] = {}
    for (schema, table), versions in tables.versions.items():
        if (sanitised(schema), sanitised(table)) == (event.schema, event.table):
            for _, shape in versions:
                if set(event.wire) <= {sanitised(c.name) for c in shape.columns}:
                    found.update({sanitised(c.name): c for c in shape.columns})
    return found


@every_workload
def test_every_change_comes_out_once_for_each_time_it_was_sent(workload):
    tables = happened.tables(workload.events)
    found = [expected(change, tables, has_extension(workload)) for change in happened.changes(workload)]
    got = [change_of(event, true_columns(event, tables)) for event, _ in rows_of(workload)]

    assert found
    assert Counter(found) == Counter(got)


@every_workload
def test_the_types_of_the_registry_give_the_same_values(workload):
    tables = happened.tables(workload.events)
    seen = 0
    for event, shape in rows_of(workload):
        if shape is not None:
            by_name = {column.name: column for column in shape.columns}
            real = change_of(event, true_columns(event, tables), digits=True)
            assert real == change_of(event, by_name, digits=True)
            seen += 1
    assert seen


@every_workload
def test_the_schema_of_a_row_has_its_columns_nullability_labels_and_key(workload):
    tables = happened.tables(workload.events)
    commit_ts = {}
    for change in happened.changes(workload):
        commit_ts[sanitised(change.schema), sanitised(change.table)] = (change.schema, change.table)
    for event, shape in rows_of(workload):
        if shape is None or event.commit_ts is None:
            continue
        real = tables.as_of(*commit_ts[event.schema, event.table], event.commit_ts)
        assert (event.schema, event.table) == (shape.schema, shape.name)
        by_name = {sanitised(c.name): c for c in real.stored_columns}
        assert by_name.keys() == {c.name for c in shape.columns} == event.wire.keys()
        assert {sanitised(name) for name in real.key} == set(shape.key) == set(event.hints.key)
        for column in shape.columns:
            same = by_name[column.name]
            assert same.nullable == column.nullable
            assert same.type.elements == column.type.elements
            assert same.type.kind is not Kind.BIT or same.type.length == column.type.length


@every_workload
def test_deletes_hold_the_key_and_nothing_else(workload):
    deletes = [event for event, _ in rows_of(workload) if event.op is Op.DELETE]

    assert deletes
    for event in deletes:
        assert (set(event.hints.key), event.handle_only, event.commit_ts) == (set(event.wire), True, None)


@every_workload
def test_rows_without_the_extension_are_upserts(workload):
    rows = [event for event, _ in rows_of(workload) if event.op is not Op.DELETE]

    assert {event.upsert for event in rows} == {not has_extension(workload)}
    for event in rows:
        assert not [name for name in event.wire if name.startswith("_tidb")]
        assert event.time.commit_ms == (event.commit_ts >> 18 if event.commit_ts else None)


@pytest.mark.parametrize("workload", of_full_set(workloads("avro-watermark-internal")), ids=lambda w: w.name)
def test_the_test_only_mode_tells_statements_and_watermarks(workload):
    by_partition: dict[Any, list[Any]] = {}
    for message, event, _ in decoded_events(workload):
        by_partition.setdefault((message.topic, message.partition), []).append(event)
    statements, watermarks = happened.statements(workload), happened.watermarks(workload)
    found = {(e.commit_ts, e.schema, e.table, e.query) for es in by_partition.values() for e in es if is_ddl(e)}

    assert set(statements) == found
    for (topic, _), events in by_partition.items():
        marks = [e.ts for e in events if isinstance(e, WatermarkEvent)]
        # Other topics join with their first row and leave when their table takes another name.
        first = watermarks.index(marks[0])
        assert marks == watermarks[first : first + len(marks)]
        assert topic != "oracle" or marks == watermarks


def is_ddl(event: Any) -> bool:
    return isinstance(event, DdlEvent)


@pytest.mark.parametrize("workload", of_full_set(workloads("avro-checksum")), ids=lambda w: w.name)
def test_every_checksum_holds_and_none_holds_without_a_value(workload):
    checked = 0
    for event, shape in rows_of(workload):
        if event.op is Op.DELETE:
            continue
        assert isinstance(event, ChecksummedRow)
        assert verify(event, shape) is None
        for name, wire in event.wire.items():
            if event.checksum.current and wire is not None:
                fields = {part: getattr(event, part) for part in RowEvent.__slots__}
                damaged = ChecksummedRow(**{**fields, "wire": {**event.wire, name: None}}, checksum=event.checksum)
                assert verify(damaged, shape) is not None
                checked += 1
    assert checked > 1000


@every_workload
def test_rows_are_read_as_another_reader_reads_them(workload):
    registry = registry_from_json((workload.root / "registry.json").read_bytes(), "registry.json")
    parsed = {number: fastavro.parse_schema(json.loads(text)) for number, text in registry.items()}
    for message, event, _ in decoded_events(workload):
        if isinstance(event, RowEvent) and message.value:
            reference = fastavro.schemaless_reader(BytesIO(message.value[5:]), parsed[event.hints.schema_version], None)
            for name, wire in event.wire.items():
                other = reference[name]
                # Decimals of fastavro are rounded to the precision of the context.
                assert wire == other or float(wire) == pytest.approx(float(other))
