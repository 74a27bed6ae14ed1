"""Mirrors against the upstream TiDB at the TSO of a record.

TiDB is read in ranges of a bounded number of rows: first counts and checksums, of several ranges at a time, then, in
ranges that differ, the checksum of each row, and at last the rows that differ. A mirror is read once for the
checksums, and again only for ranges that differ.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from ticdc_assets.names import column_name
from ticdc_assets.schema.model import Column, Kind, TableSchema
from ticdc_assets.sources.upstream.checksums import (
    aggregate_expression,
    checksum,
    checksum_expression,
    same_value,
    text,
    text_expression,
)
from ticdc_assets.sources.upstream.key_ranges import Key, key_order
from ticdc_assets.sources.upstream.sql import cells, selected, table_reference, value, with_keys
from ticdc_assets.work_progress import Count, OnProgress, no_progress

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.sources.upstream.rows import UpstreamRows

    _Readers = SimpleQueue[UpstreamRows]

CHUNK_ROWS: Final = 20_000
"""How many rows of TiDB one statement reads."""

CONNECTIONS: Final = 4
"""How many ranges of TiDB are summed up at the same time."""

NARROWED_ROWS_MAX: Final = 1_000_000
"""Rows of the mirror whose keys are held at once while differences are narrowed down."""

_COUNTED_ROWS: Final = 10_000
"""How many rows of a mirror are read between two reports of progress."""

_CONFIRMED_ROWS: Final = 64
"""How many full rows one statement reads."""

_FLOATING: Final = frozenset({Kind.FLOAT, Kind.DOUBLE})


@dataclass(slots=True)
class Sum:
    """Rows summed up: their number, and the XOR of their checksums."""

    rows: int = 0
    checksum: int = 0

    def add(self, rows: int, checksum: int) -> None:
        """Add rows whose XOR of checksums is `checksum`; the order of calls does not matter."""
        self.rows += rows
        self.checksum ^= checksum


@dataclass(frozen=True, slots=True)
class RowDifference:
    """A row that is `missing` in the mirror, only in the mirror (`extra`) or `different`; `columns` differ then."""

    kind: str
    key: Key
    columns: tuple[str, ...] = ()


@dataclass(slots=True)
class Comparison:
    """One table, compared: rows on both sides, statements to TiDB, and the rows that differ."""

    mirror_rows: int = 0
    upstream_rows: int = 0
    statements: int = 0
    differences: list[RowDifference] = field(default_factory=list)


class TableVerification:
    """Compares one mirror at a snapshot with the table of TiDB at the TSO; `name` is its name then."""

    def __init__(
        self,
        rows: UpstreamRows,
        name: tuple[str, str],
        table: TableSchema,
        tso: int,
        mirror: Table,
        snapshot_id: int,
        chunk_rows: int = CHUNK_ROWS,
        on_progress: OnProgress = no_progress,
        connections: int = CONNECTIONS,
    ) -> None:
        self._connections = connections
        self._rows, self._tso, self._chunk_rows = rows, tso, chunk_rows
        self._from, self._name, self._on_progress = table_reference(*name), ".".join(name), on_progress
        self._mirror, self._snapshot_id = mirror, snapshot_id
        self._columns = table.stored_columns
        self._key: tuple[Column, ...] = table.ordered_key
        self._order = key_order(self._key)
        self._found = Comparison()

    def compare(self) -> Comparison:
        """The comparison. Raises NotYetError where TiDB cannot be read."""
        self._on_progress(f"reading {self._name} in TiDB")
        limits, upstream = self._upstream_sums()
        self._on_progress(f"reading the mirror of {self._name}")
        in_mirror = self._mirror_sums(limits)
        self._found.mirror_rows = sum(one.rows for one in in_mirror)
        if not self._order.in_lake:
            different = [0] if _total(upstream) != in_mirror[0] else []
        else:
            different = [n for n, one in enumerate(in_mirror) if one != upstream[n]]
        for group in self._groups(different, in_mirror):
            self._on_progress(f"looking for the rows of {self._name} that differ")
            self._narrow(group, limits)
        return self._found

    # -- TiDB ----------------------------------------------------------------------------------------------------------

    def _ask(self, statement: str, parameters: Sequence[Any]) -> Sequence[Sequence[bytes | None]]:
        self._found.statements += 1
        return self._rows.answers(statement, parameters, self._tso)

    def _upstream_sums(self) -> tuple[list[Key], list[Sum]]:
        """The upper limits of all ranges but the last, and the sum of each range."""
        first = self._limit(None)
        if first is None:
            return [], [self._counted(self._upstream_sum(self._rows, None, None))]
        limits = [first]
        idle: _Readers = SimpleQueue()
        with ExitStack() as stack:
            for _ in range(self._connections):
                idle.put(stack.enter_context(self._rows.another()))
            pool = ThreadPoolExecutor(self._connections)
            stack.callback(pool.shutdown, cancel_futures=True)
            found = [pool.submit(self._summed, idle, None, first)]
            while (until := self._limit(limits[-1])) is not None:
                self._on_progress(Count(len(limits) * self._chunk_rows, None, "row"))
                found.append(pool.submit(self._summed, idle, limits[-1], until))
                limits.append(until)
            found.append(pool.submit(self._summed, idle, limits[-1], None))
            return limits, [self._counted(one.result()) for one in found]

    def _counted(self, found: Sum) -> Sum:
        self._found.statements += 1
        self._found.upstream_rows += found.rows
        self._on_progress(Count(self._found.upstream_rows, None, "row"))
        return found

    def _summed(self, idle: _Readers, after: Key | None, until: Key | None) -> Sum:
        reader = idle.get()
        try:
            return self._upstream_sum(reader, after, until)
        finally:
            idle.put(reader)

    def _limit(self, after: Key | None) -> Key | None:
        """The key at the end of the range; None for the last range."""
        if not self._order.columns:
            return None
        where, parameters = self._order.condition(after, None)
        columns = ", ".join(selected(column) for column in self._order.columns)
        statement = (
            f"SELECT {columns} FROM {self._from} WHERE {where} "  # noqa: S608
            f"ORDER BY {self._order.listed} LIMIT 1 OFFSET {self._chunk_rows - 1}"
        )
        found = self._ask(statement, parameters)
        return self._key_of(self._order.columns, found[0]) if found else None

    def _upstream_sum(self, reader: UpstreamRows, after: Key | None, until: Key | None) -> Sum:
        where, parameters = self._order.condition(after, until)
        inner = f"SELECT {checksum_expression(self._columns)} AS c FROM {self._from} WHERE {where}"  # noqa: S608
        statement = f"SELECT {aggregate_expression('c')} FROM ({inner}) AS q"  # noqa: S608
        [[rows, high, low]] = reader.answers(statement, parameters, self._tso)
        return Sum(int(rows or 0), int(high or 0) << 64 | int(low or 0))

    @staticmethod
    def _key_of(columns: Sequence[Column], answer: Sequence[bytes | None]) -> Key:
        found = cells(columns, answer)
        return tuple(value(column, found[column.name], "") for column in columns)

    # -- the mirror ----------------------------------------------------------------------------------------------------

    def _mirror_rows(self) -> Iterator[dict[str, Any]]:
        names = tuple(column_name(column.name) for column in self._columns)
        scan = self._mirror.scan(snapshot_id=self._snapshot_id, selected_fields=names)
        if any(True for _ in scan.plan_files()):
            for batch in scan.to_arrow_batch_reader():
                yield from batch.to_pylist()

    def _checksum(self, row: dict[str, Any]) -> bytes:
        return checksum(text(column, row[column_name(column.name)]) for column in self._columns)

    def _key_in(self, row: dict[str, Any]) -> Key:
        return tuple(row[column_name(column.name)] for column in self._key)

    def _range_of(self, key: Key, places: Sequence[Key]) -> int:
        return bisect_left(places, self._order.place(key)) if self._order.in_lake else 0

    def _mirror_sums(self, limits: Sequence[Key]) -> list[Sum]:
        places = [self._order.place(limit) for limit in limits]
        sums = [Sum() for _ in range(len(limits) + 1 if self._order.in_lake else 1)]
        for number, row in enumerate(self._mirror_rows(), start=1):
            sums[self._range_of(self._key_in(row), places)].add(1, int.from_bytes(self._checksum(row), "big"))
            if not number % _COUNTED_ROWS:
                self._on_progress(Count(number, max(number, self._found.upstream_rows), "row"))
        return sums

    # -- narrowing down ------------------------------------------------------------------------------------------------

    @staticmethod
    def _groups(different: Sequence[int], in_mirror: Sequence[Sum]) -> Iterator[set[int]]:
        """Ranges to narrow down in one pass over the mirror."""
        group: set[int] = set()
        rows = 0
        for number in different:
            if group and rows + in_mirror[number].rows > NARROWED_ROWS_MAX:
                yield group
                group, rows = set(), 0
            group.add(number)
            rows += in_mirror[number].rows
        if group:
            yield group

    def _narrow(self, group: set[int], limits: Sequence[Key]) -> None:
        places = [self._order.place(limit) for limit in limits]
        in_mirror = {
            self._key_in(row): self._checksum(row)
            for row in self._mirror_rows()
            if self._range_of(self._key_in(row), places) in group
        }
        wrong: list[Key] = []
        for number in sorted(group) if self._order.in_lake else range(len(limits) + 1):
            after, until = (limits[number - 1] if number else None), (limits[number] if number < len(limits) else None)
            for key, sent in self._upstream_rows(after, until):
                checksum = in_mirror.pop(key, None)
                if checksum is None:
                    self._found.differences.append(RowDifference("missing", key))
                elif checksum != sent:
                    wrong.append(key)
        self._found.differences += [RowDifference("extra", key) for key in in_mirror]
        self._confirm(wrong)

    def _upstream_rows(self, after: Key | None, until: Key | None) -> Iterator[tuple[Key, bytes]]:
        where, parameters = self._order.condition(after, until)
        columns = ", ".join(selected(column) for column in self._key)
        statement = f"SELECT {columns}, {checksum_expression(self._columns)} FROM {self._from} WHERE {where}"  # noqa: S608
        for *key, sent in self._ask(statement, parameters):
            yield self._key_of(self._key, key), bytes.fromhex((sent or b"").decode())

    def _confirm(self, keys: Sequence[Key]) -> None:
        """Read these rows in full, and keep those with a differing value."""
        wanted = set(keys)
        in_mirror = {key: row for row in self._mirror_rows() if (key := self._key_in(row)) in wanted} if wanted else {}
        listed = ", ".join(
            [*(selected(column) for column in self._key), *(text_expression(column) for column in self._columns)]
        )
        for begin in range(0, len(keys), _CONFIRMED_ROWS):
            where, parameters = with_keys(self._key, keys[begin : begin + _CONFIRMED_ROWS])
            for answer in self._ask(f"SELECT {listed} FROM {self._from} WHERE {where}", parameters):  # noqa: S608
                key = self._key_of(self._key, answer[: len(self._key)])
                self._confirm_row(key, in_mirror[key], answer[len(self._key) :])

    def _confirm_row(self, key: Key, row: dict[str, Any], answer: Sequence[bytes | None]) -> None:
        texts = [None if sent is None else sent.decode(errors="replace") for sent in answer]
        columns = tuple(
            column.name
            for column, sent in zip(self._columns, texts, strict=True)
            if not same_value(column, sent, row[column_name(column.name)])
        )
        if columns:
            self._found.differences.append(RowDifference("different", key, columns))


def _total(sums: Sequence[Sum]) -> Sum:
    whole = Sum()
    for one in sums:
        whole.add(one.rows, one.checksum)
    return whole


def refusal(table: TableSchema) -> str:
    """Why a table cannot be verified; empty if it can."""
    if not table.key:
        return "the table has no key"
    if any(column.type.kind in _FLOATING for column in table.ordered_key):
        return "its key has a floating point column, whose text does not identify a row"
    return ""
