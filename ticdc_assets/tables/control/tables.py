"""The control tables of a changefeed: `watermarks`, `tables`, `views`, `schemas`, `registry`, `quarantine`,
`closed_folders`, `verified`.

A row of `watermarks` with `complete` has the TSO at which all mirrors and changelogs can be read together, and their
snapshots. A row without it has only the source cursor after the changelogs were published. All control tables are read
and written through pyiceberg, so that reading them needs no JVM.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import TableAlreadyExistsError
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo, In, LessThan, LessThanOrEqual, Or
from pyiceberg.table import Table, Transaction

from ticdc_assets.advice import BY_CODE
from ticdc_assets.errors import NotYetError, StaleRunError
from ticdc_assets.names.table_filter import TableFilter
from ticdc_assets.notes import Note, from_text
from ticdc_assets.tables.catalog import Identifier, ensure_namespace
from ticdc_assets.tables.control.records import (
    CLOSED_FOLDERS,
    CLOSED_IDENTITY,
    QUARANTINE,
    REGISTRY,
    SCHEMAS,
    TABLE_FIELDS,
    VERIFIED,
    VIEWS,
    WATERMARKS,
    ClosedFolder,
    QuarantinedRecord,
    TableRecord,
    VerifiedTable,
    ViewRecord,
    WatermarkRecord,
)
from ticdc_assets.tables.iceberg.commits import NOT_KNOWN, refreshed, transaction, uncommitted
from ticdc_assets.tables.lake_format import MARK, load_control_table, marked
from ticdc_assets.tables.maintenance.grown import is_scattered, last_row, merge_files
from ticdc_assets.tso import is_tso, now, to_datetime

if TYPE_CHECKING:
    from ticdc_assets.schema.ddl_event import DdlEvent


Row = TypeVar("Row")

FILES_MAX: Final = 16
"""Small files of a control table: each run adds one or two, each with a manifest that every read opens."""
_TRIES_MAX: Final = 5

VERIFIED_KEPT: Final = 100
"""Comparisons with TiDB that are kept of each table."""

RECORDED: Final = ("schemas", "quarantine", "closed_folders", "messages")
"""The control tables whose rows no run could write again, and whose snapshots a record names."""

_PROPERTIES: Final = {
    "commit.retry.num-retries": "0",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "commit.manifest-merge.enabled": "true",  # each read opens all manifests
    "commit.manifest.min-count-to-merge": "8",
}


Wanted = Callable[[TableRecord], bool]
"""Which tables must be complete in a record."""


def nobody(table: TableRecord) -> bool:
    """No table: the record is the newest one, and its `held` tables cannot be read at it."""
    return False


def named(patterns: Sequence[str]) -> Wanted:
    """The tables whose names match a pattern such as `shop.users` or `*.*`. Raises ConfigError for an invalid one."""
    selected = TableFilter(tuple(patterns))
    if selected.rules == ("*.*",):
        return everybody
    return lambda table: bool(patterns) and table.state != "dropped" and selected.matches(table.schema, table.table)


def everybody(table: TableRecord) -> bool:
    """All tables of the record."""
    return True


class Control:
    """The control tables of one changefeed in its namespace."""

    def __init__(self, catalog: Catalog, namespace: Identifier) -> None:
        self._catalog = catalog
        self.namespace = namespace

    # -- watermarks -----------------------------------------------------------------------------------------------

    def newest(self, complete: bool | None = None) -> WatermarkRecord | None:
        """The record with the largest TSO, the last written among equals; of one kind where `complete` is given."""
        return self._last(EqualTo("complete", complete) if complete is not None else AlwaysTrue())

    def at(self, tso: int | None = None, wanted: Wanted = nobody) -> WatermarkRecord | None:
        """The newest settled record, up to `tso` if given, in which every table that is `wanted` is complete."""
        kind = EqualTo("complete", True) if wanted is everybody else self._is_settled()
        below: BooleanExpression = AlwaysTrue() if tso is None else LessThanOrEqual("tso", tso)
        while (record := self._last(And(kind, below))) is not None:
            lacking = [table.watermark for table in record.held if wanted(table)]
            if not lacking:
                return record
            # A table is complete in no record above its watermark; one without any may not be in an earlier record.
            below = LessThan("tso", min([record.tso, *(watermark + 1 for watermark in lacking if watermark)]))
        return None

    def require_at(self, tso: int | None, where: str, wanted: Wanted = nobody) -> WatermarkRecord:
        """The same as `at`. Raises NotYetError, which names the first such record, where there is none."""
        found = self.at(tso, wanted)
        if found is not None:
            return found
        first = self._first_settled()
        time = f" ({to_datetime(first):%Y-%m-%d %H:%M:%S} UTC)" if first is not None and is_tso(first) else ""
        known = "none" if first is None else f"{first}{time} as the first one"
        expected = "a complete record in `watermarks`" if tso is None else f"a recorded TSO up to {tso}"
        advice = "Run `ticdc-assets run`." if first is None or tso is None else f"Take {first} or a later TSO."
        raise NotYetError(where, expected, known, advice)

    def _is_settled(self) -> BooleanExpression:
        table = self.watermarks()
        known = table is not None and "settled" in table.schema().column_names
        return Or(EqualTo("complete", True), EqualTo("settled", True)) if known else EqualTo("complete", True)

    def _first_settled(self) -> int | None:
        table = self.watermarks()
        if table is None:
            return None
        found = table.scan(row_filter=self._is_settled(), selected_fields=("tso",)).to_arrow().column("tso")
        return None if len(found) == 0 else int(min(found.to_pylist()))

    def _last(self, where: BooleanExpression) -> WatermarkRecord | None:
        table = self.watermarks()
        if table is None:
            return None
        row = last_row(table, where, ("tso", "recorded_at"), ("run_id",))
        return None if row is None else _watermark(row)

    def watermarks(self) -> Table | None:
        """The table; None before the first run."""
        return self._load("watermarks")

    def claim(self) -> None:
        """Mark the lake with this release's format, before anything else of it is written."""
        table = self.watermarks()
        if table is not None:
            marked(table)

    def record(self, record: WatermarkRecord) -> None:
        """Append a record to `watermarks`. A record of the same run and time is appended once."""
        row = self._record_row(record)
        self._compact(self._append("watermarks", WATERMARKS, [row], ("run_id", "recorded_at")))

    def staged(self, record: WatermarkRecord) -> Transaction:
        """A transaction that appends a record to `watermarks`, not committed yet."""
        made = uncommitted(self._ensure("watermarks", WATERMARKS))
        made.append(pa.Table.from_pylist([self._record_row(record)], schema=WATERMARKS))
        return made

    def _record_row(self, record: WatermarkRecord) -> dict[str, Any]:
        snapshots = [{"name": name, "snapshot_id": i} for name, i in self._snapshots()]
        return {
            **_shallow(record),
            "tables": [_row(table) for table in record.tables],
            "control_snapshots": snapshots,
        }

    def compact_records(self) -> None:
        """Rewrite the small files of `watermarks` as one; give up where another writer commits first."""
        self._compact(self.watermarks())

    def _snapshots(self) -> Iterator[tuple[str, int]]:
        """The present snapshots of `RECORDED`."""
        for name in RECORDED:
            table = self._load(name)
            snapshot = table.current_snapshot() if table is not None else None
            if snapshot is not None:
                yield name, snapshot.snapshot_id

    # -- schemas --------------------------------------------------------------------------------------------------

    def ddl_events(self) -> list[DdlEvent]:
        """All statements and schemas of the stream so far, in the order in which they were stored."""
        table = self._load("schemas")
        if table is None:
            return []
        from ticdc_assets.tables.ddl_json import ddl_from_json  # imported only when needed

        rows = table.scan(selected_fields=("event",)).to_arrow().column("event").to_pylist()
        return [ddl_from_json(row) for row in rows]

    def keep_ddl_events(self, events: Sequence[DdlEvent]) -> None:
        """Add the events that the table lacks."""
        self._append("schemas", SCHEMAS, [_ddl_row(event) for event in events], ("where", "event"))

    def replace_ddl_events(self, events: Sequence[DdlEvent]) -> None:
        """Replace the events that were read at the same positions before."""
        if events:
            data = pa.Table.from_pylist([_ddl_row(event) for event in events], schema=SCHEMAS)
            replaced = In("where", {event.where for event in events})
            table = self._ensure("schemas", SCHEMAS)
            committed(table, lambda _, tx: tx.overwrite(data, overwrite_filter=replaced))

    # -- registry -------------------------------------------------------------------------------------------------

    def registered(self, url: str) -> dict[int, str]:
        """All schemas fetched from a schema registry so far, by id."""
        table = self._load("registry")
        rows = [] if table is None else table.scan(row_filter=EqualTo("url", url)).to_arrow().to_pylist()
        return {row["id"]: row["schema"] for row in rows}

    def keep_registered(self, url: str, schemas: Mapping[int, str]) -> None:
        """Store schemas, so that a replay needs no registry."""
        rows = [{"url": url, "id": i, "schema": text} for i, text in schemas.items()]
        self._append("registry", REGISTRY, rows, ("url", "id"))

    # -- quarantine -----------------------------------------------------------------------------------------------

    def quarantine(self, records: Sequence[QuarantinedRecord]) -> None:
        """Store records that are not stored yet (a file is read again while it has rows above the watermark)."""
        self._append("quarantine", QUARANTINE, [_shallow(r) for r in records], ("path", "line"))

    def quarantined(self) -> list[QuarantinedRecord]:
        """The records that are not resolved."""
        return [record for record in self.ever_quarantined() if record.resolution is None]

    def ever_quarantined(self, with_raw: bool = True) -> list[QuarantinedRecord]:
        """All records that were ever in quarantine, resolved or not; without their bytes where these are not needed."""
        table = self._load("quarantine")
        return [] if table is None else _quarantined(table, with_raw=with_raw)

    def resolve(self, resolutions: Mapping[tuple[str, int], str], run_id: str) -> None:
        """Set the resolution of records by path and line; a record that is already resolved stays unchanged."""
        if not resolutions:
            return
        touched = In("path", {path for path, _ in resolutions})

        def write(fresh: Table, tx: Transaction) -> None:
            rows = [_resolved(r, resolutions.get(r.position), run_id) for r in _quarantined(fresh, touched)]
            tx.overwrite(pa.Table.from_pylist([_shallow(r) for r in rows], schema=QUARANTINE), touched)

        committed(self._ensure("quarantine", QUARANTINE), write)

    # -- closed folders -------------------------------------------------------------------------------------------

    def close_folders(self, folders: Sequence[ClosedFolder]) -> None:
        """Store the last files of folders. A folder that is closed again has several rows."""
        rows = [_shallow(folder) for folder in folders]
        if rows:
            self._compact(self._append("closed_folders", CLOSED_FOLDERS, rows, CLOSED_IDENTITY))

    def closed_folders(self) -> list[ClosedFolder]:
        """All rows of `closed_folders`; a folder that was closed again has several."""
        return self._rows("closed_folders", ClosedFolder)

    # -- tables ---------------------------------------------------------------------------------------------------

    def keep_tables(self, records: Sequence[TableRecord]) -> None:
        """Replace the rows of `tables`, the map from source names to table identifiers, if they changed."""
        tables = ("mirror", "changelog", "history_table")
        fields_kept = ("source_table", "schema", "table", "state", "note", "notes", "key", *tables)
        schema = pa.schema([f for f in TABLE_FIELDS if f.name in fields_kept])
        rows = [{name: value for name, value in _row(r).items() if name in fields_kept} for r in records]
        wanted = pa.Table.from_pylist(rows, schema=schema)
        table = self._ensure("tables", schema)
        found = table.scan().to_arrow().to_pylist()
        if sorted(found, key=str) != sorted(wanted.to_pylist(), key=str):
            committed(table, lambda fresh, tx: (tx.overwrite if fresh.current_snapshot() else tx.append)(wanted))

    # -- views ----------------------------------------------------------------------------------------------------

    def views(self) -> list[ViewRecord]:
        """The views that runs have made."""
        return self._rows("views", ViewRecord)

    def keep_views(self, records: Sequence[ViewRecord]) -> None:
        """Replace the rows of `views`."""
        rows = pa.Table.from_pylist([_shallow(record) for record in records], schema=VIEWS)
        table = self._ensure("views", VIEWS)
        committed(table, lambda fresh, tx: (tx.overwrite if any(fresh.scan().plan_files()) else tx.append)(rows))

    # -- verified ------------------------------------------------------------------------------------------------------

    def verified(self, source_table: str | None = None) -> list[VerifiedTable]:
        """The comparisons of one table or of all with TiDB, the newest first."""
        table = self._load("verified")
        where = AlwaysTrue() if source_table is None else EqualTo("source_table", source_table)
        return [] if table is None else _verified(table, where)

    def keep_verified(self, record: VerifiedTable) -> None:
        """Add a comparison. Of each table the newest `VERIFIED_KEPT` stay, and ranges only in the newest one."""
        of_table = EqualTo("source_table", record.source_table)

        def write(fresh: Table, tx: Transaction) -> None:
            known = _verified(fresh, of_table)
            others = [old for old in known if old.verified_at != record.verified_at]
            kept = [record, *(replace(old, ranges=None) for old in others[: VERIFIED_KEPT - 1])]
            rows = pa.Table.from_pylist([_shallow(row) for row in kept], schema=VERIFIED)
            if known:
                tx.overwrite(rows, of_table)
            else:
                tx.append(rows)

        self._compact(committed(self._ensure("verified", VERIFIED), write))

    # -- all ------------------------------------------------------------------------------------------------------

    def _append(
        self, name: str, schema: pa.Schema, rows: list[dict[str, Any]], identity: tuple[str, ...]
    ) -> Table | None:
        """Add the rows whose `identity` the table lacks, also when other writers add rows at the same time. Returns the
        table with them; None without rows."""

        def write(fresh: Table, tx: Transaction) -> None:
            near = In(identity[0], {row[identity[0]] for row in rows})
            present = fresh.scan(row_filter=near, selected_fields=identity).to_arrow().to_pylist()
            kept = {tuple(row[name] for name in identity) for row in present}
            new = [row for row in rows if tuple(row[name] for name in identity) not in kept]
            if new:
                tx.append(pa.Table.from_pylist(new, schema=schema))

        return committed(self._ensure(name, schema), write) if rows else None

    def _compact(self, table: Table | None) -> None:
        """Rewrite the small files of a table as one; give up where another writer commits first."""
        if table is not None and is_scattered(table, FILES_MAX):
            with suppress(*NOT_KNOWN), transaction(table) as tx:
                merge_files(table, tx, FILES_MAX)

    def _rows(self, name: str, of: Callable[..., Row]) -> list[Row]:
        """All rows of a table."""
        table = self._load(name)
        return [] if table is None else [_made(of, row) for row in table.scan().to_arrow().to_pylist()]

    def _load(self, name: str) -> Table | None:
        return load_control_table(self._catalog, (*self.namespace, name))

    def _ensure(self, name: str, schema: pa.Schema) -> Table:
        identifier = (*self.namespace, name)
        table = self._load(name)
        if table is None:
            ensure_namespace(self._catalog, self.namespace)
            try:
                table = self._catalog.create_table(identifier, schema, properties=_PROPERTIES | MARK)
            except TableAlreadyExistsError:
                table = self._catalog.load_table(identifier)
        table = marked(table)
        if not _paths(schema) <= set(table.schema().column_names):  # made by an older version
            with suppress(*NOT_KNOWN), table.update_schema() as update:
                update.union_by_name(schema)
            table = table.refresh()
        return table


