"""Definitions of indexes and constraints, as CREATE TABLE and ALTER TABLE share them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ticdc_assets.schema.ddl.token_cursor import TokenCursor
from ticdc_assets.schema.ddl.tokens import TokenKind
from ticdc_assets.schema.model import Index

_KEY_WORDS: Final = ("KEY", "INDEX")


def at_index(cursor: TokenCursor) -> bool:
    """Whether an index or constraint comes next, not a column. INDEX and KEY are reserved: what stands before them is
    the kind of an index, also of one that is not known here, never the name of a column."""
    is_index = bool(cursor.peek().word) and cursor.peek(1).word in _KEY_WORDS
    reserved = ("PRIMARY", "UNIQUE", "CONSTRAINT", "FOREIGN", "CHECK", "FULLTEXT", "SPATIAL", *_KEY_WORDS)
    return is_index or cursor.at_any(*reserved)


def read_index(cursor: TokenCursor) -> Index | None:
    """Read an index or constraint; None for those that are no index (CHECK, FOREIGN KEY)."""
    constraint = read_constraint_name(cursor)
    if cursor.accept("PRIMARY", "KEY"):
        columns, _ = read_index_body(cursor, named=True)[1:]
        return Index("PRIMARY", columns, unique=True, primary=True)
    if cursor.at_any("CHECK", "FOREIGN"):
        skip_check(cursor) if cursor.at("CHECK") else _skip_foreign_key(cursor)
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


def read_constraint_name(cursor: TokenCursor) -> str:
    """Read CONSTRAINT and its name; "" where there is none."""
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


def skip_check(cursor: TokenCursor) -> None:
    """Skip a CHECK constraint, which changes no row."""
    cursor.expect("CHECK")
    cursor.parenthesised()
    cursor.accept("NOT", "ENFORCED") or cursor.accept("ENFORCED")


def _skip_foreign_key(cursor: TokenCursor) -> None:
    cursor.expect("FOREIGN", "KEY")
    cursor.accept("IF", "NOT", "EXISTS")
    if not cursor.at_symbol("("):
        cursor.identifier()
    cursor.parenthesised()
    skip_references(cursor)


def skip_references(cursor: TokenCursor) -> None:
    """Skip the REFERENCES of a foreign key."""
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
