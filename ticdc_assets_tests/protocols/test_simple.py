"""Simple protocol, JSON and Avro: every change, schema and statement comes out as it happened; hostile bytes do not."""

from __future__ import annotations

import json
from base64 import b64encode
from collections import Counter
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from importlib.resources import files
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ticdc_assets import protocols
from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols import simple_avro
from ticdc_assets.protocols.checksum import ChecksummedRow
from ticdc_assets.protocols.events import DdlEvent, Op, RowEvent, WatermarkEvent
from ticdc_assets.protocols.frame import Compression
from ticdc_assets.protocols.simple import Options, decode, open_claim, value, verify
from ticdc_assets.protocols.simple_schema import table_schema
from ticdc_assets.schema.model import Column, Default, Kind, MySqlType, TableSchema
from ticdc_assets.sources.capture import messages
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.protocols import happened
from ticdc_assets_tests.protocols.happened import Change

PLAIN = Options()
TS = 459802238374641668
every_workload = pytest.mark.parametrize("workload", workloads("simple"), ids=lambda w: w.name)
Schemas = dict[tuple[str, str, int], TableSchema]


# --- the logs -------------------------------------------------------------------------------------------------------


def options_of(workload: Workload) -> Options:
    large = workload.variant["config"]["sink"].get("kafka-config", {}).get("large-message-handle", {})
    return Options(
        compression=Compression(large.get("large-message-handle-compression") or "none"),
        claim_check_raw_value=large.get("claim-check-raw-value", False),
    )


@cache
def told_by(workload: Workload) -> list[tuple[int, Any]]:
    """Every event with its partition."""
    options = options_of(workload)
    return [
        (message.partition, event)
        for message in messages(workload.root / "messages.jsonl")
        for event in decode(message.key, message.value, message.where, options)
    ]


def events_of(workload: Workload, partition: int | None = None) -> list[Any]:
    return [event for at, event in told_by(workload) if partition in (None, at)]


def partitions_of(workload: Workload) -> set[int]:
    return {at for at, _ in told_by(workload)}


def rows_of(workload: Workload) -> list[RowEvent]:
    """Every row event, claims opened."""
    options = options_of(workload)
    rows = []
    for event in events_of(workload):
        if isinstance(event, RowEvent) and event.claim:
            (event,) = open_claim((workload.root / "claim-check" / event.claim).read_bytes(), event.claim, options)
        if isinstance(event, RowEvent):
            rows.append(event)
    return rows


def schemas_of(events: list[Any]) -> tuple[Schemas, dict[tuple[str, str, int], int]]:
    """What the stream tells of schemas, and the table ids that go with them, keyed as rows name them."""
    shapes: Schemas = {}
    ids = {}
    for event in events:
        if isinstance(event, DdlEvent):
            for shape, version in ((event.after, event.version), (event.before, event.before_version)):
                if shape is not None and version is not None:
                    shapes[shape.schema, shape.name, version] = shape
            if event.after is not None and event.version is not None and event.table_id is not None:
                ids[event.after.schema, event.after.name, event.version] = event.table_id
    return shapes, ids


def hashable(found: Any) -> Any:
    return tuple(found) if isinstance(found, list) else found


def image(shape: TableSchema, wire: Any, zone: str) -> tuple[tuple[str, Any], ...] | None:
    if wire is None:
        return None
    return tuple(sorted((n, hashable(value(shape.column(n), v, zone))) for n, v in wire.items()))


def change_of(event: RowEvent, shapes: Schemas) -> Change:
    shape = shapes[event.schema, event.table, event.schema_version]
    # Rows name their zones: the one that is configured must not count.
    new, old = (image(shape, wire, "Antarctica/Troll") for wire in (event.wire, event.before))
    return Change(event.schema, event.table, event.op, event.commit_ts, new, old)


def keys_only(change: Change, shapes: happened.Tables) -> Change:
    key = shapes.as_of(change.schema, change.table, change.commit_ts).key
    new, old = (row and tuple(pair for pair in row if pair[0] in key) for row in (change.new, change.old))
    return change._replace(new=new, old=old)


