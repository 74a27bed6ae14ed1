"""The workers' part of a comparison with TiDB: sums of checksums, and rows, of both sides.

The rows of a table are divided into parts, the same on both sides: ranges of the key where its values sort in the lake
as in TiDB, else the first byte of the rows' checksums.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.changes import layout
from ticdc_assets.changes.differences import SENT, TsoRange, after_steps, now_name, old_name
from ticdc_assets.errors import NotYetError
from ticdc_assets.names import column_name
from ticdc_assets.pipeline.history.changes import ChangelogRange
from ticdc_assets.sources.upstream.checksums import (
    aggregate_expression,
    checksum_expression,
    checksums,
    first_byte_expression,
)
from ticdc_assets.sources.upstream.key_ranges import Key, key_order
from ticdc_assets.sources.upstream.ranges import Range
from ticdc_assets.sources.upstream.rows import UpstreamRows
from ticdc_assets.sources.upstream.sql import cells, selected, table_reference, value, with_keys
from ticdc_assets.tables.iceberg.stored_rows import ALL_FILES, FileShare, StoredTable, batches

if TYPE_CHECKING:
    from ticdc_assets.config import Upstream
    from ticdc_assets.schema.history.source_table import SourceTable
    from ticdc_assets.schema.model import Column, TableSchema

Sums = npt.NDArray[np.uint64]
"""A row for each part: the number of its rows, and the sum of each half of their checksums, all modulo 2**64."""

BYTES: Final = 256
"""The parts of a table that is divided by checksums."""

Ints = npt.NDArray[np.int64]

SignedRow = tuple[Key, bytes, int]
"""The key and the checksum of a row; 1 for a row of the lake, -1 for one of TiDB or one that the lake has removed."""

_KEYS_PER_STATEMENT: Final = 256

Signs = npt.NDArray[np.uint64]
"""1 for a row that is added, 2**64 - 1 for one that is removed."""


@dataclass(frozen=True, slots=True)
class Parts:
    """How the rows of a table are divided. `ranges` are those of TiDB, ascending; they need not have all keys."""

    table: TableSchema
    ranges: tuple[Range, ...]

    @property
    def are_ranges(self) -> bool:
        """Whether a part is a range, on both sides."""
        return key_order(self.table.ordered_key).in_lake

    @property
    def count(self) -> int:
        """The number of parts."""
        return len(self.ranges) if self.are_ranges else BYTES

    def divider(self) -> Callable[[Sequence[Key], Sequence[bytes]], Ints]:
        """Gives the part of each row of the lake, by its key and its checksum; -1 for keys outside all ranges."""
        if not self.are_ranges:
            return lambda _, found: np.fromiter((checksum[0] for checksum in found), np.int64, len(found))
        order = key_order(self.table.ordered_key)
        ends = order.places([until for _, until in self.ranges if until is not None])
        begins = [after and order.places([after])[0] for after, _ in self.ranges]

        def part(place: Key) -> int:
            number = bisect_left(ends, place)
            if number == len(begins) or ((begin := begins[number]) is not None and place <= begin):
                return -1
            return number

        return lambda keys, _: np.fromiter(map(part, order.places(keys)), np.int64, len(keys))


@dataclass(frozen=True, slots=True)
class UpstreamTask:
    """Rows of a table of TiDB for one worker, read through one connection: those in the ranges, or with `keys`.

    wanted: the parts whose rows are asked for, where these are no ranges.
    """

    upstream: Upstream
    name: tuple[str, str]
    tso: int
    parts: Parts
    wanted: frozenset[int] = frozenset()
    keys: tuple[Key, ...] = ()

    @property
    def _checksums(self) -> str:
        return f"{checksum_expression(self.parts.table.stored_columns)} AS c FROM {table_reference(*self.name)}"

    def sum(self, one: Range) -> tuple[str, list[Any]]:
        """The statement for the sums of a range: the number of the part, and its sums."""
        where, parameters = key_order(self.parts.table.ordered_key).condition(*one)
        part, group = ("0", "") if self.parts.are_ranges else (first_byte_expression("c"), " GROUP BY 1")
        inner = f"SELECT {self._checksums} WHERE {where}"
        return f"SELECT {part}, {aggregate_expression('c')} FROM ({inner}) AS q{group}", parameters  # noqa: S608

    def rows(self) -> Iterator[tuple[str, list[Any]]]:
        """The statements for the keys and checksums of rows."""
        key = self.parts.table.ordered_key
        inner = f"SELECT {''.join(f'{selected(column)}, ' for column in key)}{self._checksums} WHERE "
        if self.keys:
            for begin in range(0, len(self.keys), _KEYS_PER_STATEMENT):
                where, parameters = with_keys(key, self.keys[begin : begin + _KEYS_PER_STATEMENT])
                yield inner + where, parameters
            return
        for one in self.parts.ranges:
            where, parameters = key_order(key).condition(*one)
            if self.parts.are_ranges:
                yield inner + where, parameters
            else:
                numbers = ", ".join(map(str, sorted(self.wanted)))
                yield (
                    f"SELECT * FROM ({inner}{where}) AS q WHERE {first_byte_expression('c')} IN ({numbers})",  # noqa: S608
                    parameters,
                )


def upstream_sums(task: UpstreamTask) -> Sums:
    """The sums of the parts of the task."""
    sums = np.zeros((task.parts.count, 3), np.uint64)
    with UpstreamRows(task.upstream) as rows:
        for number, one in enumerate(task.parts.ranges):
            for part, *found in rows.answers(*task.sum(one), task.tso):
                place = number if task.parts.are_ranges else int(part or 0)
                sums[place] += np.array([int(text or 0) % (1 << 64) for text in found], np.uint64)
    return sums


def upstream_rows(task: UpstreamTask) -> list[SignedRow]:
    """The rows of the task, with the sign -1."""
    key = task.parts.table.ordered_key
    with UpstreamRows(task.upstream) as rows:
        return [
            (key_in(key, cells_of), bytes.fromhex((sent or b"").decode()), -1)
            for statement in task.rows()
            for *cells_of, sent in rows.answers(*statement, task.tso)
        ]


def key_in(columns: Sequence[Column], answer: Sequence[bytes | None]) -> Key:
    """The lake's values of a key that TiDB has sent."""
    found = cells(columns, answer)
    return tuple(value(column, found[column.name], "") for column in columns)


