"""Debezium as TiCDC writes it: every change of every log is decoded, except for what TiCDC itself loses."""

from __future__ import annotations

import json
from base64 import b64encode
from collections import defaultdict
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.debezium import decode, value, values
from ticdc_assets.protocols.events import Op, RowEvent, WatermarkEvent
from ticdc_assets.protocols.formats.bodies import NegativeZero
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.model import Column, Kind, MySqlType
from ticdc_assets.sources.capture import messages
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.protocols import happened
from ticdc_assets_tests.protocols.happened import Change
from ticdc_assets_tests.protocols.hostile.damage import cuts, damage, flips, splices
from ticdc_assets_tests.protocols.wire_images import image

PLAIN = DecoderOptions()
TS = 459802238374641668
every_workload = pytest.mark.parametrize("workload", workloads("debezium"), ids=lambda w: w.name)


# --- the logs -------------------------------------------------------------------------------------------------------


def events_of(workload: Workload, partition: int | None = None) -> list[Any]:
    return [
        event
        for message in messages(workload.root / "messages.jsonl")
        if partition is None or message.partition == partition
        for event in decode(message.key, message.value, message.where, PLAIN)
    ]


def partitions_of(workload: Workload) -> set[int]:
    return {message.partition for message in messages(workload.root / "messages.jsonl")}


def change_of(event: RowEvent, shapes: happened.Tables) -> Change:
    shape = shapes.as_of(event.schema, event.table, event.commit_ts)
    new, old = (wire and image(shape, wire, "UTC", value) for wire in (event.wire, event.before))
    return Change(event.schema, event.table, event.op, event.commit_ts, new, old)


Ident = tuple[str, str, str, int, tuple[tuple[str, Any], ...]]


def by_key(changes: list[Change], shapes: happened.Tables) -> dict[Ident, list[Change]]:
    found = defaultdict(list)
    for change in changes:
        key = shapes.as_of(change.schema, change.table, change.commit_ts).key
        found[(*change[:4], tuple(pair for pair in change.new if pair[0] in key))].append(change)
    return found


@every_workload
def test_every_change_comes_out_as_far_as_ticdc_can_tell_it(workload):
    shapes = happened.tables(workload.events)
    result = by_key(happened.changes(workload), shapes)
    got = by_key([change_of(e, shapes) for e in events_of(workload) if isinstance(e, RowEvent)], shapes)

    assert result
    assert result.keys() == got.keys()
    for ident, changes in result.items():
        shape = shapes.as_of(ident[0], ident[1], ident[3])
        for wanted, found in zip(changes, got[ident], strict=True):
            for a, b in ((wanted.new, found.new), (wanted.old, found.old)):
                assert (a is None) == (b is None)
                for (name, real), (same, seen) in zip(a or (), b or (), strict=True):
                    assert name == same
                    assert_as_sent(shape.column(name), real, seen)


def assert_as_sent(column: Column, real: Any, seen: Any) -> None:
    """Equal, but for a NULL sent as the default and for digits that a float cannot hold."""
    if real is None and seen is not None:
        assert column.default is not None
    elif column.type.kind is Kind.DECIMAL and real is not None:
        assert float(real) == float(seen)
        assert len(str(real).partition(".")[2]) == len(str(seen).partition(".")[2])
        if len(str(real).strip("-0").replace(".", "")) <= 15:
            assert Decimal(real) == Decimal(seen)
    else:
        assert real == seen


@every_workload
def test_rows_name_the_handle_key_of_their_table(workload):
    shapes = happened.tables(workload.events)
    rows = [event for event in events_of(workload) if isinstance(event, RowEvent)]

    assert rows
    for event in rows:
        assert set(shapes.as_of(event.schema, event.table, event.commit_ts).key) == set(event.hints.key)


@every_workload
def test_every_partition_tells_every_statement_in_order(workload):
    statements = happened.statements(workload)

    for partition in partitions_of(workload):
        ddls = [e for e in events_of(workload, partition) if isinstance(e, DdlEvent)]
        assert statements == [(e.commit_ts, e.schema, e.table, e.query) for e in ddls]


@every_workload
def test_watermarks_come_to_every_partition_with_the_tidb_extension_only(workload):
    extension = "enable-tidb-extension=true" in workload.variant["sink_uri"]
    found = happened.watermarks(workload) if extension else []

    for partition in partitions_of(workload):
        assert found == [e.ts for e in events_of(workload, partition) if isinstance(e, WatermarkEvent)]


# --- messages of our own --------------------------------------------------------------------------------------------

