"""Separates late rows from repeats. Both have a commit_ts at or below their table's watermark.

A change is a repeat only where the changelog has it. Only identities are read from the changelog: key, commit_ts and
operation, or whole counted rows for a table without a key. Only the commit_ts range of the changes is read. Where the
position of a change is known, as that of a record in quarantine, it identifies rows that have no key or no commit_ts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.expressions import And, BooleanExpression, GreaterThanOrEqual, LessThanOrEqual, Or
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.table import StaticTable, Table

from ticdc_assets.changes import layout
from ticdc_assets.changes.identity import Bools, Ints, codes, first_of_each, ordinals
from ticdc_assets.pipeline.changelog.dedup import CommitTsRange, RepeatReport, without_rows
from ticdc_assets.pipeline.tasks import ChangelogPart

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

ROWS_MAX: Final = 2_000_000
"""About how many rows one task compares; a part is never split."""
_RANGES_MAX: Final = 16
"""At most this many commit_ts ranges are read; more are joined into fewer, wider ones."""


@dataclass(frozen=True, slots=True)
class LateTask:
    """Parts of one source table that may hold late rows, and the metadata of its changelog.

    `keys` gives the key columns by version, under their names in the changelog, () without a key. Without a key, equal
    rows are counted where `deliveries_are_known`. Else all equal rows are repeats: two copies that come again after two
    restarts would count as one repeat and one late row. `by_position`: rows without a key or a commit_ts are repeats
    only of a row at the same position.
    """

    parts: tuple[ChangelogPart, ...]
    keys: dict[int, tuple[str, ...]]
    changelog: TableMetadata = field(repr=False)
    deliveries_are_known: bool
    io_properties: dict[str, str] = field(default_factory=dict)
    by_position: bool = False


def dealt_parts(
    parts: Sequence[ChangelogPart], keys: Mapping[int, tuple[str, ...]]
) -> Iterator[tuple[ChangelogPart, ...]]:
    """Parts grouped by task, about ROWS_MAX rows each. Parts without a key that share a commit_ts stay in one task,
    because their equal rows are counted."""
    some: list[ChangelogPart] = []
    rows, newest = 0, -1
    for part in sorted(parts, key=lambda part: (part.first_ts, part.uri)):
        may_cut = bool(keys.get(part.version_ts)) or part.first_ts > newest
        if some and rows + part.rows > ROWS_MAX and may_cut:
            yield tuple(some)
            some, rows = [], 0
        some.append(part)
        rows, newest = rows + part.rows, max(newest, part.last_ts)
    if some:
        yield tuple(some)


def late_parts(task: LateTask) -> RepeatReport:
    """The parts without the rows that the changelog has."""
    io = load_file_io(dict(task.io_properties), location=task.parts[0].uri)
    changelog = Table(("changelog",), task.changelog, "", io, NoopCatalog("changelog"))
    removed: dict[str, Ints] = {}
    for version_ts in sorted({part.version_ts for part in task.parts}):
        parts = [part for part in task.parts if part.version_ts == version_ts]
        key = task.keys.get(version_ts, ())
        at_place = task.by_position and (not key or parts[0].commit_ts is None)
        removed |= _known(io, changelog, parts, key, at_place, task.deliveries_are_known)
    return without_rows(io, task.parts, removed)


def has_all(changelog: Table, part: ChangelogPart, by_arrival: bool) -> bool:
    """Whether the changelog has all changes of a part, which is a local file, with the same values."""
    known = _known(load_file_io({}, location=part.uri), changelog, [part], (), by_arrival, False)
    return len(known.get(part.uri, ())) == part.rows


def are_known(metadata_uri: str, io_properties: Mapping[str, str], rows: pa.Table) -> Bools:
    """Which rows of commit_ts, operation and key the changelog has. An insert equals an update, because some protocols
    do not distinguish them."""
    changelog = StaticTable.from_metadata(metadata_uri, dict(io_properties))
    bounds = pc.min_max(rows.column(layout.COMMIT_TS)).as_py()
    there = _there(changelog, layout.COMMIT_TS, [(bounds["min"], bounds["max"])], rows.schema)
    both = pa.concat_tables([there, rows])
    columns = [pc.equal(both.column(layout.OP), "D"), *both.drop_columns([layout.OP]).columns]
    return ~first_of_each(columns)[len(there) :]


def _known(
    io: FileIO,
    changelog: Table,
    parts: Sequence[ChangelogPart],
    key: tuple[str, ...],
    at_place: bool,
    deliveries_are_known: bool,
) -> dict[str, Ints]:
    """The numbers of the rows that the changelog has, by the URI of their part."""
    offered = [_identities(io, part, key, at_place) for part in parts]
    rows = pa.concat_tables(offered)
    if parts[0].commit_ts is None:
        places = pc.min_max(rows.column(layout.SEQ)).as_py()
        there = _there(changelog, layout.SEQ, [(places["min"], places["max"])], rows.schema)
    else:
        there = _there(changelog, layout.COMMIT_TS, _ranges(parts), rows.schema)
    columns = _flat(pa.concat_tables([there, rows]))
    at = len(there)
    known = ~first_of_each(columns)[at:] if key or at_place else _equal_ones(columns, at, deliveries_are_known)
    ends = np.cumsum([len(table) for table in offered])[:-1]
    by_part = zip(parts, np.split(known, ends), strict=True)
    return {part.uri: np.flatnonzero(which) for part, which in by_part if which.any()}


def _equal_ones(columns: Sequence[pa.ChunkedArray], there: int, deliveries_are_known: bool) -> Bools:
    """Which of the other rows equal one of the first `there` rows. If deliveries are known, n equal first rows match at
    most n others; else they match all.
    """
    compared = list(columns)
    if deliveries_are_known:
        side = pa.array(np.arange(len(columns[0])) >= there)
        compared.append(pa.array(ordinals([*columns, side])))
    found = codes(compared)
    return np.isin(found[there:], found[:there])


def _identities(io: FileIO, part: ChangelogPart, key: tuple[str, ...], at_place: bool) -> pa.Table:
    with io.new_input(part.uri).open() as stream:
        if key:
            place = [layout.SEQ] if at_place else []
            return pq.read_table(stream, columns=[layout.COMMIT_TS, layout.OP, *place, *key])
        dropped = [layout.COMMIT_TIME, layout.TABLE_VERSION, *([] if at_place else [layout.SEQ])]
        return pq.read_table(stream).drop_columns(dropped)


def _flat(table: pa.Table) -> list[pa.ChunkedArray]:
    """The columns, with each old value as its own column: readers represent a NULL struct differently."""
    return [part for column in table.columns for part in (column.flatten() if _is_struct(column) else [column])]


def _is_struct(column: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_struct(column.type))


def _there(changelog: Table, column: str, ranges: Sequence[CommitTsRange], schema: pa.Schema) -> pa.Table:
    """The changelog's rows of these ranges of a system column, with the columns of `schema`."""
    where: BooleanExpression = reduce(Or, (_between(column, *bounds) for bounds in ranges))
    found = changelog.scan(row_filter=where, selected_fields=tuple(_paths(schema))).to_arrow()
    return found.select(schema.names).cast(schema)


def _between(column: str, low: int, high: int) -> BooleanExpression:
    return And(GreaterThanOrEqual(column, low), LessThanOrEqual(column, high))


def _paths(schema: pa.Schema) -> list[str]:
    paths = []
    for column in schema:
        if column.name == layout.BEFORE:
            paths += [f"{layout.BEFORE}.{inner.name}" for inner in column.type]
        else:
            paths.append(column.name)
    return paths


def _ranges(parts: Sequence[ChangelogPart]) -> list[CommitTsRange]:
    """The disjoint commit_ts ranges that the parts cover, at most _RANGES_MAX."""
    apart: list[CommitTsRange] = []
    for low, high in sorted((part.first_ts, part.last_ts) for part in parts):
        if apart and low <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(apart[-1][1], high))
        else:
            apart.append((low, high))
    together = -(-len(apart) // _RANGES_MAX)
    return [(apart[n][0], apart[n : n + together][-1][1]) for n in range(0, len(apart), together)]