@every_workload
def test_every_change_comes_out_once_for_each_time_it_was_sent(workload):
    shapes, _ = schemas_of(events_of(workload))
    told = [change._replace(partitioned=False) for change in happened.changes(workload)]
    rows = rows_of(workload)
    got = [change_of(event, shapes) for event in rows]

    assert told
    if not any(event.handle_only for event in rows):
        assert Counter(told) == Counter(got)
    tables = happened.tables(workload.events)
    assert Counter(keys_only(c, tables) for c in told) == Counter(keys_only(c, tables) for c in got)
    whole = Counter(c for c, event in zip(got, rows, strict=True) if not event.handle_only)
    assert whole <= Counter(told)


@every_workload
def test_a_row_of_a_partition_has_another_table_id_than_its_schema(workload):
    _, ids = schemas_of(events_of(workload))
    partitioned = {(c.schema, c.table, c.commit_ts) for c in happened.changes(workload) if c.partitioned}
    for event in rows_of(workload):
        table_id = ids.get((event.schema, event.table, event.schema_version), event.table_id)
        if table_id != event.table_id:
            assert (event.schema, event.table, event.commit_ts) in partitioned
        elif (event.schema, event.table, event.schema_version) in ids:
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
        told = shapes[event.schema, event.table, event.schema_version]
        assert {meaning(c) for c in real.columns} == {meaning(c) for c in told.columns}
        assert set(real.key) == set(told.key)
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
            assert event.version is not None
            assert event.version < event.commit_ts


@every_workload
def test_every_partition_tells_every_statement_in_order(workload):
    told = happened.statements(workload)
    for partition in partitions_of(workload):
        ddls = [e for e in events_of(workload, partition) if isinstance(e, DdlEvent) and e.query]
        assert [(ts, text) for ts, _, _, text in told] == [(e.commit_ts, e.query) for e in ddls]
        for (_, schema, table, _), event in zip(told, ddls, strict=True):
            assert (event.schema, event.table) == ((schema, table) if event.after else ("", ""))


@every_workload
def test_every_partition_tells_every_watermark_in_order(workload):
    told = happened.watermarks(workload)
    if "late-bootstrap" in workload.name:
        told.append(told[-1])

    assert told
    for partition in partitions_of(workload):
        assert told == [e.ts for e in events_of(workload, partition) if isinstance(e, WatermarkEvent)]


@every_workload
def test_renames_name_the_old_table_and_nothing_else_does(workload):
    renames = {e["commit_ts"] for e in workload.events if e["kind"] == "ddl" and "new_table" in e}
    for event in events_of(workload):
        if isinstance(event, DdlEvent):
            assert (event.commit_ts in renames) == (event.old_name is not None)


@pytest.mark.parametrize("workload", [w for w in workloads("simple") if "checksum" in w.name], ids=lambda w: w.name)
def test_every_checksum_holds_and_none_holds_for_another_value(workload):
    shapes, _ = schemas_of(events_of(workload))
    checked = 0
    for event in rows_of(workload):
        assert isinstance(event, ChecksummedRow)
        shape = shapes[event.schema, event.table, event.schema_version]
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


def test_the_logs_hold_what_these_tests_are_about():
    by_variant: dict[str, list[Any]] = {}
    for workload in workloads("simple"):
        by_variant.setdefault(workload.root.parent.name, []).extend(events_of(workload))
    if "simple-json-claim-check" not in by_variant:
        pytest.skip("the full fixture set is not on this machine")

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
        assert any(e.old_name for e in by_variant[f"simple-{encoding}-swapraw"] if isinstance(e, DdlEvent))
    assert any(e.handle_only and not e.claim for e in rows("simple-json-handle-key-only"))


CHECKSUMMED = {"json": "simple-json-checksum", "avro": "simple-avro-index-value-checksum"}


@every_workload
def test_avro_is_read_as_another_reader_reads_it(workload):
    theirs = fastavro.parse_schema(json.loads(files(protocols).joinpath(simple_avro.SCHEMA_FILE).read_bytes()))
    for message in messages(workload.root / "messages.jsonl"):
        if simple_avro.looks_like(message.value):
            told = fastavro.schemaless_reader(BytesIO(message.value), theirs, None)
            assert {"type": told["type"], **told["payload"]} == with_text_defaults(
                simple_avro.message(message.value, "x")
            )


