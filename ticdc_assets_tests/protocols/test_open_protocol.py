"""Open Protocol: every change of every log comes out as it happened, and hostile bytes are refused."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ticdc_assets.errors import DecodeError, SchemaError
from ticdc_assets.protocols import open_protocol
from ticdc_assets.protocols.events import DdlEvent, Op, RowEvent, WatermarkEvent
from ticdc_assets.protocols.frame import Compression
from ticdc_assets.protocols.open_protocol import (
    ColumnHint,
    Options,
    decode,
    full_before,
    infer_column,
    infer_table,
    open_claim,
    value,
)
from ticdc_assets.schema.model import Column, Kind, MySqlType, TableSchema
from ticdc_assets.sources.capture import messages
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.protocols import happened
from ticdc_assets_tests.protocols.happened import Change
from ticdc_assets_tests.protocols.test_frame import framed, go_quote

PLAIN = Options()
TS = 459802238374641668
every_workload = pytest.mark.parametrize("workload", workloads("open"), ids=lambda w: w.name)


# --- the logs -------------------------------------------------------------------------------------------------------


def options_of(workload: Workload) -> Options:
    sink, uri = workload.variant["config"]["sink"], workload.variant["sink_uri"]
    large = sink.get("kafka-config", {}).get("large-message-handle", {})
    return Options(
        compression=Compression(large.get("large-message-handle-compression") or "none"),
        output_old_value=sink.get("open", {}).get("output-old-value", True),
        only_output_updated_columns="only-output-updated-columns=true" in uri,
    )


def events_of(workload: Workload, partition: int | None = None) -> list[Any]:
    options = options_of(workload)
    return [
        event
        for message in messages(workload.root / "messages.jsonl")
        if partition is None or message.partition == partition
        for event in decode(message.key, message.value, message.where, options)
    ]


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


def hashable(found: Any) -> Any:
    return tuple(found) if isinstance(found, list) else found


def image(shape: TableSchema, wire: Any, zone: str, read: Any = value) -> tuple[tuple[str, Any], ...] | None:
    if wire is None:
        return None
    return tuple(sorted((n, hashable(read(shape.column(n), v, zone))) for n, v in wire.items()))


def change_of(event: RowEvent, shapes: happened.Tables, zone: str) -> Change:
    shape = shapes.as_of(event.schema, event.table, event.commit_ts)
    new, old = image(shape, event.wire, zone), image(shape, full_before(event), zone)
    partitioned = event.partition_id is not None
    return Change(event.schema, event.table, event.op, event.commit_ts, new, old, partitioned)


def keys_only(change: Change, shapes: happened.Tables) -> Change:
    key = shapes.as_of(change.schema, change.table, change.commit_ts).key
    new, old = (row and tuple(pair for pair in row if pair[0] in key) for row in (change.new, change.old))
    return change._replace(new=new, old=old)


def as_configured(change: Change, workload: Workload, shapes: happened.Tables) -> Change:
    if change.op == "U" and not options_of(workload).output_old_value:
        return change._replace(op="I", old=None)
    if change.op == "D" and workload.variant["config"]["sink"].get("delete-only-output-handle-key-columns"):
        return keys_only(change, shapes)
    return change


@every_workload
def test_every_change_comes_out_once_for_each_time_it_was_sent(workload):
    shapes = happened.tables(workload.events)
    told = [as_configured(change, workload, shapes) for change in happened.changes(workload)]
    rows = rows_of(workload)
    got = [change_of(event, shapes, workload.time_zone) for event in rows]

    assert told
    if not any(event.handle_only for event in rows):
        assert Counter(told) == Counter(got)
    assert Counter(keys_only(c, shapes) for c in told) == Counter(keys_only(c, shapes) for c in got)
    whole = Counter(c for c, event in zip(got, rows, strict=True) if not event.handle_only)
    assert whole <= Counter(told)


@every_workload
def test_rows_name_the_handle_key_of_their_table(workload):
    shapes = happened.tables(workload.events)
    for event in rows_of(workload):
        key = shapes.as_of(event.schema, event.table, event.commit_ts).key
        assert set(key) == set(event.key or ())
        assert not event.handle_only or set(key) == set(event.wire)


@every_workload
def test_every_partition_tells_every_statement_in_order(workload):
    told = happened.statements(workload)
    partitions = {message.partition for message in messages(workload.root / "messages.jsonl")}

    for partition in partitions:
        ddls = [e for e in events_of(workload, partition) if isinstance(e, DdlEvent)]
        assert told == [(e.commit_ts, e.schema, e.table, e.query) for e in ddls]


@every_workload
def test_every_partition_tells_every_watermark_in_order(workload):
    told = happened.watermarks(workload)
    partitions = {message.partition for message in messages(workload.root / "messages.jsonl")}

    assert told
    for partition in partitions:
        assert told == [e.ts for e in events_of(workload, partition) if isinstance(e, WatermarkEvent)]


def test_the_logs_hold_what_these_tests_are_about():
    by_variant: dict[str, list[RowEvent]] = {}
    for workload in workloads("open"):
        by_variant.setdefault(workload.root.parent.name, []).extend(
            e for e in events_of(workload) if isinstance(e, RowEvent)
        )
    if "open-claim-check" not in by_variant:
        pytest.skip("the full fixture set is not on this machine")

    assert any(e.claim and e.handle_only for e in by_variant["open-claim-check"])
    assert any(e.handle_only and not e.claim for e in by_variant["open-handle-key-only"])
    assert any(e.before_is_partial for e in by_variant["open-only-updated-delete-key"])
    assert all(e.upsert for e in by_variant["open-no-old-value"] if e.op is not Op.DELETE)
    assert not any(e.upsert or e.before_is_partial for e in by_variant["open"])
    assert any(e.partition_id for e in by_variant["open"])
    assert any(e.key is None for e in by_variant["open-index-value-keyless"])


@pytest.mark.parametrize("workload", workloads("open-preexist"), ids=lambda w: w.name)
def test_columns_inferred_from_rows_are_the_tables_columns_as_far_as_rows_tell(workload):
    shapes = happened.tables(workload.events)
    wide = {Kind.DECIMAL, Kind.BIT}
    for event in rows_of(workload):
        real = shapes.as_of(event.schema, event.table, event.commit_ts)
        found = infer_table(event.schema, event.table, event.column_hints)
        assert found.inferred
        assert set(real.key) == set(found.key)
        assert {c.name for c in real.stored_columns} == {c.name for c in found.columns}
        for column in found.columns:
            same = real.column(column.name)
            assert (same.type.kind, same.nullable) == (column.type.kind, column.nullable)
            assert same.type.unsigned == column.type.unsigned
            told, wire = value(same, event.wire[column.name], "UTC"), event.wire[column.name]
            inferred = value(column, wire, "UTC")
            if same.type.kind in (Kind.ENUM, Kind.SET):
                assert inferred is None if wire is None else inferred == str(wire)
            elif same.type.kind in wide and told is not None:
                assert Decimal(inferred) == Decimal(told)
            else:
                assert told == inferred


# --- messages of our own --------------------------------------------------------------------------------------------


def column(wire: Any, code: int = 3, flags: int = 64, handle: bool = False) -> dict[str, Any]:
    return {"t": code, **({"h": True} if handle else {}), "f": flags, "v": wire}


ID = column(1, flags=11, handle=True)
HEAD = {"ts": TS, "scm": "shop", "tbl": "t", "t": 1}


def packed(body: Any, compression: Compression = Compression.NONE) -> bytes:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return raw if compression is Compression.NONE else pa.Codec(compression.value).compress(raw, asbytes=True)


def message(*pairs: tuple[Any, Any], compression: Compression = Compression.NONE) -> tuple[bytes, bytes]:
    """A message of (head, body) pairs; a body None is empty, as of a resolved event."""
    key = struct.pack(">q", 1) + framed(*(packed(head) for head, _ in pairs))
    return key, framed(*(b"" if body is None else packed(body, compression) for _, body in pairs))


def decoded(*pairs: tuple[Any, Any], options: Options = PLAIN) -> list[Any]:
    return list(decode(*message(*pairs, compression=options.compression), "t[0]@1", options))


def test_one_message_may_hold_rows_statements_and_watermarks():
    row, ddl, mark = decoded(
        ({**HEAD, "rid": 5, "ptn": 116}, {"u": {"id": ID, "a": column("x", 15)}}),
        ({"ts": TS + 1, "scm": "shop", "tbl": "t", "t": 2}, {"q": "DROP TABLE `shop`.`t`", "t": 4}),
        ({"ts": TS + 2, "t": 3}, None),
    )

    assert (
        row.op,
        row.wire,
        row.key,
        row.row_id,
        row.partition_id,
    ) == (Op.INSERT, {"id": 1, "a": "x"}, ("id",), 5, 116)
    assert (row.commit_ts, row.before, row.upsert, row.handle_only, row.claim) == (TS, None, False, False, None)
    assert DdlEvent(TS + 1, "shop", "t", "DROP TABLE `shop`.`t`", where="t[0]@1") == ddl
    assert WatermarkEvent(TS + 2) == mark


@pytest.mark.parametrize("empty", [None, b"", bytes(8)])
def test_a_resolved_event_may_have_an_empty_value_of_any_form(empty):
    key, _ = message(({"ts": TS, "t": 3}, None))

    assert [WatermarkEvent(TS)] == list(decode(key, empty, "here", PLAIN))


def test_a_database_statement_may_name_no_table_or_an_empty_one():
    for head in ({"ts": TS, "scm": "d", "t": 2}, {"ts": TS, "scm": "d", "tbl": "", "t": 2}):
        (ddl,) = decoded((head, {"q": "CREATE DATABASE `d`", "t": 1}))
        assert (ddl.schema, ddl.table) == ("d", "")


def test_an_update_with_some_old_columns_is_partial_and_can_be_filled():
    (row,) = decoded((HEAD, {"u": {"id": ID, "a": column(2), "b": column(3)}, "p": {"a": column(None)}}))

    assert (row.op, row.before_is_partial, row.before) == (Op.UPDATE, True, {"a": None})
    assert full_before(row) == {"id": 1, "a": None, "b": 3}


def test_an_update_with_all_old_columns_is_whole():
    (row,) = decoded((HEAD, {"u": {"id": ID, "a": column(2)}, "p": {"a": column(1), "id": ID}}))

    assert (row.before_is_partial, full_before(row)) == (False, {"id": 1, "a": 1})


def test_without_old_values_an_insert_and_an_update_look_alike():
    options = Options(output_old_value=False)
    new, gone = decoded((HEAD, {"u": {"id": ID}}), (HEAD, {"d": {"id": ID}}), options=options)

    assert (new.op, new.upsert) == (Op.INSERT, True)
    assert (gone.op, gone.upsert) == (Op.DELETE, False)


def test_a_keys_only_update_without_changes_to_send_looks_like_an_insert():
    options = Options(only_output_updated_columns=True)
    large, small = decoded(({**HEAD, "ohk": True}, {"u": {"id": ID}}), (HEAD, {"u": {"id": ID}}), options=options)

    assert (large.upsert, small.upsert) == (True, False)


@pytest.mark.parametrize(
    ("head", "handle_only", "claim"),
    [
        ('"ohk":true', True, None),
        ('"ohk":false', False, None),
        ('"ohk":true,"ohk":false', False, None),
        ('"ohk":false,"ohk":true', True, None),
        ('"ohk":true,"ohk":false,"ccl":"s3://b/p/0a.json"', True, "0a.json"),
        ('"ccl":"file:///ticdc/claim-check/0a.json"', True, "0a.json"),
        ('"ccl":"0a.json"', True, "0a.json"),
        ('"ccl":"..\\\\0a.json"', True, "0a.json"),
        ('"ccl":""', False, None),
    ],
)
def test_large_messages_are_marked_and_a_repeated_mark_counts_as_its_last(head, handle_only, claim):
    raw = json.dumps(HEAD)[:-1] + "," + head + "}"
    (row,) = decoded((raw.encode(), {"u": {"id": ID}}))

    assert (handle_only, claim) == (row.handle_only, row.claim)


@pytest.mark.parametrize("place", [5, "s3://b/", "s3://b/..", "."])
def test_a_claim_must_name_a_file(place):
    with pytest.raises(DecodeError, match="ccl"):
        decoded(({**HEAD, "ccl": place}, {"u": {"id": ID}}))


def claim_file(*pairs: tuple[Any, Any], compression: Compression = Compression.NONE) -> bytes:
    key, body = message(*pairs, compression=compression)
    return json.dumps({"key": b64encode(key).decode(), "value": b64encode(body).decode()}).encode()


@pytest.mark.parametrize("compression", list(Compression))
def test_a_claim_file_holds_the_whole_message(compression):
    data = claim_file((HEAD, {"u": {"id": ID, "a": column(7)}}), compression=compression)
    (row,) = open_claim(data, "0a.json", Options(compression))

    assert (row.wire, row.handle_only, row.claim) == ({"id": 1, "a": 7}, False, None)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"key":null,"value":"AA=="}',
        b'{"key":"?","value":"?"}',
        b'{"key":"AA==","value":5}',
        claim_file(({**HEAD, "ccl": "x.json"}, {"u": {"id": ID}})),
    ],
)
def test_a_claim_file_that_is_not_one_is_refused(data):
    with pytest.raises(DecodeError):
        open_claim(data, "0a.json", PLAIN)


@pytest.mark.parametrize("compression", [Compression.LZ4, Compression.SNAPPY])
def test_each_value_is_compressed_by_itself_and_resolved_events_are_not(compression):
    pairs = [(HEAD, {"u": {"id": column(n)}}) for n in range(3)]
    options = Options(compression)
    *rows, mark = decoded(*pairs, ({"ts": TS, "t": 3}, None), options=options)

    assert [row.wire["id"] for row in rows] == [0, 1, 2]
    assert WatermarkEvent(TS) == mark
    with pytest.raises(DecodeError, match="compression"):
        list(decode(*message(*pairs, compression=compression), "here", PLAIN))


def test_the_values_of_one_message_share_one_bound(monkeypatch):
    body = {"u": {"a": column("x" * 1000, 15)}}
    monkeypatch.setattr(open_protocol, "MAX_BODY_BYTES", 2500)

    assert len(decoded((HEAD, body), (HEAD, body))) == 2
    with pytest.raises(DecodeError, match="once decompressed"):
        decoded((HEAD, body), (HEAD, body), (HEAD, body))


KEY, BODY = message((HEAD, {"u": {"id": ID}}))


@pytest.mark.parametrize(
    ("key", "body", "says"),
    [
        (None, BODY, "version 1"),
        (b"", BODY, "version 1"),
        (KEY[:7], BODY, "version 1"),
        (struct.pack(">q", 2) + KEY[8:], BODY, "version 1"),
        (KEY[:8], b"", "one value for each"),
        (KEY, BODY + BODY, "1 keys and 2 values"),
        (KEY + KEY[8:], BODY, "2 keys and 1 values"),
        (KEY + b"\0", BODY, "8-byte length"),
        (KEY, BODY + bytes(7), "8-byte length"),
        (KEY, BODY[:-1], "a length from 0"),
        (KEY[:8] + struct.pack(">q", 1 << 62) + KEY[16:], BODY, "a length from 0"),
        (KEY, struct.pack(">q", -1) + BODY[8:], "a length from 0"),
        (KEY, None, "a JSON object"),
        (KEY, bytes(8), "a JSON object"),
    ],
)
def test_a_message_whose_frames_do_not_add_up_is_refused(key, body, says):
    with pytest.raises(DecodeError, match=says) as caught:
        decode(key, body, "t[0]@1", PLAIN)
    assert caught.value.where == "t[0]@1"


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ({**HEAD, "t": 0}, {"u": {"id": ID}}),
        ({**HEAD, "t": 4}, {"u": {"id": ID}}),
        ({**HEAD, "t": True}, {"u": {"id": ID}}),
        ({**HEAD, "t": None}, {"u": {"id": ID}}),
        ({**HEAD, "t": [1]}, {"u": {"id": ID}}),
        ({**HEAD, "ts": None}, {"u": {"id": ID}}),
        ({**HEAD, "ts": 0}, {"u": {"id": ID}}),
        ({**HEAD, "ts": -5}, {"u": {"id": ID}}),
        ({**HEAD, "ts": 1.5}, {"u": {"id": ID}}),
        ({**HEAD, "ts": 1 << 63}, {"u": {"id": ID}}),
        ({**HEAD, "tbl": ""}, {"u": {"id": ID}}),
        ({**HEAD, "scm": 5}, {"u": {"id": ID}}),
        ({**HEAD, "ptn": "116"}, {"u": {"id": ID}}),
        ({**HEAD, "rid": 1.0}, {"u": {"id": ID}}),
        ({**HEAD, "ohk": 1}, {"u": {"id": ID}}),
        ({**HEAD, "t": 3}, {"u": {"id": ID}}),
        (HEAD, {}),
        (HEAD, {"u": {}}),
        (HEAD, {"u": []}),
        (HEAD, {"p": {"id": ID}}),
        (HEAD, {"u": {"id": ID}, "d": {"id": ID}}),
        (HEAD, {"d": {"id": ID}, "p": {"id": ID}}),
        (HEAD, {"u": {"id": 1}}),
        (HEAD, {"u": {"id": {"t": 3, "f": 1}}}),
        (HEAD, {"u": {"id": {"f": 1, "v": 1}}}),
        (HEAD, {"u": {"id": {"t": "3", "v": 1}}}),
        (HEAD, {"u": {"id": {"t": 3, "f": None, "v": 1}}}),
        (HEAD, {"u": {"id": {"t": 3, "h": "yes", "v": 1}}}),
        (HEAD, {"u": {"id": {"t": 3, "f": 1, "v": {}}}}),
        (HEAD, {"u": {"id": {"t": 3, "f": 1, "v": [1]}}}),
        ({**HEAD, "t": 2}, {}),
        ({**HEAD, "t": 2}, {"q": None}),
        ({**HEAD, "t": 2}, {"q": ""}),
        (b"[]", {"u": {"id": ID}}),
        (HEAD, b"[]"),
        (HEAD, b"{"),
    ],
)
def test_an_event_that_makes_no_sense_is_refused(head, body):
    with pytest.raises(DecodeError):
        decoded((head, body))


def test_a_message_is_decoded_whole_or_not_at_all():
    with pytest.raises(DecodeError):
        decode(*message((HEAD, {"u": {"id": ID}}), (HEAD, {})), "here", PLAIN)


def test_unknown_fields_are_not_minded():
    (row,) = decoded(({**HEAD, "new": {"x": 1}}, {"u": {"id": {**ID, "new": []}}, "x": 5}))

    assert row.wire == {"id": 1}


# --- values ---------------------------------------------------------------------------------------------------------


def of(kind: str, wire: Any, zone: str = "UTC", **more: Any) -> Any:
    return value(Column("c", MySqlType(Kind(kind), **more)), wire, zone)


U64 = (1 << 64) - 1
LABELS = ("small", "x,large", "o'k")


@pytest.mark.parametrize(
    ("kind", "more", "wire", "wanted"),
    [
        ("TINYINT", {}, -128, -128),
        ("BIGINT", {"unsigned": True}, U64, U64),
        ("BIGINT", {}, -(1 << 63), -(1 << 63)),
        ("BIT", {"length": 64}, U64, U64),
        ("BIT", {}, 1, 1),
        ("YEAR", {}, 0, 0),
        ("FLOAT", {}, 3.14, 3.140000104904175),
        ("FLOAT", {}, 123456790, 123456792.0),
        ("FLOAT", {}, 3.4028235e38, 3.4028234663852886e38),
        ("FLOAT", {}, 0, 0.0),
        ("DOUBLE", {}, 1e-300, 1e-300),
        ("DOUBLE", {}, 100000000000000000000.0, 1e20),
        ("DECIMAL", {"length": 12, "scale": 4}, "-8.7000", Decimal("-8.7000")),
        ("DECIMAL", {"length": 65, "scale": 30}, "-0." + "1" * 30, "-0." + "1" * 30),
        ("CHAR", {"length": 3}, " \\x41", " \\x41"),
        ("VARCHAR", {"length": 3}, "é\u2028", "é\u2028"),
        ("TEXT", {}, "5rWL6K+VdGV4dA==", "测试text"),
        ("LONGTEXT", {}, "", ""),
        ("BLOB", {}, "//4A", b"\xff\xfe\0"),
        ("BINARY", {"length": 4}, "\\xff\\n\\\\é", b"\xff\n\\\xc3\xa9"),
        ("VARBINARY", {"length": 4}, "", b""),
        ("DATE", {}, "2000-01-02", date(2000, 1, 2)),
        ("DATE", {}, "0000-00-00", None),
        ("DATETIME", {"length": 3}, "1895-01-29 18:38:51.319", datetime(1895, 1, 29, 18, 38, 51, 319000)),
        ("DATETIME", {}, "0000-00-00 00:00:00", None),
        ("TIMESTAMP", {}, "2000-02-29 04:00:00", datetime(2000, 2, 29, 4, tzinfo=UTC)),
        ("TIME", {"length": 3}, "-838:59:59.000", "-838:59:59.000"),
        ("ENUM", {"elements": LABELS}, 2, "x,large"),
        ("ENUM", {"elements": LABELS}, 0, ""),
        ("ENUM", {}, 2, "2"),
        ("SET", {"elements": LABELS}, 5, "small,o'k"),
        ("SET", {"elements": LABELS}, 0, ""),
        ("SET", {}, 5, "5"),
        ("JSON", {}, '{"b": -0.25}', '{"b": -0.25}'),
        ("VECTOR", {}, "[0.5,-1.25,100]", [0.5, -1.25, 100.0]),
        ("VECTOR", {}, "[]", []),
    ],
)
def test_every_type_has_its_value(kind, more, wire, wanted):
    found = of(kind, wire, **more)

    assert (wanted, type(wanted)) == (found, type(found))
    assert of(kind, None, **more) is None


def test_a_timestamp_is_read_in_the_changefeeds_zone():
    assert datetime(2000, 2, 28, 20, tzinfo=UTC) == of("TIMESTAMP", "2000-02-29 04:00:00", zone="Asia/Shanghai")


@pytest.mark.parametrize(
    ("kind", "more", "wire"),
    [
        ("TINYINT", {}, 128),
        ("TINYINT", {"unsigned": True}, -1),
        ("MEDIUMINT", {"unsigned": True}, 1 << 24),
        ("INT", {}, "5"),
        ("INT", {}, True),
        ("BIGINT", {"unsigned": True}, 18446744073709551616.0),
        ("BIGINT", {}, -9223372036854775809.0),
        ("BIGINT", {}, 1 << 63),
        ("INT", {}, 1.0),
        ("YEAR", {}, 2156),
        ("BIT", {"length": 10}, 1024),
        ("BIT", {}, -1),
        ("FLOAT", {}, 1e39),
        ("FLOAT", {}, "1"),
        ("DOUBLE", {}, False),
        ("DECIMAL", {"length": 12, "scale": 4}, 5),
        ("DECIMAL", {"length": 12, "scale": 4}, "five"),
        ("CHAR", {}, 5),
        ("TEXT", {}, "no base64"),
        ("TEXT", {}, "é"),
        ("TEXT", {}, "//4A"),
        ("BLOB", {}, "A"),
        ("BINARY", {}, "\\q"),
        ("BINARY", {}, 5),
        ("DATE", {}, "2000-13-01"),
        ("DATETIME", {}, "yesterday"),
        ("TIMESTAMP", {}, 5),
        ("ENUM", {"elements": LABELS}, -1),
        ("ENUM", {"elements": LABELS}, "small"),
        ("SET", {"elements": LABELS}, 1.0),
        ("SET", {"elements": LABELS}, True),
        ("JSON", {}, 5),
        ("VECTOR", {}, "[a]"),
        ("VECTOR", {}, "0.5"),
    ],
)
def test_a_value_that_its_type_cannot_have_is_refused(kind, more, wire):
    with pytest.raises(DecodeError):
        of(kind, wire, **more)


def test_an_integer_beyond_64_bits_is_refused_and_not_rounded():
    raw = json.dumps({"u": {"c": column(0, 8, 128)}}).replace('"v": 0', '"v": 18446744073709551616')
    (row,) = decoded((HEAD, raw.encode()))

    with pytest.raises(DecodeError, match="BIGINT"):
        of("BIGINT", row.wire["c"], unsigned=True)


def test_errors_never_hold_values():
    for kind in Kind:
        for wire in ("s3cret", 77777777.5):
            try:
                of(kind.value, wire, length=5)
            except DecodeError as error:
                assert "s3cret" not in str(error)
                assert "77777777" not in str(error)


# --- inference ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "flags", "kind", "unsigned"),
    [
        (1, 65, "TINYINT", False),
        (8, 193, "BIGINT", True),
        (13, 193, "YEAR", False),
        (16, 193, "BIT", False),
        (15, 64, "VARCHAR", False),
        (15, 65, "VARBINARY", False),
        (253, 65, "VARBINARY", False),
        (254, 64, "CHAR", False),
        (254, 65, "BINARY", False),
        (249, 64, "TINYTEXT", False),
        (250, 65, "MEDIUMBLOB", False),
        (252, 64, "TEXT", False),
        (252, 65, "BLOB", False),
        (245, 65, "JSON", False),
        (10, 65, "DATE", False),
        (14, 65, "DATE", False),
        (246, 193, "DECIMAL", True),
        (225, 64, "VECTOR", False),
    ],
)
def test_a_type_code_and_its_flags_name_the_type(code, flags, kind, unsigned):
    found = infer_column("c", ColumnHint(code, flags, False))

    assert (Kind(kind), unsigned, True) == (found.type.kind, found.type.unsigned, found.nullable)


def test_a_decimal_of_unknown_precision_keeps_all_its_digits():
    found = infer_column("c", ColumnHint(246, 65, False))

    assert value(found, "1" * 35 + ".5000", "UTC") == "1" * 35 + ".5000"


@pytest.mark.parametrize("code", [0, 6, 255, 17, 1000, -1])
def test_a_type_that_the_protocol_does_not_carry_stops_the_table(code):
    with pytest.raises(SchemaError, match="schema_files"):
        infer_column("c", ColumnHint(code, 0, False))


def test_key_columns_are_not_nullable_whatever_their_flag():
    assert not infer_column("c", ColumnHint(3, 64, True)).nullable
    assert not infer_column("c", ColumnHint(3, 64 | 8, False)).nullable
    assert not infer_column("c", ColumnHint(3, 0, False)).nullable


def test_a_column_without_flags_may_be_null():
    (row,) = decoded((HEAD, {"u": {"id": {"t": 3, "h": True, "v": 1}, "a": {"t": 15, "v": "x"}}}))
    found = infer_table("s", "t", row.column_hints)

    assert [c.nullable for c in found.columns] == [False, True]
    assert found.key == ("id",)


def test_the_inferred_key_is_the_handle_key():
    hints = {"b": ColumnHint(3, 18, True), "a": ColumnHint(3, 8, False), "c": ColumnHint(3, 18, True)}

    assert infer_table("s", "t", hints).key == ("b", "c")
    assert infer_table("s", "t", {"a": ColumnHint(3, 64, False)}).key == ()


# --- anything -------------------------------------------------------------------------------------------------------

names = st.text(min_size=1, max_size=8)
wires = st.none() | st.booleans() | st.integers(-(1 << 63), U64) | st.floats(allow_nan=False, allow_infinity=False)
wires = wires | st.text(max_size=20) | st.binary(max_size=20).map(go_quote)
columns = st.dictionaries(
    names, st.builds(column, wires, st.integers(0, 255), st.integers(0, 255), st.booleans()), min_size=1, max_size=4
)
bodies = (
    st.fixed_dictionaries({"u": columns})
    | st.fixed_dictionaries({"u": columns, "p": columns})
    | st.fixed_dictionaries({"d": columns})
)
row_heads = st.fixed_dictionaries(
    {"ts": st.integers(1, (1 << 63) - 1), "scm": names, "tbl": names, "t": st.just(1)},
    optional={"rid": st.integers(-(1 << 63), (1 << 63) - 1), "ptn": st.integers(1, 1 << 40), "ohk": st.booleans()},
)
rows = st.tuples(row_heads, bodies)


def read_back(event: RowEvent) -> tuple[dict[str, Any], dict[str, Any]]:
    head = {"ts": event.commit_ts, "scm": event.schema, "tbl": event.table, "t": 1}
    head |= {"rid": event.row_id} if event.row_id is not None else {}
    head |= {"ptn": event.partition_id} if event.partition_id is not None else {}
    image = {n: (v, event.column_hints[n]) for n, v in event.wire.items()}
    return head, {"DELETE": {"d": image}}.get(event.op.name, {"u": image})


@given(st.lists(rows, min_size=1, max_size=4), st.sampled_from(list(Compression)))
@settings(max_examples=300)
def test_what_was_encoded_is_decoded(sent, compression):
    got = decoded(*sent, options=Options(compression))

    assert len(sent) == len(got)
    for (head, body), event in zip(sent, got, strict=True):
        wanted = {k: v for k, v in head.items() if k != "ohk"}
        image = body.get("u") or body["d"]
        found, read = read_back(event)
        assert wanted == found
        assert head.get("ohk", False) == event.handle_only
        assert {n: c["v"] for n, c in image.items()} == dict(event.wire)
        assert {n: (c["t"], c["f"], c.get("h", False)) for n, c in image.items()} == {
            n: (hint.type_code, hint.flags, hint.handle) for n, (_, hint) in next(iter(read.values())).items()
        }
        assert body.get("p") is None or {n: c["v"] for n, c in body["p"].items()} == event.before


SAMPLE = message(
    ({**HEAD, "rid": 5, "ptn": 9}, {"u": {"id": ID, "b": column("\\xff", 15, 65)}, "p": {"id": ID}}),
    ({**HEAD, "ohk": True}, {"d": {"id": ID}}),
    ({**HEAD, "ccl": "s3://a/b.json"}, {"d": {"id": ID}}),
    ({"ts": TS, "scm": "s", "tbl": "t", "t": 2}, {"q": "DROP TABLE t", "t": 4}),
    ({"ts": TS, "t": 3}, None),
)
SHAPES = [Column("c", MySqlType(kind, 10, 2, False, ("a", "b"))) for kind in Kind]
flips = st.tuples(st.just("flip"), st.integers(0, 2000), st.integers(1, 255))
cuts = st.tuples(st.just("cut"), st.integers(0, 2000), st.integers(1, 40))
splices = st.tuples(st.just("splice"), st.integers(0, 2000), st.binary(min_size=1, max_size=12))


def damage(data: bytes, how: tuple[str, int, Any]) -> bytes:
    kind, at, what = how
    at %= len(data) + 1
    if kind == "flip":
        return data[:at] + bytes(b ^ what for b in data[at : at + 1]) + data[at + 1 :]
    return data[:at] + data[at + what :] if kind == "cut" else data[:at] + what + data[at:]


@given(st.lists(flips | cuts | splices, min_size=1, max_size=3), st.booleans(), st.sampled_from(list(Compression)))
@settings(max_examples=3000, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_damaged_messages_decode_or_are_a_decode_error(hows, in_key, compression):
    key, body = SAMPLE if compression is Compression.NONE else COMPRESSED[compression]
    for how in hows:
        key, body = (damage(key, how), body) if in_key else (key, damage(body, how))
    read_all(key, body, Options(compression))


@given(st.none() | st.binary(max_size=80), st.none() | st.binary(max_size=80))
@example(struct.pack(">q", 1), struct.pack(">q", (1 << 63) - 1))
@settings(max_examples=1000)
def test_any_bytes_decode_or_are_a_decode_error(key, body):
    read_all(key, body, PLAIN)
    read_all(struct.pack(">q", 1) + (key or b""), body, PLAIN)


def read_all(key: bytes | None, body: bytes | None, options: Options) -> None:
    try:
        events = list(decode(key, body, "here", options))
    except DecodeError:
        return
    for event in events:
        for wire in event.wire.values() if isinstance(event, RowEvent) else ():
            for shape in SHAPES:
                try:
                    value(shape, wire, "UTC")
                except DecodeError:
                    continue


@given(wires, st.sampled_from(list(Kind)))
@settings(max_examples=1500)
def test_any_wire_value_has_a_value_or_is_a_decode_error(wire, kind):
    for more in ({}, {"length": 10, "scale": 2}, {"length": 65, "scale": 30}, {"elements": ("a", "b")}):
        try:
            of(kind.value, wire, **more)
        except DecodeError:
            continue


COMPRESSED = {
    compression: message(
        (HEAD, {"u": {"id": ID, "b": column("\\xff" * 40, 15, 65)}, "p": {"id": ID}}),
        ({"ts": TS, "t": 3}, None),
        compression=compression,
    )
    for compression in (Compression.LZ4, Compression.SNAPPY)
}
