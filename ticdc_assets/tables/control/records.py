"""The rows of control tables, with one field for each column, and the columns as Arrow schemas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from ticdc_assets.notes import Note, shown

_TIME: Final = pa.timestamp("us", tz="UTC")
_NAMES: Final = pa.list_(pa.field("element", pa.string()))
_NOTE: Final = pa.struct([
    pa.field("code", pa.string()), pa.field("text", pa.string()), pa.field("detail", pa.string()),
    pa.field("advice", _NAMES),
])  # fmt: skip
TABLE_FIELDS: Final = [
    pa.field("source_table", pa.string()), pa.field("schema", pa.string()), pa.field("table", pa.string()),
    pa.field("state", pa.string()), pa.field("note", pa.string()), pa.field("key", _NAMES),
    pa.field("watermark", pa.int64()), pa.field("mirror", _NAMES), pa.field("mirror_snapshot_id", pa.int64()),
    pa.field("changelog", _NAMES), pa.field("changelog_snapshot_id", pa.int64()), pa.field("rows", pa.int64()),
    pa.field("history", pa.string()), pa.field("history_table", _NAMES), pa.field("history_snapshot_id", pa.int64()),
    pa.field("notes", pa.list_(pa.field("element", _NOTE))), pa.field("settings", pa.string()),
    pa.field("complete", pa.bool_()), pa.field("quarantined", pa.int64()), pa.field("quarantined_since", pa.int64()),
    pa.field("discarded", pa.int64()),
]  # fmt: skip
WATERMARKS: Final = pa.schema([
    pa.field("recorded_at", _TIME), pa.field("run_id", pa.string()), pa.field("tso", pa.int64()),
    pa.field("complete", pa.bool_()), pa.field("cursor", pa.string()),
    pa.field("tables", pa.list_(pa.field("element", pa.struct(TABLE_FIELDS)))),
    pa.field("settled", pa.bool_()),
    pa.field("control_snapshots", pa.list_(pa.field("element", pa.struct([
        pa.field("name", pa.string()), pa.field("snapshot_id", pa.int64())
    ])))),
])  # fmt: skip
SCHEMAS: Final = pa.schema([
    pa.field("commit_ts", pa.int64()), pa.field("schema", pa.string()), pa.field("table", pa.string()),
    pa.field("query", pa.string()), pa.field("event", pa.string()), pa.field("where", pa.string()),
])  # fmt: skip
REGISTRY: Final = pa.schema([
    pa.field("url", pa.string()), pa.field("id", pa.int64()), pa.field("schema", pa.string()),
])  # fmt: skip
QUARANTINE: Final = pa.schema([
    pa.field("recorded_at", _TIME), pa.field("run_id", pa.string()), pa.field("schema", pa.string()),
    pa.field("table", pa.string()), pa.field("path", pa.string()), pa.field("line", pa.int64()),
    pa.field("reason", pa.string()), pa.field("raw", pa.binary()), pa.field("version", pa.int64()),
    pa.field("ordinal", pa.int64()), pa.field("resolution", pa.string()), pa.field("resolved_at", _TIME),
    pa.field("resolved_by", pa.string()), pa.field("since_tso", pa.int64()),
])  # fmt: skip
VIEWS: Final = pa.schema([
    pa.field("source_table", pa.string()), pa.field("view", _NAMES), pa.field("mirror", _NAMES),
    pa.field("mirror_snapshot_id", pa.int64()), pa.field("tso", pa.int64()), pa.field("metadata", pa.string()),
    pa.field("replaced", pa.list_(pa.field("element", pa.struct([
        pa.field("at", _TIME), pa.field("uri", pa.string())
    ])))),
])  # fmt: skip
CLOSED_IDENTITY: Final = ("folder", "version", "place", "dispatcher", "recorded_at")
CLOSED_FOLDERS: Final = pa.schema([
    pa.field("recorded_at", _TIME), pa.field("folder", pa.string()), pa.field("version", pa.int64()),
    pa.field("place", pa.string()), pa.field("dispatcher", pa.string()), pa.field("last", pa.int64()),
    pa.field("size_bytes", pa.int64()),
])  # fmt: skip
VERIFIED: Final = pa.schema([
    pa.field("source_table", pa.string()), pa.field("schema", pa.string()), pa.field("table", pa.string()),
    pa.field("tso", pa.int64()), pa.field("verified_at", _TIME), pa.field("extent", pa.string()),
    pa.field("compared_ranges", pa.int64()), pa.field("rows", pa.int64()), pa.field("checksum", pa.string()),
    pa.field("is_equal", pa.bool_()), pa.field("missing", pa.int64()), pa.field("extra", pa.int64()),
    pa.field("different", pa.int64()),
    pa.field("ranges", pa.list_(pa.field("element", pa.struct([
        pa.field("until", pa.string()), pa.field("tso", pa.int64())
    ])))),
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class TableRecord:
    """One source table in a record of `watermarks`.

    source_table: the id of the source table.
    schema, table: its newest name; that of a dropped table is its last one.
    state, notes: a `TableState`, why the table is held, and the warnings about it.
    key: the names of its key columns; empty without a key.
    watermark: the TSO up to which its changelog is complete; without commit_ts a count of messages.
    mirror, changelog, history_table: the identifiers of its tables; None where there is none.
    mirror_snapshot_id, changelog_snapshot_id, history_snapshot_id: the snapshots to read together.
    rows: the number of rows of the mirror; None where it is not known.
    history: a digest of the history with which the changelog was written.
    settings: the `WrittenSettings` with which the changelog was written, as its property has them.
    complete: whether the recorded snapshots have all of the table up to the TSO of a `settled` record.
    quarantined: the number of records in quarantine that may be of the table, whose changes it lacks; None for none.
    quarantined_since: a TSO at or below the commit_ts of each of them; 0 where it is not known.
    discarded: the number of records that were given up; None for none.
    """

    source_table: str
    schema: str
    table: str
    state: str
    notes: tuple[Note, ...]
    key: list[str]
    watermark: int
    mirror: list[str] | None
    mirror_snapshot_id: int | None
    changelog: list[str] | None
    changelog_snapshot_id: int | None
    rows: int | None
    history: str | None = None
    history_table: list[str] | None = None
    history_snapshot_id: int | None = None
    settings: str | None = None
    complete: bool = field(default=False, compare=False)
    quarantined: int | None = None
    quarantined_since: int | None = None
    discarded: int | None = None

    @property
    def note(self) -> str:
        """The notes for people."""
        return shown(self.notes, f"{self.schema}.{self.table}")

    def has(self, *codes: str) -> bool:
        """Whether a note has one of these codes."""
        return any(note.code in codes for note in self.notes)


@dataclass(frozen=True, slots=True)
class WatermarkRecord:
    """One row of `watermarks`.

    tso: the TSO up to which all tables are complete, if `complete`.
    complete: whether all mirrors and changelogs can be read together at `tso`. They lack the records in quarantine,
        which each table counts.
    settled: whether the mirrors had their turn: the tables that are `complete` can be read together at `tso`.
    cursor: where the next scan of the source begins.
    control_snapshots: the names of other control tables with their snapshots when it was written.
    """

    recorded_at: datetime
    run_id: str
    tso: int
    complete: bool
    cursor: str
    tables: tuple[TableRecord, ...]
    control_snapshots: tuple[tuple[str, int], ...] = field(default=(), compare=False)
    settled: bool = field(default=False, compare=False)

    def texts(self, notes: Mapping[str, Note]) -> dict[str, str]:
        """Notes about tables for people, by source table."""
        names = {table.source_table: f"{table.schema}.{table.table}" for table in self.tables}
        return {i: note.text(names.get(i, i)) for i, note in notes.items()}

    @property
    def held(self) -> tuple[TableRecord, ...]:
        """The tables that cannot be read at `tso`."""
        return tuple(table for table in self.tables if not table.complete)


RecordPosition = tuple[str, int]
"""The position of a quarantined record: its `path` and `line`, which are `topic/partition` and the offset for a
message."""


@dataclass(frozen=True, slots=True)
class QuarantinedRecord:
    """One row of `quarantine`: a record that could not be decoded, raw, with its position and the reason.

    path, line: the file and the ordinal of the record in it; or `topic/partition`, and the offset of the message.
    version: the version of the file's folder; None for messages.
    ordinal: the place of the file among the table's files; None for messages.
    since_tso: a TSO at or below its commit_ts: that itself where it could be read, else the one after the TSO up to
        which its table was complete; None in records of earlier versions.
    resolution, resolved_at, resolved_by: how, when and by which run the record was resolved; None while it is open.
    """

    recorded_at: datetime
    run_id: str
    schema: str
    table: str
    path: str
    line: int
    reason: str
    raw: bytes
    version: int | None = None
    ordinal: int | None = None
    resolution: str | None = None
    resolved_at: datetime | None = None
    resolved_by: str | None = None
    since_tso: int | None = None

    @property
    def position(self) -> RecordPosition:
        """The record's identity."""
        return (self.path, self.line)


