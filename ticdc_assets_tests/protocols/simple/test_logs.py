"""Simple protocol, JSON and Avro: every change, schema and statement of every log comes out as it happened."""

from __future__ import annotations

import json
from base64 import b64encode
from collections import Counter
from functools import cache
from importlib.resources import files
from io import BytesIO
from typing import Any

import fastavro
import pytest

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols import simple as simple_package
from ticdc_assets.protocols.events import Op, RowEvent, WatermarkEvent
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.simple import avro_message as simple_avro
from ticdc_assets.protocols.simple.decoder import decode, open_claim, value, verify
from ticdc_assets.protocols.values.checksum import ChecksummedRow
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.model import Column, Kind, TableSchema
from ticdc_assets.sources.capture import messages
from ticdc_assets_tests.fixtures import Workload, needs_fixtures, of_full_set, workloads
from ticdc_assets_tests.protocols import happened
from ticdc_assets_tests.protocols.happened import Change
from ticdc_assets_tests.protocols.wire_images import claims_opened, image, keys_only

every_workload = pytest.mark.parametrize("workload", workloads("simple"), ids=lambda w: w.name)
Schemas = dict[tuple[str, str, int], TableSchema]


def options_of(workload: Workload) -> DecoderOptions:
    large = workload.variant["config"]["sink"].get("kafka-config", {}).get("large-message-handle", {})
    return DecoderOptions(
        compression=Compression(large.get("large-message-handle-compression") or "none"),
        claim_check_raw_value=large.get("claim-check-raw-value", False),
    )


@cache
def decoded_events(workload: Workload) -> list[tuple[int, Any]]:
    """Every event with its partition."""
    options = options_of(workload)
    return [
        (message.partition, event)
        for message in messages(workload.root / "messages.jsonl")
        for event in decode(message.key, message.value, message.where, options)
    ]


def events_of(workload: Workload, partition: int | None = None) -> list[Any]:
    return [event for at, event in decoded_events(workload) if partition in (None, at)]


def partitions_of(workload: Workload) -> set[int]:
    return {at for at, _ in decoded_events(workload)}


def rows_of(workload: Workload) -> list[RowEvent]:
    options = options_of(workload)
    return claims_opened(workload, events_of(workload), lambda raw, where: open_claim(raw, where, options))


def schemas_of(events: list[Any]) -> tuple[Schemas, dict[tuple[str, str, int], int]]:
    """The schemas of the stream and their table ids, by the versions that rows name."""
    shapes: Schemas = {}
    ids = {}
    for event in events:
        if isinstance(event, DdlEvent):
            for shape, version in ((event.after, event.hints.version), (event.before, event.hints.before_version)):
                if shape is not None and version is not None:
                    shapes[shape.schema, shape.name, version] = shape
            if event.after is not None and event.hints.version is not None and event.hints.table_id is not None:
                ids[event.after.schema, event.after.name, event.hints.version] = event.hints.table_id
    return shapes, ids


def change_of(event: RowEvent, shapes: Schemas) -> Change:
    shape = shapes[event.schema, event.table, event.hints.schema_version]
    # Rows name their zones: the one that is configured must not count.
    new, old = (image(shape, wire, "Antarctica/Troll", value) for wire in (event.wire, event.before))
    return Change(event.schema, event.table, event.op, event.commit_ts, new, old)


@every_workload
def test_every_change_comes_out_once_for_each_time_it_was_sent(workload):
    shapes, _ = schemas_of(events_of(workload))
    found = [change._replace(partitioned=False) for change in happened.changes(workload)]
    rows = rows_of(workload)
    got = [change_of(event, shapes) for event in rows]

    assert found
    if not any(event.handle_only for event in rows):
        assert Counter(found) == Counter(got)
    tables = happened.tables(workload.events)
    assert Counter(keys_only(c, tables) for c in found) == Counter(keys_only(c, tables) for c in got)
    whole = Counter(c for c, event in zip(got, rows, strict=True) if not event.handle_only)
    assert whole <= Counter(found)


