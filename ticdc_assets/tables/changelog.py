"""The changelog table: created, widened and appended to through pyiceberg, so that it needs no JVM.

Data files are written by the workers with field ids; the driver only commits them. A commit names the snapshot it
was planned on and is never retried blindly (`commit.retry.num-retries=0`): pyiceberg's own retry would publish the
same rows twice when two runs race.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import TableAlreadyExistsError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.transforms import DayTransform
from pyiceberg.types import NestedField, StructType

from ticdc_assets.changes import layout
from ticdc_assets.changes.layout import LakeColumn
from ticdc_assets.errors import ConfigError, OtherTableError
from ticdc_assets.failpoints import Failpoint, hit
from ticdc_assets.tables.catalog import Identifier, ensure_namespace, load_or_none
from ticdc_assets.tables.iceberg.commits import NOT_KNOWN, other_table, refreshed, transaction
from ticdc_assets.tables.iceberg.properties import COLUMNS, SOURCE_TABLE
from ticdc_assets.tables.iceberg.types import arrow_field, arrow_of, field_id, iceberg_type
from ticdc_assets.tables.iceberg.written_file import WrittenFile, data_file_of
from ticdc_assets.tables.progress import (
    CHANGEFEED,
    LATE_ROWS,
    Progress,
    columns_property,
    field_ids_by_uid,
    progress_of,
    source_table_of,
    stale,
)
from ticdc_assets.tables.written_with import HISTORY, SETTINGS, Fit, KnownHistory, KnownSettings

if TYPE_CHECKING:
    from ticdc_assets.tables.set_back import RecordedSnapshot

COMMIT_DAY: Final = "commit_day"
"""The partition field of every changelog: the UTC day of `_ticdc_commit_time`."""

COMMIT_TRIES_MAX: Final = 5
"""Maintenance may commit between the plan and the commit of a run. After more tries than this, runs race."""

PROPERTIES: Final[dict[str, str]] = {
    "format-version": "2",
    "commit.retry.num-retries": "0",
    "write.parquet.compression-codec": "zstd",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


@dataclass(frozen=True, slots=True)
class ChangelogSpec:
    """A changelog as it has to be: its owners, at least these columns, and the settings of its next rows.

    location: None if the catalog chooses it.
    """

    identifier: Identifier
    changefeed: str
    source_table_id: str
    columns: Sequence[LakeColumn]
    location: str | None
    settings: KnownSettings


def ensure(
    catalog: Catalog,
    wanted: ChangelogSpec,
    recorded: RecordedSnapshot | None = None,
    known: KnownHistory | None = None,
) -> Table:
    """The changelog, created or widened where necessary.

    Args:
        recorded: the recorded snapshot, which the table must go on from; None before the first record.
        known: the current history. A changelog whose rows do not fit it, or the settings, stays as it is.

    Raises:
        ConfigError: the name belongs to another table, or the recorded table is gone.
        SetBackError: earlier changes are missing. The table stays as it is.
    """
    identifier = wanted.identifier
    for tries_left in reversed(range(COMMIT_TRIES_MAX)):
        table = load_or_none(catalog, identifier)
        if table is None and recorded is not None:
            raise other_table(".".join(identifier), "none")
        try:
            if table is None:
                noted = {HISTORY: known.now.to_json()} if known is not None else {}
                owners = {SOURCE_TABLE: wanted.source_table_id, CHANGEFEED: wanted.changefeed}
                properties = {**PROPERTIES, **owners, **noted, SETTINGS: wanted.settings.now.to_json()}
                table = _create(catalog, identifier, properties, wanted.columns, wanted.location)
            _check_owner(table, wanted.changefeed, wanted.source_table_id)
            if recorded is not None:
                recorded.require_in(table)
            if (known is not None and known.fit(table) is Fit.OTHER_ROWS) or wanted.settings.fault(table):
                return table
            return _widen(table, wanted.columns, known, wanted.settings.noted(table))
        except (*NOT_KNOWN, TableAlreadyExistsError):
            if not tries_left:
                raise
    raise AssertionError


def _check_owner(table: Table, changefeed: str, source_table_id: str) -> None:
    name = ".".join(table.name())
    owner = table.properties.get(CHANGEFEED, changefeed)
    if owner != changefeed:
        advice = "Give each changefeed table names of its own with `target`."
        raise ConfigError(name, f"a table of the changefeed {changefeed}", f"one of {owner}", advice)
    if source_table_of(table) != source_table_id:
        advice = "Rename that table, or give the changefeed's tables other names with `target`."
        raise OtherTableError(name, "no table, or the changelog of this source table", "another", advice)


def _create(
    catalog: Catalog,
    identifier: Identifier,
    properties: dict[str, str],
    columns: Sequence[LakeColumn],
    location: str | None,
) -> Table:
    ensure_namespace(catalog, identifier[:-1])
    ids = itertools.count(1)
    system = [NestedField(next(ids), name, iceberg_type(t, ids)) for name, t in layout.SYSTEM_COLUMNS]
    before = NestedField(next(ids), layout.BEFORE, StructType(*_fields(columns, ids)))
    schema = Schema(*system, before, *_fields(columns, ids))
    time_id = schema.find_field(layout.COMMIT_TIME).field_id
    spec = PartitionSpec(PartitionField(time_id, 1000, DayTransform(), COMMIT_DAY))
    with catalog.create_table_transaction(identifier, schema, location, spec, properties=properties) as tx:
        made = tx.table_metadata.schema()
        tx.set_properties({COLUMNS: columns_property({c.uid: _ids_by_name(made, c.name) for c in columns})})
    return catalog.load_table(identifier)


def _fields(columns: Iterable[LakeColumn], ids: itertools.count[int]) -> list[NestedField]:
    return [NestedField(next(ids), c.name, iceberg_type(c.type, ids), required=False) for c in columns]


def _ids_by_name(schema: Schema, name: str) -> list[int]:
    before = schema.find_field(layout.BEFORE).field_type
    assert isinstance(before, StructType)
    return [
        next(f.field_id for f in schema.fields if f.name == name),
        next(f.field_id for f in before.fields if f.name == name),
    ]


def _widen(
    table: Table, columns: Sequence[LakeColumn], history: KnownHistory | None, settings: Mapping[str, str]
) -> Table:
    """Rename, promote and add columns until the table fits, and set the properties for later rows, in one commit; none
    where it fits already. A table without rows gets all columns again where their uids have changed."""
    noted = {**(history.noted(table) if history is not None else {}), **settings}
    is_renumbered = history is not None and history.has_renumbered_columns(table)
    known = {} if is_renumbered else field_ids_by_uid(table.properties)
    before_ids = {uid: list(ids) for uid, ids in known.items()}
    names = {f.field_id: (f.name, f.field_type) for f in _all_fields(table.schema())}
    changed = [
        c for c in columns
        if c.uid not in known or names[known[c.uid][0]][0] != c.name or arrow_of(names[known[c.uid][0]][1]) != c.type
    ]  # fmt: skip
    if not changed and not noted:
        return table
    with transaction(table) as tx:
        _rename_and_promote(tx, table, known, [c for c in changed if c.uid in known])
        added = [c for c in changed if c.uid not in known]
        if added:
            with tx.update_schema() as update:
                for path in _source_columns(table) if is_renumbered else ():
                    update.delete_column(path)
                for column in added:
                    ids = itertools.count(1)
                    update.add_column((column.name,), iceberg_type(column.type, ids))
                    update.add_column((layout.BEFORE, column.name), iceberg_type(column.type, ids))
            made = tx.table_metadata.schema()
            before_ids.update({c.uid: _ids_by_name(made, c.name) for c in added})
        tx.set_properties({COLUMNS: columns_property(before_ids)} | noted)
    return table.refresh()


def _source_columns(table: Table) -> Iterator[tuple[str, ...]]:
    schema = table.schema()
    for top_id, before_id in field_ids_by_uid(table.properties).values():
        yield (schema.find_field(top_id).name,)
        yield (layout.BEFORE, schema.find_field(before_id).name)


def note_history(table: Table, properties: Mapping[str, str]) -> None:
    """Set the history property where a run adds no rows. Of two runs, the first one sets it."""
    with suppress(*NOT_KNOWN), transaction(table) as tx:
        tx.set_properties(dict(properties))


def _rename_and_promote(tx: Transaction, table: Table, known: dict[int, list[int]], columns: list[LakeColumn]) -> None:
    if not columns:
        return
    schema = table.schema()
    with tx.update_schema() as update:
        for column in columns:
            top_id, before_id = known[column.uid]
            for path in ((schema.find_field(top_id).name,), (layout.BEFORE, schema.find_field(before_id).name)):
                if arrow_of(schema.find_field(top_id).field_type) != column.type:
                    update.update_column(path, field_type=iceberg_type(column.type, itertools.count(1)))
                if path[-1] != column.name:
                    update.rename_column(path, column.name)


def _all_fields(schema: Schema) -> list[NestedField]:
    before = schema.find_field(layout.BEFORE).field_type
    assert isinstance(before, StructType)
    return [*schema.fields, *before.fields]


def write_schema(table: Table, uids: Sequence[int]) -> pa.Schema:
    """The Arrow schema, with field ids, of a data file that holds the columns `uids` (source order)."""
    schema = table.schema()
    columns = field_ids_by_uid(table.properties)
    system = [arrow_field(schema.find_field(name)) for name, _ in layout.SYSTEM_COLUMNS]
    before = schema.find_field(layout.BEFORE)
    struct = pa.struct([arrow_field(schema.find_field(columns[uid][1])) for uid in uids])
    tail = [arrow_field(schema.find_field(columns[uid][0])) for uid in uids]
    return pa.schema([*system, pa.field(layout.BEFORE, struct, metadata=field_id(before.field_id)), *tail])


def publish(
    table: Table,
    changefeed: str,
    files: Sequence[WrittenFile],
    parent: Progress,
    progress: Progress,
    properties: Mapping[str, str] | None = None,
    late_rows: int = 0,
) -> Table:
    """Append files, progress and table properties in one commit on top of the progress `parent`.

    Args:
        late_rows: the number of late rows, which the snapshot's summary keeps.

    Raises:
        StaleRunError: another run has published since this one was planned. The files stay: this commit may have
            succeeded before, with its response lost. Else maintenance removes them.
    """
    for _ in range(COMMIT_TRIES_MAX):
        table = refreshed(table)
        found = progress_of(table)
        if _is_same(found, progress):
            return table  # our own commit succeeded although its response was lost
        if found != parent:
            raise stale(table, parent, found)
        hit(Failpoint.BEFORE_CHANGELOG_COMMIT)
        try:
            late = {LATE_ROWS: str(late_rows)} if late_rows else {}
            _append(table, files, progress.summary(changefeed, parent) | late, properties or {})
        except NOT_KNOWN:
            continue
        except Exception:
            table = refreshed(table)
            if not _is_same(progress_of(table), progress):
                raise
        hit(Failpoint.AFTER_CHANGELOG_COMMIT)
        return table
    raise stale(table, parent, progress_of(refreshed(table)))


def _is_same(found: Progress, progress: Progress) -> bool:
    return (found.run_id, found.watermark) == (progress.run_id, progress.watermark)


def _append(table: Table, files: Sequence[WrittenFile], summary: dict[str, str], properties: Mapping[str, str]) -> None:
    with transaction(table) as tx:
        if properties:
            tx.set_properties(dict(properties))
        with tx.update_snapshot(snapshot_properties=summary).fast_append() as append:
            for file in files:
                append.append_data_file(data_file_of(table, file))
