"""A copy of a table under a second name, to rebuild it: readers see the result only when the table takes it over.

The clone starts with the table's own metadata, so its snapshots, columns and files continue those of the table. So one
commit can replace columns and rows together, and earlier snapshots stay readable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ticdc_assets.changes.layout import COMMIT_TS_COLUMN, LakeColumn
from ticdc_assets.tables.iceberg.joint_commit import MetadataChange
from ticdc_assets.tables.iceberg.properties import COLUMNS, REPLAYED, VERSION
from ticdc_assets.tables.iceberg.schema_step import SchemaStep, order_columns
from ticdc_assets.tables.iceberg.types import arrow_of, can_identify
from ticdc_assets.tables.mirror.column_change import WHOLE_FILES, Step, lacks_partition_columns
from ticdc_assets.tables.mirror.partitioning import PlacedField, spec_steps
from ticdc_assets.tables.progress import Progress, columns_property

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.tables.catalog import Identifier
    from ticdc_assets.tables.iceberg.jvm import JvmCatalog

OF_A_CLONE: Final = {
    # The clone shares its files with the table: neither a commit nor a DROP of it may remove any.
    "write.metadata.delete-after-commit.enabled": "false",
    "gc.enabled": "false",
}
_TAKEN_OVER: Final = ("ticdc.", *WHOLE_FILES)
"""The prefixes of the properties that the table takes over."""


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

    @property
    def is_registered(self) -> bool:
        """Whether the catalog has it."""
        return bool(self._jvm.java.tableExists(self._jvm.identifier_of(self.identifier)))

    def forget(self) -> None:
        """Remove the clone from the catalog, if it is there. Its files stay."""
        self._jvm.java.dropTable(self._jvm.identifier_of(self.identifier), False)

    # -- beginning ----------------------------------------------------------------------------------------------------

    def empty(self) -> None:
        """Start without rows, with the table's columns."""
        self._begin([], {}, (), Progress())

    def empty_with(
        self,
        columns: Sequence[LakeColumn],
        key: Sequence[str],
        more_properties: Mapping[str, str],
        partitioning: Sequence[PlacedField],
        progress: Progress,
    ) -> None:
        """Start at `progress` without rows, with these columns, partitions and also `more_properties`."""
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
        by_id = {ids[column.name]: column for column in columns}
        leave, join = spec_steps(self._table, by_id, partitioning, None)
        properties = {
            **more_properties,
            **(WHOLE_FILES if lacks_partition_columns(self._table, set(by_id)) else {}),
            COLUMNS: columns_property({c.uid: [ids[c.name]] for c in columns if c is not COMMIT_TS_COLUMN}),
        }
        steps = [step for step in (leave, free, add, arrange, join) if step]
        self._begin(steps, properties, [field.field_id for field in gone], progress)
        made = self._jvm.load(self.identifier).field_ids()
        assert all(made[c.name] == ids[c.name] for c in columns), "Iceberg gave other field ids than planned"

    def _begin(
        self,
        steps: Sequence[Step],
        more_properties: Mapping[str, str],
        gone: Sequence[int],
        progress: Progress,
    ) -> None:
        transaction = self._jvm.load(self.identifier).java.newTransaction()
        properties = transaction.updateProperties().remove(REPLAYED)
        for key, value in {**OF_A_CLONE, **more_properties}.items():
            properties = properties.set(key, value)
        properties.commit()
        every_row = self._jvm.named("org.apache.iceberg.expressions.Expressions.alwaysTrue")()
        rows = transaction.newDelete().deleteFromRowFilter(every_row)
        summary = progress.summary(self._changefeed, Progress()) | {
            k: v for k, v in more_properties.items() if k == VERSION
        }
        for key, value in summary.items():
            rows = rows.set(key, value)
        rows.commit()
        if any(field.source_id in gone for field in self._table.sort_order().fields):
            transaction.replaceSortOrder().commit()
        for step in steps:
            step(transaction, self._jvm)
        transaction.commitTransaction()

    # -- the end ------------------------------------------------------------------------------------------------------

    def take_over(self, more: Mapping[str, str] | None = None) -> None:
        """Replace the table's rows, columns and properties by the clone's, and set `more` properties, in one commit.

        Raises StaleRunError where the table has changed since it was cloned.
        """
        change = self.change(more)
        change.table.commit(change.base, change.fresh, int(change.fresh.currentSnapshot().snapshotId()))

    def change(self, more: Mapping[str, str] | None = None) -> MetadataChange:
        """The change of the table by which it takes over the clone, not committed. Raises as `take_over` does."""
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
            builder = builder.removeProperties(self._jvm.set_of([REPLAYED]))
        builder = builder.setProperties(self._jvm.map_of(more_properties))
        return MetadataChange(tuple(self._table.name()), table, base, builder.build())

    @staticmethod
    def _with_structure(builder: Any, base: Any, made: Any) -> Any:
        """Add the clone's schemas, partition specs and sort orders; they get the ids that they have in the clone."""
        known = {int(schema.schemaId()) for schema in base.schemas()}
        for schema in sorted(made.schemas(), key=lambda one: int(one.schemaId())):
            if int(schema.schemaId()) not in known:
                builder = builder.addSchema(schema)
        specs = {int(spec.specId()) for spec in base.specs()}
        for spec in sorted(made.specs(), key=lambda one: int(one.specId())):
            if int(spec.specId()) not in specs:
                # A spec is added under a schema that has its columns: a later one may lack them.
                builder = builder.setCurrentSchema(_schema_id_of(spec, made)).addPartitionSpec(spec)
        builder = builder.setCurrentSchema(made.currentSchemaId())
        if made.defaultSpecId() != base.defaultSpecId():
            builder = builder.setDefaultPartitionSpec(made.defaultSpecId())
        if made.defaultSortOrderId() != base.defaultSortOrderId():
            builder = builder.setDefaultSortOrder(made.sortOrder())
        return builder


def _schema_id_of(spec: Any, made: Any) -> int:
    """The newest schema that has all columns of a partition spec."""
    columns = [int(field.sourceId()) for field in spec.fields()]
    fitting = [s for s in made.schemas() if all(s.findField(column) is not None for column in columns)]
    return max((int(schema.schemaId()) for schema in fitting), default=int(made.currentSchemaId()))


def clone_of(jvm: JvmCatalog, table: Table, identifier: Identifier, changefeed: str) -> Clone:
    """A clone that is registered in the catalog."""
    clone = Clone(jvm, table, identifier, changefeed)
    clone.register()
    return clone