@dataclass(frozen=True, slots=True)
class ClosedFolder:
    """One row of `closed_folders`: the last file of a data folder of a bucket that no run lists any more.

    `folder` is the table's folder; `place` is the data folder below the version's folder, or "" for the version's
    folder. `dispatcher` is None where file names have none.
    """

    recorded_at: datetime
    folder: str
    version: int
    place: str
    dispatcher: str | None
    last: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ViewRecord:
    """One row of `views`: a view of a mirror, the snapshot that it shows and the recorded TSO of it.

    `metadata` is the view's metadata file, `replaced` are those of earlier texts that are still there, each with the
    time at which it was replaced; empty where the catalog looks after them.
    """

    source_table: str
    view: list[str]
    mirror: list[str]
    mirror_snapshot_id: int
    tso: int
    metadata: str | None
    replaced: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class VerifiedTable:
    """One row of `verified`: a comparison of a table of the lake with TiDB at `tso`.

    extent: `whole`, `sample` (of the ranges) or `changed` (the keys that changed since an earlier comparison).
    compared_ranges: how many of the `ranges` were compared; 0 for `changed`.
    rows, checksum: the rows of TiDB, and the sum of their checksums, 32 hexadecimal digits; none for `changed`.
    missing, extra, different: how many rows differ, by the kind of difference.
    ranges: of the newest row of a table: all ranges of its key, each with the key at its end as JSON, and the TSO at
        which it was compared; None in older rows.
    """

    source_table: str
    schema: str
    table: str
    tso: int
    verified_at: datetime
    extent: str
    compared_ranges: int
    rows: int
    checksum: str | None
    is_equal: bool
    missing: int
    extra: int
    different: int
    ranges: list[dict[str, Any]] | None = None