def _paths(schema: pa.Schema | pa.StructType, above: str = "") -> set[str]:
    """The columns and the fields of lists of structs, as Iceberg names them."""
    found = set()
    for column in schema:
        path = f"{above}{column.name}"
        found.add(path)
        if pa.types.is_list(column.type) and pa.types.is_struct(column.type.value_type):
            found |= _paths(column.type.value_type, f"{path}.element.")
    return found


def committed(table: Table, write: Callable[[Table, Transaction], object]) -> Table:
    """Commit on top of the current snapshot; returns the table as committed. `write` skips rows that the table already
    has, so that it can be tried again after a conflict or a lost response. Raises StaleRunError where other writers
    commit first each time."""
    for attempt in range(_TRIES_MAX):
        try:
            fresh = refreshed(table) if attempt else table
            with transaction(fresh) as tx:
                write(fresh, tx)
        except NOT_KNOWN as error:
            if attempt == _TRIES_MAX - 1:
                raise StaleRunError(
                    ".".join(table.name()),
                    "to commit within a few tries",
                    "other writers each time",
                    "Stop other processes that write this changefeed, then run again.",
                ) from error
            time.sleep(0.05 * 2**attempt)
        else:
            return fresh
    raise AssertionError("unreachable: the last try returns or raises")


def _ddl_row(event: DdlEvent) -> dict[str, Any]:
    from ticdc_assets.tables.ddl_json import ddl_to_json  # imported only when needed

    return {
        "commit_ts": event.commit_ts,
        "schema": event.schema,
        "table": event.table,
        "query": event.query,
        "event": ddl_to_json(event),
        "where": event.where,
    }


