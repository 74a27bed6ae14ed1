"""The bulk decoders of JSON messages tell what the reference tells, and leave to it what they are not sure of.

A batch's rows from the bulk form, and the reference's events of the messages it left, are together the reference's
events of all messages. What a column's values become is the same in both, errors included.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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
from ticdc_assets.schema.model import Column, Kind, MySqlType
from ticdc_assets.sources.capture import messages as captured
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.protocols import happened

Pair = tuple[bytes | None, bytes | None]
Told = dict[int, list[Any]]
FORMS: dict[str, tuple[str, Bulk]] = {
    "canal-json": ("canal-json", canal_json_messages_bulk.BULK),
    "simple-json": ("simple", simple_bulk.BULK),
    "open": ("open-protocol", open_protocol_bulk.BULK),
}
EVERY = [w for prefix in FORMS for w in workloads(prefix)]
CUT = ("handle-key-only", "claim-check", "checksum", "delete-key")
"""Streams in which many rows are not whole, or have a checksum: left by design."""
every_workload = pytest.mark.parametrize("workload", EVERY, ids=lambda w: w.name)
slow_enough = settings(deadline=None, max_examples=50, suppress_health_check=list(HealthCheck))


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
    told = stream.bulk.rows(Messages.from_pairs(pairs), stream.options)
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

    for table in stream.bulk.rows(Messages.from_pairs(pairs_of(workload)), stream.options).tables:
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
    told = stream.bulk.rows(Messages.from_pairs(pairs), stream.options)
    rows = [n for n, pair in enumerate(pairs) if any(isinstance(row, tuple) for row in reference(stream, pair))]

    assert rows
    if not any(word in workload.name for word in CUT):
        assert sum(not told.left[n] for n in rows) > 0.95 * len(rows)


# --- messages that TiCDC may write ----------------------------------------------------------------------------------


def mostly(usual: st.SearchStrategy[Any], odd: list[Any]) -> st.SearchStrategy[Any]:
    """What both forms read, and at times what the bulk form must leave or both refuse."""
    return st.integers(0, 15).flatmap(lambda number: st.sampled_from(odd) if number == 15 else usual)


NAMES = st.sampled_from(
    ["id", "ID", "a b", 'q"x,y', "na\u00efve", "\\", "p", "u", "d", "v", "t", "old", "data", "\u0000"]
)
STRINGS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ['"', "\\", '\\"', "\\\\", '},"old":[{', '}},"p":{"t":{"t":1', '"v":', '{"location":"a","value":"b"}']
    ),
    st.sampled_from(
        ["\u0000", "\u001f", "\u007f", "\u2028<>&", "\U0001f600", "null", "-1", "\\x41\\u00e9\\n\\U0001f600", "\\x4"]
    ),
)
NUMBERS = st.one_of(
    mostly(
        st.sampled_from(["0", "1e21", "1e+21", "-1.5e-07", "1.7976931348623157e+308", "5e-324"]),
        ["-0", "1e+309", "1E5", "01", "1."],
    ),
    st.integers(-(1 << 63) - 2, (1 << 64) + 2).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)
TIMES = st.tuples(st.sampled_from(["UTC", "Asia/Tokyo", "", "Nowhere"]), STRINGS)
TSOS = mostly(st.sampled_from([1, 459802238374641668, (1 << 63) - 1]), [1 << 63, 0, -1])


def text(value: Any) -> str:
    """A JSON text as Go writes it, or with nothing escaped that need not be."""
    plain = orjson.dumps(value).decode()
    return plain.replace("<", "\\u003c").replace("&", "\\u0026") if isinstance(value, str) else plain


def members(told: Iterable[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{text(name)}:{value}" for name, value in told) + "}"


def image_of(values: st.SearchStrategy[str]) -> st.SearchStrategy[list[tuple[str, str]]]:
    usual = st.lists(st.tuples(NAMES, values), min_size=1, max_size=4, unique_by=lambda column: column[0])
    return st.one_of(usual, usual, usual, st.lists(st.tuples(NAMES, values), max_size=4))


@st.composite
def canal(draw: st.DrawFn) -> Pair:
    told = image_of(mostly(st.one_of(STRINGS.map(text), st.just("null")), ["1", "true", "{}"]))
    new, old = draw(told), draw(st.one_of(st.none(), told))
    if draw(st.booleans()):
        old = [(name, value) for name, value in new if draw(st.booleans())]
    types = [(name, "4") for name, _ in new]
    parts = [
        '"id":0,"database":"shop"',
        f'"table":{text(draw(NAMES))}',
        '"pkNames":["id"],"isDdl":false',
        f'"type":"{draw(mostly(st.sampled_from(["INSERT", "UPDATE", "DELETE"]), ["CREATE"]))}"',
        f'"es":{draw(mostly(st.sampled_from([0, 1754006356335, 35184372088831]), [35184372088832]))},"ts":1,"sql":""',
        f'"sqlType":{members(types)}',
        f'"mysqlType":{members((name, text("int")) for name, _ in new)}',
        f'"old":{"null" if old is None else f"[{members(old)}]"}',
        f'"data":[{members(new)}]',
    ]
    if draw(st.booleans()):
        parts.append(f'"_tidb":{{"commitTs":{draw(TSOS)}{draw(st.sampled_from(["", rowkey()]))}}}')
    return None, ("{" + ",".join(parts) + "}").encode()


def rowkey() -> str:
    return ',"rowkey":"null"'


@st.composite
def simple_json(draw: st.DrawFn) -> Pair:
    times = TIMES.map(lambda time: members([("location", text(time[0])), ("value", text(time[1]))]))
    told = image_of(mostly(st.one_of(STRINGS.map(text), st.just("null"), times), ["1", "[]"]))
    kind = draw(st.sampled_from(["INSERT", "UPDATE", "DELETE"]))
    new = None if kind == "DELETE" else draw(mostly(told, [None]))
    old = None if kind == "INSERT" else draw(mostly(told, [None]))
    if new is not None and old is not None and draw(st.booleans()):
        old = [(name, draw(st.sampled_from([value, '"x"']))) for name, value in new]
    parts = [
        f'"version":1,"database":"shop","table":{text(draw(NAMES))},"tableID":{draw(mostly(st.just(117), [1 << 63]))}',
        f'"type":"{kind}","commitTs":{draw(TSOS)},"buildTs":1',
        f'"schemaVersion":{draw(TSOS)}',
        *([] if new is None else [f'"data":{members(new)}']),
        *([] if old is None else [f'"old":{members(old)}']),
    ]
    return None, ("{" + ",".join(parts) + "}").encode()


@st.composite
def open_event(draw: st.DrawFn) -> tuple[str, str]:
    def column(value: str) -> str:
        handle = draw(st.sampled_from(["", '"h":true,', '"h":false,']))
        return f'{{"t":{draw(st.sampled_from([3, 5, 15, 252]))},{handle}"f":65,"v":{value}}}'

    values = mostly(st.one_of(STRINGS.map(text), st.just("null"), NUMBERS), ["true", "[]"])
    images = [
        f'"{name}":{members((column_name, column(value)) for column_name, value in draw(image_of(values)))}'
        for name in draw(mostly(st.sampled_from(["u", "up", "d"]), ["pu", "dp", ""]))
    ]
    ids = draw(mostly(st.sampled_from(["", ',"rid":-1', ',"rid":7,"ptn":117', ',"ptn":1']), [',"ohk":true']))
    kind = draw(mostly(st.just(1), [2, 3]))
    return (
        f'{{"ts":{draw(TSOS)},"scm":"shop","tbl":{text(draw(NAMES))}{ids},"t":{kind}}}',
        "{" + ",".join(images) + "}",
    )


@st.composite
def open_message(draw: st.DrawFn) -> Pair:
    events = draw(st.lists(open_event(), min_size=1, max_size=3))
    return (1).to_bytes(8, "big") + framed(key for key, _ in events), framed(value for _, value in events)


def framed(bodies: Iterable[str]) -> bytes:
    return b"".join(len(body.encode()).to_bytes(8, "big") + body.encode() for body in bodies)


STREAMS = {
    "canal-json": (Stream("canal-json", canal_json_messages_bulk.BULK, canal_json_messages.Options()), canal()),
    "simple": (Stream("simple", simple_bulk.BULK, simple.Options()), simple_json()),
    "open": (Stream("open-protocol", open_protocol_bulk.BULK, open_protocol.Options()), open_message()),
}
every_stream = pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)


@every_stream
@slow_enough
@given(data=st.data())
def test_bulk_and_reference_tell_the_same_of_generated_messages(stream, data):
    form, message = stream

    agree(form, data.draw(st.lists(message, max_size=8)))


@every_stream
@slow_enough
@given(data=st.data())
def test_bulk_and_reference_give_columns_the_same_values(stream, data):
    form, message = stream
    kinds = [Kind.INT, Kind.BIGINT, Kind.DOUBLE, Kind.VARCHAR, Kind.VARBINARY, Kind.TEXT, Kind.TIMESTAMP, Kind.ENUM]
    pairs = Messages.from_pairs(data.draw(st.lists(message, max_size=4)))

    for table in form.bulk.rows(pairs, form.options).tables:
        for array in (*table.rows.wire, *(table.rows.before or ())):
            for kind in kinds:
                column = Column("c", MySqlType(kind, unsigned=kind is Kind.BIGINT))
                columns_agree(form, REGISTRY[form.protocol].value, column, array)


# --- messages that nobody should write ------------------------------------------------------------------------------


@st.composite
def spoilt(draw: st.DrawFn, message: st.SearchStrategy[Pair]) -> Pair:
    """A message with some of its bytes changed, cut out or there twice."""
    key, value = draw(message)
    parts = [key, value]
    number = draw(st.integers(0, 1))
    chosen = parts[number]
    if chosen:
        start = draw(st.integers(0, len(chosen) - 1))
        end = draw(st.integers(start, min(len(chosen), start + 20)))
        with_what = draw(st.sampled_from([b"", b'"', b"}", b"\\", b"\xff", b"\x00", b",", chosen[start:end] * 2]))
        parts[number] = chosen[:start] + with_what + chosen[end:]
    return parts[0], parts[1]


@every_stream
@slow_enough
@given(data=st.data())
def test_spoilt_messages_are_left_and_spoil_no_others(stream, data):
    form, message = stream

    agree(form, data.draw(st.lists(st.one_of(message, spoilt(message)), max_size=6)))


CAPTURED = {
    prefix: [pair for w in workloads(prefix, "seed1") if w.name.startswith(f"{prefix}/") for pair in pairs_of(w)]
    for prefix in ("canal-json-tidb", "simple-json", "open")
}


@pytest.mark.parametrize(
    ("prefix", "name"), [("canal-json-tidb", "canal-json"), ("simple-json", "simple"), ("open", "open")]
)
@slow_enough
@given(data=st.data())
def test_captured_messages_may_be_spoilt_anywhere(prefix, name, data):
    message = st.sampled_from(CAPTURED[prefix])

    agree(STREAMS[name][0], data.draw(st.lists(st.one_of(message, spoilt(message)), min_size=1, max_size=6)))


def test_one_odd_message_leaves_the_others_to_bulk():
    pairs = [pair for pair in CAPTURED["canal-json-tidb"] if b'"data":[{' in (pair[1] or b"")][:200]
    odd = {3: b"\xff", 5: b"", 7: b'{"id":0', 11: (pairs[11][1] or b"") + b" "}

    form = STREAMS["canal-json"][0]
    tables = agree(form, [(None, odd.get(n, value)) for n, (_, value) in enumerate(pairs)])

    assert sum(len(table) for table in tables) == len(pairs) - len(odd)


def test_absent_keys_and_values_are_left():
    for form, _ in STREAMS.values():
        told = form.bulk.rows(Messages.from_pairs([(None, None), (b"", b"")]), form.options)

        assert ((), [True, True]) == (told.tables, told.left.tolist())
        assert () == form.bulk.rows(Messages.from_pairs([]), form.options).tables


def test_a_key_that_is_not_utf8_is_left():
    body = '{"u":{"id":{"t":3,"h":true,"f":11,"v":1}}}'
    keys = [f'{{"ts":1,"scm":"shop","tbl":"{name}","t":1}}' for name in ("t1", "t2")]
    good, bad = ((1).to_bytes(8, "big") + framed([key]) for key in keys)
    form = STREAMS["open"][0]

    tables = agree(form, [(bad.replace(b"t2", b"t\xff"), framed([body])), (good, framed([body]))])

    assert [["t1"], [1]] == [[table.table for table in tables], tables[0].rows.line.to_pylist()]


def test_one_odd_event_leaves_its_message_whole():
    pairs = [pair for pair in CAPTURED["open"] if (pair[1] or b"").count(b'{"u":') > 1][:2]
    form = STREAMS["open"][0]

    tables = agree(form, [pairs[0], (pairs[1][0], (pairs[1][1] or b"").replace(b'"t":', b'"T":', 1))])

    assert {0} == {line for table in tables for line in table.rows.line.to_pylist()}


def test_tables_versions_and_shapes_are_told_apart():
    def message(table: str, version: int, data: dict[str, str]) -> Pair:
        head = f'"version":1,"database":"shop","table":"{table}","tableID":1,"type":"INSERT","commitTs":5,"buildTs":1'
        return None, f'{{{head},"schemaVersion":{version},"data":{orjson.dumps(data).decode()}}}'.encode()

    one, two = {"id": "1", "a": "x"}, {"id": "1", "b": "x"}
    pairs = [
        message("t", 3, one),
        message("u", 3, one),
        message("t", 4, one),
        message("t", 3, two),
        message("t", 3, one),
    ]

    tables = agree(STREAMS["simple"][0], pairs)

    found = {(t.table, t.schema_version, t.rows.columns): t.rows.line.to_pylist() for t in tables}
    assert {
        ("t", 3, ("id", "a")): [0, 4],
        ("u", 3, ("id", "a")): [1],
        ("t", 4, ("id", "a")): [2],
        ("t", 3, ("id", "b")): [3],
    } == found


def test_of_very_many_tables_the_small_ones_are_left():
    head = '"version":1,"database":"shop","table":"t%d","tableID":1,"type":"INSERT","commitTs":5,"buildTs":1'
    row = "{" + head + ',"schemaVersion":3,"data":{"id":"1"}}'
    pairs: list[Pair] = [(None, (row % number).encode()) for number in (*range(200), *[7] * 20)]

    tables = agree(STREAMS["simple"][0], pairs)

    assert [("t7", 21)] == [(table.table, len(table)) for table in tables]


def test_json_and_avro_of_the_simple_protocol_may_be_in_one_batch():
    (avro,) = (w for w in workloads("simple-avro", "seed1") if w.name.startswith("simple-avro/"))
    pairs = [pair for both in zip(CAPTURED["simple-json"], pairs_of(avro), strict=False) for pair in both]
    bulk = REGISTRY["simple"].bulk
    assert bulk is not None
    form = Stream("simple", bulk, simple.Options())
    wanted = {number: reference(form, pair) for number, pair in enumerate(pairs)}

    told = bulk.rows(Messages.from_pairs(pairs), form.options)

    heads_agree(form, pairs, wanted)
    rows = {number for number, events in wanted.items() if any(isinstance(event, tuple) for event in events)}
    assert rows == {line for table in told.tables for line in table.rows.line.to_pylist()}
    assert not any(told.left[number] for number in rows)
