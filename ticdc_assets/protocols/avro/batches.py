"""Reads batches of Avro messages and groups them by schema, for `avro.bulk`.

A message is read only if its key and its value are each exactly one value of a registered schema, all fields have types
that TiCDC uses for columns, and the key consists of columns of the row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.avro import table_schema as fields
from ticdc_assets.protocols.avro.decoder import HEAD_BYTES
from ticdc_assets.protocols.avro.table_schema import Writer, writer
from ticdc_assets.protocols.columnar.message_rows import Messages
from ticdc_assets.protocols.formats.avro.batches import (
    SLAB_BYTES_MAX,
    AvroBatchReader,
    ByteSlab,
    Ints,
    Mask,
    groups,
    in_large_groups,
)
from ticdc_assets.protocols.formats.avro.columns import ReadVector, Vector, reader
from ticdc_assets.protocols.protocol import DecoderOptions

NONE: Final = -1
_PLANS_MAX: Final = 256
_FIELDS_MAX: Final = 1 << 22
"""How many fields of one schema are read at a time: each field of each message takes about 30 bytes meanwhile."""

Reads = tuple[tuple[str, ReadVector], ...]


@dataclass(frozen=True, slots=True)
class _Old:
    """How to read the record of old values: the branches of its union, which of them it is, and its fields."""

    branches: int
    branch: int
    reads: Reads


@dataclass(frozen=True, slots=True)
class _Plan:
    """How to read all messages of one schema: each field in order; the record of old values is one of them."""

    writer: Writer
    reads: tuple[tuple[str, ReadVector | _Old], ...]


@dataclass(frozen=True, slots=True)
class Before:
    """The old values of some rows of a part. `place` is the index of each row in the vectors, -1 where it has none."""

    place: Ints
    vectors: dict[str, Vector]


@dataclass(frozen=True, slots=True)
class SchemaGroup:
    """Messages of one schema: their places in the batch, and their fields."""

    writer: Writer
    schema_id: int
    messages: Ints
    lanes: AvroBatchReader
    vectors: dict[str, Vector]
    before: Before | None

    def good(self) -> Ints:
        """The rows that hold exactly one value of the schema, down to the encoding of their texts."""
        good = np.flatnonzero(self.lanes.ok)
        for vector in self.vectors.values():
            if vector.is_text:
                invalid = vector.build(good).rows
                good = good if invalid is None else good[~invalid]
        return good if self.before is None else _with_good_texts(self.before, good)


def _with_good_texts(before: Before, good: Ints) -> Ints:
    for vector in before.vectors.values():
        if vector.is_text:
            place = before.place[good]
            has_old = np.flatnonzero(place != NONE)
            invalid = vector.build(place[has_old]).rows
            good = good if invalid is None else np.delete(good, has_old[invalid])
    return good


def parts(messages: Messages, options: DecoderOptions) -> Iterator[tuple[SchemaGroup, bool]]:
    """The rows of each value schema, with false; then by key schema the deletes, which have no value, with true."""
    if not len(messages) or max(messages.keys.nbytes, messages.values.nbytes) > SLAB_BYTES_MAX:
        return
    keys, values = (_Framed(array) for array in (messages.keys, messages.values))
    known = {number: _plan_of(number, options) for number in {*keys.different(), *values.different()}}
    key_is_sound = keys.is_absent.copy()
    key_parts = []
    for number, lanes in keys.by_id(keys.is_framed):
        plan = known[number]
        if plan is not None and fields.BEFORE not in plan.writer.extension:
            part = _part(plan, number, _long_enough(lanes, plan, keys.slab), keys.slab)
            key_is_sound[part.messages[part.good()]] = True
            key_parts.append((plan, part))
    for number, lanes in values.by_id(values.is_framed & key_is_sound):
        plan = known[number]
        if plan is not None and not plan.writer.hides_deletes:
            fitting = lanes[_fits(keys.ids[lanes], known, plan)]
            for some in _runs(_long_enough(fitting, plan, values.slab), plan):
                yield _part(plan, number, some, values.slab), False
    for plan, part in key_parts:
        wanted = np.flatnonzero(values.is_absent[part.messages])
        if len(wanted):
            # Keys are read once more here, only those of deletes: most keys belong to rows.
            yield _part(plan, part.schema_id, part.messages[wanted], keys.slab), True


def _fits(key_ids: Ints, known: dict[int, _Plan | None], plan: _Plan) -> Mask:
    """The messages whose key consists of columns of the row, or is absent."""
    columns = set(plan.writer.columns)
    fitting = [NONE]
    for number in np.unique(key_ids).tolist():
        key = known.get(number)
        if key is not None and {name for name, _ in key.reads} <= columns:
            fitting.append(number)
    return np.isin(key_ids, fitting)


def _long_enough(messages: Ints, plan: _Plan, slab: ByteSlab) -> Ints:
    """The messages that are long enough for a value of the schema. So a wide schema costs nothing for messages without
    values."""
    size = slab.ends[messages] - slab.starts[messages] - HEAD_BYTES
    return messages[size >= plan.writer.reader.bytes_min]


def _runs(messages: Ints, plan: _Plan) -> Iterator[Ints]:
    """The messages in runs whose total number of fields is bounded."""
    length = max(1, _FIELDS_MAX // plan.writer.reader.fields)
    for start in range(0, len(messages), length):
        yield messages[start : start + length]


class _Framed:
    """The keys or the values of a batch: which are absent, which begin with a schema id, and the ids. `ids` is -1 for
    those without one.
    """

    def __init__(self, array: pa.Array) -> None:
        self.slab = ByteSlab(array.fill_null(b""))
        length = self.slab.ends - self.slab.starts
        self.is_absent: Mask = length == 0
        head = self.slab.words[self.slab.starts].byteswap()
        self.is_framed: Mask = (length >= HEAD_BYTES) & (head >> np.uint64(56) == 0)
        self.ids: Ints = np.where(self.is_framed, (head >> np.uint64(24)).astype(np.int64), NONE)
        self.is_framed &= in_large_groups(self.ids)

    def different(self) -> list[int]:
        """The different ids of the batch."""
        found: list[int] = np.unique(self.ids[self.is_framed]).tolist()
        return found

    def by_id(self, wanted: Mask) -> Iterator[tuple[int, Ints]]:
        """The indices of the wanted ones, by id."""
        places = np.flatnonzero(wanted)
        for number, some in groups(self.ids[places]):
            yield number, places[some]


def _part(plan: _Plan, schema_id: int, messages: Ints, slab: ByteSlab) -> SchemaGroup:
    lanes = AvroBatchReader(slab, slab.starts[messages] + HEAD_BYTES, slab.ends[messages])
    vectors = {}
    before = None
    for name, read in plan.reads:
        if isinstance(read, _Old):
            before = _before(read, lanes)
        else:
            vectors[name] = read(lanes, None)
    lanes.fail_unfinished()
    return SchemaGroup(plan.writer, schema_id, messages, lanes, vectors, before)


def _before(old: _Old, lanes: AvroBatchReader) -> Before:
    branch = lanes.small()
    lanes.fail(branch >= old.branches)
    rows = np.flatnonzero(lanes.ok & (branch == old.branch))
    some = lanes.select(rows)
    vectors = {name: read(some, None) for name, read in old.reads}
    lanes.put(rows, some)
    place = np.full(len(lanes), NONE)
    place[rows] = np.arange(len(rows))
    return Before(place, vectors)


# -- plans ------------------------------------------------------------------------------------------------------------


def _plan_of(schema_id: int, options: DecoderOptions) -> _Plan | None:
    try:
        return _plan(options.schemas(schema_id))
    except (LookupError, DecodeError):
        return None


@lru_cache(maxsize=_PLANS_MAX)
def _plan(text: str) -> _Plan | None:
    found = writer(text)
    if fields.CHECKSUM in found.extension:
        return None
    types = {one["name"]: one["type"] for one in found.fields}
    reads = []
    for name, of in types.items():
        is_old = name == fields.BEFORE and name in found.extension
        read = _old(of, {column: types[column] for column in found.columns}) if is_old else reader(of)
        if read is None:
            return None
        reads.append((name, read))
    return _Plan(found, tuple(reads))


def _old(of: Any, columns: dict[str, Any]) -> _Old | None:
    """How to read old values that may be null, of just the row's columns."""
    if not isinstance(of, list) or len(of) != 2 or "null" not in of:
        return None
    branch = 1 - of.index("null")
    inner = {one["name"]: one["type"] for one in of[branch]["fields"]}
    reads = tuple((name, read) for name, type_ in inner.items() if (read := reader(type_)) is not None)
    return _Old(len(of), branch, reads) if inner == columns and len(reads) == len(inner) else None