class RowsOfLake(Protocol):
    """The rows of a table of the lake. It can be pickled."""

    def batches(self, share: FileShare) -> Iterator[tuple[list[pa.Array], Signs]]:
        """Rows: an array for each stored column, and their signs."""
        ...


@dataclass(frozen=True, slots=True)
class MirrorRows:
    """The rows of a mirror."""

    stored: StoredTable
    columns: tuple[Column, ...]

    def batches(self, share: FileShare) -> Iterator[tuple[list[pa.Array], Signs]]:
        """See RowsOfLake."""
        names = tuple(column_name(column.name) for column in self.columns)
        for batch in batches(self.stored.opened, self.stored.snapshot_id, names, share):
            yield [batch.column(name) for name in names], np.ones(len(batch), np.uint64)


@dataclass(frozen=True, slots=True)
class ChangelogRows:
    """The rows of a table without a key: those that its changelog adds, and those that it removes, in the range."""

    stored: StoredTable
    source_table: SourceTable
    range: TsoRange
    zone: str

    def batches(self, share: FileShare) -> Iterator[tuple[list[pa.Array], Signs]]:
        """See RowsOfLake. Raises NotYetError where the changes do not have the values of all rows."""
        changes = ChangelogRange(self.stored.opened, self.source_table, self.range, self.zone)
        where = f"{layout.COMMIT_TS} > {self.range.after} and {layout.COMMIT_TS} <= {self.range.until}"
        for batch in changes.batches(where, share):
            op, version = batch.column(layout.OP), batch.column(layout.TABLE_VERSION)
            removes = pc.equal(op, "D").to_numpy()
            is_update = pc.equal(op, "U")
            self._require(not pc.any(pc.and_not(is_update, batch.column(SENT))).as_py(), "updates have no old values")
            yield self._values(changes, batch, version, now_name), np.where(removes, ~np.uint64(0), np.uint64(1))
            updates = batch.filter(is_update)
            old = self._values(changes, updates, updates.column(layout.TABLE_VERSION), old_name)
            yield old, np.full(len(updates), ~np.uint64(0))

    def _values(self, changes: ChangelogRange, batch: pa.Table, version: pa.ChunkedArray, name: Any) -> list[pa.Array]:
        found = []
        for column in changes.columns:
            values, known = after_steps(
                batch.column(name(column.uid)).combine_chunks(), version.combine_chunks(), column
            )
            self._require(pc.all(known).as_py() is not False, "a statement converted the values of older changes")
            found.append(values)
        return found

    def _require(self, is_known: bool, found: str) -> None:
        if not is_known:
            where, advice = ".".join(self.source_table.name), "Copy the table: `ticdc-assets resync`."
            raise NotYetError(where, "changes with the values of all rows", found, advice)


@dataclass(frozen=True, slots=True)
class LakeTask:
    """Rows of a table of the lake for one worker: those in `wanted` parts, or with `keys`; else all."""

    rows: RowsOfLake
    parts: Parts
    share: FileShare = ALL_FILES
    wanted: frozenset[int] = frozenset()
    keys: frozenset[Key] | None = None


def lake_sums(task: LakeTask) -> Sums:
    """The sums of all parts, of this worker's rows."""
    sums = np.zeros((task.parts.count, 3), np.uint64)
    parts_of = task.parts.divider()
    for values, signs in task.rows.batches(task.share):
        found = checksums(task.parts.table.stored_columns, values)
        parts = parts_of(keys_of(task.parts.table, values), found)
        halves = np.frombuffer(b"".join(found), ">u8").astype(np.uint64).reshape(-1, 2)
        summed = np.column_stack((signs, halves * signs[:, None]))
        np.add.at(sums, parts[parts >= 0], summed[parts >= 0])
    return sums


def lake_rows(task: LakeTask) -> list[SignedRow]:
    """This worker's rows that are wanted."""
    rows: list[SignedRow] = []
    parts_of = task.parts.divider()
    for values, signs in task.rows.batches(task.share):
        found = checksums(task.parts.table.stored_columns, values)
        keys = keys_of(task.parts.table, values)
        signed = zip(keys, found, signs.astype(np.int64).tolist(), strict=True)
        if task.keys is not None:
            rows += [row for row in signed if row[0] in task.keys]
        else:
            parts = parts_of(keys, found).tolist()
            rows += [row for row, part in zip(signed, parts, strict=True) if part in task.wanted]
    return rows


def keys_of(table: TableSchema, values: Sequence[pa.Array]) -> list[Key]:
    """The keys of rows, whose values are given by stored column."""
    names = [column.name for column in table.stored_columns]
    keys = [values[names.index(column.name)].to_pylist() for column in table.ordered_key]
    return list(zip(*keys, strict=True)) if keys else [()] * len(values[0])