def _shallow(record: Any) -> dict[str, Any]:
    return {f.name: getattr(record, f.name) for f in fields(record)}


def _quarantined(
    table: Table,
    where: BooleanExpression = AlwaysTrue(),  # noqa: B008
    with_raw: bool = True,
) -> list[QuarantinedRecord]:
    names = tuple(field.name for field in table.schema().fields if with_raw or field.name != "raw")
    rows = table.scan(row_filter=where, selected_fields=names).to_arrow().to_pylist()
    return [_made(QuarantinedRecord, {"raw": b"", **row}) for row in rows]


def _verified(table: Table, where: BooleanExpression) -> list[VerifiedTable]:
    rows = [_made(VerifiedTable, row) for row in table.scan(row_filter=where).to_arrow().to_pylist()]
    return sorted(rows, key=lambda row: row.verified_at, reverse=True)


def _resolved(record: QuarantinedRecord, resolution: str | None, run_id: str) -> QuarantinedRecord:
    if resolution is None or record.resolution is not None:
        return record
    return replace(record, resolution=resolution, resolved_at=now(), resolved_by=run_id)


def _watermark(row: dict[str, Any]) -> WatermarkRecord:
    tables = tuple(map(_table, row.pop("tables") or ()))
    snapshots = tuple((of["name"], of["snapshot_id"]) for of in row.pop("control_snapshots", None) or ())
    if row["complete"]:
        tables = tuple(replace(table, complete=True) for table in tables)
    settled = bool(row.pop("settled", None) or row["complete"])
    return _made(WatermarkRecord, {**row, "tables": tables, "control_snapshots": snapshots, "settled": settled})


