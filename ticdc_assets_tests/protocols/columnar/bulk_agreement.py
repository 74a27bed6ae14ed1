"""Compares bulk decoders of messages with the reference decoders, and damages messages for that."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.columnar.message_rows import BulkRows, Messages
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.protocols.values.checksum import ChecksummedRow
from ticdc_assets.schema.model import Column, Kind, MySqlType
from ticdc_assets.sources.capture import messages
from ticdc_assets_tests.fixtures import Workload

TS = 459802238374641668
Pair = tuple[bytes | None, bytes | None]


# --- what the two forms tell, in one shape ---------------------------------------------------------------------------


def plain(wire: Any) -> Any:
    """A wire value by which equal ones are equal and others are not: -0.0 is not 0.0, and NaN is NaN."""
    if isinstance(wire, Decimal):
        return f"{wire:f}"
    return repr(wire) if isinstance(wire, float) else wire


def image(wire: Any) -> Any:
    return None if wire is None else {name: plain(found) for name, found in wire.items()}


def of_reference(event: Any) -> tuple[Any, ...]:
    before = event.before
    if event.before_is_partial:
        before = {**event.wire, **before}
    return (
        *(event.schema, event.table, str(event.op), event.commit_ts, event.time.commit_ms, event.hints.schema_version),
        *(event.hints.table_id, event.hints.partition_id, event.upsert, image(event.wire), image(before)),
    )


def of_bulk(rows: BulkRows, count: int) -> list[tuple[Any, ...] | None]:
    found: list[tuple[Any, ...] | None] = [None] * count
    for table in rows.tables:
        raw = table.rows
        now = [array.to_pylist() for array in raw.wire]
        before = [array.to_pylist() for array in raw.before or ()]
        has_before = raw.has_before.to_pylist() if raw.has_before is not None else [False] * len(raw)
        ids = table.table_id.to_pylist() if table.table_id is not None else [None] * len(raw)
        assert table.position.to_pylist() == [0] * len(raw)
        lines = raw.line.to_pylist()
        said = list(zip(*(array.to_pylist() for array in (raw.op, raw.commit_ts, raw.commit_ms)), strict=True))
        assert lines == sorted(lines)
        for row, line in enumerate(lines):
            assert found[line] is None
            assert not rows.left[line]
            found[line] = (
                *(table.schema, table.table, *said[row], table.schema_version, ids[row], None, table.upsert),
                image(dict(zip(raw.columns, [values[row] for values in now], strict=True))),
                image(dict(zip(raw.columns, [values[row] for values in before], strict=True)))
                if has_before[row]
                else None,
            )
    return found


def reference(module: Any, pairs: Sequence[Pair], options: Any) -> list[Any]:
    found = []
    for key, value in pairs:
        try:
            (event,) = module.decode(key, value, "here", options)
        except DecodeError as error:
            found.append(error)
        else:
            found.append(event)
    return found


def agree(bulk: Any, module: Any, pairs: Sequence[Pair], options: Any) -> tuple[BulkRows, list[Any]]:
    """The results of both decoders, after a check that they are equal for every message that the bulk decoder reads."""
    batch = Messages.from_pairs(pairs)
    rows = bulk.rows(batch, options)
    events = reference(module, pairs, options)
    result = of_bulk(rows, len(pairs))
    for event, found, left in zip(events, result, rows.left, strict=True):
        assert left == (found is None)
        if found is not None:
            assert isinstance(event, RowEvent)
            assert not isinstance(event, ChecksummedRow)
            assert event.claim is None
            assert not event.handle_only or event.op == "D"
            assert of_reference(event) == found
    heads_agree(bulk, batch, options, events)
    return rows, events


def heads_agree(bulk: Any, batch: Messages, options: Any, events: list[Any]) -> None:
    heads = bulk.heads(batch, options)
    assert heads.message.to_pylist() == np.flatnonzero(~heads.left).tolist()
    parts = (heads.name, heads.op, heads.commit_ts, heads.commit_ms, heads.schema_version)
    said = zip(*(array.to_pylist() for array in parts), strict=True)
    for place, (name, *rest) in zip(heads.message.to_pylist(), said, strict=True):
        assert isinstance(events[place], RowEvent)
        assert of_reference(events[place])[:6] == (*heads.names[name], *rest)
    assert heads.position.to_pylist() == [0] * len(heads)


def values_agree(column_of: Any, value: Any, column: Column, array: pa.Array, zone: str) -> None:
    """The bulk form's typed values are the reference's, or both refuse."""
    wires = [f"{w:f}" if isinstance(w, Decimal) else w for w in array.to_pylist()]
    try:
        expected = [value(column, wire, zone) for wire in wires]
    except DecodeError:
        with pytest.raises(DecodeError):
            column_of(column, array, zone)
        return
    found = column_of(column, array, zone)
    again = pa.array(expected, found.type).to_pylist()
    assert [plain(one) for one in again] == [plain(one) for one in found.to_pylist()]


# --- damage ----------------------------------------------------------------------------------------------------------


RARE_NUMBERS = [
    b"\x80\x00",  # 0, but longer than need be
    b"\x82\x80\x80\x00",  # 1, likewise
    *(b"\xff" * size + end for size in (4, 8, 9, 10) for end in (b"\x00", b"\x01", b"\x02", b"\x7f")),
    *(b"\xfe" + b"\xff" * size + end for size in (3, 7, 8, 9) for end in (b"\x00", b"\x01", b"\x02", b"\x7f")),
]
"""Numbers in more bytes than usual: around what 32 and 64 bits hold, and above."""


def damaged(draw: Any, raw: bytes | None) -> bytes | None:
    """A key or value that is cut, longer, with a byte changed, or gone."""
    kind = draw(st.sampled_from(["cut", "flip", "set", "number", "more", "gone", "none", "as it is"]))
    at = draw(st.integers(0, max(0, len(raw or b"") - 1)))
    if kind == "none" or not raw:
        return None
    changed = {
        "cut": raw[:at],
        "flip": raw[:at] + bytes([raw[at] ^ (1 << draw(st.integers(0, 7)))]) + raw[at + 1 :],
        "set": raw[:at] + draw(st.binary(min_size=1, max_size=12)) + raw[at + 1 :],
        "number": raw[:at] + draw(st.sampled_from(RARE_NUMBERS)) + raw[at + 1 :],
        "more": raw + draw(st.binary(min_size=1, max_size=3)),
        "gone": b"",
    }
    return changed.get(kind, raw)


@st.composite
def spoiled(draw: Any, sound: Sequence[Pair]) -> list[Pair]:
    """Some messages of a stream, repeated and out of order, a few of them damaged."""
    some = [sound[i] for i in draw(st.lists(st.integers(0, len(sound) - 1), min_size=1, max_size=24))]
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(some) - 1))
        key, value = some[at]
        if draw(st.booleans()):
            some[at] = (key, damaged(draw, value))
        else:
            some[at] = (damaged(draw, key), value)
    return some


def every_damage(raw: bytes) -> list[bytes]:
    """Each cut of these bytes, and each of them changed in many ways."""
    changes = [bytes([byte]) for byte in (0, 1, 2, 3, 0x10, 0x7E, 0x7F, 0x80, 0xFF)] + RARE_NUMBERS
    cuts = [raw[:end] for end in range(len(raw))]
    return cuts + [raw[:at] + change + raw[at + 1 :] for at in range(len(raw)) for change in changes]


slow = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


# --- columns ---------------------------------------------------------------------------------------------------------

ANY_COLUMN = [
    Column("c", of_column)
    for of_column in (
        *(MySqlType(Kind.INT), MySqlType(Kind.INT, unsigned=True), MySqlType(Kind.BIGINT, unsigned=True)),
        *(MySqlType(Kind.BIT, 64), MySqlType(Kind.BIT, 3), MySqlType(Kind.YEAR), MySqlType(Kind.FLOAT)),
        *(
            MySqlType(Kind.DOUBLE),
            MySqlType(Kind.DECIMAL, 10, 2),
            MySqlType(Kind.DECIMAL, 38, 4),
            MySqlType(Kind.DECIMAL, 65, 30),
            MySqlType(Kind.VARCHAR, 9),
            MySqlType(Kind.BLOB),
        ),
        *(MySqlType(Kind.ENUM, elements=("x", "y")), MySqlType(Kind.SET, elements=("x", "y")), MySqlType(Kind.SET)),
        *(MySqlType(Kind.TIMESTAMP, 6), MySqlType(Kind.DATETIME, 6), MySqlType(Kind.DATE), MySqlType(Kind.JSON)),
        MySqlType(Kind.VARCHAR, 9, charset="binary"),
    )
]

LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
TEXTS = st.one_of(
    st.text(max_size=200),
    st.sampled_from(["2024-02-30", "2024-02-29", "0000-00-00 00:00:00", "2024-01-01 10:00:00.5", "-838:59:59", "{}"]),
)


# --- streams ---------------------------------------------------------------------------------------------------------


@cache
def pairs_of(workload: Workload) -> list[Pair]:
    return [(message.key, message.value) for message in messages(workload.root / "messages.jsonl")]


def is_plain(event: Any) -> bool:
    if not isinstance(event, RowEvent) or isinstance(event, ChecksummedRow):
        return False
    return event.claim is None and not event.handle_only
