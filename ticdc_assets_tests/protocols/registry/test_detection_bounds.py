"""The bytes by which a protocol is detected, and which form wins among several."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from ticdc_assets.protocols.csv.detection import CsvVotes
from ticdc_assets.protocols.csv.options import CsvOptions
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.protocols.protocol import CONTENT_COMPATIBLE, EXTENSION, SCHEMA_BLOCK
from ticdc_assets.protocols.registry import detection
from ticdc_assets.protocols.registry.detection import MessageForm, Votes, avro_modes, form_of

CANAL = b'{"isDdl": false, "type": "INSERT"}'
SIMPLE = b'{"version": 1, "type": "WATERMARK"}'


def schema_id(number: int) -> bytes:
    return b"\0" + number.to_bytes(4, "big")


AVRO = MessageForm("avro", "avro")
CONFLUENT = [
    (None, schema_id(1), AVRO),
    (None, schema_id((1 << 31) - 1), AVRO),
    (None, schema_id(1 << 31), None),
    (None, schema_id(0), None),
    (None, schema_id(1)[:4], None),
    (None, b"\1" + schema_id(1)[1:], None),
    (schema_id(1), schema_id(1), AVRO),
    (schema_id(1), None, AVRO),
    (schema_id(1), b"", AVRO),
    (schema_id(1), b"\3", AVRO),
    (schema_id(1), b"\4", None),
    (b"key", schema_id(1), None),
    (b"", schema_id(1), AVRO),
    (None, b"\2" + b"\0" * 8, AVRO),
    (None, b"\2" + b"\0" * 7, None),
    (None, b"\2" + b"\0" * 9, None),
    (None, b'\1{"query": ""}', AVRO),
    (None, b'\1{"other": ""}', None),
    (None, b"\1 query", None),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value", "form"), CONFLUENT)
def test_avro_has_the_id_of_a_schema_or_a_mark_of_its_own(
    key: bytes | None, value: bytes | None, form: MessageForm | None
):
    assert form_of(key, value) == form


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">q", len(body)) + body for body in bodies)


VERSION = struct.pack(">q", 1)
HEAD = b'{"ts": 5, "t": 1}'
OPEN = [
    (VERSION + framed(HEAD), framed(b"{}"), MessageForm("open-protocol", "json", Compression.NONE)),
    (VERSION + framed(HEAD), None, MessageForm("open-protocol", "json", None)),
    (VERSION + framed(HEAD), framed(b""), MessageForm("open-protocol", "json", None)),
    (VERSION + framed(HEAD), framed(b"no object"), MessageForm("open-protocol", "json", None)),
    (VERSION + framed(HEAD, b'{"ts": 5}'), None, None),
    (VERSION + framed(b'{"t": 5}'), None, None),
    (VERSION + framed(HEAD)[:-1], None, None),
    (VERSION + framed(HEAD), framed(b"{}")[:-1], None),
    (VERSION, None, None),
]


@pytest.mark.parametrize(("key", "value", "form"), OPEN)
def test_open_protocol_has_a_version_and_heads(key: bytes, value: bytes | None, form: MessageForm | None):
    assert form_of(key, value) == form


def json_form(protocol: str, *marks: str) -> MessageForm:
    return MessageForm(protocol, "json", Compression.NONE, frozenset(marks))


RECOGNISED = [
    (CANAL, json_form("canal-json")),
    (b' {"isDdl": true, "type": "X", "_tidb": {}}', json_form("canal-json", EXTENSION)),
    (b'{"isDdl": true, "type": "X", "_tidb": 5}', json_form("canal-json")),
    (b'{"isDdl": true, "type": "X", "mysqlType": {"a": "int(11)"}}', json_form("canal-json", CONTENT_COMPATIBLE)),
    (b'{"isDdl": true, "type": "X", "mysqlType": {"a": "int"}}', json_form("canal-json")),
    (b'{"isDdl": true, "type": "X", "mysqlType": {"a": 5}}', json_form("canal-json")),
    (b'{"isDdl": true, "type": 5}', None),
    (b'{"type": "X"}', None),
    (SIMPLE, json_form("simple")),
    (b'{"version": 2, "type": "WATERMARK"}', None),
    (b'{"version": 1, "type": "OTHER"}', None),
    (b'{"version": 1, "type": 5}', None),
    (b'{"source": {}, "op": "c"}', json_form("debezium")),
    (b'{"source": {}, "op": "m"}', json_form("debezium", EXTENSION)),
    (b'{"payload": {"source": {}, "op": "m"}, "schema": {}}', json_form("debezium", EXTENSION, SCHEMA_BLOCK)),
    (b'{"payload": {"source": {}}}', json_form("debezium")),
    (b'{"payload": {"source": 5}}', None),
    (b'{"payload": 5}', None),
    (b"[]", None),
]  # fmt: skip


@pytest.mark.parametrize(("value", "form"), RECOGNISED)
def test_json_tells_its_protocol_by_its_members(value: bytes, form: MessageForm | None):
    assert form_of(None, value) == form


def compressed(body: bytes, compression: Compression) -> bytes:
    if compression is Compression.SNAPPY:
        return pa.Codec("snappy").compress(body, asbytes=True)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "lz4") as stream:
        stream.write(body)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("compression", [Compression.LZ4, Compression.SNAPPY])
def test_a_compressed_body_is_looked_at_up_to_a_size(compression: Compression, monkeypatch: pytest.MonkeyPatch):
    body = CANAL + b" " * (200 - len(CANAL))
    monkeypatch.setattr(detection, "BODY_BYTES_MAX", 200)

    assert form_of(None, compressed(body, compression)) == MessageForm("canal-json", "json", compression)
    assert form_of(None, compressed(body + b" ", compression)) is None
    key = VERSION + framed(HEAD)
    assert form_of(key, framed(compressed(b"{}", compression))) == MessageForm("open-protocol", "json", compression)


def test_the_form_of_most_messages_wins_with_what_these_say():
    votes = Votes()
    for value in (CANAL, CANAL, compressed(CANAL, Compression.LZ4), SIMPLE, b"x"):
        votes.add(None, value)

    assert votes.messages == 5
    assert votes.winner() == json_form("canal-json")
    assert votes.others() == {"simple": 1}
    assert Votes().winner() is None
    assert Votes().others() == {}


def test_the_marks_of_other_protocols_are_not_the_winners():
    votes = Votes()
    for value in (SIMPLE, SIMPLE, b'{"isDdl": true, "type": "X", "_tidb": {}}'):
        votes.add(None, value)

    assert votes.winner() == json_form("simple")


MODES = [
    ("DECIMAL", "bytes", {"avro-decimal-handling-mode": "precise"}),
    ("DECIMAL", "string", {"avro-decimal-handling-mode": "string"}),
    ("BIGINT UNSIGNED", "long", {"avro-bigint-unsigned-handling-mode": "long"}),
    ("BIGINT UNSIGNED", "string", {"avro-bigint-unsigned-handling-mode": "string"}),
    ("INT", "int", {}),
]


@pytest.mark.parametrize(("tidb_type", "written", "modes"), MODES)
def test_a_schema_tells_the_modes_of_its_columns(tidb_type: str, written: str, modes: dict[str, str]):
    branch = f'{{"type": "{written}", "connect.parameters": {{"tidb_type": "{tidb_type}"}}}}'

    assert avro_modes(f'{{"fields": [{{"type": {branch}}}]}}') == modes
    assert avro_modes(f'{{"fields": [{{"type": ["null", {branch}]}}]}}') == modes
    assert avro_modes(f'{{"fields": {branch}}}') == {}


# -- CSV ---------------------------------------------------------------------------------------------------------------

TSO = 459802241048510466


def options_of(*files: tuple[bytes, int]) -> CsvOptions | None:
    votes = CsvVotes()
    for data, columns in files:
        votes.add(data, "shop", "users", columns)
    return votes.options()


@pytest.mark.parametrize(
    ("number", "is_commit_ts"),
    [(str(TSO), True), (str(1_420_070_400_001 << 18), True), (str((1_420_070_400_001 << 18) - 1), False),
     (f'"{TSO}"', False), (str(TSO)[:-1] + "x", False), ("12345678901234567", False)],
)  # fmt: skip
def test_a_commit_ts_is_an_unquoted_number_after_the_first_release_of_tidb(number: str, is_commit_ts: bool):
    found = options_of((f'"I","users","shop",{number},1,2\n'.encode(), 2))

    assert found is not None
    assert found.include_commit_ts is is_commit_ts


@pytest.mark.parametrize(
    ("fields", "with_old_value"), [("true,1", True), ("false,1", True), ('"true",1', False), ("TRUE,1", False)]
)
def test_a_flag_of_updates_stands_before_the_values(fields: str, with_old_value: bool):
    for leading in (f'"I","users","shop",{TSO},', '"I","users","shop",'):
        found = options_of((f"{leading}{fields}\n".encode(), 1))
        assert found is not None
        assert found.output_old_value is with_old_value


@pytest.mark.parametrize(
    ("data", "delimiter", "quote"),
    [
        (b'"I","users","shop",1\n', ",", '"'),
        (b"I,users,shop,1\n", ",", ""),
        (b"I||users||shop||1\n", "||", ""),
        (b"`I`;;;`users`;;;`shop`;;;1\n", ";;;", "`"),
        (b"I;;;;users;;;;shop;;;;1\n", None, ""),
        (b"X,users,shop,1\n", None, ""),
        (b"I,users,other,1\n", None, ""),
        (b"I,shop,users,1\n", None, ""),
        (b"I,users,shop\n", None, ""),
        (b"I\xffusers\xffshop\xff1\n", None, ""),
        (b"", None, ""),
    ],
)
def test_the_names_of_its_table_tell_the_delimiter_and_the_quote(data: bytes, delimiter: str | None, quote: str):
    found = options_of((data, 1))

    assert (found and (found.delimiter, found.quote)) == (None if delimiter is None else (delimiter, quote))


def test_a_quote_in_a_name_is_doubled():
    votes = CsvVotes()
    votes.add(b'"I","a""b","shop",1,2\n', "shop", 'a"b', 1)

    assert votes.options() is not None


def test_most_files_tell_the_marks_and_the_ends_of_lines():
    one, two = b"I,users,shop,1,2\n", b"I;users;shop;1;2\r\n"

    for files, expected in (([one, one, two], (",", "\n")), ([one, two, two], (";", "\r\n"))):
        found = options_of(*((data, 1) for data in files))
        assert found is not None
        assert (found.delimiter, found.terminator) == expected


@pytest.mark.parametrize(("columns", "handle_key"), [(1, True), (2, False), (3, False)])
def test_a_field_more_than_columns_is_the_handle_key(columns: int, handle_key: bool):
    found = options_of((f'"I","users","shop",{TSO},"1",1\n'.encode(), columns))

    assert found is not None
    assert found.output_handle_key is handle_key


@pytest.mark.parametrize(
    ("texts", "method", "given"),
    [([], "base64", True), ([None, ""], "base64", True), (["ff0"], "base64", False), (["fF"], "base64", False),
     (["ff"], "hex", True), (["ffff"], "base64", False), (["/w=="], "base64", True), (["ff", "/w=="], "base64", False)],
)  # fmt: skip
def test_values_of_bytes_tell_how_they_are_written(texts: list[str | None], method: str, given: bool):
    votes = CsvVotes()
    votes.add(b"I,users,shop,1,2\n", "shop", "users", 1)
    votes.binary(texts)

    assert votes.knows_binary_encoding is given
    assert votes.options().binary_encoding_method == method
