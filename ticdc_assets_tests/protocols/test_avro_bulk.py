"""The bulk forms of the two Avro encodings tell what the reference tells, and take nearly all that is plain."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from importlib.resources import files
from io import BytesIO
from typing import Any

import duckdb
import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ticdc_assets import protocols
from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols import confluent_avro, confluent_avro_bulk, simple, simple_avro, simple_avro_bulk
from ticdc_assets.protocols.avro_schema import table_schema
from ticdc_assets.protocols.checksum import ChecksummedRow
from ticdc_assets.protocols.events import DdlEvent, RowEvent
from ticdc_assets.protocols.frame import Compression
from ticdc_assets.protocols.message_rows import BulkRows, Messages
from ticdc_assets.schema.model import Column, Kind, MySqlType
from ticdc_assets.sources.capture import messages
from ticdc_assets_tests.fixtures import Workload, workloads

Pair = tuple[bytes | None, bytes | None]
every_avro = pytest.mark.parametrize("workload", workloads("avro"), ids=lambda w: w.name)


# --- what the two forms tell, in one shape ---------------------------------------------------------------------------


def plain(wire: Any) -> Any:
    """A wire value by which equal ones are equal and others are not: -0.0 is not 0.0, and NaN is NaN."""
    if isinstance(wire, Decimal):
        return f"{wire:f}"
    return repr(wire) if isinstance(wire, float) else wire


def image(wire: Any) -> Any:
    return None if wire is None else {name: plain(found) for name, found in wire.items()}


def told_by_reference(event: Any) -> tuple[Any, ...]:
    before = event.before
    if event.before_is_partial:
        before = {**event.wire, **before}
    return (
        *(event.schema, event.table, str(event.op), event.commit_ts, event.commit_ms, event.schema_version),
        *(event.table_id, event.partition_id, event.upsert, image(event.wire), image(before)),
    )


def told_by_bulk(rows: BulkRows, count: int) -> list[tuple[Any, ...] | None]:
    told: list[tuple[Any, ...] | None] = [None] * count
    for table in rows.tables:
        raw = table.rows
        now = [array.to_pylist() for array in raw.wire]
        before = [array.to_pylist() for array in raw.before or ()]
        has_before = raw.has_before.to_pylist() if raw.has_before is not None else [False] * len(raw)
        ids = table.table_id.to_pylist() if table.table_id is not None else [None] * len(raw)
        assert table.position.to_pylist() == [0] * len(raw)
        lines = raw.line.to_pylist()
        assert lines == sorted(lines)
        for row, line in enumerate(lines):
            assert told[line] is None
            assert not rows.left[line]
            told[line] = (
                *(table.schema, table.table, raw.op[row].as_py(), raw.commit_ts[row].as_py()),
                *(raw.commit_ms[row].as_py(), table.schema_version, ids[row], None, table.upsert),
                image(dict(zip(raw.columns, [values[row] for values in now], strict=True))),
                image(dict(zip(raw.columns, [values[row] for values in before], strict=True)))
                if has_before[row]
                else None,
            )
    return told


def reference(module: Any, pairs: Sequence[Pair], options: Any) -> list[Any]:
    told = []
    for key, value in pairs:
        try:
            (event,) = module.decode(key, value, "here", options)
        except DecodeError as error:
            told.append(error)
        else:
            told.append(event)
    return told


def agree(bulk: Any, module: Any, pairs: Sequence[Pair], options: Any) -> tuple[BulkRows, list[Any]]:
    """What both forms tell, once it is seen to be the same for every message that the bulk form takes."""
    batch = Messages.from_pairs(pairs)
    with duckdb.connect() as connection:
        rows = bulk.rows(batch, options, connection)
    events = reference(module, pairs, options)
    told = told_by_bulk(rows, len(pairs))
    for event, found, left in zip(events, told, rows.left, strict=True):
        assert left == (found is None)
        if found is not None:
            assert isinstance(event, RowEvent)
            assert not isinstance(event, ChecksummedRow)
            assert event.claim is None
            assert not event.handle_only or event.op == "D"
            assert told_by_reference(event) == found
    heads_agree(bulk, batch, options, events)
    return rows, events


def heads_agree(bulk: Any, batch: Messages, options: Any, events: list[Any]) -> None:
    heads = bulk.heads(batch, options)
    assert heads.message.to_pylist() == np.flatnonzero(~heads.left).tolist()
    for row, place in enumerate(heads.message.to_pylist()):
        event = events[place]
        assert isinstance(event, RowEvent)
        found = (
            *(*heads.names[heads.name[row].as_py()], heads.op[row].as_py(), heads.commit_ts[row].as_py()),
            *(heads.commit_ms[row].as_py(), heads.schema_version[row].as_py(), heads.position[row].as_py()),
        )
        assert told_by_reference(event)[:6] == found[:6]
        assert found[6] == 0


def values_agree(column_of: Any, value: Any, column: Column, array: pa.Array, zone: str) -> None:
    """The bulk form's typed values are the reference's, or both refuse."""
    wires = [f"{w:f}" if isinstance(w, Decimal) else w for w in array.to_pylist()]
    try:
        expected = [value(column, wire, zone) for wire in wires]
    except DecodeError:
        with pytest.raises(DecodeError):
            column_of(column, array, zone)
        return
    found = column_of(column, array, zone)
    again = pa.array(expected, found.type).to_pylist()
    assert [plain(one) for one in again] == [plain(one) for one in found.to_pylist()]


# --- damage ----------------------------------------------------------------------------------------------------------


ODD_NUMBERS = [
    b"\x80\x00",  # 0, but longer than need be
    b"\x82\x80\x80\x00",  # 1, likewise
    *(b"\xff" * size + end for size in (4, 8, 9, 10) for end in (b"\x00", b"\x01", b"\x02", b"\x7f")),
    *(b"\xfe" + b"\xff" * size + end for size in (3, 7, 8, 9) for end in (b"\x00", b"\x01", b"\x02", b"\x7f")),
]
"""Numbers in more bytes than usual: around what 32 and 64 bits hold, and above."""


def damaged(draw: Any, raw: bytes | None) -> bytes | None:
    """A key or value that is cut, longer, with a byte changed, or gone."""
    kind = draw(st.sampled_from(["cut", "flip", "set", "odd", "more", "gone", "none", "as it is"]))
    at = draw(st.integers(0, max(0, len(raw or b"") - 1)))
    if kind == "none" or not raw:
        return None
    changed = {
        "cut": raw[:at],
        "flip": raw[:at] + bytes([raw[at] ^ (1 << draw(st.integers(0, 7)))]) + raw[at + 1 :],
        "set": raw[:at] + draw(st.binary(min_size=1, max_size=12)) + raw[at + 1 :],
        "odd": raw[:at] + draw(st.sampled_from(ODD_NUMBERS)) + raw[at + 1 :],
        "more": raw + draw(st.binary(min_size=1, max_size=3)),
        "gone": b"",
    }
    return changed.get(kind, raw)


@st.composite
def spoiled(draw: Any, sound: Sequence[Pair]) -> list[Pair]:
    """Some messages of a stream, repeated and out of order, a few of them damaged."""
    some = [sound[i] for i in draw(st.lists(st.integers(0, len(sound) - 1), min_size=1, max_size=24))]
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(some) - 1))
        key, value = some[at]
        if draw(st.booleans()):
            some[at] = (key, damaged(draw, value))
        else:
            some[at] = (damaged(draw, key), value)
    return some


def every_damage(raw: bytes) -> list[bytes]:
    """Each cut of these bytes, and each of them changed in many ways."""
    changes = [bytes([byte]) for byte in (0, 1, 2, 3, 0x10, 0x7E, 0x7F, 0x80, 0xFF)] + ODD_NUMBERS
    cuts = [raw[:end] for end in range(len(raw))]
    return cuts + [raw[:at] + change + raw[at + 1 :] for at in range(len(raw)) for change in changes]


slow = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


# --- columns ---------------------------------------------------------------------------------------------------------

ANY_COLUMN = [
    Column("c", of_column)
    for of_column in (
        *(MySqlType(Kind.INT), MySqlType(Kind.INT, unsigned=True), MySqlType(Kind.BIGINT, unsigned=True)),
        *(MySqlType(Kind.BIT, 64), MySqlType(Kind.BIT, 3), MySqlType(Kind.YEAR), MySqlType(Kind.FLOAT)),
        *(
            MySqlType(Kind.DOUBLE),
            MySqlType(Kind.DECIMAL, 10, 2),
            MySqlType(Kind.DECIMAL, 38, 4),
            MySqlType(Kind.DECIMAL, 65, 30),
            MySqlType(Kind.VARCHAR, 9),
            MySqlType(Kind.BLOB),
        ),
        *(MySqlType(Kind.ENUM, elements=("x", "y")), MySqlType(Kind.SET, elements=("x", "y")), MySqlType(Kind.SET)),
        *(MySqlType(Kind.TIMESTAMP, 6), MySqlType(Kind.DATETIME, 6), MySqlType(Kind.DATE), MySqlType(Kind.JSON)),
        MySqlType(Kind.VARCHAR, 9, charset="binary"),
    )
]


# --- the Avro protocol -----------------------------------------------------------------------------------------------


@cache
def avro_options(workload: Workload) -> confluent_avro.Options:
    registry = confluent_avro.registry_from_json((workload.root / "registry.json").read_bytes())
    return confluent_avro.Options(registry.__getitem__)


@cache
def pairs_of(workload: Workload) -> list[Pair]:
    return [(message.key, message.value) for message in messages(workload.root / "messages.jsonl")]


def avro_columns(workload: Workload) -> dict[tuple[str, str, int | None], dict[str, Column]]:
    """The columns by name of every table and schema id; with None, all that it ever had."""
    found: dict[tuple[str, str, int | None], dict[str, Column]] = {}
    for key, value in pairs_of(workload):
        event = confluent_avro.schema_event(key, value, "here", avro_options(workload))
        if isinstance(event, DdlEvent) and event.after is not None:
            for version in (event.version, None):
                by_name = found.setdefault((event.schema, event.table, version), {})
                by_name.update({column.name: column for column in event.after.columns})
    return found


@every_avro
def test_every_avro_row_is_told_as_the_reference_tells_it(workload):
    rows, events = agree(confluent_avro_bulk, confluent_avro, pairs_of(workload), avro_options(workload))
    plain_rows = [isinstance(event, RowEvent) and not isinstance(event, ChecksummedRow) for event in events]

    assert rows.left.tolist() == [not is_plain for is_plain in plain_rows]


@every_avro
@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai"])
def test_every_avro_value_is_typed_as_the_reference_types_it(workload, zone):
    rows, _ = agree(confluent_avro_bulk, confluent_avro, pairs_of(workload), avro_options(workload))
    columns = avro_columns(workload)
    for table in rows.tables:
        by_name = columns[table.schema, table.table, table.schema_version]
        for name, array in zip(table.rows.columns, table.rows.wire, strict=True):
            values_agree(confluent_avro_bulk.column, confluent_avro.value, by_name[name], array, zone)


@pytest.mark.parametrize("op", ["I", "U", "D"])
def test_no_damage_to_an_avro_message_is_taken_for_a_row_or_disturbs_others(op):
    workload = next(one for one in workloads("avro-ext", "seed1"))
    options = avro_options(workload)
    sound = pairs_of(workload)[:200]
    events = reference(confluent_avro, sound, options)
    of_op = (pair for pair, event in zip(sound, events, strict=True) if event.op == op)
    key, value = min(of_op, key=lambda pair: len(pair[1] or pair[0]))
    damaged_ones = [(key, one) for one in every_damage(value)] if value else [(one, None) for one in every_damage(key)]
    pairs = [pair for number, one in enumerate(damaged_ones) for pair in (sound[number % 200], one)]
    rows, _ = agree(confluent_avro_bulk, confluent_avro, pairs, options)

    assert rows.left.any()
    assert not rows.left[::2].any()


@slow
@given(workload=st.sampled_from(workloads("avro", "seed1")), data=st.data())
def test_damaged_avro_messages_disturb_no_others(workload, data):
    agree(confluent_avro_bulk, confluent_avro, data.draw(spoiled(pairs_of(workload))), avro_options(workload))


def of_type(tidb_type: str, avro: str, **more: Any) -> dict[str, Any]:
    return {"type": avro, "connect.parameters": {"tidb_type": tidb_type}, **more}


def decimal_of(precision: int, scale: int) -> dict[str, Any]:
    return of_type("DECIMAL", "bytes", logicalType="decimal", precision=precision, scale=scale)


def bit_of(length: int) -> dict[str, Any]:
    return {"type": "bytes", "connect.parameters": {"tidb_type": "BIT", "length": str(length)}}


LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
TEXTS = st.one_of(
    st.text(max_size=200),
    st.sampled_from(["2024-02-30", "2024-02-29", "0000-00-00 00:00:00", "2024-01-01 10:00:00.5", "-838:59:59", "{}"]),
)
DECIMAL_BYTES = st.integers(1, 30).flatmap(lambda size: st.binary(min_size=size, max_size=size))
FIELD_TYPES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (of_type("INT", "int"), st.integers(-(1 << 31), (1 << 31) - 1)),
    (of_type("INT UNSIGNED", "int"), st.integers(-5, 1 << 25)),
    (of_type("INT UNSIGNED", "long"), LONGS),
    (of_type("BIGINT", "long"), LONGS),
    (of_type("BIGINT UNSIGNED", "long"), LONGS),
    (of_type("YEAR", "int"), st.integers(0, 2200)),
    (of_type("FLOAT", "float"), st.floats(width=32)),
    (of_type("DOUBLE", "double"), st.floats()),
    (of_type("FLOAT", "double"), st.floats()),
    (of_type("TEXT", "string"), TEXTS),
    (of_type("ENUM", "string"), TEXTS),
    (of_type("DATE", "string"), TEXTS),
    (of_type("TIMESTAMP", "string"), TEXTS),
    (of_type("BIGINT UNSIGNED", "string"), LONGS.map(str)),
    (of_type("BLOB", "bytes"), st.binary(max_size=80)),
    (bit_of(1), st.binary(max_size=2)),
    (bit_of(64), st.binary(max_size=9)),
    (decimal_of(12, 4), DECIMAL_BYTES),
    (decimal_of(38, 0), DECIMAL_BYTES),
    (decimal_of(38, 38), DECIMAL_BYTES),
    (decimal_of(65, 30), DECIMAL_BYTES),
    (of_type("INT", "boolean"), st.booleans()),
]


@st.composite
def streams_of_one_schema(draw: Any) -> tuple[dict[int, str], list[Pair]]:
    """A schema of any columns, nullable in either order, one of some key, and messages with any values."""
    fields, makers = [], []
    for number in range(draw(st.integers(1, 5))):
        base, values = draw(st.sampled_from(FIELD_TYPES))
        form = draw(st.sampled_from(["plain", "null first", "null last"]))
        of_form = {"plain": base, "null first": ["null", base], "null last": [base, "null"]}
        fields.append({"name": f"c{number}", "type": of_form[form]})
        makers.append(values if form == "plain" else st.none() | values)
    key = ([{"name": draw(st.sampled_from(["c0", "c0", "c0", "k"])), "type": of_type("BIGINT", "long")}], [LONGS])
    if draw(st.booleans()):
        if draw(st.booleans()):
            old = {"type": "record", "name": "old", "fields": list(fields)}
            olds = st.fixed_dictionaries({f["name"]: maker for f, maker in zip(fields, makers, strict=True)})
            fields.append({"name": "_ticdc_before", "type": draw(st.permutations(["null", old]))})
            makers.append(st.none() | olds)
        fields += [{"name": "_tidb_op", "type": "string"}, {"name": "_tidb_commit_ts", "type": "long"}]
        fields += [{"name": "_tidb_commit_physical_time", "type": "long"}]
        makers += [st.sampled_from(["c", "u", "c", "u", "d", "", "x"]), st.integers(-1, 3), st.integers(-1, 1 << 50)]
    pairs: list[Pair] = []
    for _ in range(draw(st.integers(1, 12))):
        of_key = framed(8, *key, draw) if draw(st.booleans()) else None
        pairs.append((of_key, framed(7, fields, makers, draw) if draw(st.integers(0, 4)) else None))
    return {7: record(fields), 8: record(key[0])}, pairs


def record(fields: list[dict[str, Any]]) -> str:
    return json.dumps({"type": "record", "name": "t", "namespace": "default.shop", "fields": fields})


def framed(number: int, fields: list[dict[str, Any]], makers: list[Any], draw: Any) -> bytes:
    raw = [{**one, "type": without_logic(one["type"])} for one in fields]
    schema = fastavro.parse_schema({"type": "record", "name": "t", "fields": raw})
    out = BytesIO()
    fastavro.schemaless_writer(out, schema, {f["name"]: draw(m) for f, m in zip(fields, makers, strict=True)})
    return struct.pack(">bI", 0, number) + out.getvalue()


def without_logic(of: Any) -> Any:
    """The type without logical types, for values that are bytes already."""
    if isinstance(of, list):
        return [without_logic(part) for part in of]
    return {k: without_logic(v) for k, v in of.items() if k != "logicalType"} if isinstance(of, dict) else of


@slow
@given(stream=streams_of_one_schema(), data=st.data())
def test_any_avro_values_are_told_and_typed_as_the_reference_does(stream, data):
    schemas, pairs = stream
    options = confluent_avro.Options(schemas.__getitem__, data.draw(st.sampled_from([None, ("a", "b")])))
    rows, _ = agree(confluent_avro_bulk, confluent_avro, pairs, options)
    columns = {c.name: c for c in table_schema(schemas[7], None).columns}
    for table in rows.tables:
        for name, array in zip(table.rows.columns, table.rows.wire, strict=True):
            for column in (columns.get(name), data.draw(st.sampled_from(ANY_COLUMN))):
                if column is not None:
                    values_agree(confluent_avro_bulk.column, confluent_avro.value, column, array, "Asia/Shanghai")
    agree(confluent_avro_bulk, confluent_avro, data.draw(spoiled(pairs)), options)


# --- Simple in Avro --------------------------------------------------------------------------------------------------

PLAIN = simple.Options()
every_simple = pytest.mark.parametrize("workload", workloads("simple-avro"), ids=lambda w: w.name)


def is_plain(event: Any) -> bool:
    if not isinstance(event, RowEvent) or isinstance(event, ChecksummedRow):
        return False
    return event.claim is None and not event.handle_only


@every_simple
def test_every_simple_row_is_told_as_the_reference_tells_it(workload):
    rows, events = agree(simple_avro_bulk, simple, pairs_of(workload), PLAIN)

    assert rows.left.tolist() == [not is_plain(event) for event in events]


@every_simple
@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai"])
def test_every_simple_value_is_typed_as_the_reference_types_it(workload, zone):
    rows, events = agree(simple_avro_bulk, simple, pairs_of(workload), PLAIN)
    shapes = {}
    for event in events:
        if isinstance(event, DdlEvent):
            for shape, version in ((event.after, event.version), (event.before, event.before_version)):
                if shape is not None:
                    shapes[shape.schema, shape.name, version] = {column.name: column for column in shape.columns}
    for table in rows.tables:
        columns = shapes[table.schema, table.table, table.schema_version]
        for arrays in (table.rows.wire, table.rows.before or ()):
            for name, array in zip(table.rows.columns, arrays, strict=False):
                values_agree(simple_avro_bulk.column, simple.value, columns[name], array, zone)


@pytest.mark.parametrize("compression", list(Compression))
def test_simple_rows_are_read_from_compressed_messages_too(compression):
    codec = {Compression.LZ4: "lz4", Compression.SNAPPY: "snappy"}.get(compression)
    pairs = pairs_of(workloads("simple-avro", "seed1")[0])
    packed = [(key, value if codec is None else pa.compress(value, codec, asbytes=True)) for key, value in pairs]
    rows, _ = agree(simple_avro_bulk, simple, packed, simple.Options(compression=compression))

    assert not rows.left.all()


@pytest.mark.parametrize("op", ["I", "U", "D"])
def test_no_damage_to_a_simple_message_is_taken_for_a_row_or_disturbs_others(op):
    workload = next(one for one in workloads("simple-avro", "seed1"))
    sound = [p for p in pairs_of(workload) if is_plain(reference(simple, [p], PLAIN)[0])][:200]
    events = reference(simple, sound, PLAIN)
    _, value = min((p for p, e in zip(sound, events, strict=True) if e.op == op), key=lambda pair: len(pair[1]))
    damaged_ones = [(None, one) for one in every_damage(value)]
    pairs = [pair for number, one in enumerate(damaged_ones) for pair in (sound[number % len(sound)], one)]
    rows, _ = agree(simple_avro_bulk, simple, pairs, PLAIN)

    assert rows.left.any()
    assert not rows.left[::2].any()


@slow
@given(workload=st.sampled_from(workloads("simple-avro", "seed1")), data=st.data())
def test_damaged_simple_messages_disturb_no_others(workload, data):
    agree(simple_avro_bulk, simple, data.draw(spoiled(pairs_of(workload))), PLAIN)


AVSC = fastavro.parse_schema(json.loads(files(protocols).joinpath(simple_avro.SCHEMA_FILE).read_bytes()))
SPACE = "com.pingcap.simple.avro"


def simple_message(payload: dict[str, Any]) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, AVSC, (f"{SPACE}.Message", {"type": "DML", "payload": (f"{SPACE}.DML", payload)}))
    return out.getvalue()


CELLS = [
    LONGS,
    TEXTS,
    st.binary(max_size=12),
    st.floats().map(lambda number: ("double", number)),
    st.floats(width=32).map(lambda number: ("float", number)),
    LONGS.map(lambda number: (f"{SPACE}.UnsignedBigint", {"value": number})),
    st.tuples(st.sampled_from(["UTC", "Asia/Shanghai", "", "Local", "Nowhere"]), TEXTS).map(
        lambda parts: (f"{SPACE}.Timestamp", {"location": parts[0], "value": parts[1]})
    ),
]
"""A value of every branch of the union."""
COLUMN_NAMES = ["a", "ab", "abcdefgh", "abcdefghi", "a" * 40 + "1", "a" * 40 + "2", "ü" * 64, " ", "id", "A"]


@st.composite
def simple_streams(draw: Any) -> list[Pair]:
    """Rows of a table with some columns, mostly of one branch each, in any order, with and without old values."""
    names = draw(st.lists(st.sampled_from(COLUMN_NAMES), min_size=1, max_size=6, unique=True))
    kinds = {name: draw(st.integers(0, 6)) for name in names}
    pairs: list[Pair] = []
    for _ in range(draw(st.integers(1, 12))):
        op = draw(st.sampled_from(["INSERT", "UPDATE", "DELETE"]))
        new, old = draw(images(names, kinds, whole=True)), draw(images(names, kinds, whole=False))
        payload = {
            "version": draw(st.sampled_from([1, 1, 1, 1, 2])),
            "database": draw(st.sampled_from(["shop", "shop", "Läden", ""])),
            "table": "t",
            "tableID": draw(LONGS),
            "type": op,
            "commitTs": draw(st.integers(-1, 1 << 62)),
            "buildTs": 1,
            "schemaVersion": draw(st.sampled_from([0, 5, 5, 5, 6])),
            "claimCheckLocation": draw(st.sampled_from([None] * 5 + ["", "file:///x"])),
            "handleKeyOnly": draw(st.sampled_from([None, False, False, False, True])),
            "checksum": None,
            "data": None if op == "DELETE" else new,
            "old": {"INSERT": None, "DELETE": new}.get(op, draw(st.sampled_from([old, new, None]))),
        }
        pairs.append((None, simple_message(payload)))
    return pairs


@st.composite
def images(draw: Any, names: list[str], kinds: dict[str, int], whole: bool) -> dict[str, Any]:
    sent = draw(st.permutations(names))
    if not whole or draw(st.integers(0, 9)) == 0:
        sent = sent[: draw(st.integers(0, len(sent)))]
    odd = draw(st.integers(0, 9)) == 0
    return {name: draw(st.none() | (st.one_of(CELLS) if odd else CELLS[kinds[name]])) for name in sent}


@slow
@given(pairs=simple_streams(), data=st.data())
def test_any_simple_values_are_told_and_typed_as_the_reference_does(pairs, data):
    rows, _ = agree(simple_avro_bulk, simple, pairs, PLAIN)
    for table in rows.tables:
        for array in (*table.rows.wire, *(table.rows.before or ())):
            column = data.draw(st.sampled_from(ANY_COLUMN))
            values_agree(simple_avro_bulk.column, simple.value, column, array, "Asia/Shanghai")
    agree(simple_avro_bulk, simple, data.draw(spoiled(pairs)), PLAIN)
