"""Batches at the bounds of bulk decoders: the last size that they take, and what they leave beyond it."""

from __future__ import annotations

import json
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ticdc_assets.protocols.avro import batches as avro_batches
from ticdc_assets.protocols.avro import bulk as avro_bulk
from ticdc_assets.protocols.columnar import message_rows, scanned_rows
from ticdc_assets.protocols.columnar.message_rows import Bulk, BulkRows, Messages
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.protocols.simple.avro import batches as simple_batches
from ticdc_assets.protocols.simple.avro import bulk as simple_bulk
from ticdc_assets_tests.protocols.avro.registered_schemas import KEY, encoded
from ticdc_assets_tests.protocols.simple.avro.written import WHOLE_PAYLOAD, simple_message

ROW = simple_message({**WHOLE_PAYLOAD, "type": "INSERT", "data": {"a": 1}, "old": None})


def left(bulk: Any, messages: Messages, options: Any) -> list[int]:
    found = bulk.rows(messages, options).left
    assert bulk.heads(messages, options).left.tolist() == found.tolist()
    return [int(number) for number in np.flatnonzero(found)]


def test_a_batch_is_read_up_to_the_bytes_that_offsets_reach(monkeypatch: pytest.MonkeyPatch):
    simple = Messages.from_pairs([(None, ROW)] * 3)
    key = encoded(1, KEY, {"id": 7})
    schemas = {1: json.dumps(KEY)}
    deletes = Messages.from_pairs([(key, None)] * 3)
    cases = [
        (simple_batches, simple_bulk, simple, DecoderOptions(), simple.values.nbytes),
        (avro_batches, avro_bulk, deletes, DecoderOptions(schemas=schemas.__getitem__), deletes.keys.nbytes),
    ]
    for module, bulk, messages, options, size in cases:
        for most, wanted in ((size, []), (size - 1, [0, 1, 2])):
            monkeypatch.setattr(module, "SLAB_BYTES_MAX", most)
            assert left(bulk, messages, options) == wanted


def test_bodies_are_decompressed_up_to_so_many_bytes_together(monkeypatch: pytest.MonkeyPatch):
    packed = pa.compress(ROW, "snappy", asbytes=True)
    messages = Messages.from_pairs([(None, packed), (None, None), (None, packed), (None, b"no snappy"), (None, packed)])
    options = DecoderOptions(compression=Compression.SNAPPY)

    for bodies, wanted in ((3, [1, 3]), (2, [1, 3, 4]), (1, [1, 2, 3, 4])):
        for room in (bodies * len(ROW), (bodies + 1) * len(ROW) - 1):
            monkeypatch.setattr(simple_batches, "_DECOMPRESSED_BYTES_MAX", room)
            assert left(simple_bulk, messages, options) == wanted


def canal_row(number: int) -> bytes:
    """A row whose one column is of this number, as TiCDC writes it."""
    name = f"c{number}"
    message = {
        "id": 0, "database": "s", "table": "t", "pkNames": [name], "isDdl": False, "type": "INSERT", "es": 5, "ts": 6,
        "sql": "", "sqlType": {name: 4}, "mysqlType": {name: "int"}, "old": None, "data": [{name: "1"}],
        "_tidb": {"commitTs": 7},
    }  # fmt: skip
    return json.dumps(message, separators=(",", ":")).encode()


@pytest.mark.parametrize("most", [1, 2, 5])
def test_rows_of_so_many_sets_of_columns_are_read_and_those_of_others_left(most: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scanned_rows, "_COLUMN_SETS_MAX", most)
    monkeypatch.setattr(message_rows, "_MESSAGES_MIN", 0)
    protocol = REGISTRY["canal-json"]
    assert protocol.bulk is not None
    numbers = [0, 1, 0, 2, 3, 1, 4, 5, 4, 6]
    messages = Messages.from_pairs([(None, canal_row(number)) for number in numbers])

    rows = protocol.bulk.rows(messages, DecoderOptions())

    assert np.flatnonzero(rows.left).tolist() == [n for n, number in enumerate(numbers) if number >= most]


def test_a_batch_loads_compiled_code_from_so_many_messages_or_bytes_on(monkeypatch: pytest.MonkeyPatch):
    name = "ticdc_assets_tests.not_loaded_yet"
    monkeypatch.setattr(message_rows, "_MESSAGES_MIN", 3)
    monkeypatch.setattr(message_rows, "_BYTES_MIN", Messages.from_pairs([(None, b"xx")]).values.nbytes)
    loaded: list[int] = []

    def rows(messages: Messages, _options: Any) -> BulkRows:
        loaded.append(len(messages))
        return BulkRows((), np.zeros(len(messages), np.bool_))

    module = SimpleNamespace(BULK=Bulk(rows, rows, rows))  # type: ignore[arg-type]
    monkeypatch.setattr(message_rows, "import_module", lambda _name: module)
    bulk = message_rows.compiled_bulk(name, rows)  # type: ignore[arg-type]

    def is_left(*values: bytes) -> bool:
        messages = Messages.from_pairs([(None, value) for value in values])
        before, left_of = len(loaded), bulk.rows(messages, None).left
        heads = bulk.heads(messages, None)
        assert (len(loaded) - before, left_of.all()) in ((0, True), (2, False))
        assert heads.left.tolist() == left_of.tolist()
        return bool(left_of.all())

    assert is_left(b"x")
    assert not is_left(b"xx")
    assert not is_left(b"", b"", b"")
    monkeypatch.setattr(message_rows, "_BYTES_MIN", 1 << 20)
    assert is_left(b"xx", b"xx")
    assert not is_left(b"xx", b"xx", b"xx")
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert not is_left(b"x")
