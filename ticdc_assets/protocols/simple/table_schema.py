"""Converts a `tableSchema` object of the Simple protocol, from JSON or Avro, to a TableSchema.

Names and keys are those of the stream. A type equals the type in the DDL text as far as the stream has it. Hidden
columns of expression indexes appear only in their index. The stream does not show which columns are virtual, how the
table is partitioned, and, with older encoders, the column order (they sort by column id).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ticdc_assets.errors import DecodeError
from ticdc_assets.schema.ddl.mysql_types import has_possible_size
from ticdc_assets.schema.model import Column, Default, Index, Kind, MySqlType, TableName, TableSchema, is_hidden

PRIMARY: Final = "PRIMARY"
_UNSPECIFIED: Final = "unspecified"

_ADVICE: Final = "Check that the topic is written by TiCDC with protocol=simple; the message stays quarantined."
_DISPLAY_WIDTHS: Final = {
    Kind.TINYINT: (4, 3),
    Kind.SMALLINT: (6, 5),
    Kind.MEDIUMINT: (9, 8),
    Kind.INT: (11, 10),
    Kind.BIGINT: (20, 20),
}
"""The length that TiDB sends for an integer declared without one: signed, unsigned."""
_WITH_LENGTH: Final = {Kind.CHAR, Kind.VARCHAR, Kind.BINARY, Kind.VARBINARY, Kind.BIT, Kind.VECTOR}
_WHOLE_SECONDS: Final = {Kind.DATETIME: 19, Kind.TIMESTAMP: 19, Kind.TIME: 10}
"""The text length without a fraction; Avro sends the fraction only as additional length."""
_WITH_CHARSET: Final = {
    *(Kind.CHAR, Kind.VARCHAR, Kind.TINYTEXT, Kind.TEXT, Kind.MEDIUMTEXT, Kind.LONGTEXT, Kind.ENUM, Kind.SET),
}
_BINARY: Final = {
    *(Kind.BINARY, Kind.VARBINARY, Kind.TINYBLOB, Kind.BLOB, Kind.MEDIUMBLOB, Kind.LONGBLOB),
}
_UNSIGNED: Final = {*_DISPLAY_WIDTHS, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL}
_ALIASES: Final = {"BOOL": Kind.TINYINT, "BOOLEAN": Kind.TINYINT, "INTEGER": Kind.INT}


def table_schema(declared: Mapping[str, Any], where: str) -> TableSchema:
    """The schema in a tableSchema or preTableSchema object. Raises an error if the object is malformed."""
    columns = tuple(_column(one, where) for one in _list(declared, "columns", where) if not _is_hidden(one))
    indexes = tuple(_index(one, where) for one in _list(declared, "indexes", where))
    return without_made_up_key(TableSchema(*table_name(declared, where), columns, indexes))


def table_name(declared: Mapping[str, Any], where: str) -> TableName:
    """Database and name in a tableSchema object. Raises an error if the object is malformed."""
    # The member is "schema" in JSON and "database" in Avro.
    return _text(declared, "schema" if "schema" in declared else "database", where), _text(declared, "table", where)


def is_view(declared: Mapping[str, Any]) -> bool:
    """Whether a tableSchema object is that of a view, whose columns have no types."""
    columns = declared.get("columns")
    types = [one.get("dataType") if isinstance(one, dict) else None for one in columns or ()] if columns else []
    return bool(types) and all(isinstance(one, dict) and one.get("mysqlType") == _UNSPECIFIED for one in types)


def without_made_up_key(table: TableSchema) -> TableSchema:
    """The same table without the "primary" index that TiCDC lists for a unique key used as the handle key.

    The index stays if the key is unknown without it.
    """
    if not table.indexes or table.indexes[-1].name != "primary":
        return _with_primary_named(table)
    rest = TableSchema(table.schema, table.name, table.columns, table.indexes[:-1])
    return rest if rest.key == table.key else _with_primary_named(table)


def _with_primary_named(table: TableSchema) -> TableSchema:
    indexes = tuple(Index(PRIMARY, i.columns, True, True) if i.primary else i for i in table.indexes)
    return TableSchema(table.schema, table.name, table.columns, indexes)


def _is_hidden(declared: Any) -> bool:
    name = declared.get("name") if isinstance(declared, dict) else None
    return isinstance(name, str) and is_hidden(name)


def _column(declared: Any, where: str) -> Column:
    if not isinstance(declared, dict):
        raise _wrong("a column as an object", declared, where)
    kind_and_rest = declared.get("dataType")
    if not isinstance(kind_and_rest, dict):
        raise _wrong("a dataType as an object", kind_and_rest, where)
    type_ = _type(kind_and_rest, where)
    nullable = declared.get("nullable")
    if not isinstance(nullable, bool):
        raise _wrong("nullable as true or false", nullable, where)
    name = _text(declared, "name", where)
    default = _default(declared.get("default"), type_, where)
    return Column(name, type_, nullable, default)


def _type(declared: dict[str, Any], where: str) -> MySqlType:
    kind = _kind(_text(declared, "mysqlType", where), where)
    length = _size(declared, "length", where)
    scale = _size(declared, "decimal", where)
    unsigned = declared.get("unsigned") is True
    shown, digits = _length(kind, length, scale, unsigned)
    charset = declared.get("charset")
    type_ = MySqlType(
        kind,
        shown,
        digits,
        unsigned and kind in _UNSIGNED,
        _elements(declared.get("elements"), kind, where),
        charset if kind in _WITH_CHARSET and isinstance(charset, str) and charset else None,
    )
    if not has_possible_size(type_):
        raise _wrong(f"a length and decimal that {kind} can have", length, where)
    return type_


def _kind(name: str, where: str) -> Kind:
    upper = name.upper().partition("(")[0].partition("<")[0].strip()
    # Newer encoders may join the words of the full type: "int unsigned".
    word = upper.partition(" ")[0]
    if word in _ALIASES:
        return _ALIASES[word]
    try:
        return Kind(word)
    except ValueError:
        raise _wrong("a MySQL type that TiDB has", None, where) from None


def _length(kind: Kind, length: int | None, scale: int | None, unsigned: bool) -> tuple[int | None, int | None]:
    if kind in _DISPLAY_WIDTHS:
        return (None if length == _DISPLAY_WIDTHS[kind][unsigned] else length), None
    if kind is Kind.DECIMAL:
        return length or 10, scale or 0
    if kind in _WHOLE_SECONDS:
        fraction = scale or max(0, (length or 0) - _WHOLE_SECONDS[kind] - 1)
        return (fraction or None), None
    return (length if kind in _WITH_LENGTH else None), None


def _elements(declared: Any, kind: Kind, where: str) -> tuple[str, ...] | None:
    if kind not in (Kind.ENUM, Kind.SET) or declared is None:
        return None
    if not isinstance(declared, list) or not all(isinstance(one, str) for one in declared):
        raise _wrong("elements as a list of texts", declared, where)
    return tuple(declared)


def _default(declared: Any, type_: MySqlType, where: str) -> Default | None:
    if declared is None:
        return None
    if type_.kind is Kind.BIT:
        return Default(_bit_default(declared, where))
    if isinstance(declared, bytes):
        declared = _utf8(declared, where) if type_.kind not in _BINARY else declared
    if isinstance(declared, bytes):
        return Default(declared)
    if not isinstance(declared, str):
        raise _wrong("a default as text", declared, where)
    if type_.kind in _BINARY:
        return Default(declared.encode())
    if type_.kind in (Kind.DATETIME, Kind.TIMESTAMP) and declared.upper().startswith("CURRENT_TIMESTAMP"):
        return Default(expression=declared)
    return Default(declared)


def _bit_default(declared: Any, where: str) -> str:
    # JSON writes a number, Avro the bits as bytes where a text should be.
    if isinstance(declared, bytes) and len(declared) <= 8:
        return str(int.from_bytes(declared, "big"))
    if type(declared) is int or (isinstance(declared, str) and declared.isascii() and declared.isdigit()):
        return str(declared)
    raise _wrong("a BIT default as a number", declared, where)


def _utf8(declared: bytes, where: str) -> str:
    try:
        return declared.decode()
    except UnicodeDecodeError:
        raise _wrong("a default in UTF-8", declared, where) from None


def _index(declared: Any, where: str) -> Index:
    if not isinstance(declared, dict):
        raise _wrong("an index as an object", declared, where)
    # A Go nil slice is null in JSON.
    columns = declared.get("columns") or []
    if not isinstance(columns, list) or not all(isinstance(one, str) for one in columns):
        raise _wrong("index columns as a list of names", columns, where)
    primary = declared.get("primary") is True
    return Index(_text(declared, "name", where), tuple(columns), declared.get("unique") is True or primary, primary)


def _list(declared: Mapping[str, Any], name: str, where: str) -> list[Any]:
    found = declared.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise _wrong(f"{name} as a list", found, where)
    return found


def _text(declared: Mapping[str, Any], name: str, where: str) -> str:
    found = declared.get(name)
    if not isinstance(found, str):
        raise _wrong(f"{name} as text", found, where)
    return found


def _size(declared: Mapping[str, Any], name: str, where: str) -> int | None:
    found = declared.get(name)
    if found is None or (type(found) is int and found < 0):
        return None
    if type(found) is not int:
        raise _wrong(f"{name} as a number", found, where)
    return found


def _wrong(expected: str, found: Any, where: str) -> DecodeError:
    return DecodeError(where, f"in a tableSchema {expected}", f"a value of type {type(found).__name__}", _ADVICE)
