"""The mirror: the current rows of a source table, merged from its changelog segment by segment.

A segment is the changes between two statements on a table. For each segment, the statement's effect on existing rows is
applied (`mirror.versions`), then the newest change of every key. Every step can be repeated after a killed run. Rows
are published in one commit on top of the snapshot that the run was planned from, or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from ticdc_assets.advice import Advice
from ticdc_assets.changes.layout import COMMIT_TS_COLUMN
from ticdc_assets.config.model.config import PartitionField
from ticdc_assets.errors import ConfigError, SchemaError
from ticdc_assets.failpoints import Failpoint, hit
from ticdc_assets.names import column_name, quote
from ticdc_assets.schema.evolution.schema_state import KeyChanged, TruncateRows
from ticdc_assets.schema.history.source_table import SourceTable, Version
from ticdc_assets.schema.history.written_history import effects_digest
from ticdc_assets.tables.catalog import Identifier, ensure_namespace, load_or_none
from ticdc_assets.tables.iceberg import row_delta
from ticdc_assets.tables.iceberg.jvm import JvmCatalog, JvmTable
from ticdc_assets.tables.iceberg.properties import BORN, COLUMNS, EFFECTS, REPLAYED, SOURCE_TABLE, VERSION
from ticdc_assets.tables.iceberg.row_delta import LiveDataFile, RowDelta
from ticdc_assets.tables.mirror import sql as mirror_sql
from ticdc_assets.tables.mirror.branch import MirrorBranch, require_progress, snapshot_id
from ticdc_assets.tables.mirror.column_change import columns_at
from ticdc_assets.tables.mirror.kept_files import KeptFiles
from ticdc_assets.tables.mirror.partitioning import fields_at, new_spec, require_partitioning
from ticdc_assets.tables.mirror.size import has_files
from ticdc_assets.tables.mirror.versions import VersionSteps
from ticdc_assets.tables.progress import (
    Progress,
    columns_property,
    field_ids_by_uid,
    progress_of,
    source_table_of,
    stale,
)


@dataclass(frozen=True, slots=True)
class MirrorOptions:
    """A mirror's options: its Iceberg format version, and its configured partitioning."""

    format_version: int = 3
    partitioning: tuple[PartitionField, ...] = ()

    @property
    def properties(self) -> dict[str, str]:
        return {
            "format-version": str(self.format_version),
            "write.merge.mode": "merge-on-read",
            "write.delete.mode": "merge-on-read",
            "write.update.mode": "copy-on-write",
            "write.parquet.compression-codec": "zstd",
            "commit.retry.num-retries": "0",
            "commit.manifest.min-count-to-merge": "8",  # each merge reads all manifests, and adds two
            "write.metadata.delete-after-commit.enabled": "true",
            "write.metadata.previous-versions-max": "20",
        }


@dataclass(frozen=True, slots=True)
class ChangelogFile:
    """A data file of a changelog, its number of changes, and the positions of the first and the last."""

    uri: str
    rows: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Segment:
    """Changes of one version to merge, from `files`; afterwards the mirror is complete up to `watermark`.

    They are the changes in `(low, high]` of commit_ts, or of `_ticdc_seq` if `by_arrival`. By arrival, the mirror
    afterwards has all changes of all versions up to `position`.
    """

    version: Version
    low: int
    high: int
    watermark: int
    files: tuple[ChangelogFile, ...]
    position: int | None = None

    @property
    def by_arrival(self) -> bool:
        return self.position is not None

    @property
    def has_rows(self) -> bool:
        return bool(self.files)


