"""The mirror: the current rows of a source table, brought up to its changelog segment by segment.

Between two statements that touch a table its changes are one segment. For each segment: the statement's effect on
rows that exist (`mirror_versions`), then the newest change of every key. Every step can be repeated, so a killed run is
just run again. Rows are published in one commit on top of the snapshot that the run was planned from, or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyiceberg.table import Table

from ticdc_assets.changes import layout
from ticdc_assets.changes.layout import LakeColumn
from ticdc_assets.errors import LOAD_AGAIN, ConfigError, SchemaError
from ticdc_assets.moments import Moment, reached
from ticdc_assets.names import column_name, quote
from ticdc_assets.schema.evolution import KeyChanged, TruncateRows
from ticdc_assets.schema.lineage import Lineage, Version
from ticdc_assets.tables import mirror_sql, row_delta
from ticdc_assets.tables.catalog import Identifier, ensure_namespace, load_or_none
from ticdc_assets.tables.iceberg_jvm import JvmCatalog
from ticdc_assets.tables.mirror_branch import MirrorBranch, snapshot_id, still_at
from ticdc_assets.tables.mirror_size import has_files
from ticdc_assets.tables.mirror_versions import VersionSteps, columns_at
from ticdc_assets.tables.progress import (
    BORN,
    COLUMNS,
    LINEAGE,
    REPLAYED,
    VERSION,
    Progress,
    columns_of,
    columns_property,
    lineage_of,
    progress_of,
    stale,
)
from ticdc_assets.tables.row_delta import DataFile, RowDelta

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


@dataclass(frozen=True, slots=True)
class MirrorOptions:
    """What a user may choose of a mirror: Iceberg format and partitioning as (transform, argument, column)."""

    format_version: int = 3
    partitioning: tuple[tuple[str, int | None, str], ...] = ()

    @property
    def properties(self) -> dict[str, str]:
        return {
            "format-version": str(self.format_version),
            "write.merge.mode": "merge-on-read",
            "write.delete.mode": "merge-on-read",
            "write.update.mode": "copy-on-write",
            "write.parquet.compression-codec": "zstd",
            "commit.retry.num-retries": "0",
            "write.metadata.delete-after-commit.enabled": "true",
            "write.metadata.previous-versions-max": "20",
        }


@dataclass(frozen=True, slots=True)
class ChangelogFile:
    """A data file of a changelog, how many changes it has, and where in their order the first and the last stand."""

    uri: str
    rows: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Segment:
    """Changes of one version still to be merged, which are in `files`; `watermark` holds once they are in.

    They are those in `(low, high]` of commit_ts, or `by_arrival` of `_ticdc_seq`. By arrival the mirror is then at
    `position`: up to there no change is left, of whatever version.
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
    """Brings one lineage's mirror up to date. One object a lineage and run."""

    def __init__(
        self,
        catalog: Catalog,
        jvm: JvmCatalog,
        identifier: Identifier,
        changefeed: str,
        run_id: str,
        options: MirrorOptions,
        zone: str = "UTC",
    ) -> None:
        self._catalog = catalog
        self._jvm = jvm
        self._options = options
        self._branch = MirrorBranch(jvm, identifier, changefeed, run_id)
        self._versions = VersionSteps(self._branch, zone)

    @property
    def identifier(self) -> Identifier:
        return self._branch.identifier

    @property
    def run_id(self) -> str:
        return self._branch.run_id

    def open(self, lineage: Lineage, location: str, changelog: Table, planned: Progress) -> Table:
        """The mirror, which is where it was `planned` to be, made where there is none. Raises StaleRunError when
        overtaken, and ConfigError where another's table has its name."""
        found = load_or_none(self._catalog, self.identifier)
        if found is not None and lineage_of(found) != lineage.id:
            todo = "Rename that table, or give the changefeed's tables other names with `target`."
            raise ConfigError(
                ".".join(self.identifier), "no table, or the mirror of this source table", "another", todo
            )
        table = found if found is not None else self._create(lineage, location)
        if progress_of(table) != planned:
            raise stale(table, planned, progress_of(table))
        first = int(table.properties[BORN])
        if progress_of(table) == Progress() and first > lineage.versions[0].from_ts:
            table = self._fold_keyless(table, lineage, changelog, first)
        return table

    def take_rows_of(self, table: Table, other: Identifier, progress: Progress) -> Table:
        """Put the rows of another mirror of the same columns in place of those of `table`, in one publication."""
        names = ", ".join(quote(field.name) for field in table.schema().fields)
        statements = [
            f"DELETE FROM {self._branch.target}",
            f"INSERT INTO {self._branch.target} ({names}) SELECT {names} FROM {self._branch.quoted(other)}",
        ]
        self._branch.publish(table, progress_of(table), progress, statements)
        return still_at(table, progress)

    def note_replay(self, table: Table, run_id: str) -> None:
        """Remember that the mirror, as `table`, has what the replay `run_id` brought back."""
        self._branch.load().evolve(table, [], {REPLAYED: run_id})

    # -- the table ------------------------------------------------------------------------------------------------

    def _create(self, lineage: Lineage, location: str) -> Table:
        """The mirror, made with the first version that has a key."""
        first = first_keyed(lineage)
        columns = (*columns_at(first), COMMIT_TS_COLUMN)
        ensure_namespace(self._catalog, self.identifier[:-1])
        ids = {c.uid: [number] for number, c in enumerate(columns, start=1) if c is not COMMIT_TS_COLUMN}
        properties = {
            **self._options.properties,
            LINEAGE: lineage.id,
            COLUMNS: columns_property(ids),
            VERSION: str(first.from_ts),
            BORN: str(first.from_ts),
        }
        key = [column_name(name) for name in first.table.key]
        self._jvm.create(self.identifier, columns, key, location, properties, self._options.partitioning)
        reached(Moment.MIRROR_MADE)
        return self._catalog.load_table(self.identifier)

    def _fold_keyless(self, table: Table, lineage: Lineage, changelog: Table, first: int) -> Table:
        """Fold in rows of the time without a key: what was added and not taken away again, counted by whole rows."""
        keyed = next(version for version in lineage.versions if version.from_ts == first)
        since = _rows_since(lineage, keyed)
        columns = columns_at(keyed)
        places = columns_of(changelog.properties)
        names = {changelog.schema().find_field(places[c.uid][0]).name: c for c in columns}
        source = self._branch.quoted(changelog.name())
        rows = mirror_sql.interval(since, first, False, 0)
        if self._branch.has_row(mirror_sql.updates_without_before(source, rows)):
            raise _no_fold(lineage, keyed, "updates without their old values")
        statement = mirror_sql.insert_multiset(self._branch.target, source, rows, names)
        progress = Progress(first, -1, self.run_id)
        self._branch.publish(table, Progress(), progress, [statement])
        return still_at(table, progress)

    def enter_version(self, table: Table, lineage: Lineage, version: Version, changelog: Table) -> Table:
        """Apply the statements between the version the mirror has and `version`, effects on rows included; rows that
        an EXCHANGE PARTITION brought are in `changelog`. Raises SchemaError where an effect cannot be computed."""
        return self._versions.enter(table, lineage, version, changelog)

    # -- rows -----------------------------------------------------------------------------------------------------

    def merge(self, table: Table, changelog: Table, segment: Segment) -> Table:
        """Let Spark merge a segment of the version that the mirror has."""
        columns = columns_at(segment.version)
        key = [column_name(name) for name in segment.version.table.key]
        places = columns_of(changelog.properties)
        names = {changelog.schema().find_field(places[c.uid][0]).name: c for c in columns}
        rows = mirror_sql.interval(segment.low, segment.high, segment.by_arrival, segment.version.from_ts)
        source = mirror_sql.newest_per_key(self._branch.quoted(changelog.name()), rows, names, key, segment.by_arrival)
        if has_files(table):
            statement = mirror_sql.merge(self._branch.target, source, columns, key)
        else:
            statement = mirror_sql.insert(self._branch.target, source, columns)
        progress = self._after(table, segment)
        self._branch.publish(table, progress_of(table), progress, [statement])
        return still_at(table, progress)

    def data_files(self, table: Table) -> list[DataFile]:
        """The data files that the mirror, as `table`, shows."""
        return row_delta.data_files(self._branch.load(), snapshot_id(table)) if has_files(table) else []

    def take(self, table: Table, segment: Segment, delta: RowDelta) -> Table:
        """Publish what workers made of a segment of the version that the mirror has."""
        progress = self._after(table, segment)
        summary = progress.summary(self._branch.changefeed, progress_of(table))
        summary[VERSION] = table.properties[VERSION]
        reached(Moment.BEFORE_MIRROR_COMMIT)
        row_delta.publish(self._branch.load(), snapshot_id(table), delta, summary)
        reached(Moment.AFTER_MIRROR_COMMIT)
        return still_at(table, progress)

    def _after(self, table: Table, segment: Segment) -> Progress:
        position = progress_of(table).position if segment.position is None else segment.position
        return Progress(segment.watermark, position, self.run_id)


