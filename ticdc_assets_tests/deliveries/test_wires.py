"""The model's small encoders write the same as TiCDC's encoders for the same changes and statements."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ticdc_assets.pipeline.stream_options import options_of
from ticdc_assets.protocols.columnar.message_rows import Messages
from ticdc_assets.protocols.events import Event, RowEvent, WatermarkEvent
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.model import Kind, TableSchema
from ticdc_assets.sources.capture import messages
from ticdc_assets_tests.deliveries.bucket import csv_line
from ticdc_assets_tests.deliveries.database import Column, RowChange, Shape, Statement
from ticdc_assets_tests.deliveries.wires import WIRES, Wire
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.pipeline.lakes import config_of
from ticdc_assets_tests.pipeline.small_streams import in_bulk_or_one_by_one
from ticdc_assets_tests.protocols.happened import changes, statements, tables, watermarks

RECORDED = {
    "open-protocol": "open", "canal-json": "canal-json-tidb", "simple": "simple-json",
    "debezium": "debezium-tidb-noschema",
}  # fmt: skip
TYPES = {Kind.INT: "INT", Kind.BIGINT: "BIGINT", Kind.VARCHAR: "VARCHAR(20)"}
"""The types that the model has; other columns, and those with a default, are left out on both sides."""


@pytest.fixture(params=WIRES, ids=lambda wire: wire.name)
def wire(request: pytest.FixtureRequest) -> Wire:
    return request.param


@pytest.fixture
def workload(wire: Wire) -> Workload:
    variant = RECORDED[wire.name]
    return next(w for w in workloads(variant, "seed1") if w.root.parent.name == variant)


def test_a_row_is_encoded_as_by_ticdc(wire: Wire, workload: Workload, tmp_path: Path):
    wanted = list(_changes(workload))
    names = {(c.shape.schema, c.shape.name, c.commit_ts): set(c.shape.names) for c in wanted}
    sent = [message for change in wanted for message in wire.rows([change])]

    encoded, recorded_rows = (
        Counter(_row(e, names[e.schema, e.table, e.commit_ts]) for e in events if isinstance(e, RowEvent)
                and (e.schema, e.table, e.commit_ts) in names)
        for events in (_decoded(workload, tmp_path, sent), _recorded(workload, tmp_path))
    )  # fmt: skip

    assert len(recorded_rows) > 50
    assert encoded == recorded_rows


def test_rows_decoded_together_equal_rows_decoded_one_by_one(wire: Wire, workload: Workload, tmp_path: Path):
    wanted = list(_changes(workload))[:40]

    together = list(_decoded(workload, tmp_path, wire.rows(wanted)))

    assert together == list(_decoded(workload, tmp_path, [m for change in wanted for m in wire.rows([change])]))


IN_BULK = [wire for wire in WIRES if REGISTRY[wire.name].bulk is not None]


@pytest.mark.parametrize("wire", IN_BULK, indirect=True, ids=lambda wire: wire.name)
def test_rows_have_the_form_that_the_bulk_decoder_reads(
    wire: Wire, workload: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It leaves another order of members to the reference decoder, and no generated history would run it."""
    in_bulk_or_one_by_one(monkeypatch, True)
    sent = [message for change in _changes(workload) for message in wire.rows([change])]
    options = options_of(config_of(workload, tmp_path, workload.root / "messages.jsonl").changefeed("feed"))
    keys, values = (pa.array(part, pa.binary()) for part in zip(*sent, strict=True))
    bulk = REGISTRY[wire.name].bulk
    assert bulk is not None

    heads = bulk.heads(Messages(keys, values), options)

    assert len(heads) == len(sent) > 50
    assert not np.any(heads.left)


def test_statements_and_watermarks_are_encoded_as_by_ticdc(wire: Wire, workload: Workload, tmp_path: Path):
    sent = [wire.statement(_statement(*recorded)) for recorded in statements(workload) if recorded[2]]
    sent += [wire.watermark(ts) for ts in watermarks(workload)]
    encoded = {_plain(event) for event in _decoded(workload, tmp_path, sent)}

    recorded = {_plain(e) for e in _recorded(workload, tmp_path) if not isinstance(e, RowEvent)}

    # Statements on databases are not the model's, and bootstraps have no TSO.
    assert encoded == {event for event in recorded if len(event) == 1 or (event[0] and event[2])}


