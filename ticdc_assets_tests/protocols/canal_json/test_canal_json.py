"""Canal-JSON: TiCDC's own files and messages, official Canal's forms, and what damage does to them."""

from __future__ import annotations

import base64
import io
import json
from collections import Counter
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ticdc_assets.errors import DecodeError, NotYetError
from ticdc_assets.protocols.canal_json import bulk as canal_json_bulk
from ticdc_assets.protocols.canal_json import decoder as canal_json
from ticdc_assets.protocols.canal_json.decoder import Hint
from ticdc_assets.protocols.columnar.raw_rows import BadRecord, BulkUnsupported, Incomplete
from ticdc_assets.protocols.events import Op, RowEvent, WatermarkEvent
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.model import Column, Kind, MySqlType
from ticdc_assets_tests.fixtures import Workload, needs_fixtures, read_jsonl, workloads
from ticdc_assets_tests.protocols import happened, storage_rows
from ticdc_assets_tests.protocols.storage_rows import Row, Typed

STORAGE = workloads("storage-canal-json")
MESSAGES = workloads("canal-json")


def reference(data: bytes, columns: tuple[str, ...]) -> list[Row] | None:
    return storage_rows.of_reference(canal_json.read_file(data, "f"), columns)


def bulk(data: bytes, columns: tuple[str, ...], batch_bytes: int = 1 << 20) -> list[Row]:
    return storage_rows.of_bulk(
        canal_json_bulk.read_stream(io.BytesIO(data), columns, "f", ("shop", "naïve"), batch_bytes=batch_bytes)
    )


def bulk_or_none(data: bytes, columns: tuple[str, ...], batch_bytes: int) -> list[Row] | None:
    try:
        return bulk(data, columns, batch_bytes)
    except (BulkUnsupported, NotYetError):
        return None


@needs_fixtures
@pytest.mark.parametrize("workload", STORAGE, ids=lambda w: w.name)
def test_bulk_reads_every_file_of_ticdc_as_the_reference_does(workload: Workload) -> None:
    files = 0
    for path, schema, table, shape in storage_rows.folders(workload, "json"):
        columns = (*reversed([c.name for c in shape.stored_columns]), "a column of another version")
        found = reference(path.read_bytes(), columns)
        batches = canal_json_bulk.read_stream(
            io.BytesIO(path.read_bytes()), columns, "f", (schema, table), batch_bytes=5000
        )

        assert found is not None
        assert found == storage_rows.of_bulk(batches)
        files += 1
    assert files


@needs_fixtures
@pytest.mark.parametrize("workload", STORAGE, ids=lambda w: w.name)
def test_the_typed_changes_of_all_files_are_what_happened(workload: Workload) -> None:
    found: list[Typed] = []
    for path, schema, table, shape in storage_rows.folders(workload, "json"):
        columns = tuple(c.name for c in shape.stored_columns)
        batches = canal_json_bulk.read_stream(io.BytesIO(path.read_bytes()), columns, "f", (schema, table))
        found += storage_rows.typed(batches, (schema, table), shape, canal_json.forms(workload.time_zone))
    extended = "enable-tidb-extension=true" in workload.variant["sink_uri"]
    expected = storage_rows.expected(workload, with_old=True, with_commit_ts=extended)

    assert expected
    if "restart" in workload.name:
        assert set(expected) == set(found)
    else:
        assert Counter(expected) == Counter(found)


@needs_fixtures
@pytest.mark.parametrize("workload", MESSAGES, ids=lambda w: w.name)
def test_the_events_of_all_messages_are_what_happened(workload: Workload) -> None:
    shapes = happened.tables(workload.events)
    rows: list[RowEvent] = []
    ddls, marks = [], set()
    for n, message in enumerate(read_jsonl(workload.root / "messages.jsonl")):
        for event in canal_json.decode(base64.b64decode(message["value"]), f"m{n}"):
            if isinstance(event, RowEvent):
                rows.append(whole(workload, event))
            elif isinstance(event, DdlEvent):
                ddls.append((event.commit_ts, event.schema, event.table, event.query))
            else:
                marks.add(event.ts)
    extended = "enable-tidb-extension=true" in workload.variant["sink_uri"]
    times = workload_times(workload) if not extended else None
    found = [typed_event(workload, shapes, event, times) for event in rows if not event.handle_only]
    expected = storage_rows.expected(workload, with_old=True)
    if workload.variant["config"]["sink"].get("delete-only-output-handle-key-columns"):
        expected = [key_only(shapes, row) if row.op == "D" else row for row in expected]
    handles = Counter((e.schema, e.table, str(e.op), e.commit_ts) for e in rows if e.handle_only)

    assert expected
    if "restart" in workload.name:
        assert set(expected) == set(found)
    elif not handles:
        assert Counter(expected) == Counter(found)
    else:
        assert not Counter(found) - Counter(expected)
        assert handles == Counter(row[:4] for row in (Counter(expected) - Counter(found)).elements())
    if extended:
        assert set(happened.statements(workload)) == set(ddls)
        assert marks <= set(happened.watermarks(workload)) and marks


