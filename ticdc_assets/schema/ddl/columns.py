"""Definitions of columns, as CREATE TABLE and ALTER TABLE share them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from ticdc_assets.schema.arrow_types import CHARACTER_KINDS
from ticdc_assets.schema.ddl.defaults import WrittenDefault, read_default, typed_default
from ticdc_assets.schema.ddl.indexes import at_index, read_constraint_name, read_index, skip_check, skip_references
from ticdc_assets.schema.ddl.mysql_types import WrittenType, binary_form, read_charset, read_charset_name, read_type
from ticdc_assets.schema.ddl.statements import ColumnDefinition
from ticdc_assets.schema.ddl.token_cursor import TokenCursor
from ticdc_assets.schema.model import Column, Index


@dataclass(slots=True)
class Elements:
    """The elements between the parentheses of a table definition, in their order."""

    columns: list[ColumnDefinition] = field(default_factory=list)
    indexes: list[Index] = field(default_factory=list)


def read_element(cursor: TokenCursor, into: Elements) -> None:
    """Read one column, index or constraint."""
    if at_index(cursor):
        index = read_index(cursor)
        if index is not None:
            into.indexes.append(index)
    else:
        into.columns.append(read_column(cursor))


@dataclass(slots=True)
class _Column:
    """A column while its attributes are read."""

    written: WrittenType
    nullable: bool = True
    default: WrittenDefault | None = None
    virtual: bool = False
    primary: bool = False
    unique: bool = False
    computed: str | None = None
    collation: str | None = None
    comment: str = ""


def read_column(cursor: TokenCursor) -> ColumnDefinition:
    """Read a column's name, type and attributes."""
    name = cursor.column_name()
    written = read_type(cursor)
    growing = _Column(written, collation=written.collation)
    if written.serial:
        growing.nullable, growing.unique, growing.computed = False, True, "AUTO_INCREMENT"
    while (reader := _ATTRIBUTES.get(cursor.peek().word)) is not None:
        reader(cursor, growing)
    return _defined(name, growing)


def _defined(name: str, growing: _Column) -> ColumnDefinition:
    of = growing.written.type
    if growing.collation == "binary" and of.charset is None:
        of = binary_form(of)
    default = None if growing.default is None else typed_default(growing.default, of)
    column = Column(
        name, of, growing.nullable and not growing.primary, default, growing.virtual, comment=growing.comment
    )
    return ColumnDefinition(
        column, growing.primary, growing.unique, growing.computed, growing.collation, growing.default
    )


def _not(cursor: TokenCursor, growing: _Column) -> None:
    cursor.expect("NOT", "NULL")
    growing.nullable = False


def _null(cursor: TokenCursor, growing: _Column) -> None:
    cursor.take()
    growing.nullable = True


def _default(cursor: TokenCursor, growing: _Column) -> None:
    cursor.take()
    growing.default = read_default(cursor)


def _auto_increment(cursor: TokenCursor, growing: _Column) -> None:
    growing.computed = cursor.take().word


def _auto_random(cursor: TokenCursor, growing: _Column) -> None:
    growing.computed = cursor.take().word
    if cursor.at_symbol("("):
        cursor.in_parentheses(cursor.integer)


def _primary(cursor: TokenCursor, growing: _Column) -> None:
    cursor.accept("PRIMARY")
    cursor.expect("KEY")
    growing.primary = True
    skip_index_options_of_column(cursor)


def _unique(cursor: TokenCursor, growing: _Column) -> None:
    cursor.take()
    cursor.accept("KEY")
    growing.unique = True
    skip_index_options_of_column(cursor)


def skip_index_options_of_column(cursor: TokenCursor) -> None:
    """Skip the options that may follow a column's own key."""
    while cursor.accept_any("CLUSTERED", "NONCLUSTERED", "GLOBAL", "LOCAL"):
        pass


def _comment(cursor: TokenCursor, growing: _Column) -> None:
    cursor.take()
    growing.comment = cursor.string()


def _collate(cursor: TokenCursor, growing: _Column) -> None:
    cursor.take()
    growing.collation = read_charset_name(cursor)


def _one_word(cursor: TokenCursor, growing: _Column) -> None:
    cursor.take()
    cursor.accept_symbol("=")
    cursor.take()


def _generated(cursor: TokenCursor, growing: _Column) -> None:
    if cursor.accept("GENERATED"):
        cursor.expect("ALWAYS")
    cursor.expect("AS")
    cursor.parenthesised()
    stored = bool(cursor.accept_any("STORED", "PERSISTENT"))
    if not stored:
        cursor.accept("VIRTUAL")
    growing.virtual, growing.computed = not stored, "STORED" if stored else None


def _references(cursor: TokenCursor, growing: _Column) -> None:
    skip_references(cursor)


def _check(cursor: TokenCursor, growing: _Column) -> None:
    read_constraint_name(cursor)
    skip_check(cursor)


def _on_update(cursor: TokenCursor, growing: _Column) -> None:
    cursor.expect("ON", "UPDATE")
    read_default(cursor)


def _visibility(cursor: TokenCursor, growing: _Column) -> None:
    cursor.take()


def _serial_default(cursor: TokenCursor, growing: _Column) -> None:
    cursor.expect("SERIAL", "DEFAULT", "VALUE")
    growing.nullable, growing.unique, growing.computed = False, True, "AUTO_INCREMENT"


def _srid(cursor: TokenCursor, growing: _Column) -> None:
    cursor.take()
    cursor.integer()


def _late_charset(cursor: TokenCursor, growing: _Column) -> None:
    of = growing.written.type
    if of.kind not in CHARACTER_KINDS:
        raise cursor.fault("the end of the column")
    charset = read_charset(cursor)
    of = binary_form(of) if charset == "binary" else replace(of, charset=charset)
    growing.written = replace(growing.written, type=of)


_ATTRIBUTES: Final[dict[str, Callable[[TokenCursor, _Column], None]]] = {
    "NOT": _not,
    "NULL": _null,
    "DEFAULT": _default,
    "AUTO_INCREMENT": _auto_increment,
    "AUTO_RANDOM": _auto_random,
    "PRIMARY": _primary,
    "KEY": _primary,
    "UNIQUE": _unique,
    "COMMENT": _comment,
    "COLLATE": _collate,
    "CHARACTER": _late_charset,
    "CHARSET": _late_charset,
    "COLUMN_FORMAT": _one_word,
    "STORAGE": _one_word,
    "ENGINE_ATTRIBUTE": _one_word,
    "SECONDARY_ENGINE_ATTRIBUTE": _one_word,
    "GENERATED": _generated,
    "AS": _generated,
    "REFERENCES": _references,
    "CONSTRAINT": _check,
    "CHECK": _check,
    "ON": _on_update,
    "VISIBLE": _visibility,
    "INVISIBLE": _visibility,
    "SERIAL": _serial_default,
    "SRID": _srid,
}
