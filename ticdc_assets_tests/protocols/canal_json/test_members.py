"""Canal-JSON: each member of a message up to the last value that it may have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ticdc_assets.errors import DecodeError, SchemaError
from ticdc_assets.protocols.canal_json.bulk import BULK
from ticdc_assets.protocols.canal_json.decoder import Hint, decode, read_file, record_bytes
from ticdc_assets.protocols.canal_json.messages import infer_table
from ticdc_assets.protocols.columnar.message_rows import Messages
from ticdc_assets.protocols.columnar.raw_rows import BadRecord, Incomplete
from ticdc_assets.protocols.events import Op
from ticdc_assets.protocols.formats.limits import ROWS_PER_MESSAGE_MAX
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.schema.model import Index
from ticdc_assets.tso import INT64_MAX

MS_MAX = INT64_MAX >> 18
ROW = {
    "id": 0, "database": "s", "table": "t", "pkNames": ["id"], "isDdl": False, "type": "INSERT", "es": 5, "ts": 6,
    "sql": "", "sqlType": {"id": 4}, "mysqlType": {"id": "int"}, "old": None, "data": [{"id": "1"}],
    "_tidb": {"commitTs": 7},
}  # fmt: skip
DDL = {**ROW, "isDdl": True, "type": "CREATE", "sql": "CREATE TABLE t (id INT)", "data": None}


def of(message: dict[str, Any]) -> Any:
    [event] = decode(json.dumps(message).encode(), "here")
    return event


def with_extension(**members: Any) -> dict[str, Any]:
    return {**ROW, "_tidb": {"commitTs": 7, **members}}


@pytest.mark.parametrize("tso", [0, INT64_MAX])
def test_a_commit_ts_is_a_number_of_63_bits(tso: int):
    assert of(with_extension(commitTs=tso)).commit_ts == tso
    assert of({**DDL, "_tidb": {"commitTs": tso}}).commit_ts == tso
    assert of({**ROW, "type": "TIDB_WATERMARK", "_tidb": {"watermarkTs": tso}}).ts == tso


@pytest.mark.parametrize("tso", [-1, INT64_MAX + 1, True, "7", None])
def test_a_commit_ts_that_is_none_is_refused(tso: Any):
    for message in (
        with_extension(commitTs=tso),
        {**DDL, "_tidb": {"commitTs": tso}},
        {**ROW, "type": "TIDB_WATERMARK", "_tidb": {"watermarkTs": tso}},
    ):
        with pytest.raises(DecodeError, match="a TSO"):
            of(message)


@pytest.mark.parametrize("ms", [0, MS_MAX])
def test_without_the_extension_the_milliseconds_tell_the_time(ms: int):
    row = of({**ROW, "es": ms, "_tidb": None})

    assert (row.commit_ts, row.time.commit_ms) == (None, ms)
    assert of({**DDL, "es": ms, "_tidb": None}).commit_ts == (ms << 18) + (1 << 18) - 1


@pytest.mark.parametrize("ms", [-1, MS_MAX + 1, True, "5"])
def test_milliseconds_that_are_none_are_refused(ms: Any):
    with pytest.raises(DecodeError, match="milliseconds"):
        of({**ROW, "es": ms})


def test_a_statement_without_any_time_is_refused():
    with pytest.raises(DecodeError, match="neither"):
        of({**DDL, "es": None, "_tidb": None})
    assert of({**ROW, "es": None}).time.commit_ms is None


CLAIMS = [("x/y.json", "y.json"), ("x\\y.json", "y.json"), ("y", "y"), ("", None), (None, None)]


@pytest.mark.parametrize(("location", "claim"), CLAIMS)
def test_a_claim_is_the_base_name_of_its_file(location: str | None, claim: str | None):
    assert of(with_extension(claimCheckLocation=location)).claim == claim


@pytest.mark.parametrize("location", ["x/", "..", "x\\.", 5])
def test_a_claim_without_a_base_name_is_refused(location: Any):
    with pytest.raises(DecodeError):
        of(with_extension(claimCheckLocation=location))


@pytest.mark.parametrize(("found", "only"), [(True, True), (False, False), (None, False)])
def test_a_row_may_have_its_key_alone(found: Any, only: bool):
    assert of(with_extension(onlyHandleKey=found)).handle_only is only
    with pytest.raises(DecodeError, match="true or false"):
        of(with_extension(onlyHandleKey=1))


IMAGES = [
    ("INSERT", [{"a": "1"}], None, Op.INSERT, [({"a": "1"}, None, False)]),
    ("UPDATE", [{"a": "1", "b": None}], [{"a": "0", "b": "2"}], Op.UPDATE,
     [({"a": "1", "b": None}, {"a": "0", "b": "2"}, False)]),
    ("UPDATE", [{"a": "1", "b": "2"}], [{"a": "0"}], Op.UPDATE, [({"a": "1", "b": "2"}, {"a": "0"}, True)]),
    ("UPDATE", [{"a": "1"}], None, Op.UPDATE, [({"a": "1"}, None, False)]),
    ("UPDATE", [{"a": "1"}, {"a": "2"}], [{"a": "3"}, {"a": "4"}], Op.UPDATE,
     [({"a": "1"}, {"a": "3"}, False), ({"a": "2"}, {"a": "4"}, False)]),
    ("DELETE", [{"a": "1"}], None, Op.DELETE, [({"a": "1"}, None, False)]),
    ("DELETE", None, [{"a": "1"}], Op.DELETE, [({"a": "1"}, None, False)]),
    ("INSERT", [{"a": "1"}], [{"a": "0"}], Op.INSERT, [({"a": "1"}, None, False)]),
    ("INSERT", [{"a": "1"}], [None], Op.INSERT, [({"a": "1"}, None, False)]),
    ("DELETE", [None], [{"a": "1"}], Op.DELETE, [({"a": "1"}, None, False)]),
    ("DELETE", [{"a": "1"}], [None], Op.DELETE, [({"a": "1"}, None, False)]),
    ("UPDATE", [{"a": "1"}, {"a": "2"}], [None, None], Op.UPDATE,
     [({"a": "1"}, None, False), ({"a": "2"}, None, False)]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "data", "old", "op", "rows"), IMAGES)
def test_rows_have_the_images_of_their_kind(kind: str, data: Any, old: Any, op: Op, rows: Any):
    events = list(decode(json.dumps({**ROW, "type": kind, "data": data, "old": old}).encode(), "here"))

    assert [(row.wire, row.before, row.before_is_partial) for row in events] == rows
    assert {row.op for row in events} == {op}
    assert [row.full_before for row in events] == [before and {**wire, **before} for wire, before, _ in rows]


@pytest.mark.parametrize(
    "damage",
    [
        {"data": None}, {"data": []}, {"data": [None]},
        {"data": [{"a": "1"}, None]}, {"data": {}}, {"data": [5]}, {"data": [{"a": 1}]}, {"data": [{"a": True}]},
        {"type": "UPDATE", "old": [{}, {}]}, {"type": "UPDATE", "old": {}}, {"type": "OTHER"}, {"type": None},
        {"type": "UPDATE", "old": [{"a": 1}]}, {"_tidb": []}, {"pkNames": "id"}, {"pkNames": [5]}, {"isDdl": 1},
        {"mysqlType": []}, {"mysqlType": {"id": 4}}, {"sqlType": {"id": "4"}}, {"sqlType": {"id": True}},
        {"database": None}, {"table": 5},
    ],
)  # fmt: skip
def test_a_message_of_another_form_is_refused(damage: dict[str, Any]):
    with pytest.raises(DecodeError):
        of({**ROW, **damage})


@pytest.mark.parametrize("body", [b"", b"[]", b"5", b"null", b"{", b'{"a": NaN}'])
def test_what_is_no_object_is_refused(body: bytes):
    with pytest.raises(DecodeError, match="a JSON object"):
        list(decode(body, "here"))


def test_a_message_may_have_so_many_rows_and_no_more():
    def message(rows: int) -> bytes:
        return json.dumps({**ROW, "data": [{}] * rows}).encode()

    assert sum(1 for _ in decode(message(ROWS_PER_MESSAGE_MAX), "here")) == ROWS_PER_MESSAGE_MAX
    with pytest.raises(DecodeError, match=f"at most {ROWS_PER_MESSAGE_MAX} rows"):
        list(decode(message(ROWS_PER_MESSAGE_MAX + 1), "here"))


def test_a_message_tells_the_key_and_the_types_of_its_columns():
    assert of(ROW).hints.key == ("id",)
    assert of({**ROW, "pkNames": []}).hints.key is None
    assert of({**ROW, "pkNames": None}).hints.key is None
    hints = of({**ROW, "mysqlType": {"a": "int"}, "sqlType": {"b": 4}}).hints.columns
    assert {name: (hint.mysql_type, hint.sql_type) for name, hint in hints.items()} == {
        "a": ("int", None), "b": (None, 4),
    }  # fmt: skip
    assert of({**ROW, "mysqlType": None, "sqlType": None}).hints.columns == {}


def test_a_row_tells_its_table_as_far_as_it_can():
    columns = {"id": Hint("int", 4), "v": Hint("varchar", 12)}

    table = infer_table("s", "t", columns, ("id",))

    assert (table.schema, table.name, table.inferred, table.key) == ("s", "t", True, ("id",))
    assert table.indexes == (Index("PRIMARY", ("id",), unique=True, primary=True),)
    assert [(c.name, str(c.type.kind), c.nullable) for c in table.columns] == [
        ("id", "INT", False), ("v", "VARCHAR", True),
    ]  # fmt: skip
    assert infer_table("s", "t", columns).indexes == ()
    for hint in (Hint(None, 4), Hint("hypercube", 4)):
        with pytest.raises(SchemaError, match="column v"):
            infer_table("s", "t", {"v": hint})


def test_a_type_without_a_length_is_the_widest_of_its_kind():
    columns = {"b": Hint("bit", -7), "d": Hint("decimal", 3)}

    shapes = [(c.type.length, c.type.scale) for c in infer_table("s", "t", columns).columns]

    assert shapes == [(64, None), (65, 30)]


@pytest.mark.parametrize("tso", [0, 1, INT64_MAX])
def test_bulk_tells_the_first_and_the_last_commit_ts(tso: int):
    body = json.dumps(with_extension(commitTs=tso), separators=(",", ":")).encode()
    options = DecoderOptions()

    heads = BULK.heads(Messages.from_pairs([(None, body)]), options)
    [table] = BULK.rows(Messages.from_pairs([(None, body)]), options).tables

    assert heads.commit_ts.to_pylist() == table.rows.commit_ts.to_pylist() == [tso]


# -- files -------------------------------------------------------------------------------------------------------------

LINE = json.dumps(ROW).encode()


def read(data: bytes) -> list[Any]:
    def result(found: Any) -> Any:
        if isinstance(found, BadRecord):
            return "bad", found.line, found.raw
        return ("incomplete", found.line) if isinstance(found, Incomplete) else found[0]

    return [result(found) for found in read_file(data, "here")]


def test_the_lines_of_a_file_are_counted_and_empty_ones_say_nothing():
    assert read(b"") == []
    assert read(LINE + b"\n") == [0]
    assert read(LINE + b"\r\n\n\r\n" + LINE + b"\n") == [0, 3]
    assert read(LINE + b"\n" + LINE) == [0, ("incomplete", 1)]
    assert read(b"x\n" + LINE + b"\n") == [("bad", 0, b"x\n"), 1]
    assert read(json.dumps(DDL).encode() + b"\n") == [("bad", 0, json.dumps(DDL).encode() + b"\n")]


def test_the_records_of_a_file_are_its_lines_with_their_ends():
    assert record_bytes(b"a\nb\r\nc\n", {0, 1}) == {0: b"a\n", 1: b"b\r\n"}
