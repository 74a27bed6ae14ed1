"""Column, index and constraint definitions, as CREATE TABLE and ALTER TABLE share them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from ticdc_assets.schema.arrow_types import CHARACTER_KINDS
from ticdc_assets.schema.ddl.statements import ColumnDefinition
from ticdc_assets.schema.ddl.tokens import TokenCursor, TokenKind
from ticdc_assets.schema.evolution.defaults import WrittenDefault, read_default, typed_default
from ticdc_assets.schema.model import Column, Index
from ticdc_assets.schema.mysql_types import WrittenType, binary_form, read_charset, read_charset_name, read_type

_KEY_WORDS: Final = ("KEY", "INDEX")


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


# -- indexes and constraints ------------------------------------------------------------------------------------------


def at_index(cursor: TokenCursor) -> bool:
    """Whether an index or constraint comes next, not a column. INDEX and KEY are reserved: what stands before them is
    the kind of an index, also of one that is not known here, never the name of a column."""
    is_index = bool(cursor.peek().word) and cursor.peek(1).word in _KEY_WORDS
    reserved = ("PRIMARY", "UNIQUE", "CONSTRAINT", "FOREIGN", "CHECK", "FULLTEXT", "SPATIAL", *_KEY_WORDS)
    return is_index or cursor.at_any(*reserved)


def read_index(cursor: TokenCursor) -> Index | None:
    """Read an index or constraint; None for those that are no index (CHECK, FOREIGN KEY)."""
    constraint = _read_constraint_name(cursor)
    if cursor.accept("PRIMARY", "KEY"):
        columns, _ = read_index_body(cursor, named=True)[1:]
        return Index("PRIMARY", columns, unique=True, primary=True)
    if cursor.at_any("CHECK", "FOREIGN"):
        _skip_check(cursor) if cursor.at("CHECK") else _skip_foreign_key(cursor)
        return None
    unique = cursor.accept("UNIQUE")
    special = not unique and _accept_kind(cursor)
    if not cursor.accept_any(*_KEY_WORDS) and not (unique or special):
        raise cursor.fault("an index or constraint")
    name, columns, partial = read_index_body(cursor, named=True)
    if not unique:
        cursor.skip_expression()  # unknown options: no row and no key depends on them
    return Index(name or constraint, columns, unique=unique and not partial)


def _accept_kind(cursor: TokenCursor) -> bool:
    """Take the kind of an index; INDEX or KEY must follow those that are no reserved words."""
    if cursor.at_any(*_KEY_WORDS) or not (cursor.peek(1).word in _KEY_WORDS or cursor.at_any("FULLTEXT", "SPATIAL")):
        return False
    return bool(cursor.take().word)


def _read_constraint_name(cursor: TokenCursor) -> str:
    if not cursor.accept("CONSTRAINT") or cursor.at_any("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
        return ""
    return cursor.identifier()


def read_index_body(cursor: TokenCursor, named: bool) -> tuple[str, tuple[str, ...], bool]:
    """Read `[name] [USING x] (parts) [options]`: its name, its parts, and whether a WHERE makes it partial."""
    cursor.accept("IF", "NOT", "EXISTS")
    has_name = named and not cursor.at_symbol("(") and not cursor.at_any("USING", "TYPE")
    name = cursor.identifier() if has_name else ""
    if cursor.accept_any("USING", "TYPE"):
        cursor.identifier()
    parts = cursor.in_parentheses(lambda: _read_index_part(cursor))
    return name, parts, skip_index_options(cursor)


def _read_index_part(cursor: TokenCursor) -> str:
    if cursor.at_symbol("("):
        part = f"({cursor.parenthesised()})"
    elif (
        cursor.peek().kind is TokenKind.WORD
        and cursor.peek(1).text == "("
        and cursor.peek(2).kind is not TokenKind.NUMBER
    ):
        part = f"({cursor.skip_expression()})"  # a vector index: VEC_COSINE_DISTANCE(`v`)
    else:
        part = cursor.column_name()
        if cursor.at_symbol("("):
            cursor.in_parentheses(cursor.integer)
    cursor.accept_any("ASC", "DESC")
    return part


def skip_index_options(cursor: TokenCursor) -> bool:
    """Skip an index's options. Returns whether the index is partial: then equal keys may occur outside of it."""
    partial = False
    while cursor.peek().word in _INDEX_OPTIONS or cursor.at("WITH", "PARSER") or cursor.at("WHERE"):
        option = cursor.take().word
        if option == "WHERE":
            cursor.skip_expression()
            partial = True
        elif option == "WITH":
            cursor.expect("PARSER")
            cursor.identifier()
        else:
            _INDEX_OPTIONS[option](cursor)
    return partial


def _no_value(cursor: TokenCursor) -> None:
    """The option is its keyword."""


def _value(cursor: TokenCursor) -> None:
    cursor.accept_symbol("=")
    if cursor.at_symbol("("):
        cursor.parenthesised()
    else:
        cursor.take()


_INDEX_OPTIONS: Final[dict[str, Callable[[TokenCursor], None]]] = {
    **dict.fromkeys(("VISIBLE", "INVISIBLE", "GLOBAL", "LOCAL", "CLUSTERED", "NONCLUSTERED"), _no_value),
    "ADD_COLUMNAR_REPLICA_ON_DEMAND": _no_value,
    **dict.fromkeys(("USING", "TYPE", "KEY_BLOCK_SIZE", "COMMENT", "PRE_SPLIT_REGIONS"), _value),
    **dict.fromkeys(("ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE", "ALGORITHM", "LOCK"), _value),
}


def _skip_check(cursor: TokenCursor) -> None:
    cursor.expect("CHECK")
    cursor.parenthesised()
    cursor.accept("NOT", "ENFORCED") or cursor.accept("ENFORCED")


def _skip_foreign_key(cursor: TokenCursor) -> None:
    cursor.expect("FOREIGN", "KEY")
    cursor.accept("IF", "NOT", "EXISTS")
    if not cursor.at_symbol("("):
        cursor.identifier()
    cursor.parenthesised()
    _skip_references(cursor)


def _skip_references(cursor: TokenCursor) -> None:
    cursor.expect("REFERENCES")
    cursor.table_name("")
    if cursor.at_symbol("("):
        cursor.parenthesised()
    if cursor.accept("MATCH"):
        cursor.identifier()
    while cursor.at("ON", "DELETE") or cursor.at("ON", "UPDATE"):
        cursor.take(), cursor.take()
        if not (cursor.accept_any("RESTRICT", "CASCADE") or cursor.accept("NO", "ACTION")):
            cursor.expect("SET")
            if not cursor.accept("DEFAULT"):
                cursor.expect("NULL")


# -- columns ----------------------------------------------------------------------------------------------------------


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
    _skip_references(cursor)


def _check(cursor: TokenCursor, growing: _Column) -> None:
    _read_constraint_name(cursor)
    _skip_check(cursor)


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
