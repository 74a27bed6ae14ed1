"""A copy of a table under a second name, to rebuild it: readers see the result only when the table takes it over.

The clone starts with the table's own metadata, so its snapshots, columns and files continue those of the table. So one
commit can replace columns and rows together, and earlier snapshots stay readable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ticdc_assets.changes.layout import LakeColumn
from ticdc_assets.tables.iceberg.schema_step import SchemaStep
from ticdc_assets.tables.iceberg.types import arrow_of, can_identify
from ticdc_assets.tables.mirror.versions import order_columns
from ticdc_assets.tables.mirror.writer import COMMIT_TS_COLUMN
from ticdc_assets.tables.progress import COLUMNS, REPLAYED, VERSION, Progress, columns_property

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.tables.catalog import Identifier
    from ticdc_assets.tables.iceberg.jvm import JvmCatalog

_OF_THE_CLONE: Final = {
    # The clone shares its files with the table: neither a commit nor a DROP of it may remove any.
    "write.metadata.delete-after-commit.enabled": "false",
    "gc.enabled": "false",
}
_TAKEN_OVER: Final = "ticdc."
"""The prefix of the properties that the table takes over."""

SpecFields = Sequence[tuple[str, int | None, str]]


class Clone:
    """A clone of `table` under `identifier`. The table takes it over only if it has not changed since `table` was
    loaded."""

    def __init__(self, jvm: JvmCatalog, table: Table, identifier: Identifier, changefeed: str) -> None:
        self._jvm = jvm
        self._table = table
        self._changefeed = changefeed
        self.identifier = identifier

    @property
    def table(self) -> Table:
        """The table as it was when it was cloned."""
        return self._table

    def register(self) -> None:
        """Register the clone in the catalog."""
        self._jvm.register(self.identifier, self._table.metadata_location)

    # -- beginning ----------------------------------------------------------------------------------------------------

    def empty(self) -> None:
        """Start without rows, with the table's columns."""
        self._begin([], {}, (), (), Progress())

    def empty_with(
        self,
        columns: Sequence[LakeColumn],
        key: Sequence[str],
        more_properties: Mapping[str, str],
        partitioning: SpecFields,
        progress: Progress,
    ) -> None:
        """Start at `progress` without rows, with these columns and also `more_properties`."""
        schema = self._table.schema()
        types = {field.name: arrow_of(field.field_type) for field in schema.fields}
        kept = {c.name for c in columns if types.get(c.name) == c.type}
        gone = [field for field in schema.fields if field.name not in kept]
        free, add, arrange = SchemaStep(), SchemaStep(), SchemaStep()
        free.identify_by(())
        for field in schema.fields:
            if field.name not in kept:
                free.delete(field.name)
            elif field.required:
                free.relax(field.name)
        ids, next_id = {field.name: field.field_id for field in schema.fields}, self._table.metadata.last_column_id + 1
        for column in columns:
            if column.name not in kept:
                add.add(column)
                ids[column.name], next_id = next_id, next_id + (2 if pa.types.is_list(column.type) else 1)
            if column.required:
                arrange.require(column.name)
        arrange.identify_by([c.name for c in columns if c.name in key and can_identify(c.type)])
        order_columns(arrange, [column.name for column in columns])
        properties = {
            **more_properties,
            COLUMNS: columns_property({c.uid: [ids[c.name]] for c in columns if c is not COMMIT_TS_COLUMN}),
        }
        self._begin([free, add, arrange], properties, [field.field_id for field in gone], partitioning, progress)
        made = self._jvm.load(self.identifier).field_ids()
        assert all(made[c.name] == ids[c.name] for c in columns), "Iceberg gave other field ids than planned"

    def _begin(
        self,
        steps: Sequence[SchemaStep],
        more_properties: Mapping[str, str],
        gone: Sequence[int],
        partitioning: SpecFields,
        progress: Progress,
    ) -> None:
        transaction = self._jvm.load(self.identifier).java.newTransaction()
        properties = transaction.updateProperties().remove(REPLAYED)
        for key, value in {**_OF_THE_CLONE, **more_properties}.items():
            properties = properties.set(key, value)
        properties.commit()
        rows = transaction.newDelete().deleteFromRowFilter(self._expressions("alwaysTrue")())
        summary = progress.summary(self._changefeed, Progress()) | {
            k: v for k, v in more_properties.items() if k == VERSION
        }
        for key, value in summary.items():
            rows = rows.set(key, value)
        rows.commit()
        is_cut = any(field.source_id in gone for field in self._table.spec().fields)
        if is_cut:
            self._remove_partitioning(transaction)
        if any(field.source_id in gone for field in self._table.sort_order().fields):
            transaction.replaceSortOrder().commit()
        for step in steps:
            if step:
                step(transaction, self._jvm)
        if is_cut:
            self._add_partitioning(transaction, partitioning)
        transaction.commitTransaction()

    def _remove_partitioning(self, transaction: Any) -> None:
        update = transaction.updateSpec()
        for field in self._table.spec().fields:
            update = update.removeField(field.name)
        update.commit()

    def _add_partitioning(self, transaction: Any, partitioning: SpecFields) -> None:
        update = transaction.updateSpec()
        for transform, argument, column in partitioning:
            if transform != "void":
                make = self._expressions("ref" if transform == "identity" else transform)
                update = update.addField(make(column) if argument is None else make(column, argument))
        update.commit()

    def _expressions(self, name: str) -> Any:
        return self._jvm.named(f"org.apache.iceberg.expressions.Expressions.{name}")

    # -- the end ------------------------------------------------------------------------------------------------------

    def take_over(self, more: Mapping[str, str] | None = None) -> None:
        """Replace the table's rows, columns and properties by the clone's, and set `more` properties, in one commit.

        Raises StaleRunError where the table has changed since it was cloned.
        """
        table = self._jvm.load(tuple(self._table.name()))
        base = table.java.operations().refresh()
        if str(base.metadataFileLocation()) != self._table.metadata_location:
            raise table.overtaken()
        made = self._jvm.load(self.identifier).java.operations().current()
        builder = self._with_structure(self._jvm.builder_from(base), base, made)
        known = {int(snapshot.snapshotId()) for snapshot in base.snapshots()}
        fresh = [snapshot for snapshot in made.snapshots() if int(snapshot.snapshotId()) not in known]
        for snapshot in sorted(fresh, key=lambda one: int(one.sequenceNumber())):
            builder = builder.addSnapshot(snapshot)
        newest = int(made.currentSnapshot().snapshotId())
        builder = builder.setBranchSnapshot(newest, "main")
        more_properties = {k: v for k, v in made.properties().items() if k.startswith(_TAKEN_OVER)} | dict(more or {})
        if REPLAYED in base.properties() and REPLAYED not in more_properties:
            builder = builder.removeProperties(self._jvm.text_set([REPLAYED]))
        builder = builder.setProperties(self._jvm.map_of(more_properties))
        table.commit(base, builder.build(), newest)

    @staticmethod
    def _with_structure(builder: Any, base: Any, made: Any) -> Any:
        """Add the clone's schemas, partition specs and sort orders; they get the ids that they have in the clone."""
        known = {int(schema.schemaId()) for schema in base.schemas()}
        for schema in sorted(made.schemas(), key=lambda one: int(one.schemaId())):
            if int(schema.schemaId()) not in known:
                builder = builder.addSchema(schema)
        if made.currentSchemaId() != base.currentSchemaId():
            builder = builder.setCurrentSchema(made.currentSchemaId())
        specs = {int(spec.specId()) for spec in base.specs()}
        for spec in sorted(made.specs(), key=lambda one: int(one.specId())):
            if int(spec.specId()) not in specs:
                builder = builder.addPartitionSpec(spec)
        if made.defaultSpecId() != base.defaultSpecId():
            builder = builder.setDefaultPartitionSpec(made.defaultSpecId())
        if made.defaultSortOrderId() != base.defaultSortOrderId():
            builder = builder.setDefaultSortOrder(made.sortOrder())
        return builder


def clone_of(jvm: JvmCatalog, table: Table, identifier: Identifier, changefeed: str) -> Clone:
    """A clone that is registered in the catalog."""
    clone = Clone(jvm, table, identifier, changefeed)
    clone.register()
    return clone