@every_workload
def test_a_row_of_a_partition_has_another_table_id_than_its_schema(workload):
    _, ids = schemas_of(events_of(workload))
    partitioned = {(c.schema, c.table, c.commit_ts) for c in happened.changes(workload) if c.partitioned}
    for event in rows_of(workload):
        table_id = ids.get((event.schema, event.table, event.hints.schema_version), event.hints.table_id)
        if table_id != event.hints.table_id:
            assert (event.schema, event.table, event.commit_ts) in partitioned
        elif (event.schema, event.table, event.hints.schema_version) in ids:
            assert (event.schema, event.table, event.commit_ts) not in partitioned


def meaning(column: Column) -> tuple[Any, ...]:
    """A column without what changes no value: the width that integers are shown with."""
    kind, of = column.type.kind, column.type
    length = None if kind in (Kind.TINYINT, Kind.SMALLINT, Kind.MEDIUMINT, Kind.INT, Kind.BIGINT) else of.length
    return column.name, kind, length, of.scale, of.unsigned, of.elements, column.nullable


@every_workload
def test_every_schema_has_the_names_types_and_key_that_the_table_had_then(workload):
    tables = happened.tables(workload.events)
    shapes, _ = schemas_of(events_of(workload))
    seen = 0
    for event in rows_of(workload):
        real = tables.as_of(event.schema, event.table, event.commit_ts)
        found = shapes[event.schema, event.table, event.hints.schema_version]
        assert {meaning(c) for c in real.columns} == {meaning(c) for c in found.columns}
        assert set(real.key) == set(found.key)
        assert event.handle_only or event.wire.keys() == {c.name for c in real.stored_columns}
        seen += 1
    assert seen


@every_workload
def test_a_statement_comes_with_the_schema_after_it(workload):
    tables = happened.tables(workload.events)
    for event in events_of(workload):
        if isinstance(event, DdlEvent) and event.query and event.after is not None:
            if event.query.startswith(("DROP TABLE", "DROP DATABASE")):
                continue
            real = tables.as_of(event.schema, event.table, event.commit_ts + 1)
            assert {meaning(c) for c in real.columns} == {meaning(c) for c in event.after.columns}
            assert set(real.key) == set(event.after.key)
            assert event.hints.version is not None
            assert event.hints.version < event.commit_ts


@every_workload
def test_every_partition_tells_every_statement_in_order(workload):
    statements = happened.statements(workload)
    for partition in partitions_of(workload):
        ddls = [e for e in events_of(workload, partition) if isinstance(e, DdlEvent) and e.query]
        assert [(ts, text) for ts, _, _, text in statements] == [(e.commit_ts, e.query) for e in ddls]
        for (_, schema, table, _), event in zip(statements, ddls, strict=True):
            assert (event.schema, event.table) == ((schema, table) if event.after else ("", ""))


@every_workload
def test_every_partition_tells_every_watermark_in_order(workload):
    watermarks = happened.watermarks(workload)
    if "late-bootstrap" in workload.name:
        watermarks.append(watermarks[-1])

    assert watermarks
    for partition in partitions_of(workload):
        assert watermarks == [e.ts for e in events_of(workload, partition) if isinstance(e, WatermarkEvent)]


@every_workload
def test_renames_name_the_old_table_and_nothing_else_does(workload):
    renames = {e["commit_ts"] for e in workload.events if e["kind"] == "ddl" and "new_table" in e}
    for event in events_of(workload):
        if isinstance(event, DdlEvent):
            assert (event.commit_ts in renames) == (event.hints.old_name is not None)


@pytest.mark.parametrize(
    "workload", of_full_set(w for w in workloads("simple") if "checksum" in w.name), ids=lambda w: w.name
)
def test_every_checksum_holds_and_none_holds_for_another_value(workload):
    shapes, _ = schemas_of(events_of(workload))
    checked = 0
    for event in rows_of(workload):
        assert isinstance(event, ChecksummedRow)
        shape = shapes[event.schema, event.table, event.hints.schema_version]
        assert verify(event, shape) is None
        expected = event.checksum.previous if event.op is Op.DELETE else event.checksum.current
        for name, wire in event.wire.items():
            other = another(shape.column(name), wire)
            damaged = ChecksummedRow(**{**parts(event), "wire": {**event.wire, name: other}})
            assert found_out(damaged, shape) == bool(expected)
            checked += bool(expected)
    assert checked > 1000


