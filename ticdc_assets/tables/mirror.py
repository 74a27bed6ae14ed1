"""The mirror: the current rows of a source table, brought up to its changelog segment by segment.

Between two statements that touch a table its changes are one segment. For each segment: the statement's effect on
rows that exist, then the newest change of every key. Every step can be repeated, so a killed run is just run again:
rows are published by moving `main` to a branch that began where the run was planned from, and `ticdc.version` moves
on only after a statement's effects are in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyiceberg.table import Table

from ticdc_assets.changes import layout
from ticdc_assets.changes.layout import LakeColumn, mirror_columns
from ticdc_assets.errors import SchemaError
from ticdc_assets.moments import Moment, reached
from ticdc_assets.names import column_name, quote, quote_path
from ticdc_assets.schema.evolution import ConvertColumn, DeletePartitions, FillColumn, KeyChanged, TruncateRows
from ticdc_assets.schema.lineage import Lineage, Version
from ticdc_assets.tables import mirror_sql, row_delta
from ticdc_assets.tables.catalog import Identifier, ensure_namespace, load_or_none
from ticdc_assets.tables.changelog import stale
from ticdc_assets.tables.conversions import conversion, is_refused
from ticdc_assets.tables.iceberg_jvm import JvmCatalog, SchemaStep
from ticdc_assets.tables.iceberg_types import arrow_of, can_identify
from ticdc_assets.tables.mirror_effects import delete_condition, fill_literal
from ticdc_assets.tables.progress import (
    BORN,
    COLUMNS,
    LINEAGE,
    REPLAYED,
    VERSION,
    Progress,
    columns_of,
    columns_property,
    progress_of,
)
from ticdc_assets.tables.row_delta import DataFile, RowDelta

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

BRANCH: Final = "ticdc_run"


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

    They are those in `(low, high]` of commit_ts, or `by_arrival` of `_ticdc_seq`.
    """

    version: Version
    low: int
    high: int
    watermark: int
    files: tuple[ChangelogFile, ...]
    by_arrival: bool = False

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
        self.identifier = identifier
        self._changefeed = changefeed
        self.run_id = run_id
        self._options = options
        self._zone = zone
        self._branch = f"{BRANCH}_{run_id.replace('-', '')}"

    def open(self, lineage: Lineage, location: str, changelog: Table, planned: Progress) -> Table:
        """The mirror, which is where it was `planned` to be, made where there is none. Raises StaleRunError when
        overtaken."""
        found = load_or_none(self._catalog, self.identifier)
        if found is not None and progress_of(found) != planned:
            raise stale(found, planned, progress_of(found))
        return self._ensure(lineage, location, changelog)

    def take_rows_of(self, table: Table, other: Identifier, progress: Progress) -> None:
        """Put the rows of another mirror of the same columns in place of those of `table`, in one publication."""
        names = ", ".join(quote(field.name) for field in table.schema().fields)
        statements = [
            f"DELETE FROM {self._target()}",
            f"INSERT INTO {self._target()} ({names}) SELECT {names} FROM {self._quoted(other)}",
        ]
        self._on_branch(table, progress_of(table), progress, statements)

    def note_replay(self, run_id: str) -> None:
        """Remember that the mirror has what the replay `run_id` brought back."""
        self._jvm.load(self.identifier).evolve([], {REPLAYED: run_id})

    # -- the table ------------------------------------------------------------------------------------------------

    def _ensure(self, lineage: Lineage, location: str, changelog: Table) -> Table:
        """The mirror, made with the first version that has a key; rows from before that key came are folded in."""
        table = load_or_none(self._catalog, self.identifier)
        if table is None:
            table = self._create(lineage, location)
        first = int(table.properties[BORN])
        if progress_of(table) == Progress() and first > lineage.versions[0].from_ts:
            table = self._fold_keyless(table, lineage, changelog, first)
        return table

    def _create(self, lineage: Lineage, location: str) -> Table:
        first = next(version for version in lineage.versions if version.table.key)
        columns = (*_columns(first), _COMMIT_TS)
        ensure_namespace(self._catalog, self.identifier[:-1])
        ids = {c.uid: [number] for number, c in enumerate(columns, start=1) if c is not _COMMIT_TS}
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
        """Rows of the time without a key: what was added and not taken away again, counted by whole rows."""
        keyed = next(version for version in lineage.versions if version.from_ts == first)
        since = _rows_since(lineage, keyed)
        columns = _columns(keyed)
        places = columns_of(changelog.properties)
        names = {changelog.schema().find_field(places[c.uid][0]).name: c for c in columns}
        source = self._quoted(changelog.name())
        rows = mirror_sql.interval(since, first, False, 0)
        if self._jvm.thread_session().sql(mirror_sql.updates_without_before(source, rows)).take(1):
            raise _no_fold(lineage, keyed, "updates without their old values")
        statement = mirror_sql.insert_multiset(self._target(), source, rows, names)
        self._on_branch(table, Progress(), Progress(first, -1, self.run_id), [statement])
        return table.refresh()

    # -- statements -----------------------------------------------------------------------------------------------

    def enter_version(self, table: Table, lineage: Lineage, version: Version) -> Table:
        """Apply the statements between the version the mirror has and `version`, effects on rows included. Raises
        SchemaError where an effect cannot be computed."""
        applied = int(table.properties[VERSION])
        for following in lineage.versions:
            if applied < following.from_ts <= version.from_ts:
                table = self._apply(table, following)
        return table

    def _apply(self, table: Table, version: Version) -> Table:
        wanted = _columns(version)
        known = columns_of(table.properties)
        converts = {e.new_uid: e for e in version.effects if isinstance(e, ConvertColumn)}
        known = self._add_and_rename(table, wanted, known, version, converts)
        table = table.refresh()
        self._change_rows(table, version, known, converts)
        self._finish(table.refresh(), wanted, known, version)
        reached(Moment.VERSION_ENTERED)
        return self._show_schema(table.refresh())

    def _show_schema(self, table: Table) -> Table:
        """A snapshot is read with the schema it was made under: after a change of schema alone an empty one follows."""
        snapshot = table.current_snapshot()
        if snapshot is None or snapshot.schema_id == table.schema().schema_id:
            return table
        progress = progress_of(table)
        self._on_branch(table, progress, replace(progress, run_id=self.run_id), [])
        return table.refresh()

    def _add_and_rename(
        self,
        table: Table,
        wanted: Sequence[LakeColumn],
        known: dict[int, list[int]],
        version: Version,
        converts: dict[int, ConvertColumn],
    ) -> dict[int, list[int]]:
        """Give every wanted column a place; columns that go stay until their values are used."""
        names = {f.field_id: f.name for f in table.schema().fields}
        types = {f.field_id: arrow_of(f.field_type) for f in table.schema().fields}
        kept = {c.uid for c in wanted}
        free, take, add = SchemaStep(), SchemaStep(), SchemaStep()
        for uid, ids in known.items():
            if uid not in kept and not names[ids[0]].endswith(_leaving(version)):
                self._relax(free, table, ids[0])
                free.rename(names[ids[0]], names[ids[0]] + _leaving(version))
        for column in (c for c in wanted if c.uid in known):
            self._rename(column, names[known[column.uid][0]], types[known[column.uid][0]], free, take)
        added = [c for c in wanted if c.uid not in known]
        for column in added:
            add.add(column)
        steps = [step for step in (free, take, add) if step]
        if steps:
            jvm = self._jvm.load(self.identifier)
            first_id = int(table.metadata.last_column_id) + 1
            for column in added:
                known[column.uid] = [first_id]
                first_id += 2 if pa.types.is_list(column.type) else 1
            jvm.evolve(steps, {COLUMNS: columns_property(known)})
            made = jvm.field_ids()
            assert all(made[c.name] == known[c.uid][0] for c in added), "Iceberg gave other field ids than planned"
        return known

    @staticmethod
    def _relax(step: SchemaStep, table: Table, field_id: int) -> None:
        if table.schema().find_field(field_id).required:
            step.relax(table.schema().find_field(field_id).name)

    @staticmethod
    def _rename(column: LakeColumn, name: str, arrow: pa.DataType, free: SchemaStep, take: SchemaStep) -> None:
        if arrow != column.type:
            free.retype(name, column)
        if name != column.name:
            # By way of a name nobody has, so that two columns may swap theirs.
            free.rename(name, f"{column.name}__moving")
            take.rename(f"{column.name}__moving", column.name)

    def _change_rows(
        self, table: Table, version: Version, known: dict[int, list[int]], converts: dict[int, ConvertColumn]
    ) -> None:
        if not live_rows(table):
            return
        statements = self._row_statements(table, version, known, converts)
        if not statements:
            return
        progress = progress_of(table)
        published = Progress(max(progress.watermark, version.from_ts), progress.position, self.run_id)
        self._on_branch(table, progress, published, statements)

    def _row_statements(
        self, table: Table, version: Version, known: dict[int, list[int]], converts: dict[int, ConvertColumn]
    ) -> list[str]:
        target = self._target()
        names = {f.field_id: f.name for f in table.schema().fields}
        assignments: dict[str, str] = {}
        statements = []
        for effect in version.effects:
            if isinstance(effect, TruncateRows):
                statements.append(f"DELETE FROM {target}")
            elif isinstance(effect, DeletePartitions):
                statements.append(f"DELETE FROM {target} WHERE {delete_condition(effect, self._zone)}")
            elif isinstance(effect, FillColumn):
                value = fill_literal(effect, version, self._zone)
                if value is not None and effect.uid in known:
                    assignments[names[known[effect.uid][0]]] = value
        for effect in converts.values():
            name = names[known[effect.old_uid][0]]
            expression = conversion(name, effect.old_type, effect.new_type)
            if expression is None:
                raise _no_conversion(version, effect)
            if self._has_row(is_refused(name, expression)):
                raise _no_conversion(version, effect, ", where a value's result is not certain")
            if expression != quote(names[known[effect.new_uid][0]]):
                assignments[names[known[effect.new_uid][0]]] = expression
        if assignments:
            statements.append(mirror_sql.update(target, assignments))
        return statements

    def _has_row(self, condition: str) -> bool:
        query = mirror_sql.any_row(self._quoted(self.identifier), condition)
        return bool(self._jvm.thread_session().sql(query).take(1))

    def _finish(
        self, table: Table, wanted: Sequence[LakeColumn], known: dict[int, list[int]], version: Version
    ) -> None:
        """Drop what left, order and require columns, and move the version on: one commit."""
        names = {f.field_id: f.name for f in table.schema().fields}
        kept = {c.uid for c in wanted}
        drop, arrange = SchemaStep(), SchemaStep()
        key = [column_name(name) for name in version.table.key]
        old_key = list(table.schema().identifier_field_names())
        new_key = [c.name for c in wanted if c.name in key and can_identify(c.type)]
        if sorted(old_key) != sorted(new_key) and key:
            for column in wanted:
                if column.name in key and not table.schema().find_field(column.name).required:
                    drop.require(column.name)
            drop.identify_by(new_key)
        for uid, ids in known.items():
            if uid not in kept:
                drop.delete(names[ids[0]])
        current = [names[i] for i in names if names[i] in {c.name for c in wanted}]
        if current != [c.name for c in wanted]:
            _in_order(arrange, [c.name for c in wanted])
        remaining = {uid: ids for uid, ids in known.items() if uid in kept}
        steps = [step for step in (drop, arrange) if step]
        properties = {COLUMNS: columns_property(remaining), VERSION: str(version.from_ts)}
        self._jvm.load(self.identifier).evolve(steps, properties)

    # -- rows -----------------------------------------------------------------------------------------------------

    def merge(self, table: Table, changelog: Table, segment: Segment) -> Table:
        """Let Spark merge a segment of the version that the mirror has."""
        columns = _columns(segment.version)
        key = [column_name(name) for name in segment.version.table.key]
        places = columns_of(changelog.properties)
        names = {changelog.schema().find_field(places[c.uid][0]).name: c for c in columns}
        rows = mirror_sql.interval(segment.low, segment.high, segment.by_arrival, segment.version.from_ts)
        source = mirror_sql.newest_per_key(self._quoted(changelog.name()), rows, names, key, segment.by_arrival)
        if live_rows(table):
            statement = mirror_sql.merge(self._target(), source, columns, key)
        else:
            statement = mirror_sql.insert(self._target(), source, columns)
        self._on_branch(table, progress_of(table), self._after(table, segment), [statement])
        return table.refresh()

    def data_files(self, table: Table) -> list[DataFile]:
        """The data files that the mirror, as `table`, shows."""
        return row_delta.data_files(self._jvm.load(self.identifier), _snapshot_id(table)) if live_rows(table) else []

    def take(self, table: Table, segment: Segment, delta: RowDelta) -> Table:
        """Publish what workers made of a segment of the version that the mirror has."""
        summary = self._after(table, segment).summary(self._changefeed, progress_of(table))
        reached(Moment.BEFORE_MIRROR_COMMIT)
        row_delta.publish(self._jvm.load(self.identifier), _snapshot_id(table), delta, summary)
        reached(Moment.AFTER_MIRROR_COMMIT)
        return table.refresh()

    def _after(self, table: Table, segment: Segment) -> Progress:
        position = segment.high if segment.by_arrival else progress_of(table).position
        return Progress(segment.watermark, position, self.run_id)

    def _on_branch(self, table: Table, parent: Progress, progress: Progress, statements: Sequence[str]) -> None:
        """Run the statements on a branch of the snapshot `table` was loaded at, then move main there."""
        jvm = self._jvm.load(self.identifier)
        begin = _snapshot_id(table)
        jvm.start_branch(self._branch, begin)
        summary = progress.summary(self._changefeed, parent)
        try:
            for statement in statements:
                self._execute(statement, summary)
            if jvm.branch_snapshot_id(self._branch) == begin:
                jvm.append_nothing(summary, self._branch)
            reached(Moment.BRANCH_WRITTEN)
            jvm.publish_branch(self._branch)
            reached(Moment.AFTER_MIRROR_COMMIT)
        finally:
            jvm.drop_branch(self._branch)

    def _execute(self, statement: str, summary: dict[str, str]) -> None:
        # The summary goes by session conf, the only way that reaches MERGE; each thread has a session of its own.
        spark = self._jvm.thread_session()
        keys = {f"spark.sql.iceberg.snapshot-property.{key}": value for key, value in summary.items()}
        for key, value in keys.items():
            spark.conf.set(key, value)
        try:
            spark.sql(statement)
        finally:
            for key in keys:
                spark.conf.unset(key)

    def _target(self) -> str:
        return f"{self._quoted(self.identifier)}.{quote(f'branch_{self._branch}')}"

    def _quoted(self, identifier: Identifier) -> str:
        return quote_path((self._jvm.name, *identifier))