SOURCE = {"connector": "TiCDC", "db": "shop", "table": "t", "commit_ts": TS, "ts_ms": TS >> 18}
ROW = {"source": SOURCE, "op": "c", "before": None, "after": {"id": 1}}
DDL = {"source": SOURCE, "databaseName": "shop", "ddl": "DROP TABLE `t`", "tableChanges": []}


def decoded(payload: Any, key: Any = None, **more: Any) -> Any:
    (event,) = decode(packed(key), json.dumps({"payload": payload, **more}).encode(), "t[0]@1", PLAIN)
    return event


def packed(key: Any) -> bytes | None:
    return None if key is None else json.dumps(key).encode()


@pytest.mark.parametrize("schema", [{}, {"schema": {"type": "struct"}}, {"schema": None}])
def test_the_schema_block_may_be_there_or_not(schema):
    event = decoded(ROW, {"payload": {"id": 1}, **schema}, **schema)

    assert (event.op, event.wire, event.before, event.hints.key) == (Op.INSERT, {"id": 1}, None, ("id",))
    assert (event.schema, event.table, event.commit_ts) == ("shop", "t", TS)


def test_a_payload_may_come_without_its_envelope():
    (event,) = decode(b'{"id":1}', json.dumps(ROW).encode(), "here", PLAIN)

    assert (event.wire, event.hints.key) == ({"id": 1}, ("id",))


def test_updates_and_deletes_carry_old_values():
    new, old = {"id": 1, "a": 2}, {"id": 1, "a": 1}
    update = decoded({**ROW, "op": "u", "before": old, "after": new})
    delete = decoded({**ROW, "op": "d", "before": old, "after": None})
    blind = decoded({**ROW, "op": "u", "after": new})

    assert (update.op, update.wire, update.before) == (Op.UPDATE, new, old)
    assert (delete.op, delete.wire, delete.before) == (Op.DELETE, old, None)
    assert (blind.op, blind.wire, blind.before) == (Op.UPDATE, new, None)


def test_a_row_of_a_table_without_a_key_hints_at_none():
    assert decoded(ROW, {"payload": {}}).hints.key is None


@pytest.mark.parametrize(
    ("found", "old_name"),
    [
        ('"shop"."old","shop"."t"', ("shop", "old")),
        ('"other"."a b","shop"."t"', ("other", "a b")),
        ('"shop"."t"', None),
        ('"a"."b"."c","shop"."t"', None),
        ('"shop"."old","shop"."u"', None),
        (5, None),
    ],
)
def test_a_rename_names_the_table_that_was(found, old_name):
    assert decoded({**DDL, "tableChanges": [{"type": "ALTER", "id": found}]}).hints.old_name == old_name


@pytest.mark.parametrize("compression", list(Compression))
def test_a_value_may_be_compressed_as_a_whole(compression):
    raw = json.dumps({"payload": ROW}).encode()
    body = raw if compression is Compression.NONE else pa.Codec(compression.value).compress(raw, asbytes=True)
    (event,) = decode(None, body, "here", DecoderOptions(compression))

    assert event.wire == {"id": 1}


def without(payload: dict[str, Any], name: str) -> dict[str, Any]:
    return {k: v for k, v in payload.items() if k != name}


@pytest.mark.parametrize(
    "payload",
    [
        None,
        [],
        {},
        without(ROW, "source"),
        without(ROW, "op"),
        without(ROW, "after"),
        {**ROW, "op": "x"},
        {**ROW, "op": ["c"]},
        {**ROW, "op": "r"},
        {**ROW, "op": "d"},
        {**ROW, "before": {"id": 1}},
        {**ROW, "after": {}},
        {**ROW, "after": [1]},
        {**ROW, "source": without(SOURCE, "commit_ts")},
        {**ROW, "source": {**SOURCE, "commit_ts": str(TS)}},
        {**ROW, "source": {**SOURCE, "commit_ts": 1 << 63}},
        {**ROW, "source": {**SOURCE, "table": ""}},
        {**ROW, "source": {**SOURCE, "db": None}},
        {**DDL, "ddl": ""},
        {**DDL, "databaseName": 5},
        {"op": "m", "source": {}},
    ],
)
def test_a_message_that_makes_no_sense_is_refused(payload):
    with pytest.raises(DecodeError) as caught:
        decoded(payload)
    assert caught.value.where == "t[0]@1"


@pytest.mark.parametrize("body", [None, b"", b"null", b"[]", b"{", b"\xff"])
def test_a_message_that_is_no_json_object_is_refused(body):
    with pytest.raises(DecodeError):
        decode(b"{}", body, "here", PLAIN)


