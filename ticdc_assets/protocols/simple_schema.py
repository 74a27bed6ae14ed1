"""A Simple-protocol `tableSchema` object becomes a TableSchema, whether it came as JSON or as Avro.

Promised: names and key are the stream's own; a type equals what the DDL text would give wherever the stream says as
much; hidden columns of indexes over expressions are named by their index alone. Not told by the stream, so not here:
which columns are virtual (they are listed, but no row holds them), partitioning, and, from older encoders, the column
order (theirs is by column id).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ticdc_assets.errors import DecodeError
from ticdc_assets.schema.model import Column, Default, Index, Kind, MySqlType, TableSchema, is_hidden
from ticdc_assets.schema.mysql_types import is_possible

PRIMARY: Final = "PRIMARY"

_TODO: Final = "Check that the topic is written by TiCDC with protocol=simple; the message stays quarantined."
_DISPLAY_WIDTHS: Final = {
    Kind.TINYINT: (4, 3),
    Kind.SMALLINT: (6, 5),
    Kind.MEDIUMINT: (9, 8),
    Kind.INT: (11, 10),
    Kind.BIGINT: (20, 20),
}
"""What TiDB writes as the length of an integer that was declared without one: signed, unsigned."""
_WITH_LENGTH: Final = {Kind.CHAR, Kind.VARCHAR, Kind.BINARY, Kind.VARBINARY, Kind.BIT, Kind.VECTOR}
_WHOLE_SECONDS: Final = {Kind.DATETIME: 19, Kind.TIMESTAMP: 19, Kind.TIME: 10}
"""The text length without a fraction; Avro carries the fraction only as the characters beyond it."""
_WITH_CHARSET: Final = {
    *(Kind.CHAR, Kind.VARCHAR, Kind.TINYTEXT, Kind.TEXT, Kind.MEDIUMTEXT, Kind.LONGTEXT, Kind.ENUM, Kind.SET),
}
_BINARY: Final = {
    *(Kind.BINARY, Kind.VARBINARY, Kind.TINYBLOB, Kind.BLOB, Kind.MEDIUMBLOB, Kind.LONGBLOB),
}
_UNSIGNED: Final = {*_DISPLAY_WIDTHS, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL}
_ALIASES: Final = {"BOOL": Kind.TINYINT, "BOOLEAN": Kind.TINYINT, "INTEGER": Kind.INT}


def table_schema(told: Mapping[str, Any], where: str) -> TableSchema:
    """The schema that one tableSchema or preTableSchema object tells."""
    columns = tuple(_column(one, where) for one in _list(told, "columns", where) if not _is_hidden(one))
    indexes = tuple(_index(one, where) for one in _list(told, "indexes", where))
    # JSON says "schema", Avro says "database".
    schema = _text(told, "schema" if "schema" in told else "database", where)
    return without_made_up_key(TableSchema(schema, _text(told, "table", where), columns, indexes))


def without_made_up_key(table: TableSchema) -> TableSchema:
    """The same table without the "primary" that TiCDC lists for a unique key that serves as the handle.

    It stays where the key could not be known without it.
    """
    if not table.indexes or table.indexes[-1].name != "primary":
        return _with_primary_named(table)
    rest = TableSchema(table.schema, table.name, table.columns, table.indexes[:-1])
    return rest if rest.key == table.key else _with_primary_named(table)


def _with_primary_named(table: TableSchema) -> TableSchema:
    indexes = tuple(Index(PRIMARY, i.columns, True, True) if i.primary else i for i in table.indexes)
    return TableSchema(table.schema, table.name, table.columns, indexes)


def _is_hidden(told: Any) -> bool:
    name = told.get("name") if isinstance(told, dict) else None
    return isinstance(name, str) and is_hidden(name)


def _column(told: Any, where: str) -> Column:
    if not isinstance(told, dict):
        raise _wrong("a column as an object", told, where)
    kind_and_rest = told.get("dataType")
    if not isinstance(kind_and_rest, dict):
        raise _wrong("a dataType as an object", kind_and_rest, where)
    type_ = _type(kind_and_rest, where)
    nullable = told.get("nullable")
    if not isinstance(nullable, bool):
        raise _wrong("nullable as true or false", nullable, where)
    name = _text(told, "name", where)
    default = _default(told.get("default"), type_, where)
    return Column(name, type_, nullable, default)


def _type(told: dict[str, Any], where: str) -> MySqlType:
    kind = _kind(_text(told, "mysqlType", where), where)
    length = _size(told, "length", where)
    scale = _size(told, "decimal", where)
    unsigned = told.get("unsigned") is True
    shown, digits = _length(kind, length, scale, unsigned)
    charset = told.get("charset")
    type_ = MySqlType(
        kind,
        shown,
        digits,
        unsigned and kind in _UNSIGNED,
        _elements(told.get("elements"), kind, where),
        charset if kind in _WITH_CHARSET and isinstance(charset, str) and charset else None,
    )
    if not is_possible(type_):
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


def _elements(told: Any, kind: Kind, where: str) -> tuple[str, ...] | None:
    if kind not in (Kind.ENUM, Kind.SET) or told is None:
        return None
    if not isinstance(told, list) or not all(isinstance(one, str) for one in told):
        raise _wrong("elements as a list of texts", told, where)
    return tuple(told)


def _default(told: Any, type_: MySqlType, where: str) -> Default | None:
    if told is None:
        return None
    if type_.kind is Kind.BIT:
        return Default(_bit_default(told, where))
    if isinstance(told, bytes):
        told = _utf8(told, where) if type_.kind not in _BINARY else told
    if isinstance(told, bytes):
        return Default(told)
    if not isinstance(told, str):
        raise _wrong("a default as text", told, where)
    if type_.kind in _BINARY:
        return Default(told.encode())
    if type_.kind in (Kind.DATETIME, Kind.TIMESTAMP) and told.upper().startswith("CURRENT_TIMESTAMP"):
        return Default(expression=told)
    return Default(told)


def _bit_default(told: Any, where: str) -> str:
    # JSON writes a number, Avro the bits as bytes where a text should be.
    if isinstance(told, bytes) and len(told) <= 8:
        return str(int.from_bytes(told, "big"))
    if type(told) is int or (isinstance(told, str) and told.isascii() and told.isdigit()):
        return str(told)
    raise _wrong("a BIT default as a number", told, where)


def _utf8(told: bytes, where: str) -> str:
    try:
        return told.decode()
    except UnicodeDecodeError:
        raise _wrong("a default in UTF-8", told, where) from None


def _index(told: Any, where: str) -> Index:
    if not isinstance(told, dict):
        raise _wrong("an index as an object", told, where)
    # A Go nil slice is null in JSON.
    columns = told.get("columns") or []
    if not isinstance(columns, list) or not all(isinstance(one, str) for one in columns):
        raise _wrong("index columns as a list of names", columns, where)
    primary = told.get("primary") is True
    return Index(_text(told, "name", where), tuple(columns), told.get("unique") is True or primary, primary)


def _list(told: Mapping[str, Any], name: str, where: str) -> list[Any]:
    found = told.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise _wrong(f"{name} as a list", found, where)
    return found


def _text(told: Mapping[str, Any], name: str, where: str) -> str:
    found = told.get(name)
    if not isinstance(found, str):
        raise _wrong(f"{name} as text", found, where)
    return found


def _size(told: Mapping[str, Any], name: str, where: str) -> int | None:
    found = told.get(name)
    if found is None or (type(found) is int and found < 0):
        return None
    if type(found) is not int:
        raise _wrong(f"{name} as a number", found, where)
    return found


def _wrong(expected: str, found: Any, where: str) -> DecodeError:
    return DecodeError(where, f"in a tableSchema {expected}", f"a value of type {type(found).__name__}", _TODO)
