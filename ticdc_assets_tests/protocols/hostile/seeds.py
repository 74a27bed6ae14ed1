"""Messages of every protocol as seeds, and what a consumer does with a message as a target.

The seeds are the corpus: of every table and kind of event the smallest message, with the columns its rows had. The
target goes as far as a run does: events, the schemas that messages and rows tell as the lake's types, checksums, values
as the lake's, and the integers that tables hold as 64 bits.
"""

from __future__ import annotations

import contextlib
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import orjson
import pyarrow as pa

from ticdc_assets.errors import DecodeError, SchemaError
from ticdc_assets.protocols.avro import decoder as confluent_avro
from ticdc_assets.protocols.events import Event, RowEvent, WatermarkEvent
from ticdc_assets.protocols.formats.bodies import frames
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.protocols.protocol import DecoderOptions, MessageProtocol
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.protocols.simple import decoder as simple
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.model import Column, TableSchema
from ticdc_assets.sources.capture import messages
from ticdc_assets_tests.fixtures import CORPUS, Workload
from ticdc_assets_tests.protocols import happened
from ticdc_assets_tests.protocols.formats.written import framed
from ticdc_assets_tests.protocols.hostile.mutations import Mutant, Seed, alone, key_and_value

SEED_BYTES_MAX = 4096
HERE = "topic[0]@0"


@dataclass(frozen=True)
class Stream:
    """A recorded stream: the protocol that reads it, and how."""

    variant: str
    protocol: str
    options: Any

    @property
    def workload(self) -> Workload:
        return Workload(CORPUS / "fixtures" / self.variant / "seed1")

    @property
    def known(self) -> MessageProtocol:
        return REGISTRY[self.protocol]


def _avro_schemas() -> dict[int, str]:
    return confluent_avro.registry_from_json(
        (CORPUS / "fixtures/avro-ext/seed1/registry.json").read_bytes(), "registry.json"
    )


def streams() -> dict[str, Stream]:
    """One recorded stream for each protocol, two for Simple, which has two encodings."""
    found = [
        Stream("open", "open-protocol", DecoderOptions()),
        Stream("simple-json", "simple", DecoderOptions()),
        Stream("simple-avro", "simple", DecoderOptions()),
        Stream("canal-json-tidb", "canal-json", DecoderOptions()),
        Stream("avro-ext", "avro", DecoderOptions(schemas=_avro_schemas().__getitem__)),
        Stream("debezium-tidb-noschema", "debezium", DecoderOptions()),
    ]
    assert {stream.protocol for stream in found} == REGISTRY.keys(), "every protocol has a recorded stream"
    return {stream.variant: stream for stream in found}


@dataclass(frozen=True)
class Known:
    """The columns that a seed's rows had, and the schema that checksums are computed over."""

    columns: tuple[Column, ...] = ()
    checked: TableSchema | None = None


# -- seeds -------------------------------------------------------------------------------------------------------------


@cache
def seeds(stream: Stream) -> list[Seed]:
    """The smallest sound message of each kind."""
    result: dict[Any, TableSchema] = {}
    smallest: dict[Any, Seed] = {}
    for bodies, pack in _messages(stream):
        key, value = pack(bodies)
        events = list(stream.known.decode(key, value, HERE, stream.options))
        for event in events:
            if isinstance(event, DdlEvent) and event.after is not None:
                result[event.schema, event.table, event.hints.version] = event.after
        identity = tuple(_kind(event) for event in events)
        found = smallest.get(identity)
        if len(value or b"") <= SEED_BYTES_MAX and (found is None or _size(bodies) < _size(found.bodies)):
            smallest[identity] = Seed(tuple(bodies), pack, _known(stream, events, result, key, value))
    return list(smallest.values())


def _messages(stream: Stream) -> Iterator[tuple[Sequence[bytes], Callable[..., Any]]]:
    for message in messages(stream.workload.root / "messages.jsonl"):
        if stream.protocol == "open-protocol":
            yield from _single_events(message.key or b"", message.value or b"")
        elif message.key is None:
            yield (message.value or b"",), _value_only
        elif message.value is None:
            yield (message.key,), _key_only
        else:
            yield (message.key, message.value), key_and_value


def _single_events(key: bytes, value: bytes) -> Iterator[tuple[Sequence[bytes], Callable[..., Any]]]:
    for head, body in zip(frames(key[8:], HERE), frames(value, HERE), strict=True):
        yield (head, body), _framed


def _framed(bodies: Sequence[bytes]) -> tuple[bytes, bytes]:
    return (1).to_bytes(8, "big") + framed(bodies[0]), framed(bodies[1])


def _value_only(bodies: Sequence[bytes]) -> tuple[None, bytes]:
    return None, bodies[0]


def _key_only(bodies: Sequence[bytes]) -> tuple[bytes, None]:
    return bodies[0], None


def _size(bodies: Sequence[bytes]) -> int:
    return sum(map(len, bodies))


def _kind(event: Event) -> tuple[Any, ...]:
    if isinstance(event, RowEvent):
        return (event.schema, event.table, event.op, event.before is not None)
    return (type(event), getattr(event, "query", "")[:14])


