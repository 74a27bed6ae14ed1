"""A table of the lake against the upstream TiDB at a TSO.

Workers sum up both sides by parts (`table_sums`). Of parts that differ, they read the checksum of each row, and at last
the rows that differ are read in full. A table without a key is compared as a multiset of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from ticdc_assets.pipeline.history.table_sums import (
    LakeTask,
    Parts,
    RowsOfLake,
    SignedRow,
    Sums,
    UpstreamTask,
    key_in,
    keys_of,
    lake_rows,
    lake_sums,
    upstream_rows,
    upstream_sums,
)
from ticdc_assets.schema.model import Kind, TableSchema
from ticdc_assets.sources.upstream.checksums import same_value, text_expression
from ticdc_assets.sources.upstream.key_ranges import Key, KeyOrder, key_order
from ticdc_assets.sources.upstream.ranges import EVERYTHING, RANGE_ROWS, Range, ranges_of
from ticdc_assets.sources.upstream.rows import UpstreamRows
from ticdc_assets.sources.upstream.sql import selected, table_reference, with_keys
from ticdc_assets.tables.iceberg.stored_rows import ALL_FILES, FileShare
from ticdc_assets.work_progress import Count, OnProgress, no_progress

if TYPE_CHECKING:
    from ticdc_assets.config import Upstream
    from ticdc_assets.spark import Workers

NARROWED_ROWS_MAX: Final = 1_000_000
"""Rows whose keys are held at once while differences are narrowed down."""

_RANGES_PER_TASK: Final = 32
_CONFIRMED_ROWS: Final = 64
"""How many full rows one statement reads."""

_FLOATING: Final = frozenset({Kind.FLOAT, Kind.DOUBLE})

_Task = TypeVar("_Task", UpstreamTask, LakeTask)
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class RowDifference:
    """A row that is `missing` in the mirror, only in the mirror (`extra`) or `different`; `columns` differ then. The
    key of a table without one is empty."""

    kind: str
    key: Key
    columns: tuple[str, ...] = ()


@dataclass(slots=True)
class Comparison:
    """One table, compared: rows on both sides, the sum of the checksums in TiDB, statements to TiDB, and the rows that
    differ."""

    mirror_rows: int = 0
    upstream_rows: int = 0
    checksum: str | None = None
    statements: int = 0
    differences: list[RowDifference] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Reading:
    """How both sides are read: by `workers`, so many ranges of TiDB at once, a range in a statement."""

    upstream: Upstream
    workers: Workers
    connections: int = 4
    range_rows: int = RANGE_ROWS
    on_progress: OnProgress = no_progress


class TableVerification:
    """Compares the rows of a table in the lake with those of TiDB at the TSO; `name` is its name then.

    shares: how many workers read the lake.
    """

    def __init__(
        self, reading: Reading, name: tuple[str, str], table: TableSchema, tso: int, lake: RowsOfLake, shares: int = 1
    ) -> None:
        self._reading, self._name, self._table, self._tso = reading, name, table, tso
        self._lake, self._shares = lake, shares
        self._found = Comparison()
        self._left: dict[tuple[Key, bytes], int] = {}

    @property
    def order(self) -> KeyOrder:
        """The columns by which TiDB is read in ranges."""
        return key_order(self._table.ordered_key)

    def ranges(self, of: Iterable[Range] = (EVERYTHING,)) -> Iterator[Range]:
        """Ranges of about equal numbers of rows, of the whole table or of parts of it."""
        reading, number = self._reading, 0
        with UpstreamRows(reading.upstream) as rows:
            for part in of:
                for one in ranges_of(rows, self._name, self.order, self._tso, part, reading.range_rows):
                    self._found.statements += 1
                    number += reading.range_rows
                    reading.on_progress(Count(number, None, "row"))
                    yield one

    def compare(self, ranges: Sequence[Range]) -> Comparison:
        """The comparison of these ranges, which ascend. Raises NotYetError where TiDB cannot be read."""
        on_progress, shown = self._reading.on_progress, ".".join(self._name)
        parts, found = Parts(self._table, tuple(ranges)), self._found
        upstream = self._upstream_sums(parts)
        on_progress(f"reading the rows of {shown} in the lake")
        lake = sum(self._mapped(lake_sums, self._lake_tasks(LakeTask(self._lake, parts))), self._zeros(parts))
        found.statements += len(ranges)
        found.mirror_rows, found.upstream_rows = int(lake[:, 0].sum()), int(upstream[:, 0].sum())
        found.checksum = "".join(f"{half:016x}" for half in upstream[:, 1:].sum(axis=0).tolist())
        for group in self._groups(np.flatnonzero((lake != upstream).any(axis=1)).tolist(), lake):
            on_progress(f"looking for the rows of {shown} that differ")
            self._narrow(parts, frozenset(group))
        self._conclude()
        return found

    def compare_keys(self, keys: Sequence[Key]) -> Comparison:
        """The comparison of the rows with these keys. Raises NotYetError where TiDB cannot be read."""
        parts, found = Parts(self._table, ()), self._found
        for begin in range(0, len(keys), NARROWED_ROWS_MAX):
            some = keys[begin : begin + NARROWED_ROWS_MAX]
            in_lake = self._lake_tasks(LakeTask(self._lake, parts, keys=frozenset(some)))
            found.mirror_rows += self._count(self._mapped(lake_rows, in_lake))
            step = -(-len(some) // self._reading.connections)
            tasks = [
                UpstreamTask(self._reading.upstream, self._name, self._tso, parts, keys=tuple(some[at : at + step]))
                for at in range(0, len(some), step)
            ]
            # Keys that are equal in TiDB only, such as a and A, find the same row.
            rows = {*chain.from_iterable(self._mapped(upstream_rows, tasks))}
            found.upstream_rows += self._count([list(rows)])
        self._conclude()
        return found

    # -- sums ----------------------------------------------------------------------------------------------------------

    @staticmethod
    def _zeros(parts: Parts) -> Sums:
        return np.zeros((parts.count, 3), np.uint64)

    def _mapped(self, work: Callable[[_Task], _Answer], tasks: Sequence[_Task]) -> Iterator[_Answer]:
        """The answers, so many tasks at a time."""
        at_once = self._reading.connections if tasks and isinstance(tasks[0], UpstreamTask) else self._shares
        for begin in range(0, len(tasks), at_once):
            yield from self._reading.workers.map(work, tasks[begin : begin + at_once])

    def _upstream_tasks(self, task: UpstreamTask) -> list[UpstreamTask]:
        ranges = task.parts.ranges
        step = max(1, min(_RANGES_PER_TASK, -(-len(ranges) // self._reading.connections)))
        cut = (ranges[begin : begin + step] for begin in range(0, len(ranges), step))
        return [replace(task, parts=replace(task.parts, ranges=some)) for some in cut]

    def _lake_tasks(self, task: LakeTask) -> list[LakeTask]:
        return [replace(task, share=FileShare(number, self._shares)) for number in range(self._shares)]

    def _upstream_sums(self, parts: Parts) -> Sums:
        sums, first = self._zeros(parts), 0
        tasks = self._upstream_tasks(UpstreamTask(self._reading.upstream, self._name, self._tso, parts))
        for task, found in zip(tasks, self._mapped(upstream_sums, tasks), strict=True):
            if parts.are_ranges:
                sums[first : first + len(found)] = found
                first += len(task.parts.ranges)
            else:
                sums += found
            self._reading.on_progress(Count(int(sums[:, 0].sum()), None, "row"))
        return sums

    # -- narrowing down ------------------------------------------------------------------------------------------------

    @staticmethod
    def _groups(different: Sequence[int], in_lake: Sums) -> Iterator[set[int]]:
        """Parts to narrow down in one pass over the lake."""
        group: set[int] = set()
        rows = 0
        for number in different:
            more = int(in_lake[number, 0])
            if group and rows + more > NARROWED_ROWS_MAX:
                yield group
                group, rows = set(), 0
            group.add(number)
            rows += more
        if group:
            yield group

    def _narrow(self, parts: Parts, wanted: frozenset[int]) -> None:
        ranges = tuple(parts.ranges[n] for n in sorted(wanted)) if parts.are_ranges else parts.ranges
        tasks = self._upstream_tasks(
            UpstreamTask(self._reading.upstream, self._name, self._tso, replace(parts, ranges=ranges), wanted)
        )
        self._found.statements += len(ranges)
        self._count(self._mapped(lake_rows, self._lake_tasks(LakeTask(self._lake, parts, wanted=wanted))))
        self._count(self._mapped(upstream_rows, tasks))

    def _count(self, found: Iterable[list[SignedRow]]) -> int:
        """Add the signs of rows that are equal; what is left are the differences. Returns the number of rows."""
        left, rows = self._left, 0
        for key, checksum, sign in chain.from_iterable(found):
            if number := left.get((key, checksum), 0) + sign:
                left[key, checksum] = number
            else:
                del left[key, checksum]
            rows += 1
        return rows

    def _conclude(self) -> None:
        """Name the rows that are on one side alone, or have other values there."""
        extra, missing = ({key for (key, _), n in self._left.items() if n * sign > 0} for sign in (1, -1))
        wrong = extra & missing if self._table.key else set()
        for (key, _), number in self._left.items():
            if key not in wrong:
                self._found.differences += [RowDifference("extra" if number > 0 else "missing", key)] * abs(number)
        self._confirm(list(wrong))

    def _confirm(self, keys: Sequence[Key]) -> None:
        """Read these rows in full, and keep those with a differing value."""
        wanted, key, columns = set(keys), self._table.ordered_key, self._table.stored_columns
        in_mirror: dict[Key, list[Any]] = {}
        for values, _ in self._lake.batches(ALL_FILES) if wanted else ():
            for number, found in enumerate(keys_of(self._table, values)):
                if found in wanted:
                    in_mirror[found] = [of[number].as_py() for of in values]
        listed = ", ".join([*map(selected, key), *map(text_expression, columns)])
        with UpstreamRows(self._reading.upstream) as rows:
            for begin in range(0, len(keys), _CONFIRMED_ROWS):
                self._found.statements += 1
                where, parameters = with_keys(key, keys[begin : begin + _CONFIRMED_ROWS])
                statement = f"SELECT {listed} FROM {table_reference(*self._name)} WHERE {where}"  # noqa: S608
                for answer in rows.answers(statement, parameters, self._tso):
                    found = key_in(key, answer[: len(key)])
                    self._confirm_row(found, in_mirror[found], answer[len(key) :])

    def _confirm_row(self, key: Key, row: Sequence[Any], answer: Sequence[bytes | None]) -> None:
        texts = [None if sent is None else sent.decode(errors="replace") for sent in answer]
        columns = tuple(
            column.name
            for column, sent, value in zip(self._table.stored_columns, texts, row, strict=True)
            if not same_value(column, sent, value)
        )
        if columns:
            self._found.differences.append(RowDifference("different", key, columns))


def refusal(table: TableSchema) -> str:
    """Why a table cannot be verified; empty if it can."""
    if any(column.type.kind in _FLOATING for column in table.ordered_key):
        return "its key has a floating point column, whose text does not identify a row"
    return ""