class MirrorWriter:
    """Merges changes into one source table's mirror. One object for each source table and run."""

    def __init__(
        self,
        catalog: Catalog,
        jvm: JvmCatalog,
        identifier: Identifier,
        changefeed: str,
        run_id: str,
        options: MirrorOptions,
        kept: KeptFiles,
        zone: str = "UTC",
        aside: Identifier = (),
    ) -> None:
        self._catalog = catalog
        self._jvm = jvm
        self._options = options
        self._branch = MirrorBranch(jvm, identifier, changefeed, run_id)
        self._versions = VersionSteps(self._branch, options.partitioning, zone, aside)
        self._kept = kept
        self._loaded: JvmTable | None = None

    @property
    def identifier(self) -> Identifier:
        return self._branch.identifier

    @property
    def run_id(self) -> str:
        return self._branch.run_id

    def open(self, source_table: SourceTable, location: str | None, changelog: Table, planned: Progress) -> Table:
        """The mirror with the `planned` progress, created where there is none.

        Raises:
            StaleRunError: another run has published since.
            ConfigError: the name belongs to another table.
        """
        table = self.made(source_table, location)
        if progress_of(table) != planned:
            raise stale(table, planned, progress_of(table))
        first = int(table.properties[BORN])
        if progress_of(table) == Progress() and first > source_table.versions[0].from_ts:
            table = self._fold_keyless(table, source_table, changelog, first)
        return table

    def made(self, source_table: SourceTable, location: str | None) -> Table:
        """The mirror, created without rows where there is none. Raises ConfigError where the name belongs to another
        table."""
        found = load_or_none(self._catalog, self.identifier)
        if found is not None and source_table_of(found) != source_table.id:
            advice = "Rename that table, or give the changefeed's tables other names with `target`."
            raise ConfigError(
                ".".join(self.identifier), "no table, or the mirror of this source table", "another", advice
            )
        return found if found is not None else self._create(source_table, location)

    def take_rows_of(self, table: Table, other: Identifier, progress: Progress) -> Table:
        """Replace the rows of `table` by those of another mirror with the same columns, in one commit."""
        names = ", ".join(quote(field.name) for field in table.schema().fields)
        statements = [
            f"DELETE FROM {self._branch.target}",
            f"INSERT INTO {self._branch.target} ({names}) SELECT {names} FROM {self._branch.quoted(other)}",
        ]
        self._branch.publish(table, progress_of(table), progress, statements)
        return require_progress(table, progress)

    def note_replay(self, table: Table, run_id: str) -> None:
        """Set on the mirror `table` that it has the changes of the replay `run_id`."""
        self._branch.load().evolve(table, [], {REPLAYED: run_id})

    # -- the table ------------------------------------------------------------------------------------------------

    def _create(self, source_table: SourceTable, location: str | None) -> Table:
        """Create the mirror with the first version that has a key."""
        first = first_keyed(source_table)
        columns = (*columns_at(first), COMMIT_TS_COLUMN)
        require_partitioning(self.identifier, source_table, self._options.partitioning)
        ensure_namespace(self._catalog, self.identifier[:-1])
        ids = {c.uid: [number] for number, c in enumerate(columns, start=1) if c is not COMMIT_TS_COLUMN}
        properties = {
            **self._options.properties,
            SOURCE_TABLE: source_table.id,
            COLUMNS: columns_property(ids),
            VERSION: str(first.from_ts),
            BORN: str(first.from_ts),
            EFFECTS: effects_digest(source_table, first.from_ts),
        }
        key = [column_name(name) for name in first.table.key]
        fields = fields_at(source_table, first.from_ts, self._options.partitioning)
        spec = new_spec(fields, {column.uid: column.name for column in columns})
        self._jvm.create(self.identifier, columns, key, location, properties, spec)
        hit(Failpoint.MIRROR_MADE)
        return self._catalog.load_table(self.identifier)

    def _fold_keyless(self, table: Table, source_table: SourceTable, changelog: Table, first: int) -> Table:
        """Add the rows from before the table had a key: inserted and not deleted again, counted by whole rows."""
        keyed = next(version for version in source_table.versions if version.from_ts == first)
        since = _rows_since(source_table, keyed)
        columns = columns_at(keyed)
        places = field_ids_by_uid(changelog.properties)
        names = {changelog.schema().find_field(places[c.uid][0]).name: c for c in columns}
        source = self._branch.quoted(changelog.name())
        rows = mirror_sql.commit_range(since, first, False, 0)
        if self._branch.has_row(mirror_sql.updates_without_before(source, rows)):
            raise _no_fold(source_table, keyed, "updates without their old values")
        statement = mirror_sql.insert_multiset(self._branch.target, source, rows, names)
        progress = Progress(first, -1, self.run_id)
        self._branch.publish(table, Progress(), progress, [statement])
        return require_progress(table, progress)

    def enter_version(self, table: Table, source_table: SourceTable, version: Version, changelog: Table) -> Table:
        """Apply the statements from the mirror's version up to `version`, including their effects on rows; `changelog`
        has the rows of an EXCHANGE PARTITION. Raises SchemaError where an effect cannot be computed."""
        return self._versions.enter(table, source_table, version, changelog)

    # -- rows -----------------------------------------------------------------------------------------------------

    def merge(self, table: Table, changelog: Table, segment: Segment) -> Table:
        """Merge a segment of the mirror's version with Spark."""
        columns = columns_at(segment.version)
        key = [column_name(name) for name in segment.version.table.key]
        places = field_ids_by_uid(changelog.properties)
        names = {changelog.schema().find_field(places[c.uid][0]).name: c for c in columns}
        rows = mirror_sql.commit_range(segment.low, segment.high, segment.by_arrival, segment.version.from_ts)
        source = mirror_sql.newest_per_key(self._branch.quoted(changelog.name()), rows, names, key, segment.by_arrival)
        if has_files(table):
            statement = mirror_sql.merge_statement(self._branch.target, source, columns, key)
        else:
            statement = mirror_sql.insert(self._branch.target, source, columns)
        progress = self._after(table, segment)
        self._branch.publish(table, progress_of(table), progress, [statement])
        return require_progress(table, progress)

    def data_files(self, table: Table) -> tuple[LiveDataFile, ...]:
        """The data files of the mirror `table`."""
        if not has_files(table):
            return ()
        kept = self._kept.get(table)
        if kept is not None:
            return kept
        self._loaded = self._branch.load()
        return row_delta.data_files(self._loaded, snapshot_id(table))

    def take(self, table: Table, segment: Segment, live: Sequence[LiveDataFile], delta: RowDelta) -> Table:
        """Publish the files that workers wrote for a segment of the mirror's version; `live` are its data files."""
        progress = self._after(table, segment)
        summary = progress.summary(self._branch.changefeed, progress_of(table))
        summary[VERSION] = table.properties[VERSION]
        hit(Failpoint.BEFORE_MIRROR_COMMIT)
        published = row_delta.publish_delta(self._take_loaded(), table, delta, summary)
        self._kept.keep(table, published.snapshot_id, published.after(live, delta))
        hit(Failpoint.AFTER_MIRROR_COMMIT)
        return require_progress(table, progress)

    def _take_loaded(self) -> JvmTable:
        """The table that `data_files` loaded, which a commit refreshes."""
        loaded, self._loaded = self._loaded, None
        return loaded if loaded is not None else self._branch.load()

    def _after(self, table: Table, segment: Segment) -> Progress:
        position = progress_of(table).position if segment.position is None else segment.position
        return Progress(segment.watermark, position, self.run_id)


def first_keyed(source_table: SourceTable) -> Version:
    """The first version of a mirror: the first one with a key."""
    return next(version for version in source_table.versions if version.table.key)


def _rows_since(source_table: SourceTable, keyed: Version) -> int:
    """The TSO after which the changes of a table without a key make up its rows: its last TRUNCATE or its creation."""
    since = -1
    uids = [c.uid for c in keyed.table.stored_columns]
    for version in source_table.versions:
        if version.from_ts > keyed.from_ts:
            break
        if any(isinstance(effect, TruncateRows) for effect in version.effects):
            since = version.from_ts
        elif any(not isinstance(effect, KeyChanged) for effect in version.effects) and version.from_ts > since >= -1:
            raise _no_fold(source_table, keyed, "a statement that changed its rows")
        if version.from_ts >= since and [c.uid for c in version.table.stored_columns] != uids:
            raise _no_fold(source_table, keyed, "other columns before")
    return since


def _no_fold(source_table: SourceTable, keyed: Version, found: str) -> SchemaError:
    return SchemaError(
        f"{source_table.name[0]}.{source_table.name[1]}",
        f"rows from before its key came at {keyed.from_ts} that can be counted as they are",
        found,
        Advice.LOAD_AGAIN,
    )
