"""Advances a mirror from one version of its source table to the next: its columns, and a statement's effects on rows.

Every step can be repeated: `ticdc.version` changes only after a statement's effects are published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa

from ticdc_assets.changes.layout import COMMIT_TS, LakeColumn, mirror_columns
from ticdc_assets.errors import CREATE_AGAIN, LOAD_AGAIN, SchemaError
from ticdc_assets.failpoints import Failpoint, hit
from ticdc_assets.names import column_name, quote
from ticdc_assets.schema.evolution.evolve import (
    ConvertColumn,
    DeletePartitions,
    ExchangedRows,
    FillColumn,
    TruncateRows,
)
from ticdc_assets.schema.history.source_table import SourceTable, Version
from ticdc_assets.schema.history.written_history import effects_digest
from ticdc_assets.tables.conversion.convert import converted_value, is_refused
from ticdc_assets.tables.exchange import sql as exchange_sql
from ticdc_assets.tables.iceberg.schema_step import SchemaStep, change_column
from ticdc_assets.tables.iceberg.types import arrow_of, can_identify
from ticdc_assets.tables.mirror import sql as mirror_sql
from ticdc_assets.tables.mirror.branch import MirrorBranch, require_progress
from ticdc_assets.tables.mirror.effects import fill_literal
from ticdc_assets.tables.mirror.partition_conditions import doubt_condition, rows_condition
from ticdc_assets.tables.mirror.size import has_files
from ticdc_assets.tables.progress import (
    COLUMNS,
    EFFECTS,
    VERSION,
    Progress,
    columns_property,
    field_ids_by_uid,
    progress_of,
    source_table_of,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table


class VersionSteps:
    """The statements between versions, applied to one mirror; `zone` is the changefeed's."""

    def __init__(self, branch: MirrorBranch, zone: str) -> None:
        self._branch = branch
        self._zone = zone
        self._changelog: Table | None = None

    def enter(self, table: Table, source_table: SourceTable, version: Version, changelog: Table) -> Table:
        """Apply the statements from the mirror's version up to `version`, including their effects on rows; `changelog`
        has the rows of an EXCHANGE PARTITION. Raises SchemaError where an effect cannot be computed."""
        self._changelog = changelog
        applied = int(table.properties[VERSION])
        for following in source_table.versions:
            if applied < following.from_ts <= version.from_ts:
                table = self._apply(table, following, effects_digest(source_table, following.from_ts))
        return table

    def _apply(self, table: Table, version: Version, effects: str) -> Table:
        wanted = columns_at(version)
        known = field_ids_by_uid(table.properties)
        converts = {e.new_uid: e for e in version.effects if isinstance(e, ConvertColumn)}
        known = self._add_and_rename(table, wanted, known, version, converts)
        table = require_progress(table, progress_of(table))
        progress = self._change_rows(table, version, known, converts)
        table = self._finish(require_progress(table, progress), wanted, known, version, effects)
        hit(Failpoint.VERSION_ENTERED)
        return table

    def _add_and_rename(
        self,
        table: Table,
        wanted: Sequence[LakeColumn],
        known: dict[int, list[int]],
        version: Version,
        converts: dict[int, ConvertColumn],
    ) -> dict[int, list[int]]:
        """Add, rename and promote columns; dropped columns stay under other names until their values are used."""
        names = {f.field_id: f.name for f in table.schema().fields}
        types = {f.field_id: arrow_of(f.field_type) for f in table.schema().fields}
        kept = {c.uid for c in wanted}
        free, take, add = SchemaStep(), SchemaStep(), SchemaStep()
        leaving = {names[ids[0]] for uid, ids in known.items() if uid not in kept}
        identifiers = table.schema().identifier_field_names()
        if leaving & identifiers:
            free.identify_by(sorted(identifiers - leaving))  # `_finish` sets the new ones
        for uid, ids in known.items():
            if uid not in kept and not names[ids[0]].endswith(_leaving(version)):
                self._relax(free, table, ids[0])
                free.rename(names[ids[0]], names[ids[0]] + _leaving(version))
        for column in (c for c in wanted if c.uid in known):
            change_column(column, names[known[column.uid][0]], types[known[column.uid][0]], free, take)
        added = [c for c in wanted if c.uid not in known]
        for column in added:
            add.add(column)
        steps = [step for step in (free, take, add) if step]
        if steps:
            jvm = self._branch.load()
            first_id = int(table.metadata.last_column_id) + 1
            for column in added:
                known[column.uid] = [first_id]
                first_id += 2 if pa.types.is_list(column.type) else 1
            jvm.evolve(table, steps, {COLUMNS: columns_property(known)})
            made = jvm.field_ids()
            assert all(made[c.name] == known[c.uid][0] for c in added), "Iceberg gave other field ids than planned"
        return known

    @staticmethod
    def _relax(step: SchemaStep, table: Table, field_id: int) -> None:
        if table.schema().find_field(field_id).required:
            step.relax(table.schema().find_field(field_id).name)

    def _change_rows(
        self, table: Table, version: Version, known: dict[int, list[int]], converts: dict[int, ConvertColumn]
    ) -> Progress:
        """Apply the effects of the version's statement to rows; the progress after it."""
        progress = progress_of(table)
        statements = self._row_statements(table, version, known, converts) if self._has_work(table, version) else []
        if not statements:
            return progress
        published = Progress(max(progress.watermark, version.from_ts), progress.position, self._branch.run_id)
        self._branch.publish(table, progress, published, statements)
        return published

    @staticmethod
    def _has_work(table: Table, version: Version) -> bool:
        """Whether the statement may have changed or added rows."""
        return has_files(table) or any(isinstance(effect, ExchangedRows) for effect in version.effects)

    def _row_statements(
        self, table: Table, version: Version, known: dict[int, list[int]], converts: dict[int, ConvertColumn]
    ) -> list[str]:
        target = self._branch.target
        names = {f.field_id: f.name for f in table.schema().fields}
        assignments: dict[str, str] = {}
        statements = []
        for effect in version.effects:
            if isinstance(effect, TruncateRows):
                statements.append(f"DELETE FROM {target}")
            elif isinstance(effect, DeletePartitions):
                statements.append(f"DELETE FROM {target} WHERE {self._gone(effect, version)}")
            elif isinstance(effect, ExchangedRows):
                statements += self._exchanged(effect, table, version, known)
            elif isinstance(effect, FillColumn):
                value = fill_literal(effect, version, self._zone)
                if value is not None and effect.uid in known:
                    assignments[names[known[effect.uid][0]]] = value
        for effect in converts.values():
            name = names[known[effect.old_uid][0]]
            expression = converted_value(name, effect.old_type, effect.new_type)
            if expression is None:
                raise no_conversion(version, effect)
            if self._has_row(is_refused(name, expression, effect)):
                raise no_conversion(version, effect, ", where a value's result is not certain")
            if expression != quote(names[known[effect.new_uid][0]]):
                assignments[names[known[effect.new_uid][0]]] = expression
        if assignments:
            statements.append(mirror_sql.update(target, assignments))
        return statements

    def _exchanged(
        self, effect: ExchangedRows, table: Table, version: Version, known: dict[int, list[int]]
    ) -> list[str]:
        """The SQL that deletes the rows that left and inserts the rows that arrived."""
        assert self._changelog is not None
        gone = rows_condition((effect.rows,), self._zone) if source_table_of(table) == effect.partitioned else "true"
        names = {f.field_id: f.name for f in table.schema().fields}
        columns = {names[known[column.uid][0]]: column.uid for column in version.table.stored_columns}
        source = self._branch.quoted(self._changelog.name())
        came = exchange_sql.rows_that_came(source, self._changelog, version.from_ts, columns)
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

    def _refuse_nulls(self, table: Table, column: str, version: Version) -> None:
        """Raise SchemaError where a new key column is NULL in rows."""
        if has_files(table) and self._has_row(f"{quote(column)} IS NULL"):
            raise _no_key(version, column)

    def _finish(
        self, table: Table, wanted: Sequence[LakeColumn], known: dict[int, list[int]], version: Version, effects: str
    ) -> Table:
        """Drop columns, order them, make them required and set the version, in one commit with a snapshot: a snapshot
        is read with the schema of its commit."""
        names = {f.field_id: f.name for f in table.schema().fields}
        kept = {c.uid for c in wanted}
        drop, arrange = SchemaStep(), SchemaStep()
        key = [column_name(name) for name in version.table.key]
        old_key = list(table.schema().identifier_field_names())
        new_key = [c.name for c in wanted if c.name in key and can_identify(c.type)]
        for column in wanted:  # a former key column may be NULL, also by a zero date
            if key and column.name not in key and table.schema().find_field(column.name).required:
                drop.relax(column.name)
        if sorted(old_key) != sorted(new_key) and key:
            for column in wanted:
                if column.name in key and not table.schema().find_field(column.name).required:
                    self._refuse_nulls(table, column.name, version)
                    drop.require(column.name)
            drop.identify_by(new_key)
        for uid, ids in known.items():
            if uid not in kept:
                drop.delete(names[ids[0]])
        current = [names[i] for i in names if names[i] in {c.name for c in wanted}]
        if current != [c.name for c in wanted]:
            order_columns(arrange, [c.name for c in wanted])
        remaining = {uid: ids for uid, ids in known.items() if uid in kept}
        steps = [step for step in (drop, arrange) if step]
        properties = {COLUMNS: columns_property(remaining), VERSION: str(version.from_ts), EFFECTS: effects}
        progress = progress_of(table)
        published = replace(progress, run_id=self._branch.run_id)
        summary = {**published.summary(self._branch.changefeed, progress), VERSION: str(version.from_ts)}
        self._branch.load().evolve(table, steps, properties, summary)
        return require_progress(table, published)


