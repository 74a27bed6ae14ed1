"""Removes repeats between files whose commit_ts ranges overlap. Ranges overlap after a restart of TiCDC.

Only the identity columns of the overlapping range are read first. A file is rewritten only where it holds a repeat.
The first copy, in order of consumption, stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO, load_file_io

from ticdc_assets.changes import layout
from ticdc_assets.changes.identity import Ints, first_of_each, ordinals
from ticdc_assets.pipeline.tasks import ChangelogPart, CommitBounds


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
    """Overlapping parts of one version, with the commit_ts range of the overlap."""
    for version_ts in sorted({part.version_ts for part in parts}):
        dated = [p for p in parts if p.version_ts == version_ts and p.commit_ts is not None]
        touched, low, high = _overlapping(dated)
        if touched:
            yield [part for part in dated if part.uri in touched], low, high


def _overlapping(parts: list[ChangelogPart]) -> tuple[set[str], int, int]:
    touched: set[str] = set()
    low, high = 1 << 63, -1
    by_start = sorted(parts, key=lambda part: part.first_ts)
    for number, part in enumerate(by_start):
        for other in by_start[number + 1 :]:
            if other.first_ts > part.last_ts:
                break
            touched |= {part.uri, other.uri}
            low, high = min(low, other.first_ts), max(high, min(part.last_ts, other.last_ts))
    return touched, low, high


def resolve(task: RepeatTask) -> RepeatReport:
    """Rewrite the parts that hold repeats of earlier parts."""
    io = load_file_io(dict(task.io_properties), location=task.parts[0].uri)
    removed: dict[str, Ints] = {}
    for group, low, high in _groups(task.parts):
        removed.update(_repeats(io, group, task.keys[group[0].version_ts], low, high))
    return without_rows(io, task.parts, removed)


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
    with io.new_input(part.uri).open() as stream:
        table = pq.read_table(stream, columns=names)
    table = table if key else table.drop_columns([layout.SEQ])
    ts = table.column(layout.COMMIT_TS).to_numpy()
    numbers = np.flatnonzero((low <= ts) & (ts <= high))
    return table.take(pa.array(numbers)), numbers


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