# --- values ---------------------------------------------------------------------------------------------------------


def of(kind: str, wire: Any, **more: Any) -> Any:
    return value(Column("c", MySqlType(Kind(kind), **more)), wire, "Asia/Shanghai")


@pytest.mark.parametrize(
    ("kind", "more", "wire", "wanted"),
    [
        ("INT", {}, -5, -5),
        ("BIGINT", {"unsigned": True}, -2, (1 << 64) - 2),
        ("BIGINT", {"unsigned": True}, 5, 5),
        ("BIGINT", {"unsigned": True}, "18446744073709551615", (1 << 64) - 1),
        ("YEAR", {}, 1970, 1970),
        ("BIT", {"length": 1}, True, 1),
        ("BIT", {"length": 10}, "IgE=", 290),
        ("BIT", {"length": 64}, b64encode(b"\xff" * 8).decode(), (1 << 64) - 1),
        ("FLOAT", {}, 3.14, 3.140000104904175),
        ("DOUBLE", {}, 0, 0.0),
        ("INT", {}, NegativeZero(), 0),
        ("DECIMAL", {"length": 65, "scale": 2}, NegativeZero(), "0.00"),
        ("TIME", {}, NegativeZero(), "00:00:00"),
        ("DECIMAL", {"length": 12, "scale": 4}, -693.1179, Decimal("-693.1179")),
        ("DECIMAL", {"length": 12, "scale": 4}, 1.5, Decimal("1.5000")),
        ("DECIMAL", {"length": 12, "scale": 4}, 0, Decimal("0.0000")),
        ("DECIMAL", {"length": 65, "scale": 2}, 3.5e31, "35000000000000000000000000000000.00"),
        ("DECIMAL", {"length": 30, "scale": 4}, "12345678901234567890.1230", Decimal("12345678901234567890.1230")),
        ("DECIMAL", {"length": 65, "scale": 2}, f"{10**40}.01", f"{10**40}.01"),
        ("CHAR", {}, "“”", "“”"),
        ("LONGTEXT", {}, "null", "null"),
        ("BINARY", {}, "//4A", b"\xff\xfe\0"),
        ("BLOB", {}, "", b""),
        ("DATE", {}, 15503, date(2012, 6, 12)),
        ("DATE", {}, -719162, date(1, 1, 1)),
        ("DATETIME", {}, -23765391000, datetime(1969, 3, 31, 22, 30, 9)),
        ("DATETIME", {"length": 3}, -1, datetime(1969, 12, 31, 23, 59, 59, 999000)),
        ("DATETIME", {"length": 4}, -1, datetime(1969, 12, 31, 23, 59, 59, 999999)),
        ("DATETIME", {"length": 6}, 253402300799999999, datetime(9999, 12, 31, 23, 59, 59, 999999)),
        ("TIMESTAMP", {"length": 3}, "2014-11-14T06:41:49.815Z", datetime(2014, 11, 14, 6, 41, 49, 815000, UTC)),
        ("TIMESTAMP", {}, "2015-06-15T10:42:25Z", datetime(2015, 6, 15, 10, 42, 25, tzinfo=UTC)),
        ("TIME", {}, -64565000000, "-17:56:05"),
        ("TIME", {"length": 3}, 18554352000, "05:09:14.352"),
        ("TIME", {"length": 6}, -20025450439, "-05:33:45.450439"),
        ("TIME", {"length": 3}, -3020399000000, "-838:59:59.000"),
        ("TIME", {}, 0, "00:00:00"),
        ("ENUM", {"elements": ("a", "o'k")}, "o'k", "o'k"),
        ("SET", {}, "r,ü", "r,ü"),
        ("JSON", {}, '{"a": 1}', '{"a": 1}'),
        ("VECTOR", {}, "[0.5,-1.25]", [0.5, -1.25]),
        ("VECTOR", {}, [0.5, 100], [0.5, 100.0]),
    ],
)
def test_every_type_has_its_value(kind, more, wire, wanted):
    found = of(kind, wire, **more)

    assert (found, type(found)) == (wanted, type(wanted))
    assert of(kind, None, **more) is None


