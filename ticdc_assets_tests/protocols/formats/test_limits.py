"""Input of the largest size that a decoder takes is read, and a byte more is refused."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from ticdc_assets.errors import DecodeError, NotYetError
from ticdc_assets.protocols.canal_json import bulk as canal_json_bulk
from ticdc_assets.protocols.canal_json import decoder as canal_json
from ticdc_assets.protocols.columnar.raw_rows import BulkUnsupported
from ticdc_assets.protocols.csv import bulk as csv_bulk
from ticdc_assets.protocols.csv.options import CsvOptions
from ticdc_assets.protocols.csv.records import HEADER_START
from ticdc_assets.protocols.dump import rows as dump_rows
from ticdc_assets.protocols.dump.form import DumpForm
from ticdc_assets.protocols.dump.rows import DumpFile
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.fold.loaded import created
from ticdc_assets.schema.model import TableSchema

LARGEST = 256
TABLE = created(DdlEvent(5, "s", "t", "CREATE TABLE t (v LONGTEXT)", where="t", loaded=True)).table


def canal_message(size: int) -> bytes:
    message = {"id": 0, "database": "s", "table": "t", "isDdl": True, "type": "CREATE", "es": 5, "sql": ""}
    short = len(json.dumps(message))
    return json.dumps({**message, "sql": "x" * (size - short)}).encode()


def test_a_message_may_be_so_large_and_no_larger(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(canal_json, "MESSAGE_BYTES_MAX", LARGEST)

    assert len(canal_message(LARGEST)) == LARGEST
    assert len(list(canal_json.decode(canal_message(LARGEST), "here"))) == 1
    with pytest.raises(DecodeError, match=f"at most {LARGEST} bytes, found {LARGEST + 1} bytes"):
        list(canal_json.decode(canal_message(LARGEST + 1), "here"))


def csv_rows(data: bytes, batch_bytes: int = 64) -> list[Any]:
    stream = io.BufferedReader(io.BytesIO(data))  # type: ignore[arg-type]
    found = csv_bulk.read_stream(stream, ("v",), "here", ("s", "t"), CsvOptions(terminator="\n"), batch_bytes)
    return [value for rows in found for value in rows.wire[0].to_pylist()]


def csv_record(size: int) -> bytes:
    return b'"I","t","s","' + b"x" * (size - 15) + b'"\n'


def lines(data: bytes, batch_bytes: int = 64) -> list[Any]:
    found = canal_json_bulk.read_stream(io.BufferedReader(io.BytesIO(data)), ("v",), "here", ("s", "t"), batch_bytes)  # type: ignore[arg-type]
    return [value for rows in found for value in rows.wire[0].to_pylist()]


def line(size: int) -> bytes:
    whole = (
        b'{"id":0,"database":"s","table":"t","pkNames":["v"],"isDdl":false,"type":"INSERT","es":5,"ts":6,"sql":"",'
        b'"sqlType":{"v":4},"mysqlType":{"v":"int"},"old":null,"data":[{"v":"%s"}]}\n'
    )
    return whole % (b"x" * (size - len(whole) + 2))


def dumped(data: bytes, batch_bytes: int = 64) -> list[Any]:
    table: TableSchema = TABLE
    file = DumpFile("t", table, DumpForm(terminator="\n", has_header=False), 5, True)
    return [value for rows in file.read(io.BytesIO(data), batch_bytes) for value in rows.wire[0].to_pylist()]


def dumped_row(size: int) -> bytes:
    return b'"' + b"x" * (size - 3) + b'"\n'


READERS = [
    (csv_bulk, csv_rows, csv_record, 2 * LARGEST, BulkUnsupported, "a record without an end"),
    (canal_json_bulk, lines, line, 2 * LARGEST, BulkUnsupported, "a line without an end"),
    (dump_rows, dumped, dumped_row, LARGEST, DecodeError, f"found none in {LARGEST} bytes"),
]
"""The buffer doubles while a record does not end in it; two of them look at its size before that."""


@pytest.mark.parametrize(("module", "read", "record", "most", "error", "found"), READERS, ids=["csv", "lines", "dump"])
def test_a_record_of_a_file_may_be_so_large_and_no_larger(
    module: Any, read: Any, record: Any, most: int, error: type[Exception], found: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "RECORD_BYTES_MAX", LARGEST)
    largest, more = record(most), record(most + 1)

    assert (len(largest), len(more)) == (most, most + 1)
    assert [len(value) for value in read(largest)] == [largest.count(b"x")]
    assert len(read(record(200) * 9)) == 9
    with pytest.raises(error, match=found):
        read(more * 3)


@pytest.mark.parametrize("read", [csv_rows, lines])
def test_the_beginning_of_a_record_is_waited_for(read: Any):
    record = {csv_rows: csv_record, lines: line}[read]

    for size in (1, 40, 100, 250):
        with pytest.raises(NotYetError):
            read(record(200) + record(300)[:size])


def test_a_header_line_may_be_so_long_and_no_longer(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(csv_bulk, "CSV_HEADER_BYTES_MAX", LARGEST)

    def header(size: int) -> bytes:
        return HEADER_START + b"," * (size - len(HEADER_START) - 1) + b"\n"

    for batch_bytes in (1, 64, LARGEST - 1, LARGEST, 1 << 10):
        assert csv_rows(header(LARGEST) + csv_record(20), batch_bytes) == ["x" * 5]
        with pytest.raises(NotYetError):
            csv_rows(header(LARGEST + 1) + csv_record(20), batch_bytes)


def test_the_names_of_a_dump_may_be_so_long_and_no_longer(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dump_rows, "CSV_HEADER_BYTES_MAX", 5)

    for terminator, size in (("\n", 4), ("\r\n", 3)):
        for form in (DumpForm(delimiter="", terminator=terminator), DumpForm(delimiter="")):
            fitting = created(DdlEvent(5, "s", "t", f"CREATE TABLE t ({'c' * size} INT)", where="t", loaded=True)).table
            text = ("c" * size + terminator + "5" + terminator).encode()
            [rows] = DumpFile("t", fitting, form, 5, True).read(io.BytesIO(text))
            assert rows.wire[0].to_pylist() == ["5"]
            with pytest.raises(DecodeError, match="header: expected a line that ends with"):
                list(DumpFile("t", fitting, form, 5, True).read(io.BytesIO(b"c" + text)))
