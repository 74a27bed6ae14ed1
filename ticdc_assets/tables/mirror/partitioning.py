"""The partition spec of a mirror: it follows the columns of the source.

A field stays with its column under every name, goes with it when its values are converted, and leaves the spec with the
column, or where its transform does not take the column's new type. A column that takes the configured name gets the
field.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform, parse_transform

from ticdc_assets.changes.layout import LakeColumn
from ticdc_assets.config.model.config import PartitionField
from ticdc_assets.errors import ConfigError
from ticdc_assets.names import column_name
from ticdc_assets.names.folding import fold
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.evolution.schema_state import ConvertColumn
from ticdc_assets.schema.history.source_table import SourceTable, Version
from ticdc_assets.schema.model import Column
from ticdc_assets.tables.catalog import Identifier
from ticdc_assets.tables.iceberg.schema_step import SpecField, SpecStep, free_name
from ticdc_assets.tables.iceberg.types import iceberg_type
from ticdc_assets.tables.progress import field_ids_by_uid


@dataclass(frozen=True, slots=True)
class PlacedField:
    """A partition field on a column of the source, named by its uid."""

    transform: str
    argument: int | None
    uid: int


def fields_at(source_table: SourceTable, ts: int, configured: Sequence[PartitionField]) -> tuple[PlacedField, ...]:
    """The configured fields that the columns can have at `ts`, in the order of the config."""
    uids: list[int | None] = [None] * len(configured)
    for version in source_table.versions:
        if version.from_ts <= ts:
            uids = [_uid_at(version, field, uid) for field, uid in zip(configured, uids, strict=True)]
    placed = (PlacedField(f.transform, f.argument, u) for f, u in zip(configured, uids, strict=True) if u is not None)
    return tuple(dict.fromkeys(placed))


def _uid_at(version: Version, field: PartitionField, before: int | None) -> int | None:
    converted = {e.old_uid: e.new_uid for e in version.effects if isinstance(e, ConvertColumn)}
    by_uid = {column.uid: column for column in version.table.stored_columns}
    kept = by_uid.get(converted.get(before, before)) if before is not None else None
    named = _named(version, field)
    candidates = (kept, named) if field.column is None else (named, kept)
    return next((c.uid for c in candidates if c is not None and _takes(field, arrow_type(c.type))), None)


def _named(version: Version, field: PartitionField) -> Column | None:
    name = field.column or next(iter(version.table.key), None)
    return next((column for column in version.table.stored_columns if column.name == name), None)


def _takes(field: PartitionField | PlacedField, arrow: pa.DataType) -> bool:
    return bool(parse_transform(_written(field)).can_transform(iceberg_type(arrow, count(1))))


def _written(field: PartitionField | PlacedField) -> str:
    return field.transform if field.argument is None else f"{field.transform}[{field.argument}]"


def require_partitioning(
    identifier: Identifier, source_table: SourceTable, configured: Sequence[PartitionField]
) -> None:
    """Raise ConfigError for a field that no version of the source table has a column for."""
    for field in configured:
        columns = [c for version in source_table.versions if (c := _named(version, field)) is not None]
        if not any(_takes(field, arrow_type(column.type)) for column in columns):
            found = f"a column of {arrow_type(columns[-1].type)}" if columns else "no such column"
            advice = "Give its table another `partition` in the config, or `none`; then run again."
            name = repr(columns[-1].name) if columns else repr(field.column or "of a key")
            expected = f"a column {name} that the partition {_written(field)} can have"
            raise ConfigError(".".join(identifier), expected, found, advice)


def new_spec(
    fields: Sequence[PlacedField], columns: Mapping[int, str], used: Iterable[str] = ()
) -> tuple[SpecField, ...]:
    """Partition fields on these columns, by uid, beside fields with the names `used`."""
    made: list[SpecField] = []
    for field in fields:
        column = columns[field.uid]
        name = free_name(f"{column}_{field.transform}", [*used, *(other.name for other in made)])
        made.append(SpecField(name, field.transform, field.argument, column))
    return tuple(made)


def spec_steps(
    table: Table,
    columns: Mapping[int, LakeColumn],
    wanted: Sequence[PlacedField],
    unwanted: Collection[PlacedField] | None,
) -> tuple[SpecStep, SpecStep]:
    """The changes of a table's spec before and after its columns change.

    Args:
        columns: the columns that stay, as they are afterwards, by field id.
        wanted: fields that the spec gets where it lacks them.
        unwanted: fields that it loses although their column stays; None for all that are not wanted.
    """
    remove, kept = [], set()
    asked = {(_written(field), field.uid) for field in wanted}
    lost = None if unwanted is None else {(_written(field), field.uid) for field in unwanted} - asked
    for field in table.spec().fields:
        column = columns.get(field.source_id)
        if column is None or not field.transform.can_transform(iceberg_type(column.type, count(1))):
            remove.append(field.name)
            continue
        this = (str(field.transform), column.uid)
        if this not in asked if lost is None else this in lost:
            remove.append(field.name)
        else:
            kept.add(this)
    used = [field.name for spec in table.specs().values() for field in spec.fields]
    lacking = [field for field in wanted if (_written(field), field.uid) not in kept]
    add = new_spec(lacking, {column.uid: column.name for column in columns.values()}, used)
    return SpecStep(remove=tuple(remove)), SpecStep(add=add)


def colliding_names(table: Table, source_table: SourceTable) -> dict[str, str]:
    """New names for the partition fields that have the name of a column of the source: an earlier release, or a user,
    named them so, and no column can have the name of a field of any spec that the table had."""
    columns = {(fold(column_name(c.name)), c.uid) for v in source_table.versions for c in v.table.stored_columns}
    uids = {ids[0]: uid for uid, ids in field_ids_by_uid(table.properties).items()}
    fields = [field for spec in table.specs().values() for field in spec.fields]
    found: dict[str, str] = {}
    for field in fields:
        own = uids.get(field.source_id) if isinstance(field.transform, IdentityTransform) else None
        if field.source_id in uids and any(n == fold(field.name) and uid != own for n, uid in columns):
            found.setdefault(field.name, free_name(field.name, [*(f.name for f in fields), *found.values()]))
    return found