_COMMIT_TS: Final = LakeColumn(0, layout.COMMIT_TS, pa.int64())


def _columns(version: Version) -> tuple[LakeColumn, ...]:
    return mirror_columns(version.table.stored_columns, version.table.key)


def _snapshot_id(table: Table) -> int:
    snapshot = table.current_snapshot()
    assert snapshot is not None, "a mirror is made with a snapshot"
    return snapshot.snapshot_id


def _leaving(version: Version) -> str:
    return f"__v{version.from_ts}"


def _in_order(step: SchemaStep, names: Sequence[str]) -> None:
    step.move_first(names[0])
    for before, name in pairwise(names):
        step.move_after(name, before)


def live_rows(table: Table) -> int:
    """How many rows the current snapshot shows, from its summary alone."""
    snapshot = table.current_snapshot()
    if snapshot is None or snapshot.summary is None:
        return 0
    summary = snapshot.summary.additional_properties
    return int(summary.get("total-records", 0)) - int(summary.get("total-position-deletes", 0))


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
        "Load this table anew: its changelog stays complete, its mirror needs a start.",
    )


def _no_conversion(version: Version, effect: ConvertColumn, why: str = "") -> SchemaError:
    return SchemaError(
        f"{version.table.schema}.{version.table.name}, column {effect.name}",
        f"a change of type that this project can redo on existing rows at {version.from_ts}",
        f"{effect.old_type.kind} to {effect.new_type.kind}{why}",
        "TiCDC sends no rows for it: load this table anew (drop its mirror and changelog, start a new changefeed).",
    )