def found_out(damaged: RowEvent, shape: TableSchema) -> bool:
    try:
        return verify(damaged, shape) is not None
    except DecodeError:
        return True


def parts(event: RowEvent) -> dict[str, Any]:
    return {name: getattr(event, name) for cls in type(event).__mro__ for name in getattr(cls, "__slots__", ())}


def another(column: Column, wire: Any) -> Any:
    """A value that differs as little as may be."""
    kind = column.type.kind
    if wire is None:
        return {"location": "UTC", "value": "2000-01-01 00:00:00"} if kind is Kind.TIMESTAMP else fresh(column)
    if kind is Kind.TIMESTAMP:
        return {**wire, "value": flipped(wire["value"])}
    if isinstance(wire, bytes):
        return bytes([wire[0] ^ 1]) + wire[1:] if wire else b"\0"
    if isinstance(wire, dict):
        return {"value": wire["value"] ^ 1}
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        number = float(wire)
        return type(wire)(1.0 if number == 0 else -number)
    if isinstance(wire, int):
        return wire ^ 1
    if kind in (Kind.BINARY, Kind.VARBINARY, Kind.BLOB, Kind.TINYBLOB, Kind.MEDIUMBLOB, Kind.LONGBLOB):
        return b64encode(b"other").decode()
    return flipped(wire) if wire and wire[-1].isdigit() else wire + "1"


def flipped(text: str) -> str:
    return text[:-1] + str(int(text[-1]) ^ 1)


def fresh(column: Column) -> Any:
    kind = column.type.kind
    if kind in (Kind.BINARY, Kind.VARBINARY, Kind.BLOB, Kind.TINYBLOB, Kind.MEDIUMBLOB, Kind.LONGBLOB):
        return ""
    return "1"


@needs_fixtures
def test_the_logs_hold_what_these_tests_are_about():
    by_variant: dict[str, list[Any]] = {}
    for workload in workloads("simple"):
        by_variant.setdefault(workload.root.parent.name, []).extend(events_of(workload))

    def rows(variant: str) -> list[RowEvent]:
        return [e for e in by_variant[variant] if isinstance(e, RowEvent)]

    for encoding in ("json", "avro"):
        assert any(e.claim and e.handle_only for e in rows(f"simple-{encoding}-claim-check"))
        bootstraps = [isinstance(e, DdlEvent) and not e.query for e in by_variant[f"simple-{encoding}-preexist"]]
        assert any(bootstraps)
        late = by_variant[f"simple-{encoding}-late-bootstrap"]
        assert isinstance(late[0], RowEvent)
        assert isinstance(late[-4], DdlEvent)
        assert all(isinstance(e, ChecksummedRow) for e in rows(CHECKSUMMED[encoding]))
        assert any(e.hints.old_name for e in by_variant[f"simple-{encoding}-swapraw"] if isinstance(e, DdlEvent))
    assert any(e.handle_only and not e.claim for e in rows("simple-json-handle-key-only"))


CHECKSUMMED = {"json": "simple-json-checksum", "avro": "simple-avro-index-value-checksum"}


@every_workload
def test_avro_is_read_as_another_reader_reads_it(workload):
    schema = fastavro.parse_schema(json.loads(files(simple_package).joinpath(simple_avro.SCHEMA_FILE).read_bytes()))
    for message in messages(workload.root / "messages.jsonl"):
        if simple_avro.looks_like(message.value):
            found = fastavro.schemaless_reader(BytesIO(message.value), schema, None)
            assert {"type": found["type"], **found["payload"]} == with_text_defaults(
                simple_avro.message(message.value, "x")
            )


def with_text_defaults(given: Any) -> Any:
    """fastavro gives defaults as text, this project gives bytes."""
    if isinstance(given, list):
        return [with_text_defaults(one) for one in given]
    if isinstance(given, dict):
        keep = given.keys() != {"name", "dataType", "nullable", "default"} or given["default"] is None
        given = given if keep else {**given, "default": given["default"].decode()}
        return {name: with_text_defaults(one) for name, one in given.items()}
    return given
