"""The change of a mirror's columns and partition spec from one version of its source table to the next.

It has two parts. After the first, the mirror has the columns of both versions, those that leave under other names; so
SQL can convert their values. After the second, it has the columns of the new version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyiceberg.table import Table

from ticdc_assets.changes.layout import COMMIT_TS, COMMIT_TS_COLUMN, LakeColumn, mirror_columns
from ticdc_assets.names import column_name
from ticdc_assets.schema.history.source_table import Version
from ticdc_assets.tables.iceberg.schema_step import SchemaStep, SpecStep, change_column, order_columns
from ticdc_assets.tables.iceberg.types import arrow_of, can_identify
from ticdc_assets.tables.mirror.partitioning import PlacedField, spec_steps
from ticdc_assets.tables.progress import field_ids_by_uid

if TYPE_CHECKING:
    from ticdc_assets.tables.iceberg.jvm import JvmCatalog

Step = Callable[[Any, "JvmCatalog"], None]
WHOLE_FILES: Final[Mapping[str, str]] = {
    "write.merge.mode": "copy-on-write",
    "write.delete.mode": "copy-on-write",
}
"""The properties of a table where a column of an earlier partition spec is gone: Iceberg cannot write deletes of rows
there, as it does not know the type of that partition."""


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """The columns that a mirror has afterwards (`wanted`), the field ids of all columns that it has in between by uid
    (`known`), and their names by field id; `first` are the steps until then."""

    version: Version
    wanted: tuple[LakeColumn, ...]
    known: Mapping[int, list[int]]
    names: Mapping[int, str]
    required: frozenset[str]
    identifiers: frozenset[str]
    first: tuple[Step, ...]
    leaves_spec: bool

    @classmethod
    def of(
        cls, table: Table, version: Version, before: Sequence[PlacedField], after: Sequence[PlacedField]
    ) -> ColumnChange:
        """The change of `table`, whose partition fields by the config are `before`, and then `after`."""
        wanted = columns_at(version)
        known = dict(field_ids_by_uid(table.properties))
        fields = {field.field_id: field for field in table.schema().fields}
        names = {field_id: field.name for field_id, field in fields.items()}
        kept = {column.uid for column in wanted}
        leaving = {ids[0] for uid, ids in known.items() if uid not in kept}
        free, take, add = SchemaStep(), SchemaStep(), SchemaStep()
        identifiers = set(table.schema().identifier_field_ids)
        if leaving & identifiers:
            free.identify_by(sorted(names[field_id] for field_id in identifiers - leaving))
        for field_id in leaving:
            if not names[field_id].endswith(_leaving(version)):
                if fields[field_id].required:
                    free.relax(names[field_id])
                free.rename(names[field_id], names[field_id] + _leaving(version))
                names[field_id] += _leaving(version)
        for column in (column for column in wanted if column.uid in known):
            field_id = known[column.uid][0]
            change_column(column, names[field_id], arrow_of(fields[field_id].field_type), free, take)
            names[field_id] = column.name
        next_id = int(table.metadata.last_column_id) + 1
        for column in (column for column in wanted if column.uid not in known):
            add.add(column)
            known[column.uid], names[next_id] = [next_id], column.name
            next_id += 2 if pa.types.is_list(column.type) else 1
        leave, join = _spec_steps(table, wanted, known, before, after)
        return cls(
            version,
            wanted,
            known,
            names,
            frozenset(names[field_id] for field_id, f in fields.items() if f.required and field_id not in leaving),
            frozenset(names[field_id] for field_id in identifiers - leaving),
            tuple(step for step in (leave, free, take, add, join) if step),
            bool(leave.remove),
        )

    @property
    def remaining(self) -> dict[int, list[int]]:
        """The field ids of the columns that the mirror has afterwards, by uid."""
        kept = {column.uid for column in self.wanted}
        return {uid: ids for uid, ids in self.known.items() if uid in kept}

    @property
    def new_key(self) -> tuple[LakeColumn, ...]:
        """The key columns that could be NULL before; none where the key stays, or the version has none."""
        key = self._key
        new = [column.name for column in self.wanted if column.name in key and can_identify(column.type)]
        if not key or self.identifiers == frozenset(new):
            return ()
        return tuple(c for c in self.wanted if c.name in key and c.name not in self.required)

    @property
    def _key(self) -> set[str]:
        return {column_name(name) for name in self.version.table.key}

    @property
    def last(self) -> tuple[Step, ...]:
        """The steps of the second part: drop columns, order them, and make the new key required."""
        key, drop, arrange = self._key, SchemaStep(), SchemaStep()
        for column in self.wanted:  # a former key column may be NULL, also by a zero date
            if key and column.name not in key and column.name in self.required:
                drop.relax(column.name)
        identifiers = [c.name for c in self.wanted if c.name in key and can_identify(c.type)]
        if key and self.identifiers != frozenset(identifiers):
            for column in self.new_key:
                drop.require(column.name)
            drop.identify_by(identifiers)
        for uid, ids in self.known.items():
            if uid not in self.remaining:
                drop.delete(self.names[ids[0]])
        order = [column.name for column in self.wanted]
        if [name for name in self.names.values() if name in order] != order:
            order_columns(arrange, order)
        return tuple(step for step in (drop, arrange) if step)

    def properties(self, table: Table) -> Mapping[str, str]:
        """How Spark writes afterwards to the table, as it is in between or before."""
        kept = {ids[0] for ids in self.remaining.values()} | {i for i, name in self.names.items() if name == COMMIT_TS}
        return WHOLE_FILES if lacks_partition_columns(table, kept) else {}


def lacks_partition_columns(table: Table, field_ids: set[int]) -> bool:
    """Whether a partition spec that the table has or had uses another column than these."""
    return any(field.source_id not in field_ids for spec in table.specs().values() for field in spec.fields)


def columns_at(version: Version) -> tuple[LakeColumn, ...]:
    """The mirror's columns for a version, without its system columns."""
    return mirror_columns(version.table.stored_columns, version.table.key)


def _leaving(version: Version) -> str:
    return f"__v{version.from_ts}"


def _spec_steps(
    table: Table,
    wanted: Sequence[LakeColumn],
    known: Mapping[int, list[int]],
    before: Sequence[PlacedField],
    after: Sequence[PlacedField],
) -> tuple[SpecStep, SpecStep]:
    columns = {known[column.uid][0]: column for column in wanted}
    columns[table.schema().find_field(COMMIT_TS).field_id] = COMMIT_TS_COLUMN
    lost = [field for field in before if field not in after]
    return spec_steps(table, columns, [field for field in after if field not in before], lost)