def with_text_defaults(told: Any) -> Any:
    """Their reader has defaults as text, ours as bytes."""
    if isinstance(told, list):
        return [with_text_defaults(one) for one in told]
    if isinstance(told, dict):
        keep = told.keys() != {"name", "dataType", "nullable", "default"} or told["default"] is None
        told = told if keep else {**told, "default": told["default"].decode()}
        return {name: with_text_defaults(one) for name, one in told.items()}
    return told


# --- messages of our own --------------------------------------------------------------------------------------------

COLUMN_ID = {
    "name": "id",
    "dataType": {"mysqlType": "int", "charset": "binary", "collate": "binary", "length": 11},
    "nullable": False,
    "default": None,
}
PRIMARY = {"name": "primary", "unique": True, "primary": True, "nullable": False, "columns": ["id"]}
TABLE = {"schema": "shop", "table": "t", "tableID": 7, "version": TS - 4, "columns": [COLUMN_ID], "indexes": [PRIMARY]}
ROW = {
    "version": 1,
    "database": "shop",
    "table": "t",
    "tableID": 7,
    "type": "INSERT",
    "commitTs": TS,
    "buildTs": 1,
    "schemaVersion": TS - 4,
    "data": {"id": "1"},
}


def of(message: Any, options: Options = PLAIN) -> Any:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    if options.compression is not Compression.NONE:
        body = pa.Codec(options.compression.value).compress(body, asbytes=True)
    (event,) = decode(None, body, "t[0]@1", options)
    return event


def column(kind: str, **more: Any) -> dict[str, Any]:
    told = {"mysqlType": kind, "charset": "binary", "collate": "binary", "length": 11, **more}
    default = told.pop("default", None)
    return {"name": "c", "dataType": told, "nullable": True, "default": default}


def schema_of(*columns: dict[str, Any], indexes: Any = ()) -> TableSchema:
    return table_schema({**TABLE, "columns": list(columns), "indexes": list(indexes)}, "here")


def the(kind: Kind, **more: Any) -> Column:
    return Column("c", MySqlType(kind, **more))


@pytest.mark.parametrize("compression", list(Compression))
def test_the_whole_value_may_be_compressed(compression):
    assert WatermarkEvent(TS) == of({"version": 1, "type": "WATERMARK", "commitTs": TS}, Options(compression))


def test_a_bootstrap_is_a_schema_without_a_statement():
    event = of({"version": 1, "type": "BOOTSTRAP", "commitTs": 0, "tableSchema": TABLE})

    assert (event.query, event.commit_ts, event.version, event.table_id) == ("", 0, TS - 4, 7)
    assert (event.schema, event.table, event.after.key) == ("shop", "t", ("id",))


def test_database_statements_have_no_names_but_in_their_text():
    event = of({"version": 1, "type": "QUERY", "sql": "DROP DATABASE `d`", "commitTs": TS})

    assert DdlEvent(TS, "", "", "DROP DATABASE `d`", where="t[0]@1") == event


def test_a_rename_without_the_old_schema_names_no_old_table():
    event = of({"version": 1, "type": "RENAME", "sql": "RENAME TABLE a TO t", "commitTs": TS, "tableSchema": TABLE})

    assert (event.old_name, event.before, event.table) == (None, None, "t")


def test_a_rename_that_keeps_its_version_has_both_names():
    before = {**TABLE, "table": "a"}
    told = {"tableSchema": TABLE, "preTableSchema": before}
    event = of({"version": 1, "type": "RENAME", "sql": "RENAME TABLE a TO t", "commitTs": TS, **told})

    assert (event.old_name, event.table, event.version) == (("shop", "a"), "t", event.before_version)


def test_an_update_with_some_old_columns_is_partial():
    event = of({**ROW, "type": "UPDATE", "data": {"id": "1", "a": "2"}, "old": {"a": "1"}})
    whole = of({**ROW, "type": "UPDATE", "data": {"id": "1"}, "old": {"id": "1"}})
    none = of({**ROW, "type": "UPDATE", "data": {"id": "1"}})

    assert (event.before, event.before_is_partial, whole.before_is_partial) == ({"a": "1"}, True, False)
    assert (none.op, none.before) == (Op.UPDATE, None)