def _known(
    stream: Stream, events: Iterable[Event], given: dict[Any, TableSchema], key: bytes | None, value: bytes | None
) -> Known:
    row = next((event for event in events if isinstance(event, RowEvent)), None)
    if row is None:
        return Known()
    if stream.protocol == "avro":
        schema = confluent_avro.schema_event(key, value, HERE, stream.options)
        checked = None if schema is None else schema.after
        return Known(() if checked is None else checked.stored_columns, checked)
    shape = _tables(stream).as_of(row.schema, row.table, row.commit_ts or 1 << 63)
    return Known(shape.stored_columns, given.get((row.schema, row.table, row.hints.schema_version)))


@cache
def _tables(stream: Stream) -> happened.Tables:
    return happened.tables(stream.workload.events)


# -- the target --------------------------------------------------------------------------------------------------------


def target(stream: Stream) -> Callable[[Mutant], bool]:
    """What a run does with a message; true where it is sound."""
    return partial(consume, stream)


def consume(stream: Stream, mutant: Mutant) -> bool:
    """Decodes a message and everything in it. Only DecodeError and SchemaError are caught, each where it may be."""
    try:
        if stream.protocol == "avro":
            _schema(confluent_avro.schema_event(mutant.key, mutant.value, HERE, stream.options))
        events = list(stream.known.decode(mutant.key, mutant.value, HERE, stream.options))
    except DecodeError:
        return False
    for event in events:
        if isinstance(event, RowEvent):
            _row(stream, event, mutant.seed.context)
        elif isinstance(event, DdlEvent):
            _schema(event)
        else:
            assert isinstance(event, WatermarkEvent)
            _assert_int64(event.ts)
    return bool(events)


def _schema(event: DdlEvent | None) -> None:
    if event is None:
        return
    _assert_int64(event.commit_ts)
    for table in (event.after, event.before):
        if table is not None:
            lake_types(table)


def lake_types(table: TableSchema) -> None:
    """A schema that was taken for sound has a type in the lake for each column."""
    for column in table.stored_columns:
        arrow_type(column.type)


def _row(stream: Stream, row: RowEvent, known: Known) -> None:
    _assert_int64(row.commit_ts)
    for number in (row.hints.schema_version, row.hints.table_id, row.hints.partition_id, row.hints.row_id):
        assert number is None or -(1 << 63) <= number < 1 << 63
    # Milliseconds become microseconds, and a TSO.
    assert row.time.commit_ms is None or 0 <= row.time.commit_ms << 18 < 1 << 63
    assert row.claim is None or not {"/", "\\"} & set(row.claim)
    if stream.known.infer is not None and row.hints.columns:
        with contextlib.suppress(SchemaError):
            lake_types(stream.known.infer(row))
    if known.checked is not None:
        verify = simple.verify if stream.protocol == "simple" else confluent_avro.verify
        _decodes(verify, row, known.checked, "Asia/Shanghai")
    for column in known.columns:
        for image in (row.wire, row.before or {}):
            _value(stream, column, image.get(column.name))


def _value(stream: Stream, column: Column, wire: Any) -> None:
    if wire is not None and (found := _decodes(stream.known.value, column, wire, "Asia/Shanghai")) is not None:
        pa.array([found], arrow_type(column.type))


def _decodes(step: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return step(*arguments)
    except DecodeError:
        return None


def _assert_int64(number: int | None) -> None:
    assert number is None or 0 <= number < 1 << 63


def compressed(stream: Stream, compression: Compression) -> tuple[Stream, list[Seed]]:
    """The same stream as TiCDC compresses it: each body of the Open Protocol, else the whole value."""
    pack = _lz4 if compression is Compression.LZ4 else _snappy
    found = [replace(seed, bodies=(*seed.bodies[:-1], pack(seed.bodies[-1]))) for seed in seeds(stream)]
    return replace(stream, options=replace(stream.options, compression=compression)), found


def _snappy(body: bytes) -> bytes:
    packed: bytes = pa.Codec("snappy").compress(body, asbytes=True)
    return packed


def _lz4(body: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "lz4") as stream:
        stream.write(body)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def claims(stream: Stream) -> list[Seed]:
    """Claim-check files around the rows of the stream."""
    found = []
    for seed in seeds(stream):
        key, value = seed.pack(seed.bodies)
        if seed.context.columns:
            given = {"key": b64encode(key or b"").decode() or None, "value": b64encode(value or b"").decode()}
            found.append(Seed((orjson.dumps(given),), alone, seed.context))
    return found


def claim_target(stream: Stream) -> Callable[[Mutant], bool]:
    """What a run does with a claim-check file."""
    open_claim = stream.known.open_claim
    assert open_claim is not None

    def consume_claim(mutant: Mutant) -> bool:
        try:
            rows = list(open_claim(mutant.value or b"", HERE, stream.options))
        except DecodeError:
            return False
        for row in rows:
            assert not isinstance(row, RowEvent) or not row.claim
        return bool(rows)

    return consume_claim
