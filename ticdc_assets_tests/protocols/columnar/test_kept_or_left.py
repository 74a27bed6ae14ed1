"""Which messages the bulk decoders take, and which they leave to the reference decoder."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ticdc_assets.protocols.columnar import message_rows
from ticdc_assets.protocols.columnar.message_rows import Bulk, Messages
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets_tests.fixtures import workloads
from ticdc_assets_tests.protocols.avro.registered_schemas import EXTENDED, KEY, encoded
from ticdc_assets_tests.protocols.columnar.bulk_agreement import Pair, pairs_of
from ticdc_assets_tests.protocols.open_protocol.open_messages import HEAD, ID, message

SIMPLE = DecoderOptions()
OPEN = DecoderOptions()
MANY = 64


@pytest.fixture(autouse=True)
def _loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_rows, "_MESSAGES_MIN", 0)


def bulk_of(protocol: str) -> Bulk:
    bulk = REGISTRY[protocol].bulk
    assert bulk is not None
    return bulk


def messages(pairs: list[Pair]) -> Messages:
    return Messages(*(pa.array(part, pa.binary()) for part in zip(*pairs, strict=True)))


def compact(document: Any) -> bytes:
    """As TiCDC writes it."""
    return json.dumps(document, separators=(",", ":")).encode()


def rows_of(prefix: str) -> list[Pair]:
    """The first rows of a recorded stream of Simple, of the table that has most of them."""
    [workload] = [w for w in workloads(prefix, "seed1") if w.name.startswith(f"{prefix}/")]
    by_table: dict[str, list[Pair]] = {}
    for key, value in pairs_of(workload):
        for event in REGISTRY["simple"].decode(key, value, "here", SIMPLE):
            if isinstance(event, RowEvent) and not event.handle_only:
                by_table.setdefault(event.table, []).append((key, value))
    return (max(by_table.values(), key=len) * MANY)[:MANY]


def test_rows_of_simple_in_json_and_in_avro_are_both_taken_in_any_mixture():
    bulk = bulk_of("simple")
    in_json, in_avro = rows_of("simple-json"), rows_of("simple-avro")
    mixed = [pair for two in zip(in_json, in_avro, strict=True) for pair in two]

    for pairs in (in_json, in_avro, mixed):
        heads, rows = bulk.heads(messages(pairs), SIMPLE), bulk.rows(messages(pairs), SIMPLE)
        assert not np.any(heads.left)
        assert not np.any(rows.left)
        assert sorted(heads.message.to_pylist()) == list(range(len(pairs)))
        lines = [line for table in rows.tables for line in table.rows.line.to_pylist()]
        assert sorted(lines) == list(range(len(pairs)))


@pytest.mark.parametrize("place", range(3))
def test_a_message_of_simple_in_avro_that_begins_with_another_byte_is_left(place: int):
    pairs = rows_of("simple-avro")
    key, value = pairs[5]
    assert value is not None
    pairs[5] = key, value[:place] + bytes([value[place] ^ 2]) + value[place + 1 :]

    assert np.flatnonzero(bulk_of("simple").rows(messages(pairs), SIMPLE).left).tolist() == [5]


@pytest.mark.parametrize(("ts", "is_left"), [(0, True), (1, False)])
def test_a_row_of_open_protocol_without_a_commit_ts_is_left(ts: int, is_left: bool):
    heads = [{**HEAD, "ts": ts if n == 5 else 20} for n in range(MANY)]
    pairs: list[Pair] = [message((compact(head), compact({"u": {"id": ID}}))) for head in heads]

    left = np.flatnonzero(bulk_of("open-protocol").rows(messages(pairs), OPEN).left)

    assert left.tolist() == ([5] if is_left else [])


def test_a_row_of_avro_has_a_commit_ts_unless_that_is_0():
    options = DecoderOptions(schemas={1: json.dumps(KEY), 3: json.dumps(EXTENDED)}.__getitem__)
    pairs: list[Pair] = []
    for ts in (1, 0, 2, *range(3, MANY)):
        row = {"id": 7, "name": "x", "_tidb_op": "c", "_tidb_commit_ts": ts, "_tidb_commit_physical_time": 0}
        pairs.append((encoded(1, KEY, row), encoded(3, EXTENDED, row)))

    found = bulk_of("avro").rows(messages(pairs), options)

    one_by_one = [next(REGISTRY["avro"].decode(*pair, "here", options)) for pair in pairs]
    assert not np.any(found.left)
    [table] = found.tables
    assert table.rows.commit_ts.to_pylist()[:3] == [1, None, 2]
    assert [e.commit_ts for e in one_by_one if isinstance(e, RowEvent)][:3] == [1, None, 2]


def test_a_row_of_avro_with_a_branch_that_its_union_has_not_is_left():
    options = DecoderOptions(schemas={1: json.dumps(KEY), 3: json.dumps(EXTENDED)}.__getitem__)
    row = {"id": 7, "name": "x", "_tidb_op": "c", "_tidb_commit_ts": 20, "_tidb_commit_physical_time": 0}
    key, value = encoded(1, KEY, row), encoded(3, EXTENDED, row)
    branch = value.index(b"\x02\x02x")
    pairs: list[Pair] = [(key, value)] * MANY
    for number, byte in ((5, 4), (6, 6), (7, 1)):
        pairs[number] = key, value[:branch] + bytes([byte]) + value[branch + 1 :]

    assert np.flatnonzero(bulk_of("avro").rows(messages(pairs), options).left).tolist() == [5, 6, 7]