def _no_key(version: Version, column: str) -> SchemaError:
    return SchemaError(
        f"{version.table.schema}.{version.table.name}, column {column!r}",
        f"a value in every row, since it is of the key from {version.from_ts} on",
        "rows without one: NULL, or a date that does not exist",
        f"No mirror can hold such rows: give them another key or value at the source. {CREATE_AGAIN}",
    )


def columns_at(version: Version) -> tuple[LakeColumn, ...]:
    """The mirror's columns for a version, without its system columns."""
    return mirror_columns(version.table.stored_columns, version.table.key)


def _leaving(version: Version) -> str:
    return f"__v{version.from_ts}"


def _no_place(version: Version) -> SchemaError:
    return SchemaError(
        f"{version.table.schema}.{version.table.name}",
        f"dates that show in which partition each row was at {version.from_ts}",
        "rows without a date, where the source may have had one that does not exist",
        LOAD_AGAIN,
    )


def order_columns(step: SchemaStep, names: Sequence[str]) -> None:
    """Put the columns into this order."""
    step.move_first(names[0])
    for before, name in pairwise(names):
        step.move_after(name, before)


def no_conversion(version: Version, effect: ConvertColumn, why: str = "") -> SchemaError:
    """The error of a statement that converts values in a way that is not known to the last digit."""
    return SchemaError(
        f"{version.table.schema}.{version.table.name}, column {effect.name}",
        f"a change of type that this project can redo on existing rows at {version.from_ts}",
        f"{effect.old_type.kind} to {effect.new_type.kind}{why}",
        LOAD_AGAIN,
    )