@pytest.mark.parametrize(
    ("binary", "wire"), [("base64", "+/8AAA=="), ("base64-url-safe", "-_8AAA=="), ("hex", "fbff0000")]
)
def test_binary_columns_are_read_as_the_changefeed_writes_them(binary, wire):
    column, bits = Column("c", MySqlType(Kind.BINARY)), Column("c", MySqlType(Kind.BIT, length=64))
    read = values(DecoderOptions(binary_handling_mode=binary))

    assert read(column, wire, "UTC") == b"\xfb\xff\0\0"
    assert read(column, "", "UTC") == b""
    assert read(bits, "BQAAAAAAAAA=", "UTC") == 5
    for other in {"+/8AAA==", "-_8AAA==", "fbff00000"} - {wire}:
        with pytest.raises(DecodeError):
            read(column, other, "UTC")


@pytest.mark.parametrize(
    ("kind", "more", "wire"),
    [
        ("INT", {}, "5"),
        ("INT", {}, 1 << 31),
        ("INT", {"unsigned": True}, -1),
        ("BIGINT", {}, 1.0),
        ("BIGINT", {}, "1"),
        ("BIGINT", {"unsigned": True}, "18446744073709551616"),
        ("BIT", {"length": 10}, "AAQ="),
        ("BIT", {"length": 10}, 5),
        ("BIT", {"length": 10}, "?"),
        ("FLOAT", {}, True),
        ("DECIMAL", {"length": 12, "scale": 4}, "1,5"),
        ("DECIMAL", {"length": 12, "scale": 4}, "1.23456"),
        ("DECIMAL", {"length": 12, "scale": 4}, 1e9),
        ("CHAR", {}, 5),
        ("BLOB", {}, "no base64"),
        ("DATE", {}, "2012-06-12"),
        ("DATE", {}, 2932897),
        ("DATE", {}, (1 << 63) - 1),
        ("DATETIME", {}, (1 << 63) - 1),
        ("DATETIME", {}, 1 << 63),
        ("TIMESTAMP", {}, "2015-06-15T10:42:25"),
        ("TIMESTAMP", {}, "2015-06-15T10:42:25+08:00"),
        ("TIMESTAMP", {}, "2015-06-31T10:42:25Z"),
        ("TIMESTAMP", {}, 0),
        ("TIME", {}, 1 << 62),
        ("TIME", {}, "10:00:00"),
        ("ENUM", {}, 1),
        ("SET", {}, 1),
        ("JSON", {}, {}),
        ("VECTOR", {}, {"a": 1}),
        ("VECTOR", {}, ["a"]),
    ],
)
def test_a_value_that_its_type_cannot_have_is_refused(kind, more, wire):
    with pytest.raises(DecodeError, match="column `c`"):
        of(kind, wire, **more)


@given(
    st.integers(0, 65).flatmap(lambda p: st.tuples(st.just(max(p, 1)), st.integers(0, min(p, 30)))),
    st.integers(-(10**15) + 1, 10**15 - 1),
)
def test_a_decimal_of_up_to_15_digits_survives_its_way_through_a_float(shape, digits):
    precision, scale = shape
    sent = Decimal(digits).scaleb(-scale)
    wide = max(precision, 16 + scale) if scale <= 22 else 65

    found = of("DECIMAL", float(sent), length=wide, scale=scale)

    assert Decimal(found) == sent


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
    | st.binary(max_size=12).map(lambda raw: b64encode(raw).decode()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(json_values, st.sampled_from(list(Kind)), st.sampled_from([{}, {"length": 10, "scale": 2}, {"length": 64}]))
@settings(max_examples=2000)
def test_any_wire_value_has_a_value_or_is_a_decode_error(wire, kind, more):
    try:
        of(kind.value, wire, **more)
    except DecodeError as error:
        assert error.where == "column `c`"


SAMPLES = [json.dumps({"payload": payload}).encode() for payload in (ROW, DDL, {"source": SOURCE, "op": "m"})]


@given(st.sampled_from(SAMPLES), st.lists(flips | cuts | splices, min_size=1, max_size=3), json_values)
@settings(max_examples=3000, deadline=None)
def test_damaged_messages_decode_or_are_a_decode_error(body, hows, key):
    for how in hows:
        body = damage(body, how)
    for compression in Compression:
        try:
            assert len(list(decode(json.dumps(key).encode(), body, "here", DecoderOptions(compression)))) == 1
        except DecodeError:
            continue


@given(json_values)
@settings(max_examples=500)
def test_any_payload_decodes_or_is_a_decode_error(payload):
    for whole in ({"payload": payload}, {**ROW, "after": payload}, {**DDL, "tableChanges": payload}):
        try:
            decode(None, json.dumps(whole).encode(), "here", PLAIN)
        except DecodeError:
            continue