def whole(workload: Workload, event: RowEvent) -> RowEvent:
    """The row of a claim-check file, if the message has only its key."""
    if event.claim is None:
        return event
    held = (workload.root / "claim-check" / event.claim).read_bytes()
    document = orjson.loads(held)
    value = base64.b64decode(document["value"]) if "value" in document else held
    (row,) = canal_json.decode(value, event.claim)
    assert isinstance(row, RowEvent)
    assert not row.handle_only
    return row


def key_only(shapes: happened.Tables, row: Typed) -> Typed:
    assert row.commit_ts is not None
    key = shapes.as_of(row.schema, row.table, row.commit_ts).key
    return row._replace(new=tuple(pair for pair in row.new if pair[0] in key))


def workload_times(workload: Workload) -> dict[int, list[int]]:
    times: dict[int, list[int]] = {}
    for event in workload.events:
        if event["kind"] == "dml":
            times.setdefault(event["commit_ts"] >> 18, []).append(event["commit_ts"])
    return times


def typed_event(
    workload: Workload, shapes: happened.Tables, event: RowEvent, times: dict[int, list[int]] | None
) -> Typed:
    commit_ts = event.commit_ts
    if times is not None:
        assert commit_ts is None
        assert event.time.commit_ms is not None
        commit_ts = times[event.time.commit_ms][0]
        assert len(set(times[event.time.commit_ms])) == 1
    assert commit_ts is not None
    assert event.time.commit_ms == commit_ts >> 18
    shape = shapes.as_of(event.schema, event.table, commit_ts)
    assert event.hints.key is None or event.hints.key == shape.key
    images = [
        None
        if image is None
        else tuple(sorted((n, value_of(workload, shape.column(n), text)) for n, text in image.items()))
        for image in (event.wire, event.full_before)
    ]
    assert images[0] is not None
    return Typed(event.schema, event.table, str(event.op), commit_ts, images[0], images[1])


def value_of(workload: Workload, column: Column | None, text: str | None) -> Any:
    assert column is not None
    return storage_rows.frozen(canal_json.value(column, text, workload.time_zone))


