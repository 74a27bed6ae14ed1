"""Tells late rows from repeats: changes that come although their table is complete up to a later TSO.

Such a change is a repeat only where the changelog has it. Of the changelog only identities are read (key, commit_ts and
operation; without a key whole rows, counted), and of those only the range of commit_ts that the changes cover.
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
from pyiceberg.expressions import And, GreaterThanOrEqual, LessThanOrEqual, Or
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.table import StaticTable, Table

from ticdc_assets.changes import layout
from ticdc_assets.changes.identity import Bools, Ints, codes, first_of_each, ordinals
from ticdc_assets.pipeline.repeats import RepeatReport, without_rows
from ticdc_assets.pipeline.task import Part

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table.metadata import TableMetadata

ROWS_MAX: Final = 2_000_000
"""A task compares about so many rows; a part is never cut."""
_RANGES_MAX: Final = 16
"""More ranges of commit_ts are read as fewer, wider ones."""

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class LateTask:
    """Some parts of one lineage that may be late, and the metadata of its changelog.

    `keys` gives the key columns by version, under their names in the changelog, () without a key. Without a key equal
    rows are counted where `deliveries_are_told`: else two that come again after two restarts would pass for a repeat
    and a late row.
    """

    parts: tuple[Part, ...]
    keys: dict[int, tuple[str, ...]]
    changelog: TableMetadata = field(repr=False)
    deliveries_are_told: bool
    io_properties: dict[str, str] = field(default_factory=dict)


def dealt(parts: Sequence[Part], keys: Mapping[int, tuple[str, ...]]) -> Iterator[tuple[Part, ...]]:
    """The parts for one task after the other, of about ROWS_MAX rows. Those that share a commit_ts and have no key stay
    together: equal rows of theirs are counted."""
    some: list[Part] = []
    rows, newest = 0, -1
    for part in sorted(parts, key=lambda part: (part.min_ts or 0, part.uri)):
        may_cut = bool(keys.get(part.version_ts)) or (part.min_ts or 0) > newest
        if some and rows + part.rows > ROWS_MAX and may_cut:
            yield tuple(some)
            some, rows = [], 0
        some.append(part)
        rows, newest = rows + part.rows, max(newest, part.max_ts or 0)
    if some:
        yield tuple(some)


def late_parts(task: LateTask) -> RepeatReport:
    """The parts without what the changelog has already."""
    io = load_file_io(dict(task.io_properties), location=task.parts[0].uri)
    changelog = Table(("changelog",), task.changelog, "", io, NoopCatalog("changelog"))
    doomed: dict[str, Ints] = {}
    for version_ts in sorted({part.version_ts for part in task.parts}):
        parts = [part for part in task.parts if part.version_ts == version_ts]
        doomed |= _known(io, changelog, parts, task.keys.get(version_ts, ()), task.deliveries_are_told)
    return without_rows(io, task.parts, doomed)


def are_known(metadata_uri: str, io_properties: Mapping[str, str], rows: pa.Table) -> Bools:
    """Which rows of commit_ts, operation and key the changelog has. Whether a change is an insert or an update does not
    matter: some messages do not tell that."""
    changelog = StaticTable.from_metadata(metadata_uri, dict(io_properties))
    bounds = pc.min_max(rows.column(layout.COMMIT_TS)).as_py()
    there = _there(changelog, [(bounds["min"], bounds["max"])], rows.schema)
    both = pa.concat_tables([there, rows])
    columns = [pc.equal(both.column(layout.OP), "D"), *both.drop_columns([layout.OP]).columns]
    return ~first_of_each(columns)[len(there) :]


def _known(
    io: FileIO, changelog: Table, parts: Sequence[Part], key: tuple[str, ...], deliveries_are_told: bool
) -> dict[str, Ints]:
    """The numbers of the rows that the changelog has, by the URI of their part."""
    offered = [_identities(io, part, key) for part in parts]
    rows = pa.concat_tables(offered)
    there = _there(changelog, _ranges(parts), rows.schema)
    columns = _flat(pa.concat_tables([there, rows]))
    at = len(there)
    known = ~first_of_each(columns)[at:] if key else _equal_ones(columns, at, deliveries_are_told)
    ends = np.cumsum([len(table) for table in offered])[:-1]
    by_part = zip(parts, np.split(known, ends), strict=True)
    return {part.uri: np.flatnonzero(which) for part, which in by_part if which.any()}


def _equal_ones(columns: Sequence[pa.ChunkedArray], there: int, deliveries_are_told: bool) -> Bools:
    """Which of the rows behind the first `there` equal one of these: as many as these are where deliveries are told,
    else all."""
    told = list(columns)
    if deliveries_are_told:
        side = pa.array(np.arange(len(columns[0])) >= there)
        told.append(pa.array(ordinals([*columns, side])))
    found = codes(told)
    return np.isin(found[there:], found[:there])


def _identities(io: FileIO, part: Part, key: tuple[str, ...]) -> pa.Table:
    with io.new_input(part.uri).open() as stream:
        if key:
            return pq.read_table(stream, columns=[layout.COMMIT_TS, layout.OP, *key])
        return pq.read_table(stream).drop_columns([layout.SEQ, layout.COMMIT_TIME, layout.TABLE_VERSION])


def _flat(table: pa.Table) -> list[pa.ChunkedArray]:
    """The columns, each old value as one of its own: readers do not agree on a struct that is NULL."""
    return [part for column in table.columns for part in (column.flatten() if _is_struct(column) else [column])]


def _is_struct(column: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_struct(column.type))


def _there(changelog: Table, ranges: Sequence[Range], schema: pa.Schema) -> pa.Table:
    """What the changelog has of these ranges, with the columns of `schema`."""
    where: BooleanExpression = reduce(Or, (_between(*bounds) for bounds in ranges))
    found = changelog.scan(row_filter=where, selected_fields=tuple(_paths(schema))).to_arrow()
    return found.select(schema.names).cast(schema)


def _between(low: int, high: int) -> BooleanExpression:
    return And(GreaterThanOrEqual(layout.COMMIT_TS, low), LessThanOrEqual(layout.COMMIT_TS, high))


def _paths(schema: pa.Schema) -> list[str]:
    paths = []
    for column in schema:
        if column.name == layout.BEFORE:
            paths += [f"{layout.BEFORE}.{inner.name}" for inner in column.type]
        else:
            paths.append(column.name)
    return paths


def _ranges(parts: Sequence[Part]) -> list[Range]:
    """The ranges of commit_ts that the parts cover, apart from each other, at most _RANGES_MAX."""
    apart: list[Range] = []
    for low, high in sorted((part.min_ts or 0, part.max_ts or 0) for part in parts):
        if apart and low <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(apart[-1][1], high))
        else:
            apart.append((low, high))
    together = -(-len(apart) // _RANGES_MAX)
    return [(apart[n][0], apart[n : n + together][-1][1]) for n in range(0, len(apart), together)]
