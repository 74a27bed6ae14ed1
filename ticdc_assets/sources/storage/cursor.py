"""The progress in a bucket: `Cursor.advance` computes the next cursor from a scan and the consumed files.

For each table folder the cursor holds the versions whose schema files were delivered and, for each data folder that can
still get files, the last file that was fully consumed, with its size. A file that was read only in part is delivered
again by the next scan; the cursor records that it was seen. Folders of older versions and of past dates are removed
when everything in them is consumed; of past dates of an open version a bit stays. So the cursor grows with tables, not
with files. The last files of folders that were removed are kept elsewhere (`pipeline.storage.closed_folders`). This
module does no I/O.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

from ticdc_assets.errors import SourceError
from ticdc_assets.sources.storage.past_dates import PastDates
from ticdc_assets.sources.storage.paths import DATE_SLACK, SourceFile
from ticdc_assets.sources.storage.scan_result import Done, FolderScan, Place, Scan, TableScan
from ticdc_assets.tso import to_datetime

CURSOR_FORMAT: Final = 2

FORMAT_WITHOUT_CLOSED: Final = 1
"""Cursors of this format close folders without their last files being kept."""

KEPT_OPEN_MAX: Final = 2
"""How many folders whose files are all consumed stay open: dates of a partition, and versions of a table."""


@dataclass(frozen=True, slots=True)
class VersionState:
    """An open version folder. `over` has the closed dates for each partition ("" without partitions).

    `seen` has the last file up to which a run has read all files, some of them only in part, if it is beyond `done`.
    `named` has the number in the index, if files after that number were read.
    """

    done: Mapping[Place, Done] = field(default_factory=dict)
    over: Mapping[str, PastDates] = field(default_factory=dict)
    seen: Mapping[Place, Done] = field(default_factory=dict)
    named: Mapping[Place, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableCursor:
    """A table folder. Versions below `closed_below` are finished; `schemas` has the delivered ones from there on, and
    older ones that a scan lists: those without any file so far, and those in which a file was found late.

    `renamed` has the names of versions whose names differ from the newest; only folders named by id have such versions.
    Of folders below `unlisted_below` that are closed, the last files are not kept.
    """

    schema: str
    table: str
    schemas: Mapping[int, tuple[str, ...]]
    closed_below: int = 0
    dropped: int | None = None
    open: Mapping[int, VersionState] = field(default_factory=dict)
    renamed: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    unlisted_below: int = 0

    def names(self, version: int) -> tuple[str, str]:
        """Schema and table as in the version's schema file."""
        return self.renamed.get(version, (self.schema, self.table))

    def is_open(self, version: int) -> bool:
        """Whether the folder of a version may have files that no run has read."""
        return version >= self.closed_below or version in self.schemas

    def unseen(self) -> TableCursor:
        """The cursor after a run that did not find the folder: the watermark has passed rows of files that were read in
        part."""
        if not any(version.seen for version in self.open.values()):
            return self
        opened = {number: replace(version, seen={}) for number, version in self.open.items()}
        return replace(
            self, open={number: version for number, version in opened.items() if version.done or version.over}
        )