def test_a_claim_keeps_the_files_name_only():
    for location in ("file:///a/../b/c.json", "s3://bucket/c.json", "c.json", "a\\c.json"):
        event = of({**ROW, "claimCheckLocation": location, "handleKeyOnly": True})
        assert (event.claim, event.handle_only) == ("c.json", True)
    for location in ("file:///a/", "..", "a/..", 5):
        with pytest.raises(DecodeError):
            of({**ROW, "claimCheckLocation": location})


def test_a_large_row_of_a_table_without_key_has_no_values():
    event = of({**{k: v for k, v in ROW.items() if k != "data"}, "handleKeyOnly": True, "claimCheckLocation": "x"})

    assert (event.wire, event.claim) == ({}, "x")


@pytest.mark.parametrize("raw", [False, True])
def test_a_claim_file_is_a_whole_message_wrapped_or_bare(raw):
    body = json.dumps(ROW).encode()
    file = body if raw else json.dumps({"key": None, "value": b64encode(body).decode()}).encode()
    (event,) = open_claim(file, "x.json", Options(claim_check_raw_value=raw))

    assert event.wire == {"id": "1"}
    for inside in ({**ROW, "handleKeyOnly": True}, {"version": 1, "type": "WATERMARK", "commitTs": TS}):
        body = json.dumps(inside).encode()
        file = body if raw else json.dumps({"key": None, "value": b64encode(body).decode()}).encode()
        with pytest.raises(DecodeError):
            open_claim(file, "x.json", Options(claim_check_raw_value=raw))


@pytest.mark.parametrize(
    "damage",
    [
        {"version": 2},
        {"type": "UPSERT"},
        {"type": 5},
        {"commitTs": str(TS)},
        {"commitTs": 1.5},
        {"commitTs": -1},
        {"commitTs": 1 << 63},
        {"commitTs": True},
        {"schemaVersion": None},
        {"database": ""},
        {"table": None},
        {"tableID": "7"},
        {"data": None},
        {"data": []},
        {"data": {"id": ["1"]}},
        {"handleKeyOnly": "true"},
        {"checksum": {"current": -1, "previous": 0}},
        {"checksum": 5},
    ],
)
def test_a_row_that_is_not_as_the_protocol_has_it_is_refused(damage):
    with pytest.raises(DecodeError) as caught:
        of({**ROW, **damage})
    assert caught.value.where == "t[0]@1"