def _row(table: TableRecord) -> dict[str, Any]:
    return {**asdict(table), "note": table.note, "notes": [_note_row(table, note) for note in table.notes]}


def _note_row(table: TableRecord, note: Note) -> dict[str, Any]:
    return {**note.as_object(), "text": note.text(f"{table.schema}.{table.table}")}


def _note(row: Mapping[str, Any]) -> Note:
    """The note of a row. An earlier version stored only its text, and a newer one may have advice that is not known
    here."""
    codes = row.get("advice") or ()
    if row.get("detail") is None or not BY_CODE.keys() >= set(codes):
        return Note(row["code"], row["text"])
    return Note(row["code"], row["detail"], tuple(BY_CODE[code] for code in codes))


def _table(row: dict[str, Any]) -> TableRecord:
    text, stored, complete = row.pop("note"), row.pop("notes", None), bool(row.pop("complete", None))
    is_held = row["state"] in ("waiting", "stopped")
    notes = from_text(text, is_held=is_held) if stored is None else tuple(map(_note, stored))
    return _made(TableRecord, {**row, "notes": notes, "complete": complete})


def _made(of: Callable[..., Row], row: Mapping[str, Any]) -> Row:
    """The row as a record; columns that users have added are not read."""
    return of(**{field.name: row[field.name] for field in fields(of) if field.name in row})  # type: ignore[arg-type]
