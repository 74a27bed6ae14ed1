"""Open Protocol: whatever was encoded is decoded, and hostile bytes are refused."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.protocols.open_protocol.decoder import decode, value
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.schema.model import Column, Kind, MySqlType
from ticdc_assets_tests.protocols.formats.written import go_quote
from ticdc_assets_tests.protocols.hostile.damage import cuts, damage, flips, splices
from ticdc_assets_tests.protocols.open_protocol.open_messages import (
    HEAD,
    ID,
    PLAIN,
    TS,
    U64,
    column,
    decoded,
    message,
    of,
)

names = st.text(min_size=1, max_size=8)
wires = st.none() | st.booleans() | st.integers(-(1 << 63), U64) | st.floats(allow_nan=False, allow_infinity=False)
wires = wires | st.text(max_size=20) | st.binary(max_size=20).map(go_quote)
columns = st.dictionaries(
    names, st.builds(column, wires, st.integers(0, 255), st.integers(0, 255), st.booleans()), min_size=1, max_size=4
)
bodies = (
    st.fixed_dictionaries({"u": columns})
    | st.fixed_dictionaries({"u": columns, "p": columns})
    | st.fixed_dictionaries({"d": columns})
)
row_heads = st.fixed_dictionaries(
    {"ts": st.integers(1, (1 << 63) - 1), "scm": names, "tbl": names, "t": st.just(1)},
    optional={"rid": st.integers(-(1 << 63), (1 << 63) - 1), "ptn": st.integers(1, 1 << 40), "ohk": st.booleans()},
)
rows = st.tuples(row_heads, bodies)


def read_back(event: RowEvent) -> tuple[dict[str, Any], dict[str, Any]]:
    head = {"ts": event.commit_ts, "scm": event.schema, "tbl": event.table, "t": 1}
    head |= {"rid": event.hints.row_id} if event.hints.row_id is not None else {}
    head |= {"ptn": event.hints.partition_id} if event.hints.partition_id is not None else {}
    image = {n: (v, event.hints.columns[n]) for n, v in event.wire.items()}
    return head, {"DELETE": {"d": image}}.get(event.op.name, {"u": image})


@given(st.lists(rows, min_size=1, max_size=4), st.sampled_from(list(Compression)))
@settings(max_examples=300)
def test_what_was_encoded_is_decoded(sent, compression):
    got = decoded(*sent, options=DecoderOptions(compression))

    assert len(sent) == len(got)
    for (head, body), event in zip(sent, got, strict=True):
        wanted = {k: v for k, v in head.items() if k != "ohk"}
        image = body.get("u") or body["d"]
        found, read = read_back(event)
        assert wanted == found
        assert head.get("ohk", False) == event.handle_only
        assert {n: c["v"] for n, c in image.items()} == dict(event.wire)
        assert {n: (c["t"], c["f"], c.get("h", False)) for n, c in image.items()} == {
            n: (hint.type_code, hint.flags, hint.handle) for n, (_, hint) in next(iter(read.values())).items()
        }
        assert body.get("p") is None or {n: c["v"] for n, c in body["p"].items()} == event.before


SAMPLE = message(
    ({**HEAD, "rid": 5, "ptn": 9}, {"u": {"id": ID, "b": column("\\xff", 15, 65)}, "p": {"id": ID}}),
    ({**HEAD, "ohk": True}, {"d": {"id": ID}}),
    ({**HEAD, "ccl": "s3://a/b.json"}, {"d": {"id": ID}}),
    ({"ts": TS, "scm": "s", "tbl": "t", "t": 2}, {"q": "DROP TABLE t", "t": 4}),
    ({"ts": TS, "t": 3}, None),
)
SHAPES = [Column("c", MySqlType(kind, 10, 2, False, ("a", "b"))) for kind in Kind]


@given(st.lists(flips | cuts | splices, min_size=1, max_size=3), st.booleans(), st.sampled_from(list(Compression)))
@settings(max_examples=3000, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_damaged_messages_decode_or_are_a_decode_error(hows, in_key, compression):
    key, body = SAMPLE if compression is Compression.NONE else COMPRESSED[compression]
    for how in hows:
        key, body = (damage(key, how), body) if in_key else (key, damage(body, how))
    read_all(key, body, DecoderOptions(compression))


@given(st.none() | st.binary(max_size=80), st.none() | st.binary(max_size=80))
@example(struct.pack(">q", 1), struct.pack(">q", (1 << 63) - 1))
@settings(max_examples=1000)
def test_any_bytes_decode_or_are_a_decode_error(key, body):
    read_all(key, body, PLAIN)
    read_all(struct.pack(">q", 1) + (key or b""), body, PLAIN)


def read_all(key: bytes | None, body: bytes | None, options: DecoderOptions) -> None:
    try:
        events = list(decode(key, body, "here", options))
    except DecodeError:
        return
    for event in events:
        for wire in event.wire.values() if isinstance(event, RowEvent) else ():
            for shape in SHAPES:
                try:
                    value(shape, wire, "UTC")
                except DecodeError:
                    continue


@given(wires, st.sampled_from(list(Kind)))
@settings(max_examples=1500)
def test_any_wire_value_has_a_value_or_is_a_decode_error(wire, kind):
    for more in ({}, {"length": 10, "scale": 2}, {"length": 65, "scale": 30}, {"elements": ("a", "b")}):
        try:
            of(kind.value, wire, **more)
        except DecodeError:
            continue


COMPRESSED = {
    compression: message(
        (HEAD, {"u": {"id": ID, "b": column("\\xff" * 40, 15, 65)}, "p": {"id": ID}}),
        ({"ts": TS, "t": 3}, None),
        compression=compression,
    )
    for compression in (Compression.LZ4, Compression.SNAPPY)
}