@pytest.mark.parametrize(
    "damage",
    [
        {"columns": {}},
        {"columns": [5]},
        {"columns": [{"name": "c"}]},
        {"columns": [{**column("geometry")}]},
        {"columns": [{**column("int"), "nullable": "no"}]},
        {"columns": [{**column("int", length="11")}]},
        {"columns": [column("enum", elements="a")]},
        {"columns": [column("bit", default="x")]},
        {"indexes": [5]},
        {"indexes": [{"name": "i", "columns": [5]}]},
        {"table": 5},
        {"version": "1"},
    ],
)
def test_a_schema_that_is_not_as_the_protocol_has_it_is_refused(damage):
    with pytest.raises(DecodeError):
        of({"version": 1, "type": "BOOTSTRAP", "tableSchema": {**TABLE, **damage}})


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\x16", b"\x14\x00", b"null", b'{"version":1}', b"[" * 100_000])
def test_bytes_that_are_no_message_are_refused(body):
    with pytest.raises(DecodeError):
        list(decode(None, body, "here", PLAIN))


def test_a_message_without_a_value_is_refused():
    with pytest.raises(DecodeError):
        decode(None, None, "here", PLAIN)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (column("int"), MySqlType(Kind.INT)),
        (column("int unsigned", length=10, unsigned=True), MySqlType(Kind.INT, unsigned=True)),
        (column("int", length=6, unsigned=True, zerofill=True), MySqlType(Kind.INT, 6, unsigned=True)),
        (column("tinyint", length=1), MySqlType(Kind.TINYINT, 1)),
        (column("bool", length=1), MySqlType(Kind.TINYINT, 1)),
        (column("year", length=4, unsigned=True, zerofill=True), MySqlType(Kind.YEAR)),
        (column("bit", length=10, unsigned=True), MySqlType(Kind.BIT, 10)),
        (column("float", length=12, decimal=-1), MySqlType(Kind.FLOAT)),
        (column("decimal", length=12, decimal=4), MySqlType(Kind.DECIMAL, 12, 4)),
        (column("decimal", length=10), MySqlType(Kind.DECIMAL, 10, 0)),
        (column("decimal", length=10, decimal=0), MySqlType(Kind.DECIMAL, 10, 0)),
        (column("datetime", length=23, decimal=3), MySqlType(Kind.DATETIME, 3)),
        (column("datetime", length=23), MySqlType(Kind.DATETIME, 3)),
        (column("timestamp", length=19, decimal=None), MySqlType(Kind.TIMESTAMP)),
        (column("time", length=17), MySqlType(Kind.TIME, 6)),
        (column("time", length=10), MySqlType(Kind.TIME)),
        (column("varchar", length=9, charset="gbk", decimal=-1), MySqlType(Kind.VARCHAR, 9, charset="gbk")),
        (column("varbinary", length=9), MySqlType(Kind.VARBINARY, 9)),
        (column("longblob", length=4294967295), MySqlType(Kind.LONGBLOB)),
        (column("json", length=4294967295), MySqlType(Kind.JSON)),
        (column("vector", length=3), MySqlType(Kind.VECTOR, 3)),
        (column("vector<float32>", length=-1), MySqlType(Kind.VECTOR)),
        (
            column("enum", charset="utf8mb4", elements=["a,b", "o'k"], length=3),
            MySqlType(Kind.ENUM, elements=("a,b", "o'k"), charset="utf8mb4"),
        ),
    ],
)
def test_a_type_is_what_its_declaration_says(told, expected):
    assert expected == schema_of(told).columns[0].type


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (column("int", default="15"), Default("15")),
        (column("bit", default=5), Default("5")),
        (column("bit", default=b"\xff\x01"), Default("65281")),
        (column("varbinary", default="bin"), Default(b"bin")),
        (column("varbinary", default=b"\xff"), Default(b"\xff")),
        (column("varchar", default=b"\xc3\xa9"), Default("é")),
        (column("datetime", default="CURRENT_TIMESTAMP(3)"), Default(expression="CURRENT_TIMESTAMP(3)")),
        (column("varchar", default="CURRENT_TIMESTAMP"), Default("CURRENT_TIMESTAMP")),
        (column("int"), None),
    ],
)
def test_a_default_is_a_literal_or_an_expression(told, expected):
    assert expected == schema_of(told).columns[0].default


def index(name: str, *columns: str, primary: bool = False) -> dict[str, Any]:
    return {"name": name, "unique": True, "primary": primary, "nullable": False, "columns": list(columns)}


def test_the_made_up_primary_index_of_a_unique_key_leaves_the_key_as_it_is():
    a, b, c = ({**column("int"), "name": name, "nullable": False} for name in "abc")
    unique = index("uk", "a")
    made_up = schema_of(a, b, indexes=[unique, index("primary", "a", primary=True)])
    clustered = schema_of(a, b, indexes=[index("uk", "b"), index("primary", "a", primary=True)])
    chosen = schema_of(a, b, c, indexes=[index("u1", "a"), index("u2", "b"), index("primary", "b", primary=True)])
    named = schema_of(a, b, indexes=[index("PRIMARY", "a", "b", primary=True)])

    assert (made_up.key, [i.name for i in made_up.indexes]) == (("a",), ["uk"])
    assert (clustered.key, clustered.indexes[-1].name) == (("a",), "PRIMARY")
    assert (chosen.key, len(chosen.indexes)) == (("b",), 3)
    assert (named.key, named.indexes[0].name) == (("a", "b"), "PRIMARY")


def test_hidden_columns_of_expression_indexes_are_virtual():
    hidden = {**column("int"), "name": "_V$_ix_0"}

    assert [c.name for c in schema_of(COLUMN_ID, hidden).stored_columns] == ["id"]


