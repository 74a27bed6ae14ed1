"""Removes repeats between files whose commit_ts ranges overlap. Ranges overlap after a restart of TiCDC, and where one
commit is cut.

Only the identity columns of each range that files share are read, in several tasks, and a range with many rows in
buckets of keys. A file is rewritten only where it holds a repeat. The first copy, in order of consumption, stays.
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
from ticdc_assets.changes.identity import Bools, Ints, first_of_each, ordinals
from ticdc_assets.changes.rows_by_key import can_hash, in_bucket
from ticdc_assets.pipeline.tasks import ChangelogPart, CommitBounds
from ticdc_assets.tables.iceberg.parquet import DataFileWriter, row_groups

CommitTsRange = tuple[int, int]
"""The first and the last commit_ts."""
ROWS_MAX: Final = 2_000_000
"""About how many rows are compared at once."""
BYTES_MAX: Final = 256 << 20
"""About how many bytes of whole rows are compared at once, where there is no key."""


@dataclass(frozen=True, slots=True)
class ComparedPart:
    """A part's file, and its delivery: equal numbers are of one delivery."""

    uri: str
    delivery: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """The parts of one version that share a commit_ts range, in order of consumption.

    Its rows are those of the range that belong to `bucket` of `buckets`. `rows` is about their number. `key` names the
    key columns, () without a key.
    """

    parts: tuple[ComparedPart, ...]
    low: int
    high: int
    key: tuple[str, ...]
    rows: int
    bucket: int = 0
    buckets: int = 1


@dataclass(frozen=True, slots=True)
class RepeatTask:
    """Comparisons within one source table."""

    comparisons: tuple[Comparison, ...]
    io_properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RemovalTask:
    """The parts of one source table, in order of consumption, and the numbers of the rows to remove, by part URI."""

    parts: tuple[ChangelogPart, ...]
    removed: Mapping[str, Ints]
    io_properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RepeatReport:
    """The remaining parts, the number of removed rows, and the URIs of replaced files."""

    parts: tuple[ChangelogPart, ...]
    repeats: int
    replaced: tuple[str, ...]


# -- the driver's part -------------------------------------------------------------------------------------------------


def overlaps(parts: Sequence[ChangelogPart]) -> bool:
    """Whether two parts of one version overlap in commit_ts. Always False without commit_ts."""
    return any(True for _ in _groups(parts))


def repeat_tasks(
    parts: Sequence[ChangelogPart], keys: Mapping[int, tuple[str, ...]], io_properties: Mapping[str, str]
) -> list[RepeatTask]:
    """The tasks that find all repeats among the parts of one source table, of about ROWS_MAX rows each.

    Args:
        parts: in order of consumption.
        keys: the key columns by version, () without a key.
    """
    tasks: list[RepeatTask] = []
    some: list[Comparison] = []
    rows = 0
    for comparison in _comparisons(parts, keys):
        if some and rows + comparison.rows > ROWS_MAX:
            tasks.append(RepeatTask(tuple(some), dict(io_properties)))
            some, rows = [], 0
        some.append(comparison)
        rows += comparison.rows
    return [*tasks, RepeatTask(tuple(some), dict(io_properties))] if some else tasks