def go_json(value: Any) -> bytes:
    """JSON as Go writes it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode()


def line(op: str, new: Any, old: Any = None, ts: int | None = 1 << 20, **other: Any) -> bytes:
    names = list(new[0]) if isinstance(new, list) and new and isinstance(new[0], dict) else []
    message = {
        "id": 0,
        "database": "shop",
        "table": "naïve",
        "pkNames": names[:1],
        "isDdl": False,
        "type": op,
        "es": 4,
        "ts": 1795227225350,
        "sql": "",
        "sqlType": dict.fromkeys(names, -5),
        "mysqlType": dict.fromkeys(reversed(names), "enum('a\"b')"),
        "old": old,
        "data": new,
    }
    if ts is not None:
        message["_tidb"] = {"commitTs": ts}
    return go_json({**message, **other})


texts = st.text(
    st.one_of(
        st.sampled_from("\"\\/{}[]:,\x00\x01\x1f\x7f\x80\xff\r\n\t<>&'é中😀\u2028\ufeffnu"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=8,
)
values = st.one_of(st.none(), st.sampled_from(["null", "5", ",}", '":"', '"],"_tidb":{"commitTs":7}']), texts)
names = st.lists(
    st.one_of(st.sampled_from(["id", "old", "data", 'q"x,y', "it's", "a b", "MiXed", "naïve", "select"]), texts),
    min_size=1,
    max_size=4,
    unique_by=str.lower,
).filter(all)


@st.composite
def files(draw: st.DrawFn) -> tuple[bytes, tuple[str, ...], list[tuple[Any, ...]]]:
    """A file as TiCDC writes it, and the changes in it as (op, commit_ts, new, old)."""
    columns = tuple(draw(names))
    extended, only_updated, only_key = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    newline = draw(st.sampled_from([b"\r\n", b"\n"]))
    data, rows = b"", []
    for ts in range(1, draw(st.integers(0, 6)) + 1):
        op = draw(st.sampled_from(["INSERT", "UPDATE", "DELETE"]))
        new, old = (dict(zip(columns, draw(st.tuples(*[values] * len(columns))), strict=True)) for _ in "12")
        sent = {n: v for n, v in old.items() if v != new[n]} if only_updated else old
        if op == "DELETE" and only_key:
            new = {columns[0]: new[columns[0]]}
        data += line(op, [new], [sent] if op == "UPDATE" else None, ts if extended else None) + newline
        full = tuple(old.values()) if op == "UPDATE" else None
        rows.append((op[0], ts if extended else None, tuple(new.get(n) for n in columns), full))
    return data, columns, rows


@given(files(), st.integers(1, 1000))
@settings(max_examples=150, deadline=None)
def test_what_was_written_is_read_by_both_forms(file: Any, batch_bytes: int) -> None:
    data, columns, rows = file
    read = reference(data, columns)

    assert read is not None
    assert rows == [(row.op, row.commit_ts, row.new, row.old) for row in read]
    assert read == bulk_or_none(data, columns, batch_bytes)


@given(files(), st.data())
@settings(max_examples=150, deadline=None)
def test_damage_never_makes_the_two_forms_disagree(file: Any, data: st.DataObject) -> None:
    whole_file, columns, _ = file
    at = data.draw(st.integers(0, len(whole_file)))
    removed = data.draw(st.integers(0, 4))
    put = data.draw(
        st.sampled_from(
            [b"", b'"', b"\\", b"\n", b",", b"\xff", b"{", b"}", b"1", b"NaN", b"-", b" ", b"null", b"\\ud800", b"\x0b"]
        )
    )
    damaged = whole_file[:at] + put + whole_file[at + removed :]
    from_bulk = bulk_or_none(damaged, columns, 700)

    assert from_bulk is None or from_bulk == reference(damaged, columns)


SIGNS = b'{}[],:"'
ROWS = {
    "INSERT": line("INSERT", [{"id": "1", "v": None}]) + b"\r\n",
    "UPDATE": line("UPDATE", [{"id": "1", "v": "b"}], [{"id": "1", "v": "a"}]) + b"\r\n",
    "DELETE": line("DELETE", [{"id": "1", "v": 'c"'}]) + b"\r\n",
}


@pytest.mark.parametrize("op", ROWS)
@pytest.mark.parametrize("follows", [b"", ROWS["INSERT"]], ids=["first", "behind another"])
def test_any_sign_in_place_of_any_other_is_read_by_both_or_by_the_reference_alone(op: str, follows: bytes) -> None:
    row = ROWS[op]
    tried = 0
    for place, byte in enumerate(row):
        for sign in SIGNS + b" 0x" if byte in SIGNS else b"":
            if sign != byte:
                damaged = follows + row[:place] + bytes([sign]) + row[place + 1 :]
                from_bulk = bulk_or_none(damaged, ("id", "v"), 1 << 20)
                tried += 1
                assert from_bulk is None or from_bulk == reference(damaged, ("id", "v"))

    assert tried > 900
    assert bulk(follows + row, ("id", "v")) == reference(follows + row, ("id", "v"))


GOOD = line("INSERT", [{"a": "1", "b": None}])
DAMAGED_LINES = {
    "a number for text": line("INSERT", [{"a": 1, "b": None}]),
    "a nested value": line("INSERT", [{"a": {}, "b": None}]),
    "a trailing comma": GOOD.replace(b'"b":null}', b'"b":null,}'),
    "not a number": GOOD.replace(b'"es":4', b'"es":NaN'),
    "a byte order mark": b"\xef\xbb\xbf" + GOOD,
    "a lone surrogate": line("INSERT", [{"a": "x", "b": None}]).replace(b'"x"', b'"\\ud83d"'),
    "no row": line("INSERT", []),
    "no data": line("INSERT", None),
    "a null row": line("INSERT", [None]),
    "an unknown type": line("UPSERT", [{"a": "1", "b": None}]),
    "a fraction as commitTs": line("INSERT", [{"a": "1", "b": None}], _tidb={"commitTs": 1.5}),
    "a commitTs beyond 63 bits": line("INSERT", [{"a": "1", "b": None}], ts=1 << 63),
    "a commitTs beyond 64 bits": line("INSERT", [{"a": "1", "b": None}], ts=1 << 64),
    "an es that no TSO has": line("INSERT", [{"a": "1", "b": None}], es=1 << 60),
    "old rows that do not match": line("UPDATE", [{"a": "1", "b": None}], [{"a": "1"}, {"a": "2"}]),
    "an array": b"[1]",
    "half a line": GOOD[:50],
    "two objects": GOOD + GOOD,
    "a DDL": line("ALTER", None, isDdl=True),
    "deep nesting": b"[" * 5000,
}


@pytest.mark.parametrize("damaged", DAMAGED_LINES.values(), ids=DAMAGED_LINES)
def test_a_damaged_line_is_a_bad_record_among_good_ones_and_not_for_bulk(damaged: bytes) -> None:
    data = b"\r\n".join([GOOD, damaged, GOOD, b""])
    first, bad, last = canal_json.read_file(data, "f")

    assert isinstance(bad, BadRecord)
    assert (1, damaged + b"\r\n") == (bad.line, bad.raw)
    assert isinstance(first, tuple)
    assert isinstance(last, tuple)
    assert [0, 2] == [first[0], last[0]]
    with pytest.raises(BulkUnsupported):
        bulk(data, ("a", "b"))


def test_errors_hold_no_row_values() -> None:
    secret = line("INSERT", [{"a": "secret", "b": 5}])
    with pytest.raises(DecodeError) as reference_error:
        list(canal_json.decode(secret, "w"))
    with pytest.raises(BulkUnsupported) as bulk_error:
        bulk(secret + b"\n", ("a", "b"))
    for raised in (reference_error, bulk_error):
        assert "secret" not in str(raised.value)
        assert raised.value.__cause__ is None


@pytest.mark.parametrize("row", [{"a": "1", "c": "2"}, {"a": "1", "b": "2", "c": None}])
@pytest.mark.parametrize("first", [True, False])
def test_a_column_that_the_schema_lacks_is_never_dropped(row: dict[str, Any], first: bool) -> None:
    lines = [line("INSERT", [row]), GOOD] if first else [GOOD, line("INSERT", [row])]
    with pytest.raises(BulkUnsupported):
        bulk(b"\n".join([*lines, b""]), ("a", "b"))
    with pytest.raises(BulkUnsupported):
        bulk(line("UPDATE", [{"a": "1", "b": "1"}], [row]) + b"\n", ("a", "b"))


def test_rows_of_another_table_are_left_to_the_reference() -> None:
    with pytest.raises(BulkUnsupported):
        bulk(GOOD + b"\n" + line("INSERT", [{"a": "1", "b": None}], table="other") + b"\n", ("a", "b"))


def test_a_file_without_its_last_line_end_is_incomplete() -> None:
    data = GOOD + b"\r\n" + GOOD
    assert isinstance(list(canal_json.read_file(data, "f"))[-1], Incomplete)
    with pytest.raises(NotYetError):
        bulk(data, ("a", "b"))


def test_rows_of_several_shapes_in_one_block_are_read_by_name() -> None:
    data = b"\n".join([GOOD, line("INSERT", [{"b": "2", "c": "3"}]), line("DELETE", [{"c": "4"}]), b""])
    read = bulk(data, ("a", "b", "c"))

    assert [("1", None, None), (None, "2", "3"), (None, None, "4")] == [row.new for row in read]
    assert read == reference(data, ("a", "b", "c"))


@pytest.mark.parametrize("width", [1, 299, 300, 301, 1500])
def test_tables_of_any_width_pass(width: int) -> None:
    columns = tuple(f"c{i}" for i in range(width))
    row = dict.fromkeys(columns, "x")
    data = line("INSERT", [row]) + b"\n" + line("UPDATE", [row], [{**row, "c0": "y"}]) + b"\n"

    assert bulk(data, columns) == reference(data, columns)


def test_lines_of_many_megabytes_pass() -> None:
    text = 'x"\\\n' * 5_000_000
    data = line("INSERT", [{"a": text}]) + b"\n" + GOOD + b"\n"

    assert [text, "1"] == [row.new[0] for row in bulk(data, ("a", "b"), 1 << 23)]


def test_official_canal_sends_several_rows_and_only_changed_columns() -> None:
    old = [{"a": "0"}, {"b": None}]
    message = line("UPDATE", [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}], old, ts=None)
    first, second = canal_json.decode(message, "w")

    assert isinstance(first, RowEvent)
    assert isinstance(second, RowEvent)
    assert (None, 4, True) == (first.commit_ts, first.time.commit_ms, first.before_is_partial)
    assert {"a": "0", "b": "2"} == first.full_before
    assert {"a": "3", "b": None} == second.full_before
    assert Hint("enum('a\"b')", -5) == first.hints.columns["a"]


@pytest.mark.parametrize("data", [None, [], [{"a": "1"}]])
def test_a_deleted_row_is_in_data_or_before_v5_4_in_old(data: Any) -> None:
    (event,) = canal_json.decode(line("DELETE", data, [{"a": "1"}]), "w")

    assert isinstance(event, RowEvent)
    assert (Op.DELETE, {"a": "1"}, None) == (event.op, event.wire, event.before)


def test_the_location_of_a_claim_check_counts_by_its_last_part_only() -> None:
    extension = {"commitTs": 5, "onlyHandleKey": True, "claimCheckLocation": "s3://bucket/a/b.json"}
    (event,) = canal_json.decode(line("INSERT", [{"a": "1"}], _tidb=extension), "w")

    assert isinstance(event, RowEvent)
    assert ("b.json", True, 5) == (event.claim, event.handle_only, event.commit_ts)


def test_watermarks_and_ddls_are_read_with_and_without_the_extension() -> None:
    mark = line("TIDB_WATERMARK", None, _tidb={"watermarkTs": 429918007904436226})
    ddl = {"isDdl": True, "sql": "DROP TABLE `t`"}
    (with_ts,), (without,) = (canal_json.decode(line("ERASE", None, ts=ts, **ddl), "w") for ts in (1 << 20, None))

    assert [WatermarkEvent(429918007904436226)] == list(canal_json.decode(mark, "w"))
    assert isinstance(with_ts, DdlEvent)
    assert isinstance(without, DdlEvent)
    assert (1 << 20, "DROP TABLE `t`") == (with_ts.commit_ts, with_ts.query)
    assert 4 == without.commit_ts >> 18


def test_bytes_come_as_latin_1_and_labels_as_numbers() -> None:
    payload, label = MySqlType(Kind.VARBINARY), MySqlType(Kind.ENUM, elements=("small", "x,large"))

    assert b"\xff\x00" == canal_json.value(Column("a", payload), "ÿ\x00")
    assert "x,large" == canal_json.value(Column("a", label), "2")


SURROGATES = [
    *(r"\ud83d\ude00", r"\uD83D\uDE00", r"\udbff\udfff", r"\ud800\udc00", r"\ue000\ud7ff"),
    *(r"\ud83d", r"\ude00", r"\ud83d\ud83d", r"\ude00\ud83d", r"\ud83d\u", r"\ud83d\ude0", r"\ud83d\ude0g"),
    *(r"\ud83dxude00", r"\ud83d\xde00", r"\ud83dxxde00", r"\ud83d\nde00", r"\ud83d\\ude00", r"\ud83d\udbff"),
]


@pytest.mark.parametrize("behind", ["", "z", "z" * 70])
@pytest.mark.parametrize("text", SURROGATES)
def test_surrogates_that_are_no_pair_are_not_taken_in_bulk(text: str, behind: str) -> None:
    data = line("INSERT", [{"id": "1", "v": "HERE"}]).replace(b"HERE", text.encode() + behind.encode()) + b"\r\n"

    from_bulk = bulk_or_none(data, ("id", "v"), 1 << 20)

    assert from_bulk == reference(data, ("id", "v"))
