"""The batch size of a bulk decoder affects memory and speed, not its result."""

from __future__ import annotations

import io
from types import ModuleType
from typing import Any

import pytest

from ticdc_assets.protocols.canal_json import bulk as canal_json_bulk
from ticdc_assets.protocols.columnar import scanned_rows
from ticdc_assets.protocols.columnar.message_rows import Messages
from ticdc_assets.protocols.csv import bulk as csv_bulk
from ticdc_assets.protocols.csv.options import CsvOptions
from ticdc_assets_tests.fixtures import workloads
from ticdc_assets_tests.protocols import storage_rows
from ticdc_assets_tests.protocols.columnar.bulk_agreement import of_bulk
from ticdc_assets_tests.protocols.columnar.json_agreement import pairs_of
from ticdc_assets_tests.protocols.columnar.streams import stream_of
from ticdc_assets_tests.protocols.storage_rows import Row

CAPTURE = next(w for w in workloads("canal-json", "seed1") if w.name.startswith("canal-json-tidb/"))
CSV = b"".join(b'"%c","t","s",%d,"%d",\\N\r\n' % (b"IUD"[n % 3], 5 + n, n) for n in range(40))
LINES = b"".join(
    b'{"id":0,"database":"s","table":"t","pkNames":["a"],"isDdl":false,"type":"INSERT","es":5,"ts":6,"sql":"",'
    b'"sqlType":{"a":4,"b":12},"mysqlType":{"a":"int","b":"varchar"},"old":null,"data":[{"a":"%d","b":null}]}\n' % n
    for n in range(40)
)


def of_messages() -> list[Any]:
    stream, pairs = stream_of(CAPTURE), pairs_of(CAPTURE)
    return of_bulk(stream.bulk.rows(Messages.from_pairs(pairs), stream.options), len(pairs))


def of_csv() -> list[Row]:
    options = CsvOptions(include_commit_ts=True)
    return storage_rows.of_bulk(csv_bulk.read_stream(io.BytesIO(CSV), ("a", "b"), "f", None, options, 1 << 20))


def of_lines() -> list[Row]:
    return storage_rows.of_bulk(
        canal_json_bulk.read_stream(io.BytesIO(LINES), ("a", "b"), "f", ("s", "t"), batch_bytes=1 << 20)
    )


SIZES = [
    (scanned_rows, "_CELLS_MAX", of_messages),
    (csv_bulk, "_FIELDS_MAX", of_csv),
    (canal_json_bulk, "_CELLS_MAX", of_lines),
]


@pytest.mark.parametrize(("module", "name", "read"), SIZES, ids=lambda part: getattr(part, "__name__", str(part)))
@pytest.mark.parametrize("size", [1, 2, 3, 10, 47])
def test_pieces_of_any_size_come_to_the_same(
    module: ModuleType, name: str, read: object, size: int, monkeypatch: pytest.MonkeyPatch
):
    assert callable(read)
    whole = read()
    monkeypatch.setattr(module, name, size)

    assert len(whole) >= 2
    assert read() == whole


def test_the_rows_of_a_file_are_those_that_were_written():
    assert [(row.op, row.commit_ts, row.new) for row in of_csv()] == [
        ("IUD"[n % 3], 5 + n, (str(n), None)) for n in range(40)
    ]
    assert [(row.op, row.new) for row in of_lines()] == [("I", (str(n), None)) for n in range(40)]