def _comparisons(parts: Sequence[ChangelogPart], keys: Mapping[int, tuple[str, ...]]) -> Iterator[Comparison]:
    """All comparisons: each two copies of a row are in one of them."""
    for group, low, high in _groups(parts):
        key = keys[group[0].version_ts]
        shared = [found for part in group for found in _row_groups(part.footer, low, high)]
        rows, size_bytes = sum(found.num_rows for found in shared), sum(found.total_byte_size for found in shared)
        buckets = max(1, -(-rows // ROWS_MAX), 1 if key else -(-size_bytes // BYTES_MAX))
        compared = tuple(ComparedPart(part.uri, part.task << 32 | part.delivery) for part in group)
        for bucket in range(buckets):
            yield Comparison(compared, low, high, key, -(-rows // buckets), bucket, buckets)


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


def _row_groups(footer: pq.FileMetaData, low: int, high: int) -> list[pq.RowGroupMetaData]:
    """The row groups that may have rows in the commit_ts range."""
    return [footer.row_group(number) for number, _ in row_groups(footer, layout.COMMIT_TS, low, high)]


# -- the workers' part -------------------------------------------------------------------------------------------------


def find_repeats(task: RepeatTask) -> dict[str, Ints]:
    """The numbers of the rows that repeat a row of an earlier part, by part URI."""
    io = load_file_io(dict(task.io_properties), location=task.comparisons[0].parts[0].uri)
    return joined(_repeats(io, comparison) for comparison in task.comparisons)


def joined(found: Iterable[Mapping[str, Ints]]) -> dict[str, Ints]:
    """The row numbers of each part URI."""
    removed: dict[str, list[Ints]] = {}
    for numbers_of in found:
        for uri, numbers in numbers_of.items():
            removed.setdefault(uri, []).append(numbers)
    return {uri: np.concatenate(numbers) for uri, numbers in removed.items()}


def remove_repeats(task: RemovalTask) -> RepeatReport:
    """Rewrite the parts that hold repeats."""
    io = load_file_io(dict(task.io_properties), location=task.parts[0].uri)
    return without_rows(io, task.parts, task.removed)


def without_rows(io: FileIO, parts: Sequence[ChangelogPart], removed: Mapping[str, Ints]) -> RepeatReport:
    """The parts without the rows of these numbers, by part URI. Parts that lose rows are rewritten."""
    kept = [_without(io, part, removed[part.uri]) if part.uri in removed else part for part in parts]
    replaced = tuple(part.uri for part in parts if part.uri in removed)
    return RepeatReport(tuple(p for p in kept if p is not None), sum(len(rows) for rows in removed.values()), replaced)


def _repeats(io: FileIO, comparison: Comparison) -> dict[str, Ints]:
    """The numbers of the rows that repeat a row of an earlier part, by part URI."""
    parts = comparison.parts
    shared = [_shared_rows(io, part, comparison) for part in parts]
    columns = pa.concat_tables([table for table, _ in shared]).columns
    if not comparison.key:
        deliveries = [np.full(len(t), part.delivery) for part, (t, _) in zip(parts, shared, strict=True)]
        columns = [*columns, pa.array(ordinals([*columns, pa.array(np.concatenate(deliveries))]))]
    repeated = ~first_of_each(columns)
    ends = np.cumsum([len(table) for table, _ in shared])[:-1]
    by_part = zip(parts, shared, np.split(repeated, ends), strict=True)
    return {part.uri: numbers[which] for part, (_, numbers), which in by_part if which.any()}


def _shared_rows(io: FileIO, part: ComparedPart, comparison: Comparison) -> tuple[pa.Table, Ints]:
    """The identity columns of a part's compared rows, and the numbers of these rows."""
    key = comparison.key
    names = [layout.COMMIT_TS, layout.OP, *key] if key else None
    found, numbers = [], []
    with io.new_input(part.uri).open() as stream:
        file = pq.ParquetFile(stream)
        for number, first in row_groups(file.metadata, layout.COMMIT_TS, comparison.low, comparison.high):
            table = file.read_row_group(number, columns=names)
            which = np.flatnonzero(_is_compared(table, comparison))
            found.append(table.take(pa.array(which)))
            numbers.append(which + first)
        empty = file.schema_arrow.empty_table()
    rows = pa.concat_tables([empty.select(names) if names else empty, *found])
    return rows if key else rows.drop_columns([layout.SEQ]), np.concatenate([*numbers, np.empty(0, np.int64)])


def _is_compared(table: pa.Table, comparison: Comparison) -> Bools:
    ts = table.column(layout.COMMIT_TS).to_numpy()
    between: Bools = (comparison.low <= ts) & (ts <= comparison.high)
    if comparison.buckets == 1:
        return between
    names = comparison.key or [name for name in table.column_names if name not in dict(layout.SYSTEM_COLUMNS)]
    keys = [table.column(name) for name in names if can_hash(table.column(name).type)]
    if not keys:
        return between if comparison.bucket == 0 else np.zeros_like(between)
    return between & in_bucket(keys, comparison.bucket, comparison.buckets)


def _without(io: FileIO, part: ChangelogPart, rows: Ints) -> ChangelogPart | None:
    if len(rows) == part.rows:
        return None
    with io.new_input(part.uri).open() as stream:
        table = pq.read_table(stream)
    keep = np.ones(len(table), np.bool_)
    keep[rows] = False
    table = table.filter(pa.array(keep))
    with DataFileWriter(io, part.uri.removesuffix(".parquet") + "-once.parquet", table.schema) as file:
        file.write(table)
        written = file.close()
    counts = {c["values"]: c["counts"] for c in pc.value_counts(table.column(layout.OP)).to_pylist()}
    return replace(
        part,
        uri=written.uri,
        size_bytes=written.size_bytes,
        footer=written.footer,
        rows_by_op=counts,
        commit_ts=CommitBounds.of(table),
    )
