"""The state of a table between statements, and the effects of statements on existing rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from ticdc_assets.advice import Advice
from ticdc_assets.errors import SchemaError
from ticdc_assets.names.folding import fold
from ticdc_assets.schema.arrow_types import BINARY_KINDS, CHARACTER_KINDS
from ticdc_assets.schema.ddl.defaults import fraction_text, rounded
from ticdc_assets.schema.model import Column, Default, Kind, MySqlType, TableSchema
from ticdc_assets.schema.partitions.rows import PartitionRows

COLUMNS_MAX: Final = 4096  # TiDB's own limit
_FLOAT_ZERO_MAX: Final = 2.0**-150
"""Half of the smallest FLOAT, which is rounded to 0."""
_FILLING_EXPRESSIONS: Final = ("CURRENT_TIMESTAMP", "CURRENT_DATE")


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


def fill_of(column: Column) -> Default | None:
    """The value of the column in older rows: its default, NULL (`Default()`), or the type's implicit value.

    An expression other than the current time gives None: the rows' values are then not in the statement.
    """
    default = column.default
    if default is not None and default.expression is not None:
        return default if default.expression.startswith(_FILLING_EXPRESSIONS) else None
    if default is not None and default.value is not None:
        return Default(value=_stored(default.value, column.type))
    return Default() if column.nullable else Default(value=implicit_value(column.type))


def _stored(value: str | bytes, of: MySqlType) -> str | bytes:
    """BINARY(n) rows are padded to n bytes, CHAR rows lose trailing spaces, VARCHAR(n) those beyond n characters."""
    if isinstance(value, bytes):
        return _stored_bytes(value, of)
    if of.kind in (Kind.FLOAT, Kind.DOUBLE):
        return _stored_real(value, of.kind)
    text = value.rstrip(" ") if of.kind is Kind.CHAR else value
    # Only blanks can be beyond the length: the server refuses other text.
    return text[: of.length] if of.kind in (Kind.CHAR, Kind.VARCHAR) else text


def _stored_real(text: str, kind: Kind) -> str:
    """TiDB stores no negative zero; numbers too small for the type are 0."""
    try:
        number = float(text)
    except ValueError:
        return text
    return "0" if abs(number) <= (_FLOAT_ZERO_MAX if kind is Kind.FLOAT else 0) else text


def _stored_bytes(value: bytes, of: MySqlType) -> bytes:
    """TiDB keeps defaults as JSON text: each byte that is no UTF-8 is U+FFFD in rows, cut to what the column holds."""
    kept = _as_json_text(value)
    if of.kind is Kind.BINARY:
        length = 1 if of.length is None else of.length
        return kept[:length].ljust(length, b"\0")
    return kept[: of.length]


def _as_json_text(value: bytes) -> bytes:
    kept = b""
    while True:
        try:
            return kept + value.decode("utf-8").encode("utf-8")
        except UnicodeDecodeError as error:
            kept += value[: error.start] + "\ufffd".encode()
            value = value[error.start + 1 :]


def implicit_value(of: MySqlType) -> str | bytes:
    """The value of a NOT NULL column without a default in older rows."""
    if of.kind in BINARY_KINDS:
        return _stored(b"", of)
    if of.kind is Kind.DECIMAL:
        return rounded("0", of.scale or 0)
    if of.kind is Kind.ENUM:
        return of.elements[0] if of.elements else "1"
    if of.kind is Kind.TIME:
        return "00:00:00" + fraction_text(0, of.length or 0)
    if of.kind in (Kind.DATETIME, Kind.TIMESTAMP):
        return "0000-00-00 00:00:00" + fraction_text(0, of.length or 0)
    if of.kind in CHARACTER_KINDS or of.kind is Kind.SET:
        return ""
    return {Kind.DATE: "0000-00-00", Kind.YEAR: "0000", Kind.JSON: "null", Kind.VECTOR: "[]"}.get(of.kind, "0")
