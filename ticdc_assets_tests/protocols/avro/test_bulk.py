"""The bulk decoder of Avro gives the same result as the reference decoder, and decodes all plain messages."""

from __future__ import annotations

import json
import struct
from functools import cache
from io import BytesIO
from typing import Any

import fastavro
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.protocols.avro import bulk as confluent_avro_bulk
from ticdc_assets.protocols.avro import decoder as confluent_avro
from ticdc_assets.protocols.avro.table_schema import table_schema
from ticdc_assets.protocols.columnar.message_rows import BulkRows, Messages
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.values.checksum import ChecksummedRow
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.model import Column, Kind, MySqlType
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.protocols.columnar.bulk_agreement import (
    ANY_COLUMN,
    LONGS,
    TEXTS,
    TS,
    Pair,
    agree,
    every_damage,
    of_bulk,
    pairs_of,
    reference,
    slow,
    spoiled,
    values_agree,
)

every_avro = pytest.mark.parametrize("workload", workloads("avro"), ids=lambda w: w.name)


# --- the Avro protocol -----------------------------------------------------------------------------------------------


@cache
def avro_options(workload: Workload) -> DecoderOptions:
    registry = confluent_avro.registry_from_json((workload.root / "registry.json").read_bytes(), "registry.json")
    return DecoderOptions(schemas=registry.__getitem__)


def avro_columns(workload: Workload) -> dict[tuple[str, str, int | None], dict[str, Column]]:
    """The columns by name of every table and schema id; with None, all that it ever had."""
    found: dict[tuple[str, str, int | None], dict[str, Column]] = {}
    for key, value in pairs_of(workload):
        event = confluent_avro.schema_event(key, value, "here", avro_options(workload))
        if isinstance(event, DdlEvent) and event.after is not None:
            for version in (event.hints.version, None):
                by_name = found.setdefault((event.schema, event.table, version), {})
                by_name.update({column.name: column for column in event.after.columns})
    return found


@cache
def agreed(workload: Workload) -> tuple[BulkRows, list[Any]]:
    return agree(confluent_avro_bulk, confluent_avro, pairs_of(workload), avro_options(workload))


@every_avro
def test_every_avro_row_equals_that_of_the_reference(workload):
    rows, events = agreed(workload)
    taken = [isinstance(event, RowEvent) and not isinstance(event, ChecksummedRow) for event in events]

    assert taken == (~rows.left).tolist()


def test_a_wide_schema_costs_nothing_where_there_are_no_values():
    fields = [{"name": f"c{number}", "type": of_type("INT", "int")} for number in range(9_000)]
    pairs = [(None, struct.pack(">bI", 0, 7) + b"\0" * 5)] * 50_000
    batch = Messages.from_pairs([*pairs, (None, struct.pack(">bI", 0, 7) + b"\0" * 9_000)])
    options = DecoderOptions(schemas={7: record(fields)}.__getitem__)
    rows = confluent_avro_bulk.rows(batch, options)

    assert [50_000] == np.flatnonzero(~rows.left).tolist()


def test_a_part_of_a_batch_is_read_as_the_whole_is():
    workload = workloads("avro-ext", "seed1")[0]
    whole = Messages.from_pairs(pairs_of(workload))
    part = Messages(whole.keys.slice(37, 100), whole.values.slice(37, 100))
    of_whole, of_part = (
        of_bulk(confluent_avro_bulk.rows(batch, avro_options(workload)), len(batch)) for batch in (whole, part)
    )

    assert of_whole[37:137] == of_part


@pytest.mark.parametrize("pairs", [[], [(None, None)], [(b"", b"")], [(b"\0\0", b"\0")]])
def test_a_batch_without_avro_rows_is_left(pairs):
    rows, _ = agree(confluent_avro_bulk, confluent_avro, pairs, DecoderOptions(schemas={}.__getitem__))

    assert rows.left.all()


@every_avro
@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai"])
def test_every_avro_value_is_typed_as_the_reference_types_it(workload, zone):
    rows, _ = agreed(workload)
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
    damaged_ones = [(one, value) for one in every_damage(key)]
    damaged_ones += [(key, one) for one in every_damage(value or b"")]
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


WHOLE_ROW: list[tuple[Any, Any]] = [
    (of_type("BIGINT", "long"), -(1 << 40)),
    (of_type("INT", "int"), 70_000),
    (["null", of_type("INT", "boolean")], True),
    ([of_type("FLOAT", "float"), "null"], 1.5),
    (["null", of_type("DOUBLE", "double")], -2.5),
    ([of_type("TEXT", "string"), "null"], "Äö"),
    (["null", of_type("BLOB", "bytes")], b"\xff\x00"),
    (bit_of(64), b"\x80\x01"),
    (["null", decimal_of(12, 4)], b"\xff\x7f\x00"),
    (decimal_of(38, 2), (10**38 >> 1).to_bytes(16, "big")),
    (decimal_of(65, 30), b"\x7f" * 17),
    (["null", of_type("TEXT", "string")], None),
]