@pytest.mark.parametrize("wire", [w for w in WIRES if w.name != "open-protocol"], indirect=True, ids=lambda w: w.name)
def test_messages_have_the_members_that_ticdc_gives_them(wire: Wire, workload: Workload, tmp_path: Path):
    sent = [message for change in _changes(workload) for message in wire.rows([change])]
    sent += [wire.watermark(ts) for ts in watermarks(workload)]

    assert {_members(value) for _, value in sent} <= {
        _members(m.value) for m in messages(workload.root / "messages.jsonl")
    }


def test_a_csv_line_is_the_line_that_ticdc_wrote():
    [recorded] = workloads("storage-csv-special", "seed1")
    files = (path.read_bytes() for path in recorded.root.glob("data/**/CDC*.csv"))
    written = {line for content in files for line in content.split(b"\r\n")}
    whole = [c for c in _changes(recorded) if _is_whole(c, recorded) and not c.shape.name.startswith(("ren_", "swap_"))]
    plain = [change for change in whole if all(_is_plain(value) for value in change.row.values())]

    assert len(plain) > 30
    assert {csv_line(change).removesuffix(b"\r\n") for change in plain} <= written


def _is_plain(value: Any) -> bool:
    return not isinstance(value, str) or (value.isprintable() and '"' not in value)


# -- a log as the model's changes -------------------------------------------------------------------------------------


def _changes(workload: Workload) -> Iterator[RowChange]:
    shapes = tables(workload.events)
    for change in changes(workload):
        shape = _shape(shapes.as_of(change.schema, change.table, change.commit_ts))
        if not shape.names:
            continue
        row, old = ({n: v for n, v in image or () if n in shape.names} for image in (change.new, change.old))
        yield RowChange(change.commit_ts, shape, change.op, row, old if change.op == "U" else None)


def _shape(table: TableSchema) -> Shape:
    stored = [c for c in table.stored_columns if c.type.kind in TYPES and not c.type.unsigned and c.default is None]
    columns = tuple(Column(column.name, TYPES[column.type.kind], column.nullable) for column in stored)
    names = {column.name for column in columns}
    key = table.key[0] if len(table.key) == 1 and table.key[0] in names else None
    return Shape(0, 0, table.schema, table.name, columns, key, None, 1)


def _is_whole(change: RowChange, workload: Workload) -> bool:
    table = tables(workload.events).as_of(change.shape.schema, change.shape.name, change.commit_ts)
    return len(table.stored_columns) == len(change.shape.columns)


def _statement(ts: int, schema: str, table: str, text: str) -> Statement:
    return Statement(ts, "", text, None, Shape(0, 0, schema, table, (), None, None, 1))


# -- what messages say ------------------------------------------------------------------------------------------------


def _recorded(workload: Workload, folder: Path) -> Iterator[Event]:
    sent = ((m.key, m.value) for m in messages(workload.root / "messages.jsonl"))
    return _decoded(workload, folder, sent)


def _decoded(workload: Workload, folder: Path, sent: Iterable[tuple[bytes | None, bytes | None]]) -> Iterator[Event]:
    config = config_of(workload, folder, workload.root / "messages.jsonl")
    changefeed = config.changefeed("feed")
    options = options_of(changefeed)
    for key, value in sent:
        yield from REGISTRY[str(changefeed.sink.protocol)].decode(key, value, "here", options)


def _row(event: RowEvent, names: set[str]) -> tuple[Any, ...]:
    images = (frozenset((n, v) for n, v in (image or {}).items() if n in names) for image in (event.wire, event.before))
    return (event.schema, event.table, event.op, event.commit_ts, *images)


def _plain(event: Event) -> tuple[Any, ...]:
    if isinstance(event, WatermarkEvent):
        return (event.ts,)
    assert isinstance(event, DdlEvent)
    return (event.commit_ts, event.schema, event.table, event.query)


def _members(value: bytes | None) -> tuple[str, ...]:
    message = json.loads(value or b"{}")
    return tuple(sorted(message.get("payload", message)))
