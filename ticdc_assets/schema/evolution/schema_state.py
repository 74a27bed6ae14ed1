"""The state of a table between statements, and the effects of statements on existing rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from ticdc_assets.advice import Advice
from ticdc_assets.errors import SchemaError
from ticdc_assets.names.folding import fold
from ticdc_assets.schema.model import Default, Kind, MySqlType, TableSchema
from ticdc_assets.schema.partitions.rows import PartitionRows

COLUMNS_MAX: Final = 4096  # TiDB's own limit


@dataclass(frozen=True, slots=True)
class Shape:
    """A table, and the uid of its next new column."""

    table: TableSchema
    next_uid: int


@dataclass(frozen=True, slots=True)
class FillColumn:
    """A column was added: existing rows have `value`, which is NULL (`Default()`), a literal, or an expression.

    An expression is CURRENT_TIMESTAMP[(n)] or CURRENT_DATE: the time of the statement. A literal of a TIMESTAMP is in
    the zone of the session that ran the statement; `utc` is the same time in UTC, where the stream has it.
    """

    uid: int
    name: str
    type: MySqlType
    value: Default
    utc: str | None = None

    @property
    def has_unknown_zone(self) -> bool:
        """Whether the time of a TIMESTAMP depends on a zone that the stream does not have."""
        is_time = any(digit in "123456789" for digit in str(self.value.value or ""))  # zeros are no time
        return self.type.kind is Kind.TIMESTAMP and self.utc is None and is_time


@dataclass(frozen=True, slots=True)
class ConvertColumn:
    """Existing values of a column are converted to the new type, as by MySQL's MODIFY.

    `new_uid` equals `old_uid` where the Iceberg column stays the same and only its values may change (fewer fraction
    digits, shorter text, another ENUM).
    """

    old_uid: int
    new_uid: int
    name: str
    old_type: MySqlType
    new_type: MySqlType
    zero_dates: bool = False
    """Whether each existing NULL is a zero date, which does not become NULL."""


@dataclass(frozen=True, slots=True)
class TruncateRows:
    """All rows are removed."""


@dataclass(frozen=True, slots=True)
class DeletePartitions:
    """The rows of these partitions are removed; their columns are those before the statement."""

    partitions: tuple[PartitionRows, ...]


@dataclass(frozen=True, slots=True)
class ExchangedRows:
    """The rows of a partition of one source table and all rows of another one are exchanged.

    Both sides have the same effect. Their changelogs hold it as D and I at the statement's commit_ts, which a run
    writes before a mirror takes it (`pipeline.changelog.exchanges`).
    """

    partitioned: str
    table: str
    rows: PartitionRows


@dataclass(frozen=True, slots=True)
class KeyChanged:
    """The handle key has different columns (a renamed column is the same one)."""

    old_key: tuple[str, ...]
    new_key: tuple[str, ...]


Effect = FillColumn | ConvertColumn | TruncateRows | DeletePartitions | ExchangedRows | KeyChanged


def _with_time_of(effect: Effect, sent: TableSchema) -> Effect:
    if not isinstance(effect, FillColumn) or not effect.has_unknown_zone:
        return effect
    column = sent.column(effect.name)
    default = column.default if column is not None else None
    return effect if default is None or not isinstance(default.value, str) else replace(effect, utc=default.value)


@dataclass(frozen=True, slots=True)
class Change:
    """The state after a statement, and its effects on existing rows."""

    shape: Shape
    effects: tuple[Effect, ...] = ()

    @property
    def table(self) -> TableSchema:
        return self.shape.table

    def with_times_of(self, sent: TableSchema | None) -> Change:
        """The change with the times of TIMESTAMP defaults in UTC, which the schemas of Simple, of a storage sink
        and of Avro have."""
        return self if sent is None else replace(self, effects=tuple(_with_time_of(e, sent) for e in self.effects))


def ddl_error(schema: str, name: str, expected: str, found: str) -> SchemaError:
    """The error for a statement that does not fit its table."""
    return SchemaError(f"DDL of {schema}.{name}", expected, found, Advice.CHECK_STREAM)


def check_names(schema: str, table: str, names: list[str]) -> None:
    """Refuse a table without columns, or with one twice."""
    if not names:
        raise ddl_error(schema, table, "a column", "none")
    if len(names) > COLUMNS_MAX:
        raise ddl_error(schema, table, f"at most {COLUMNS_MAX} columns", f"{len(names)}")
    seen: set[str] = set()
    for name in names:
        if fold(name) in seen:
            raise ddl_error(schema, table, "each column once", f"the column {name} twice")
        seen.add(fold(name))