@pytest.mark.parametrize("op", ["c", "u", "d"])
def test_no_damage_to_an_avro_message_of_every_type_is_taken_for_a_row(op):
    columns = [{"name": f"c{number}", "type": of} for number, (of, _) in enumerate(WHOLE_ROW)]
    inner = {"type": "record", "name": "old", "fields": columns}
    extension = [("_tidb_op", "string"), ("_tidb_commit_ts", "long"), ("_tidb_commit_physical_time", "long")]
    fields = [*columns, {"name": "_ticdc_before", "type": ["null", inner]}]
    fields += [{"name": name, "type": of} for name, of in extension]
    values = [found for _, found in WHOLE_ROW]
    result = [*values, {c["name"]: v for c, v in zip(columns, values, strict=True)}, op, TS, TS >> 18]
    message = framed(7, fields, result, lambda value: value)
    pairs = [pair for damaged_one in every_damage(message) for pair in ((None, message), (None, damaged_one))]
    rows, _ = agree(confluent_avro_bulk, confluent_avro, pairs, DecoderOptions(schemas={7: record(fields)}.__getitem__))

    assert rows.left[1::2].any()
    assert not rows.left[::2].any()


@pytest.mark.parametrize("null_first", [True, False])
def test_old_values_are_those_of_their_own_rows(null_first: bool):
    """Rows with and without them alternate; texts that are not UTF-8 and branches beyond the union's spoil one row."""
    columns = [
        {"name": "id", "type": of_type("BIGINT", "long")},
        {"name": "on", "type": ["null", of_type("INT", "boolean")]},
        {"name": "name", "type": [of_type("TEXT", "string"), "null"]},
    ]
    old = {"type": "record", "name": "old", "fields": columns}
    fields = [*columns, {"name": "_ticdc_before", "type": ["null", old] if null_first else [old, "null"]}]
    fields += [{"name": "_tidb_op", "type": "string"}, {"name": "_tidb_commit_ts", "type": "long"}]
    fields += [{"name": "_tidb_commit_physical_time", "type": "long"}]
    whole, nothing = {"id": 7, "on": True, "name": "was"}, {"id": 8, "on": None, "name": None}
    rows = [
        (1, None, "a", None, "c"), (2, True, "b", whole, "u"), (3, False, None, None, "u"),
        (4, None, "d", nothing, "u"), (5, True, "e", whole, "d"), (6, None, "f", None, "d"),
        (9, False, "i", nothing, "c"), (10, True, "j", whole, "u"),
    ]  # fmt: skip
    values = [framed(7, fields, [*row, TS, TS >> 18], lambda value: value) for row in rows]
    sound = values[1]
    spoiled_ones = [
        sound.replace(b"\x06was", b"\x06w\xffs"), sound.replace(b"\x02b", b"\x02\xff"),
        sound.replace(b"b\x02\x0e" if null_first else b"b\x00\x0e", b"b\x04\x0e"),
        sound.replace(b"\x0e\x02\x01", b"\x0e\x02\x02"), sound.replace(b"\x0e\x02\x01", b"\x0e\x04\x01"),
    ]  # fmt: skip
    assert sound not in spoiled_ones
    options = DecoderOptions(schemas={7: record(fields)}.__getitem__)

    pairs = [(None, value) for value in (*values, *spoiled_ones, *values)]
    found, _ = agree(confluent_avro_bulk, confluent_avro, pairs, options)

    assert found.left.tolist() == [False] * 8 + [True] * 5 + [False] * 8
    only_inserts, _ = agree(confluent_avro_bulk, confluent_avro, [(None, values[0])], options)
    assert not only_inserts.left.any()


@pytest.mark.parametrize("precision", [38, 39])
@pytest.mark.parametrize("scale", [0, 7, 38])
def test_decimals_around_38_digits_are_the_references(precision, scale):
    edges = [10**38, 10**37, 1 << 127, (1 << 126) - 1, 0]
    numbers = [sign * (edge + more) for edge in edges for more in (-1, 0, 1) for sign in (1, -1)]
    fields = [{"name": "d", "type": decimal_of(precision, scale)}]
    raws = [number.to_bytes(size, "big", signed=True) for number in numbers for size in (17, 20)]
    raws += [number.to_bytes(16, "big", signed=True) for number in numbers if -(1 << 127) <= number < 1 << 127]
    pairs = [(None, framed(7, fields, [raw], lambda value: value)) for raw in raws]
    rows, _ = agree(confluent_avro_bulk, confluent_avro, pairs, DecoderOptions(schemas={7: record(fields)}.__getitem__))

    assert not rows.left.all()
    for of in (MySqlType(Kind.DECIMAL, precision, scale), MySqlType(Kind.DECIMAL, 38, 0), MySqlType(Kind.VARCHAR, 9)):
        for array in rows.tables[0].rows.wire:
            for number in range(len(array)):
                one = array.slice(number, 1)
                values_agree(confluent_avro_bulk.column, confluent_avro.value, Column("d", of), one, "UTC")


@slow
@given(stream=streams_of_one_schema(), data=st.data())
def test_any_avro_values_and_types_equal_those_of_the_reference(stream, data):
    schemas, pairs = stream
    options = DecoderOptions(schemas=schemas.__getitem__, table=data.draw(st.sampled_from([None, ("a", "b")])))
    rows, _ = agree(confluent_avro_bulk, confluent_avro, pairs, options)
    columns = {c.name: c for c in table_schema(schemas[7], None).columns}
    for table in rows.tables:
        for name, array in zip(table.rows.columns, table.rows.wire, strict=True):
            for column in (columns.get(name), data.draw(st.sampled_from(ANY_COLUMN))):
                if column is not None:
                    values_agree(confluent_avro_bulk.column, confluent_avro.value, column, array, "Asia/Shanghai")
    agree(confluent_avro_bulk, confluent_avro, data.draw(spoiled(pairs)), options)
