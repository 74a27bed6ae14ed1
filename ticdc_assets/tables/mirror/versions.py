"""Advances a mirror from one version of its source table to the next: its columns, and a statement's effects on rows.

A statement that changes only columns or only rows is applied to the mirror itself; every step can be repeated, since
`ticdc.version` changes last. One that changes both is applied under a second name, which the mirror takes over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyiceberg.table import Table

from ticdc_assets.advice import Advice
from ticdc_assets.changes.layout import COMMIT_TS
from ticdc_assets.config.model.config import PartitionField
from ticdc_assets.errors import SchemaError
from ticdc_assets.failpoints import Failpoint, hit
from ticdc_assets.names import quote
from ticdc_assets.schema.evolution.schema_state import (
    ConvertColumn,
    DeletePartitions,
    ExchangedRows,
    FillColumn,
    KeyChanged,
    TruncateRows,
)
from ticdc_assets.schema.history.source_table import SourceTable, Version
from ticdc_assets.schema.history.written_history import effects_digest
from ticdc_assets.tables.catalog import Identifier
from ticdc_assets.tables.conversion.convert import converted_value, is_refused
from ticdc_assets.tables.iceberg.properties import COLUMNS, EFFECTS, VERSION
from ticdc_assets.tables.mirror import exchanged_rows as exchange_sql
from ticdc_assets.tables.mirror import sql as mirror_sql
from ticdc_assets.tables.mirror.branch import MirrorBranch, require_progress
from ticdc_assets.tables.mirror.clone import OF_A_CLONE
from ticdc_assets.tables.mirror.column_change import ColumnChange, Step
from ticdc_assets.tables.mirror.effects import fill_literal
from ticdc_assets.tables.mirror.partition_conditions import doubt_condition, rows_condition
from ticdc_assets.tables.mirror.partitioning import fields_at
from ticdc_assets.tables.mirror.size import has_files
from ticdc_assets.tables.progress import Progress, columns_property, progress_of, source_table_of


class VersionSteps:
    """The statements between versions, applied to one mirror.

    Args:
        partitioning: the configured partition spec.
        zone: the changefeed's time zone.
        aside: the namespace in which the mirror has a second name while its columns and its rows change.
    """

    def __init__(
        self, branch: MirrorBranch, partitioning: Sequence[PartitionField], zone: str, aside: Identifier
    ) -> None:
        self._branch = branch
        self._partitioning = partitioning
        self._zone = zone
        self._aside = aside
        self._changelog: Table | None = None

    def enter(self, table: Table, source_table: SourceTable, version: Version, changelog: Table) -> Table:
        """Apply the statements from the mirror's version up to `version`, including their effects on rows; `changelog`
        has the rows of an EXCHANGE PARTITION. Readers see each statement with all its effects, or not at all.

        Raises SchemaError where an effect cannot be computed; the mirror is then as before the statement."""
        self._changelog = changelog
        applied = int(table.properties[VERSION])
        if any(applied < following.from_ts <= version.from_ts for following in source_table.versions):
            table = self._branch.with_free_names(table, source_table)
        for following in source_table.versions:
            if applied < following.from_ts <= version.from_ts:
                table = self._apply(table, source_table, following)
                hit(Failpoint.VERSION_ENTERED)
        return table

    def _apply(self, table: Table, source_table: SourceTable, version: Version) -> Table:
        before, after = (
            fields_at(source_table, ts, self._partitioning) for ts in (version.from_ts - 1, version.from_ts)
        )
        change = ColumnChange.of(table, version, before, after)
        marks = {VERSION: str(version.from_ts), EFFECTS: effects_digest(source_table, version.from_ts)}
        if not self._changes_rows(table, change):
            return self._finish(table, change, marks, change.first)
        if not change.first:
            return self._finish(self._with_changed_rows(table, change), change, marks)
        return self._applied_aside(table, change, marks)

    def _changes_rows(self, table: Table, change: ColumnChange) -> bool:
        """Whether the statement may have changed or added rows, or rows have to be written by another spec."""
        version = change.version
        if any(isinstance(effect, ExchangedRows) for effect in version.effects):
            return True
        without = (
            isinstance(e, KeyChanged) or (isinstance(e, FillColumn) and fill_literal(e, version, self._zone) is None)
            for e in version.effects
        )
        return has_files(table) and (change.leaves_spec or not all(without))

    def _applied_aside(self, table: Table, change: ColumnChange, marks: Mapping[str, str]) -> Table:
        """Apply a statement that changes columns and rows: under a second name, whose state the mirror then takes over
        in one commit. Second names of other runs, which were killed or now fail as overtaken, are removed."""
        clone = self._branch.clone(table, self._aside)
        try:
            branch, identifier = self._branch.of(clone.identifier), clone.identifier
            steps = VersionSteps(branch, self._partitioning, self._zone, self._aside)
            steps._changelog = self._changelog
            branch.load().evolve(table, change.first, {COLUMNS: columns_property(change.known), **OF_A_CLONE})
            made = table.catalog.load_table(identifier)
            steps._finish(steps._with_changed_rows(made, change), change, marks)
            clone.take_over()
        except Exception as error:
            if not clone.is_registered:
                raise self._branch.load().overtaken() from error
            raise
        finally:
            clone.forget()
        return table.refresh()

    def _with_changed_rows(self, table: Table, change: ColumnChange) -> Table:
        """Apply the effects of the version's statement to rows."""
        progress = progress_of(table)
        statements = self._row_statements(table, change)
        if not statements:
            return table
        published = Progress(max(progress.watermark, change.version.from_ts), progress.position, self._branch.run_id)
        self._branch.publish(table, progress, published, statements)
        return require_progress(table, published)

    def _row_statements(self, table: Table, change: ColumnChange) -> list[str]:
        target, version, known, names = self._branch.target, change.version, change.known, change.names
        assignments: dict[str, str] = {}
        statements = []
        for effect in version.effects:
            if isinstance(effect, TruncateRows):
                statements.append(f"DELETE FROM {target}")
            elif isinstance(effect, DeletePartitions):
                statements.append(f"DELETE FROM {target} WHERE {self._gone(effect, version)}")
            elif isinstance(effect, ExchangedRows):
                statements += self._exchanged(effect, table, change)
            elif isinstance(effect, FillColumn):
                value = fill_literal(effect, version, self._zone)
                if value is not None and effect.uid in known:
                    assignments[names[known[effect.uid][0]]] = value
        for effect in (e for e in version.effects if isinstance(e, ConvertColumn)):
            name = names[known[effect.old_uid][0]]
            expression = converted_value(name, effect.old_type, effect.new_type)
            if expression is None:
                raise no_conversion(version, effect)
            if self._has_row(is_refused(name, expression, effect)):
                raise no_conversion(version, effect, ", where a value's result is not certain")
            if expression != quote(names[known[effect.new_uid][0]]):
                assignments[names[known[effect.new_uid][0]]] = expression
        if change.leaves_spec and not assignments:
            assignments[COMMIT_TS] = quote(COMMIT_TS)
        if assignments:
            statements.append(mirror_sql.update(target, assignments))
        return statements

    def _exchanged(self, effect: ExchangedRows, table: Table, change: ColumnChange) -> list[str]:
        """The SQL that deletes the rows that left and inserts the rows that arrived."""
        assert self._changelog is not None
        gone = rows_condition((effect.rows,), self._zone) if source_table_of(table) == effect.partitioned else "true"
        columns = {column.name: column.uid for column in change.wanted}
        source = self._branch.quoted(self._changelog.name())
        came = exchange_sql.rows_that_came(source, self._changelog, change.version.from_ts, columns)
        listed = ", ".join(quote(name) for name in (*columns, COMMIT_TS))
        target = self._branch.target
        return [f"DELETE FROM {target} WHERE {gone}", f"INSERT INTO {target} ({listed}) {came}"]

    def _gone(self, effect: DeletePartitions, version: Version) -> str:
        """The condition of the rows that the statement removed. Raises SchemaError where it is not certain."""
        doubtful = doubt_condition(effect.partitions)
        if doubtful is not None and self._has_row(doubtful):
            raise _no_place(version)
        return rows_condition(effect.partitions, self._zone)

    def _has_row(self, condition: str) -> bool:
        return self._branch.has_row(mirror_sql.any_row(self._branch.quoted(self._branch.identifier), condition))

    def _refuse_nulls(self, table: Table, change: ColumnChange) -> None:
        """Raise SchemaError where a new key column is NULL in rows."""
        present = {field.field_id: field.name for field in table.schema().fields}
        for column in change.new_key if has_files(table) else ():
            name = present.get(change.known[column.uid][0])
            if name is None or self._has_row(f"{quote(name)} IS NULL"):
                raise _no_key(change.version, column.name)

    def _finish(
        self, table: Table, change: ColumnChange, marks: Mapping[str, str], first: Sequence[Step] = ()
    ) -> Table:
        """Drop columns, order them, make them required and set the version, after the steps `first`, in one commit with
        a snapshot: a snapshot is read with the schema of its commit."""
        self._refuse_nulls(table, change)
        progress = progress_of(table)
        table = require_progress(table, progress)
        published = replace(progress, run_id=self._branch.run_id)
        summary = {**published.summary(self._branch.changefeed, progress), VERSION: marks[VERSION]}
        properties = {COLUMNS: columns_property(change.remaining), **marks, **change.properties(table)}
        jvm = self._branch.load()
        jvm.evolve(table, (*first, *change.last), properties, summary)
        made = jvm.field_ids()
        ids = {column.name: change.known[column.uid][0] for column in change.wanted}
        assert ids.items() <= made.items(), "Iceberg gave other field ids than planned"
        return require_progress(table, published)


def _no_key(version: Version, column: str) -> SchemaError:
    return SchemaError(
        f"{version.table.schema}.{version.table.name}, column {column!r}",
        f"a value in every row, since it is of the key from {version.from_ts} on",
        "rows without one: NULL, or a date that does not exist",
        f"No mirror can hold such rows: give them another key or value at the source. {Advice.CREATE_AGAIN}",
    )


def _no_place(version: Version) -> SchemaError:
    return SchemaError(
        f"{version.table.schema}.{version.table.name}",
        f"dates that show in which partition each row was at {version.from_ts}",
        "rows without a date, where the source may have had one that does not exist",
        Advice.LOAD_AGAIN,
    )


def no_conversion(version: Version, effect: ConvertColumn, why: str = "") -> SchemaError:
    """The error of a statement that converts values in a way that is not known to the last digit."""
    return SchemaError(
        f"{version.table.schema}.{version.table.name}, column {effect.name}",
        f"a change of type that this project can redo on existing rows at {version.from_ts}",
        f"{effect.old_type.kind} to {effect.new_type.kind}{why}",
        Advice.LOAD_AGAIN,
    )
