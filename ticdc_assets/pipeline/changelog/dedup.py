"""Removes repeats between files whose commit_ts ranges overlap. Ranges overlap after a restart of TiCDC, and where one
commit is cut.

Only the identity columns of each range that files share are read first. A file is rewritten only where it holds a
repeat. The first copy, in order of consumption, stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO, load_file_io

from ticdc_assets.changes import layout
from ticdc_assets.changes.identity import Ints, first_of_each, ordinals
from ticdc_assets.pipeline.tasks import ChangelogPart, CommitBounds

CommitTsRange = tuple[int, int]
"""The first and the last commit_ts."""
ROWS_MAX: Final = 1_000_000
"""About how many rows are compared at once."""


@dataclass(frozen=True, slots=True)
class RepeatTask:
    """The parts of one source table, in order of consumption. `keys` gives the key columns by version, () without a
    key."""

    parts: tuple[ChangelogPart, ...]
    keys: dict[int, tuple[str, ...]]
    io_properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RepeatReport:
    """The remaining parts, the number of removed rows, and the URIs of replaced files."""

    parts: tuple[ChangelogPart, ...]
    repeats: int
    replaced: tuple[str, ...]


def overlaps(parts: Sequence[ChangelogPart]) -> bool:
    """Whether two parts of one version overlap in commit_ts. Always False without commit_ts."""
    return any(True for _ in _groups(parts))


def _groups(parts: Sequence[ChangelogPart]) -> Iterator[tuple[list[ChangelogPart], int, int]]:
    """The parts of one version that share a commit_ts range, with that range. Ranges of one version are disjoint, and
    copies of one row are in one of them."""
    for version_ts in sorted({part.version_ts for part in parts}):
        dated = [p for p in parts if p.version_ts == version_ts and p.commit_ts is not None]
        firsts = np.array([part.first_ts for part in dated], np.int64)
        lasts = np.array([part.last_ts for part in dated], np.int64)
        for low, high in _shared_ranges(dated):
            yield [dated[number] for number in np.flatnonzero((firsts <= high) & (lasts >= low))], low, high


def _shared_ranges(parts: Iterable[ChangelogPart]) -> Iterator[CommitTsRange]:
    """The disjoint commit_ts ranges that two parts or more have. One of about ROWS_MAX rows ends where the next part
    begins."""
    low, high, rows, reach = 0, -1, 0, -1
    for part in sorted(parts, key=lambda part: part.first_ts):
        first, last = part.first_ts, min(part.last_ts, reach)
        reach = max(reach, part.last_ts)
        if last < first:
            continue  # it shares nothing with the parts that begin before it
        if first > high or rows + part.rows > ROWS_MAX:
            if low <= (end := min(high, first - 1)):
                yield low, end
            low, rows = first, 0
        high, rows = max(high, last), rows + part.rows
    if low <= high:
        yield low, high


def resolve(task: RepeatTask) -> RepeatReport:
    """Rewrite the parts that hold repeats of earlier parts."""
    io = load_file_io(dict(task.io_properties), location=task.parts[0].uri)
    removed: dict[str, list[Ints]] = {}
    for group, low, high in _groups(task.parts):
        for uri, numbers in _repeats(io, group, task.keys[group[0].version_ts], low, high).items():
            removed.setdefault(uri, []).append(numbers)
    return without_rows(io, task.parts, {uri: np.concatenate(found) for uri, found in removed.items()})


def without_rows(io: FileIO, parts: Sequence[ChangelogPart], removed: Mapping[str, Ints]) -> RepeatReport:
    """The parts without the rows of these numbers, by part URI. Parts that lose rows are rewritten."""
    kept = [_without(io, part, removed[part.uri]) if part.uri in removed else part for part in parts]
    replaced = tuple(part.uri for part in parts if part.uri in removed)
    return RepeatReport(tuple(p for p in kept if p is not None), sum(len(rows) for rows in removed.values()), replaced)


def _repeats(io: FileIO, parts: list[ChangelogPart], key: tuple[str, ...], low: int, high: int) -> dict[str, Ints]:
    """The numbers of the rows that repeat a row of an earlier part, by part URI."""
    shared = [_shared_rows(io, part, key, low, high) for part in parts]
    rows = pa.concat_tables([table for table, _ in shared])
    columns = rows.columns
    if not key:
        deliveries = [
            np.full(len(t), part.task << 32 | part.delivery) for part, (t, _) in zip(parts, shared, strict=True)
        ]
        columns = [*columns, pa.array(ordinals([*columns, pa.array(np.concatenate(deliveries))]))]
    repeated = ~first_of_each(columns)
    ends = np.cumsum([len(table) for table, _ in shared])[:-1]
    by_part = zip(parts, shared, np.split(repeated, ends), strict=True)
    return {part.uri: numbers[which] for part, (_, numbers), which in by_part if which.any()}


def _shared_rows(io: FileIO, part: ChangelogPart, key: tuple[str, ...], low: int, high: int) -> tuple[pa.Table, Ints]:
    """The identity columns of a part's rows in the commit_ts range, and the numbers of these rows."""
    names = [layout.COMMIT_TS, layout.OP, *key] if key else None
    found, numbers, at = [], [], 0
    with io.new_input(part.uri).open() as stream:
        file = pq.ParquetFile(stream)
        for number in range(file.num_row_groups):
            group = file.metadata.row_group(number)
            if _may_have(group, low, high):
                table = file.read_row_group(number, columns=names)
                ts = table.column(layout.COMMIT_TS).to_numpy()
                which = np.flatnonzero((low <= ts) & (ts <= high))
                found.append(table.take(pa.array(which)))
                numbers.append(which + at)
            at += group.num_rows
        empty = file.schema_arrow.empty_table()
    rows = pa.concat_tables([empty.select(names) if names else empty, *found])
    return rows if key else rows.drop_columns([layout.SEQ]), np.concatenate([*numbers, np.empty(0, np.int64)])


def _may_have(group: pq.RowGroupMetaData, low: int, high: int) -> bool:
    """Whether a row group may have rows in the commit_ts range."""
    columns = (group.column(number) for number in range(group.num_columns))
    statistics = next(column.statistics for column in columns if column.path_in_schema == layout.COMMIT_TS)
    return statistics is None or not statistics.has_min_max or (statistics.min <= high and statistics.max >= low)


def _without(io: FileIO, part: ChangelogPart, rows: Ints) -> ChangelogPart | None:
    if len(rows) == part.rows:
        return None
    with io.new_input(part.uri).open() as stream:
        table = pq.read_table(stream)
    keep = np.ones(len(table), np.bool_)
    keep[rows] = False
    table = table.filter(pa.array(keep))
    uri = part.uri.removesuffix(".parquet") + "-once.parquet"
    written = io.new_output(uri).create(overwrite=True)
    with pq.ParquetWriter(written, table.schema, compression="zstd", compression_level=1, store_schema=False) as writer:
        writer.write_table(table)
    size_bytes = written.tell()
    written.close()
    counts = {c["values"]: c["counts"] for c in pc.value_counts(table.column(layout.OP)).to_pylist()}
    return replace(
        part,
        uri=uri,
        size_bytes=size_bytes,
        footer=writer.writer.metadata,
        rows_by_op=counts,
        commit_ts=CommitBounds.of(table),
    )