COMMIT_TS_COLUMN: Final = LakeColumn(0, layout.COMMIT_TS, pa.int64())
"""What a mirror has beside the source's columns."""


def first_keyed(lineage: Lineage) -> Version:
    """The version that a mirror begins with: the first with a key."""
    return next(version for version in lineage.versions if version.table.key)


def _rows_since(lineage: Lineage, keyed: Version) -> int:
    """The TSO from which the rows of a table without a key add up to its present ones: its last TRUNCATE or birth."""
    since = -1
    uids = [c.uid for c in keyed.table.stored_columns]
    for version in lineage.versions:
        if version.from_ts > keyed.from_ts:
            break
        if any(isinstance(effect, TruncateRows) for effect in version.effects):
            since = version.from_ts
        elif any(not isinstance(effect, KeyChanged) for effect in version.effects) and version.from_ts > since >= -1:
            raise _no_fold(lineage, keyed, "a statement that changed its rows")
        if version.from_ts >= since and [c.uid for c in version.table.stored_columns] != uids:
            raise _no_fold(lineage, keyed, "other columns before")
    return since


def _no_fold(lineage: Lineage, keyed: Version, found: str) -> SchemaError:
    return SchemaError(
        f"{lineage.name[0]}.{lineage.name[1]}",
        f"rows from before its key came at {keyed.from_ts} that can be counted as they are",
        found,
        LOAD_AGAIN,
    )
