"""Damaged messages among sound ones: the bulk decoder gives the result of the reference decoder, or leaves them to it.

A batch is checked whole: the rows of each message that bulk took, its heads, and the values of the columns that its
table had. The batch at work lies in a file, so that one that kills the process is known.
"""

from __future__ import annotations

import pickle
import random
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

# Small batches are read in bulk too once the code is loaded.
import ticdc_assets.protocols.canal_json.bulk
import ticdc_assets.protocols.open_protocol.bulk
import ticdc_assets.protocols.simple.avro.bulk
import ticdc_assets.protocols.simple.json_bulk  # noqa: F401
from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.columnar.message_rows import Bulk, Messages, TableRows
from ticdc_assets.protocols.columnar.raw_rows import NUMBER_TYPE
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.protocols.values.checksum import ChecksummedRow
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.model import Column
from ticdc_assets_tests.protocols.hostile.mutations import Mutant, Mutator
from ticdc_assets_tests.protocols.hostile.seeds import HERE, Stream, seeds, streams
from ticdc_assets_tests.protocols.hostile.targets import NUMBER, Outcome, bombard

Pair = tuple[bytes | None, bytes | None]
MUTANTS = 12
SOUND = 4
ZONE = "Asia/Shanghai"


def bombard_bulk(name: str, count: int, at_work: Path) -> Outcome:
    """So many mutants of a stream, in batches."""
    stream = streams()[name]
    return bombard(Batches(stream, at_work), Mutator(seeds(stream), NUMBER), count)


class Batches:
    """Gathers mutants and checks each full batch. Returns how many of its mutants the bulk decoder read."""

    def __init__(self, stream: Stream, at_work: Path) -> None:
        assert stream.known.bulk is not None
        self._stream = stream
        self._bulk: Bulk = stream.known.bulk
        self._at_work = at_work
        self._sound = [seed.pack(seed.bodies) for seed in seeds(stream)]
        self._dice = random.Random(NUMBER)
        self._columns = _columns(stream)
        self._pairs: list[Pair] = []
        self.taken(self._sound)  # what loading compiled code takes does not count

    def __call__(self, mutant: Mutant) -> int:
        self._pairs.append((mutant.key, mutant.value))
        if len(self._pairs) < MUTANTS:
            return 0
        mutants, self._pairs = self._pairs, []
        pairs = [*mutants, *self._dice.choices(self._sound, k=SOUND)]
        self._dice.shuffle(pairs)
        self._at_work.write_bytes(pickle.dumps(pairs))
        return len(self.taken(pairs) & {id(pair) for pair in mutants})

    def taken(self, pairs: Sequence[Pair]) -> set[int]:
        """The ids of the messages that the bulk decoder read, after a check of their results."""
        batch = Messages.from_pairs(pairs)
        rows = self._bulk.rows(batch, self._stream.options)
        found = of_bulk(rows.tables)
        for number, pair in enumerate(pairs):
            assert not (rows.left[number] and number in found), shown(pair)
            if not rows.left[number]:
                assert found.get(number, []) == self._reference(pair), shown(pair)
        self._heads_agree(batch, pairs)
        for table in rows.tables:
            self._values_agree(table)
        return {id(pairs[number]) for number in found}

    def _reference(self, pair: Pair) -> list[Any]:
        events = list(self._stream.known.decode(*pair, HERE, self._stream.options))
        for event in events:
            assert isinstance(event, RowEvent), shown(pair)
            assert not isinstance(event, ChecksummedRow), shown(pair)
            assert event.claim is None, shown(pair)
            assert not event.handle_only or event.op == "D", shown(pair)
        return [_comparable(event) for event in events if isinstance(event, RowEvent)]

    def _heads_agree(self, batch: Messages, pairs: Sequence[Pair]) -> None:
        heads = self._bulk.heads(batch, self._stream.options)
        parts = (heads.message, heads.name, heads.op, heads.commit_ts, heads.commit_ms, heads.schema_version)
        found: dict[int, list[Any]] = defaultdict(list)
        for message, name, *rest in zip(*(part.to_pylist() for part in parts), strict=True):
            found[message].append((*heads.names[name], *rest))
        for number, pair in enumerate(pairs):
            if not heads.left[number]:
                assert found.pop(number, []) == [row[:6] for row in self._reference(pair)], shown(pair)
        assert not found

    def _values_agree(self, table: TableRows) -> None:
        for wires in (table.rows.wire, table.rows.before or ()):
            for name, array in zip(table.rows.columns, wires, strict=False):
                for column in self._columns.get((table.schema, table.table, name), ()):
                    self._column_agrees(column, array)

    def _column_agrees(self, column: Column, array: pa.Array) -> None:
        value = self._stream.known.value
        try:
            expected = [value(column, wire, ZONE) for wire in _wires(array)]
        except DecodeError:
            try:
                self._bulk.column(column, array, ZONE)
            except DecodeError:
                return
            raise AssertionError(f"{column}: bulk takes what the reference refuses, in {array}") from None
        found = self._bulk.column(column, array, ZONE)
        assert found.type == arrow_type(column.type)
        again = pa.array(expected, found.type).to_pylist()
        assert [_plain(one) for one in again] == [_plain(one) for one in found.to_pylist()], (column, array)