@pytest.mark.parametrize(
    ("of_column", "wire", "expected"),
    [
        (the(Kind.INT), None, None),
        (the(Kind.TINYINT), "-128", -128),
        (the(Kind.INT), 5, 5),
        (the(Kind.BIGINT, unsigned=True), "18446744073709551615", (1 << 64) - 1),
        (the(Kind.BIGINT, unsigned=True), (1 << 64) - 1, (1 << 64) - 1),
        (the(Kind.BIGINT, unsigned=True), {"value": -1}, (1 << 64) - 1),
        (the(Kind.BIT, length=64), -1, (1 << 64) - 1),
        (the(Kind.BIT, length=10), "1023", 1023),
        (the(Kind.YEAR), "0", 0),
        (the(Kind.FLOAT), "0.1", 0.10000000149011612),
        (the(Kind.FLOAT), 0.1, 0.10000000149011612),
        (the(Kind.DOUBLE), "100000000000000000000", 1e20),
        (the(Kind.DOUBLE), 3, 3.0),
        (the(Kind.DECIMAL, length=5, scale=2), "-1.50", Decimal("-1.50")),
        (the(Kind.DECIMAL, length=65, scale=2), "1.50", "1.50"),
        (the(Kind.TEXT), "ü", "ü"),
        (the(Kind.BLOB), "/w==", b"\xff"),
        (the(Kind.BLOB), b"\xff", b"\xff"),
        (the(Kind.DATE), "2024-02-29", date(2024, 2, 29)),
        (the(Kind.DATE), "0000-00-00", None),
        (the(Kind.DATETIME, length=3), "2024-02-29 01:02:03.100", datetime(2024, 2, 29, 1, 2, 3, 100000)),
        (the(Kind.TIME), "-838:59:59.000", "-838:59:59.000"),
        (the(Kind.JSON), '{"a": 1}', '{"a": 1}'),
        (the(Kind.ENUM, elements=("a", "b")), "2", "b"),
        (the(Kind.ENUM, elements=("a", "b")), 2, "b"),
        (the(Kind.ENUM, elements=("a", "b")), "0", ""),
        (the(Kind.ENUM), "2", "2"),
        (the(Kind.SET, elements=("a", "b", "c")), "5", "a,c"),
        (the(Kind.SET, elements=tuple("abcdefgh" * 8)), -(1 << 63), "h"),
        (the(Kind.VECTOR), "[0.5,-1.25]", [0.5, -1.25]),
        (the(Kind.VECTOR), "[]", []),
    ],
)
def test_a_wire_value_of_either_encoding_is_its_canonical_value(of_column, wire, expected):
    found = value(of_column, wire, "UTC")

    assert (type(expected), expected) == (type(found), found)


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("UTC", datetime(2024, 1, 1, 12, tzinfo=UTC)),
        ("Asia/Shanghai", datetime(2024, 1, 1, 4, tzinfo=UTC)),
        ("Local", datetime(2024, 1, 1, 17, tzinfo=UTC)),
    ],
)
def test_a_timestamp_is_read_in_the_zone_it_names_and_the_servers_own_in_the_configured_one(location, expected):
    wire = {"location": location, "value": "2024-01-01 12:00:00"}

    assert expected == value(the(Kind.TIMESTAMP), wire, "America/New_York")


@pytest.mark.parametrize(
    ("of_column", "wire"),
    [
        (the(Kind.TINYINT), "128"),
        (the(Kind.INT), True),
        (the(Kind.INT), 1.0),
        (the(Kind.BIGINT, unsigned=True), float(1 << 64)),
        (the(Kind.BIGINT, unsigned=True), str(1 << 64)),
        (the(Kind.INT), {"value": "1"}),
        (the(Kind.INT), b"1"),
        (the(Kind.BIT, length=4), "16"),
        (the(Kind.FLOAT), "1e39"),
        (the(Kind.DOUBLE), float("nan")),
        (the(Kind.DOUBLE), "inf"),
        (the(Kind.BLOB), "?"),
        (the(Kind.TEXT), 5),
        (the(Kind.TEXT), b"x"),
        (the(Kind.DATE), "2024-02-30"),
        (the(Kind.TIMESTAMP), {"location": "Mars/Base", "value": "2024-01-01 00:00:00"}),
        (the(Kind.TIMESTAMP), {"location": "../../etc/passwd", "value": "2024-01-01 00:00:00"}),
        (the(Kind.TIMESTAMP), {"location": 5, "value": "2024-01-01 00:00:00"}),
        (the(Kind.TIMESTAMP), {"location": "UTC"}),
        (the(Kind.ENUM, elements=("a",)), "2"),
        (the(Kind.SET, elements=("a",)), "2"),
        (the(Kind.VECTOR), "[1"),
    ],
)
def test_a_wire_value_that_its_column_cannot_hold_is_refused(of_column, wire):
    with pytest.raises(DecodeError) as caught:
        value(of_column, wire, "UTC")
    assert str(wire) not in str(caught.value) or len(str(wire)) < 3