@dataclass(frozen=True, slots=True)
class Cursor:
    """The progress of every table folder. `layout` is the layout of the scan that produced it.

    `compared_ms` is the time of the last comparison of closed folders with the bucket, in ms since 1970; 0 before any.
    """

    layout: str
    tables: Mapping[str, TableCursor]
    compared_ms: int = 0

    @classmethod
    def empty(cls) -> Cursor:
        """A cursor with nothing consumed."""
        return cls("", {})

    def advance(
        self,
        scan: Scan,
        fully_consumed: Iterable[SourceFile],
        held: Collection[tuple[str, str]] = frozenset(),
        seen: Iterable[SourceFile] = (),
    ) -> Cursor:
        """The cursor after a scan and the run that read its files. Tables with problems do not advance: their files and
        schema files are delivered again.

        Args:
            fully_consumed: the files that were read to the end.
            held: (schema, table) of tables that do not advance either.
            seen: the files that were read up to some TSO; they are delivered again.
        """
        if scan.checkpoint_ts is None:
            return self
        consumed = _Read({file.path for file in fully_consumed}, {file.path for file in seen})
        listed = {found.folder for found in scan.tables}
        tables = {folder: state if folder in listed else state.unseen() for folder, state in self.tables.items()}
        for found in scan.tables:
            if found.problems or not found.names.isdisjoint(held):
                continue
            state = _advanced(tables.get(found.folder), found, consumed, scan)
            if state is not None:
                tables[found.folder] = state
        return replace(self, layout=scan.layout.token, tables=tables)

    def to_json(self) -> str:
        """The cursor as text."""
        tables = {folder: _table_json(state) for folder, state in sorted(self.tables.items())}
        whole = {"format": CURSOR_FORMAT, "layout": self.layout, "compared_ms": self.compared_ms, "tables": tables}
        return json.dumps(whole, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Cursor:
        """The cursor written by `to_json`. Raises SourceError for another format."""
        try:
            whole = json.loads(text)
            if whole["format"] not in (CURSOR_FORMAT, FORMAT_WITHOUT_CLOSED):
                raise _not_a_cursor(f"format {whole['format']!r}")
            tables = {folder: _table_from_json(table) for folder, table in whole["tables"].items()}
            if whole["format"] == FORMAT_WITHOUT_CLOSED:
                tables = {folder: replace(t, unlisted_below=t.closed_below) for folder, t in tables.items()}
            return cls(str(whole["layout"]), tables, int(whole.get("compared_ms", 0)))
        except (ValueError, TypeError, KeyError, AttributeError):
            raise _not_a_cursor("another text") from None


@dataclass(frozen=True, slots=True)
class _Read:
    """The paths of files that were consumed, and of those that were seen without being consumed."""

    wholly: Collection[str]
    in_part: Collection[str]


def _advanced(before: TableCursor | None, scan: TableScan, read: _Read, whole: Scan) -> TableCursor | None:
    if before is None and not scan.checksums:
        return None
    checkpoint_ts = whole.checkpoint_ts or 0
    state = before or TableCursor(scan.schema, scan.table, {})
    opened = dict(state.unseen().open)
    for version, folders in scan.versions.items():
        opened[version] = _advanced_version(opened.get(version), folders, read, whole)
    finished = {v for v, folders in scan.versions.items() if all(f.is_complete(read.wholly) for f in folders)}
    finished |= {version for version in opened if version not in scan.versions and version <= checkpoint_ts}
    dropped = _dropped(state.dropped, scan)
    if whole.recognises_repeats:
        finished -= _kept_open(opened, scan, dropped, checkpoint_ts)
    closed_below = _closed_below(state.closed_below, opened, finished, dropped)
    read_through = {
        version for version in finished if version in opened and (opened[version].done or opened[version].over)
    }
    schemas = _kept_schemas(state.schemas, scan.checksums, closed_below, read_through)
    return TableCursor(
        schema=scan.schema,
        table=scan.table,
        schemas=schemas,
        closed_below=closed_below,
        dropped=dropped,
        open={
            v: o
            for v, o in sorted(opened.items())
            if (v >= closed_below or v in schemas) and (o.done or o.over or o.seen)
        },
        renamed=_renamed(state, scan, schemas),
        unlisted_below=state.unlisted_below,
    )


def _advanced_version(
    before: VersionState | None,
    folders: tuple[FolderScan, ...],
    read: _Read,
    whole: Scan,
) -> VersionState:
    state, consumed = before or VersionState(), read.wholly
    done = dict(state.done) | {folder.place: folder.after(consumed) for folder in folders}
    # No file of a missing folder counts as seen when the folder comes back: the watermark advances without it.
    seen = {folder.place: folder.after({*consumed, *read.in_part}) for folder in folders}
    named = {folder.place: folder.named for folder in folders if folder.named is not None}
    over = dict(state.over)
    for partition in {folder.partition for folder in folders if folder.date}:
        unfinished = {f.date for f in folders if f.partition == partition and not f.is_complete(consumed)}
        dates = sorted({folder.date for folder in folders if folder.partition == partition})
        grown = {f.date for f in folders if f.partition == partition and f.has_grown and whole.recognises_repeats}
        unfinished |= grown.intersection(dates[:-1][-KEPT_OPEN_MAX:])
        for date in dates[:-1]:
            if date in unfinished or not whole.layout.date_is_over(date, whole.checkpoint_ts or 0):
                break
            over[partition] = over.get(partition, PastDates()).with_date(date)
    kept = {p: d for p, d in sorted(done.items(), key=_by_place) if d.number and not is_over(p[0], over)}
    beyond = {p: d for p, d in seen.items() if d.number > done.get(p, _NONE).number and not is_over(p[0], over)}
    behind = {place: number for place, number in named.items() if number < kept.get(place, _NONE).number}
    return VersionState(kept, over, dict(sorted(beyond.items(), key=_by_place)), behind)


_NONE: Final = Done(0, 0)


def is_over(place: str, over: Mapping[str, PastDates]) -> bool:
    """Whether a data folder is that of a closed date."""
    partition, _, date = place.rpartition("/")
    return partition in over and date in over[partition]


def _by_place(item: tuple[Place, Done]) -> tuple[str, str]:
    return item[0][0], item[0][1] or ""


def _closed_below(before: int, opened: Mapping[int, VersionState], finished: set[int], dropped: int | None) -> int:
    """The first version that can still get files.

    A version is closed only by files of a newer one (or by DROP TABLE), never by a newer schema file alone: a statement
    that has no effect in TiCDC gets a schema file while rows are still written to the previous folder.
    """
    newest = max((version for version, state in opened.items() if state.done or state.over), default=0)
    end = max(newest, dropped or 0)
    for version in sorted(opened):
        if version >= end or version not in finished:
            return max(before, min(version, end))
    return max(before, end)


def _kept_open(
    opened: Mapping[int, VersionState], scan: TableScan, dropped: int | None, checkpoint_ts: int
) -> set[int]:
    """The last versions before the newest one that may still get files: a run has just found some, or it is not long
    since the next version or the DROP. TiCDC writes to them again after a restart, and copies bring them late."""
    filled = sorted(version for version, state in opened.items() if state.done or state.over or state.seen)
    ends = dict(pairwise(filled))
    if filled and dropped is not None and dropped > filled[-1]:
        ends[filled[-1]] = dropped
    grown = {version for version, folders in scan.versions.items() if any(folder.has_grown for folder in folders)}
    now = to_datetime(checkpoint_ts)
    return {v for v in sorted(ends)[-KEPT_OPEN_MAX:] if v in grown or now <= to_datetime(ends[v]) + DATE_SLACK}


def _dropped(before: int | None, scan: TableScan) -> int | None:
    if not scan.schema_files:
        return before
    newest = max(scan.schema_files, key=lambda file: file.version)
    return newest.version if newest.drops_table else None


def _kept_schemas(
    before: Mapping[int, tuple[str, ...]],
    found: Mapping[int, tuple[str, ...]],
    closed_below: int,
    read_through: Collection[int],
) -> dict[int, tuple[str, ...]]:
    union = {v: tuple(sorted({*before.get(v, ()), *found.get(v, ())})) for v in sorted({*before, *found})}
    newest = max(union, default=0)
    return {
        version: sums
        for version, sums in union.items()
        if version >= closed_below or version == newest or version not in read_through
    }


def _renamed(state: TableCursor, scan: TableScan, kept: Collection[int]) -> dict[int, tuple[str, str]]:
    names = {version: state.names(version) for version in state.schemas}
    names |= {file.version: (file.schema, file.table) for file in scan.schema_files}
    return {v: names[v] for v in sorted(names) if v in kept and names[v] != (scan.schema, scan.table)}


def _table_json(state: TableCursor) -> dict[str, Any]:
    whole = {
        "names": [state.schema, state.table],
        "schemas": {str(version): list(sums) for version, sums in state.schemas.items()},
        "closed_below": state.closed_below,
        "dropped": state.dropped,
        "open": {str(version): _version_json(opened) for version, opened in state.open.items()},
        "renamed": {str(version): list(names) for version, names in state.renamed.items()},
        "unlisted_below": state.unlisted_below,
    }
    return {name: value for name, value in whole.items() if value}


def _version_json(state: VersionState) -> dict[str, Any]:
    seen = {"seen": _places_json(state.seen)} if state.seen else {}
    over = {"over": {partition: dates.to_text() for partition, dates in state.over.items()}} if state.over else {}
    named = {"named": [[*place, number] for place, number in state.named.items()]} if state.named else {}
    return {"done": _places_json(state.done)} | over | seen | named


def _places_json(places: Mapping[Place, Done]) -> list[list[Any]]:
    return [[folder, dispatcher, last.number, last.size] for (folder, dispatcher), last in places.items()]


def _table_from_json(whole: dict[str, Any]) -> TableCursor:
    schema, table = whole["names"]
    return TableCursor(
        schema=schema,
        table=table,
        schemas={int(version): tuple(sums) for version, sums in whole.get("schemas", {}).items()},
        closed_below=whole.get("closed_below", 0),
        dropped=whole.get("dropped"),
        open={int(version): _version_from_json(opened) for version, opened in whole.get("open", {}).items()},
        renamed={int(version): (names[0], names[1]) for version, names in whole.get("renamed", {}).items()},
        unlisted_below=whole.get("unlisted_below", 0),
    )


def _version_from_json(whole: dict[str, Any]) -> VersionState:
    over = {partition: PastDates.from_text(text) for partition, text in whole.get("over", {}).items()}
    named = {(folder, dispatcher): number for folder, dispatcher, number in whole.get("named", [])}
    return VersionState(_places_from_json(whole["done"]), over, _places_from_json(whole.get("seen", [])), named)


def _places_from_json(listed: list[list[Any]]) -> dict[Place, Done]:
    return {(folder, dispatcher): Done(number, size) for folder, dispatcher, number, size in listed}


def _not_a_cursor(found: str) -> SourceError:
    advice = "Start from the empty cursor: all files are read again, and repeats are left out."
    return SourceError("storage cursor", f"a cursor of format {CURSOR_FORMAT}", found, advice)