def _columns(stream: Stream) -> dict[tuple[str, str, str], set[Column]]:
    """What columns of a name the tables of the stream had."""
    found: dict[tuple[str, str, str], set[Column]] = defaultdict(set)
    for seed in seeds(stream):
        for event in stream.known.decode(*seed.pack(seed.bodies), HERE, stream.options):
            if isinstance(event, RowEvent):
                for column in seed.context.columns:
                    found[event.schema, event.table, column.name].add(column)
    return found


def _comparable(event: RowEvent) -> Any:
    old = event.before
    if old is not None and event.before_is_partial:
        old = {**event.wire, **old}
    ids = (event.hints.schema_version, event.hints.table_id, event.hints.partition_id)
    head = (event.schema, event.table, str(event.op), event.commit_ts, event.time.commit_ms)
    return (*head, *ids, event.upsert, _image(event.wire), _image(old))


def of_bulk(tables: Iterable[TableRows]) -> dict[int, list[Any]]:
    found: dict[int, dict[int, Any]] = defaultdict(dict)
    for table in tables:
        for line, position, each in _rows(table):
            assert position not in found[line]
            found[line][position] = each
    return {line: [rows[position] for position in range(len(rows))] for line, rows in found.items()}


def _rows(table: TableRows) -> Iterable[tuple[int, int, Any]]:
    rows = table.rows
    none = [None] * len(table)
    ids = [array.to_pylist() if array is not None else none for array in (table.table_id, table.partition_id)]
    now, old = ([_wires(array) for array in arrays or ()] for arrays in (rows.wire, rows.before))
    has_before = rows.has_before.to_pylist() if rows.has_before is not None else none
    parts = (rows.line, table.position, rows.op, rows.commit_ts, rows.commit_ms)
    for n, (line, position, op, ts, ms) in enumerate(zip(*(part.to_pylist() for part in parts), strict=True)):
        wire = _image({name: values[n] for name, values in zip(rows.columns, now, strict=True)})
        before = _image(
            {name: values[n] for name, values in zip(rows.columns, old, strict=True)} if has_before[n] else None
        )
        version = (table.schema_version, ids[0][n], ids[1][n])
        given = (table.schema, table.table, op, ts, ms, *version, table.upsert and op == "I", wire, before)
        yield line, position, given


def _wires(array: pa.Array) -> list[Any]:
    if array.type == NUMBER_TYPE:
        return [None if one is None else orjson.loads(one["number"]) for one in array.to_pylist()]
    return [f"{one:f}" if isinstance(one, Decimal) else one for one in array.to_pylist()]


def _image(wire: Any) -> Any:
    return None if wire is None else {name: _plain(one) for name, one in wire.items()}


def _plain(wire: Any) -> Any:
    """By which equal values are equal and others are not: 1 is not 1.0, and -0.0 is not 0.0."""
    if isinstance(wire, Decimal):
        return f"{wire:f}"
    return wire if isinstance(wire, str) else repr(wire)


def shown(pair: Pair) -> str:
    """A message to try again."""
    return " ".join("none" if part is None else b64encode(part).decode() for part in pair)