# --- Avro of our own ------------------------------------------------------------------------------------------------

AVSC = json.loads(files(protocols).joinpath(simple_avro.SCHEMA_FILE).read_bytes())


def avro(kind: str, record: str, payload: dict[str, Any]) -> bytes:
    out = BytesIO()
    told = (
        "com.pingcap.simple.avro.Message",
        {"type": kind, "payload": (f"com.pingcap.simple.avro.{record}", payload)},
    )
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVSC), told)
    return out.getvalue()


AVRO_ROW = {**{k: v for k, v in ROW.items() if k != "data"}, "data": {"id": 1}}


def test_an_avro_row_has_the_fields_of_its_json_form():
    unsigned = ("com.pingcap.simple.avro.UnsignedBigint", {"value": -1})
    event = of(avro("DML", "DML", {**AVRO_ROW, "data": {"id": 1, "u": unsigned, "b": b"\xff", "n": None}}))

    assert (event.op, event.schema_version, event.table_id) == (Op.INSERT, TS - 4, 7)
    assert event.wire == {"id": 1, "u": {"value": -1}, "b": b"\xff", "n": None}


def test_a_payload_of_another_type_than_the_message_names_is_refused():
    with pytest.raises(DecodeError):
        of(avro("DDL", "Watermark", {"version": 1, "commitTs": TS, "buildTs": 1}))


@pytest.mark.parametrize(
    ("at", "new", "why"),
    [
        (2, b"\x01", "a payload branch of -1"),
        (1, b"\x01", "an enum index of -1"),
        (2, b"\x08", "a payload branch beyond the last"),
    ],
)
def test_indices_outside_their_union_or_enum_are_refused(at, new, why):
    body = avro("WATERMARK", "Watermark", {"version": 1, "commitTs": TS, "buildTs": 1})

    assert WatermarkEvent(TS) == of(body)
    with pytest.raises(DecodeError):
        of(body[:at] + new + body[at + 1 :])


def test_bytes_after_an_avro_message_are_refused():
    with pytest.raises(DecodeError, match="1 bytes after it"):
        of(avro("WATERMARK", "Watermark", {"version": 1, "commitTs": TS, "buildTs": 1}) + b"\0")


def test_every_cut_of_an_avro_message_is_refused():
    body = avro("DML", "DML", {**AVRO_ROW, "data": {"id": 1, "x": "text", "f": 1.5}})
    for end in range(1, len(body)):
        with pytest.raises(DecodeError):
            of(body[:end])


SAMPLES = [
    json.dumps(ROW).encode(),
    json.dumps({"version": 1, "type": "BOOTSTRAP", "tableSchema": TABLE}).encode(),
    avro("DML", "DML", {**AVRO_ROW, "data": {"id": 1, "x": "text", "f": 1.5}}),
    avro("WATERMARK", "Watermark", {"version": 1, "commitTs": TS, "buildTs": 1}),
]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(SAMPLES), st.data(), st.sampled_from(list(Compression)))
def test_damaged_messages_raise_nothing_but_decode_errors(sample, data, compression):
    at = data.draw(st.integers(0, len(sample) - 1))
    cut = data.draw(st.integers(at, len(sample)))
    body = sample[:at] + data.draw(st.binary(max_size=6)) + sample[cut:]
    with suppress(DecodeError):
        event = of(body, Options(compression)) if data.draw(st.booleans()) else next(decode(None, body, "x", PLAIN))
        for wire in getattr(event, "wire", {}).values():
            for kind in Kind:
                with suppress(DecodeError):
                    value(Column("c", MySqlType(kind)), wire, "UTC")
