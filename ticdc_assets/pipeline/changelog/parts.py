"""Writes typed changes as Parquet files below the location of their table, without repeats inside a file.

A file holds one source table, version and commit day. From batch to batch, commit_ts never decreases inside a file:
where it does (after a restart of TiCDC), a new file begins. So repeats inside a file are always adjacent. Files have
repeats of each other only if their commit_ts ranges overlap; the driver removes those (`changelog.dedup`). A commit
with many rows is divided between files, so that the driver has its rows compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO

from ticdc_assets.changes import layout
from ticdc_assets.changes.identity import first_of_each, key_columns
from ticdc_assets.changes.typed import Ints, TypedChanges, changelog_table, seq_of
from ticdc_assets.pipeline.tasks import ChangelogPart, CommitBounds, Target
from ticdc_assets.tables.iceberg.parquet import DataFileWriter
from ticdc_assets.tables.iceberg.written_file import WrittenFile

_DICTIONARY_ROWS_MIN: Final = 1000
"""With fewer rows, a dictionary costs more space and time than it saves."""
_ROWS_PER_VALUE_MIN: Final = 2
"""With fewer rows per distinct value, a dictionary saves nothing."""
_HELD_BYTES_MAX: Final = 12 << 20
"""Bytes gathered before a row group is written. One row group per batch makes files a tenth larger and is slower."""
_ROWS_OF_COMMIT_MAX: Final = 100_000
"""Each batch is compared with the rows of the newest commit before it. A commit with more rows is divided."""
_SMALL_BYTES_MAX: Final = 64 << 10
"""Up to this size a file counts as small."""


@dataclass(slots=True)
class _Open:
    """A file that is being written. It is opened with its first row group, because its encoding depends on the rows."""

    io: FileIO
    uri: str
    file: DataFileWriter | None = None
    held: list[pa.Table] = field(default_factory=list)
    rows_by_op: dict[str, int] = field(default_factory=dict)
    commit_ts: CommitBounds | None = None
    max_seq: int = -1

    def add(self, rows: pa.Table) -> None:
        """Buffer the rows for the next row group."""
        self.held.append(rows)
        for op in pc.value_counts(rows.column(layout.OP)).to_pylist():
            self.rows_by_op[op["values"]] = self.rows_by_op.get(op["values"], 0) + op["counts"]
        added, known = pc.min_max(rows.column(layout.COMMIT_TS)).as_py(), self.commit_ts
        if added["min"] is not None:
            lowest, highest = (added["min"], added["max"]) if known is None else known
            self.commit_ts = CommitBounds(min(lowest, added["min"]), max(highest, added["max"]))
        self.max_seq = max(self.max_seq, pc.max(rows.column(layout.SEQ)).as_py())

    def flush(self, is_last: bool = False) -> None:
        """Write the buffered rows as one row group. `is_last` is true if no other follows."""
        if self.held:
            rows = pa.concat_tables(self.held)
            self.held.clear()
            if self.file is None:
                is_small = is_last and rows.nbytes <= _SMALL_BYTES_MAX
                self.file = DataFileWriter(
                    self.io, self.uri, rows.schema, is_small=is_small, use_dictionary=_repetitive(rows)
                )
            self.file.write(rows)

    def finish(self) -> WrittenFile:
        """Write the buffered rows and close the file."""
        self.flush(is_last=True)
        assert self.file is not None
        return self.file.close()


@dataclass(slots=True)
class PartWriter:
    """Writes the parts of one source table in one task. `late` is true if its changes are at or below the `low` of the
    table."""

    io: FileIO
    target: Target
    prefix: str
    task: int
    delivery: int = 0
    late: bool = False
    parts: list[ChangelogPart] = field(default_factory=list, init=False)
    _open: dict[tuple[int, int | None], _Open] = field(default_factory=dict, init=False)
    _held_bytes: int = field(default=0, init=False)
    _made: int = field(default=0, init=False)
    _newest_ts: int | None = field(default=None, init=False)
    _frontier: list[pa.Array] | None = field(default=None, init=False)
    _divided_ts: int | None = field(default=None, init=False)

    def write(
        self,
        changes: TypedChanges,
        key: Sequence[str],
        version_ts: int,
        file_ordinal: int | Ints,
        by_arrival: bool = False,
    ) -> int:
        """Write one batch of one version without its repeats. Returns the number of repeats.

        Args:
            file_ordinal: that of the file of all changes, or one for each change. Files whose changes are written
                together must not go back in commit_ts.
        """
        if not len(changes):
            return 0
        repeats = 0
        if not by_arrival and not changes.commit_ts.null_count:
            self._note_rewind(changes)
            if key:
                fresh = self._fresh(changes, key)
                repeats = len(changes) - len(fresh)
                if repeats:
                    changes = changes.take(fresh)
                    file_ordinal = file_ordinal if isinstance(file_ordinal, int) else file_ordinal[fresh.to_numpy()]
        table = changelog_table(
            changes, seq_of(changes, file_ordinal, by_arrival), version_ts, self.target.schemas[version_ts]
        )
        for day, rows in _by_day(table):
            self._append((version_ts, day), rows)
        if self._frontier is not None and len(self._frontier[0]) > _ROWS_OF_COMMIT_MAX:
            self.close()
            self._frontier = None
            self._divided_ts = self._newest_ts
        return repeats

    def _note_rewind(self, changes: TypedChanges) -> None:
        oldest, newest = (pc.min_max(changes.commit_ts)[end].as_py() for end in ("min", "max"))
        if self._newest_ts is not None and oldest < self._newest_ts:
            self.close()
            self.delivery += 1
            self._frontier = None
            self._newest_ts = self._divided_ts = None
        self._newest_ts = max(newest, self._newest_ts or 0)

    def _fresh(self, changes: TypedChanges, key: Sequence[str]) -> pa.Array:
        """Rows that are neither in this batch before nor among the rows of the newest commit_ts before it. Those of a
        commit that is divided between files are compared within the batch only."""
        keys = [changes.now[number] for number in key_columns(changes.columns, key)]
        columns = [changes.commit_ts, changes.op, *keys]
        is_alike = self._frontier and [a.type for a in self._frontier] == [c.type for c in columns]
        carried = self._frontier if is_alike else None
        offset = len(carried[0]) if carried else 0
        both = [pa.concat_arrays([a, b]) for a, b in zip(carried, columns, strict=True)] if carried else columns
        fresh = np.flatnonzero(first_of_each(both)[offset:])
        at_newest = pc.equal(both[0], self._newest_ts)
        is_divided = self._newest_ts == self._divided_ts
        self._frontier = None if is_divided else [column.filter(at_newest) for column in both]
        return pa.array(fresh)

    def _append(self, file_key: tuple[int, int | None], rows: pa.Table) -> None:
        part = self._open.get(file_key)
        if part is None:
            self._made += 1
            part = _Open(self.io, f"{self.target.data_uri}/{self.prefix}-{self._made:05d}.parquet")
            self._open[file_key] = part
        part.add(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes >= _HELD_BYTES_MAX:
            for part in self._open.values():
                part.flush()
            self._held_bytes = 0

    def close(self) -> None:
        """Finish every open file. `parts` then has all parts."""
        for (version_ts, _), part in self._open.items():
            written = part.finish()
            self.parts.append(
                ChangelogPart(
                    source_table_id=self.target.source_table_id,
                    version_ts=version_ts,
                    uri=written.uri,
                    size_bytes=written.size_bytes,
                    footer=written.footer,
                    rows_by_op=part.rows_by_op,
                    commit_ts=part.commit_ts,
                    max_seq=part.max_seq,
                    task=self.task,
                    delivery=self.delivery,
                    late=self.late,
                )
            )
        self._open.clear()
        self._held_bytes = 0


def _repetitive(rows: pa.Table) -> list[str]:
    """The columns, including those below `_ticdc_before`, whose first values repeat."""
    if len(rows) < _DICTIONARY_ROWS_MIN:
        return []
    first = rows.slice(0, _DICTIONARY_ROWS_MIN).combine_chunks().flatten()
    return [name for name, values in zip(first.column_names, first.columns, strict=True) if _repeats(values)]


def _repeats(values: pa.ChunkedArray) -> bool:
    present = values.drop_null()
    return pa.types.is_nested(values.type) or len(present) >= _ROWS_PER_VALUE_MIN * len(present.unique())


def _by_day(table: pa.Table) -> list[tuple[int | None, pa.Table]]:
    """The rows of each UTC day of `_ticdc_commit_time`. One day is the common case."""
    days = table.column(layout.COMMIT_TIME).cast(pa.timestamp("us")).cast(pa.date32(), safe=False).cast(pa.int32())
    distinct = pc.unique(days).to_pylist()
    if len(distinct) == 1:
        return [(distinct[0], table)]
    return [
        (day, table.filter(pc.is_null(days) if day is None else pc.fill_null(pc.equal(days, day), False)))
        for day in distinct
    ]
