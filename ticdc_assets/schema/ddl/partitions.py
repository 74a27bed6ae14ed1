"""PARTITION BY and partition definitions.

Bounds are kept as the SQL text of literals, so that a string and an expression stay apart: 100, '2024-01-01',
TO_DAYS('2024-01-01'); None is MAXVALUE in a LESS THAN, NULL in a VALUES IN; DEFAULT is a list's default partition.
"""

from __future__ import annotations

from typing import Final

from ticdc_assets.schema.ddl.token_cursor import TokenCursor
from ticdc_assets.schema.ddl.tokens import TokenKind
from ticdc_assets.schema.model import PartitionDefinition, Partitioning

DEFAULT_PARTITION: Final = "DEFAULT"


def read_partitioning(cursor: TokenCursor) -> Partitioning | None:
    """Read PARTITION BY and all that belongs to it; None for SYSTEM_TIME, for which TiDB makes no partitions."""
    cursor.expect("PARTITION", "BY")
    if cursor.accept("SYSTEM_TIME"):
        _skip_system_time(cursor)
        return None
    method, columns, expression = _read_method(cursor)
    by_commit_range = _skip_interval(cursor)
    count = _read_count(cursor, "PARTITIONS")
    if cursor.accept("SUBPARTITION", "BY"):
        _read_method(cursor)
        _read_count(cursor, "SUBPARTITIONS")
    # An interval's partitions are made by TiDB: they are not in the text, so none is taken for known.
    partitions = read_partitions(cursor) if cursor.at_symbol("(") and not by_commit_range else ()
    if cursor.accept("UPDATE", "INDEXES"):
        cursor.parenthesised()
    hashed = method in ("HASH", "KEY")
    return Partitioning(method, columns, expression, partitions, (count or len(partitions) or 1) if hashed else 0)


def _read_method(cursor: TokenCursor) -> tuple[str, tuple[str, ...], str | None]:
    cursor.accept("LINEAR")
    method = cursor.accept_any("RANGE", "LIST", "HASH", "KEY")
    if not method:
        raise cursor.fault("RANGE, LIST, HASH or KEY")
    if method == "KEY" and cursor.accept("ALGORITHM"):
        cursor.expect_symbol("=")
        cursor.integer()
    if method == "KEY" or cursor.accept_any("COLUMNS", "FIELDS"):
        return method, _read_columns(cursor), None
    return method, *_read_expression(cursor)


def _read_columns(cursor: TokenCursor) -> tuple[str, ...]:
    if cursor.at_symbol("(") and cursor.peek(1).text == ")":
        cursor.take(), cursor.take()
        return ()
    return cursor.in_parentheses(cursor.column_name)


def _read_expression(cursor: TokenCursor) -> tuple[tuple[str, ...], str | None]:
    start = cursor.position
    text = cursor.parenthesised()
    end, cursor.position = cursor.position, start
    column = _only_column(cursor)
    cursor.position = end
    return ((column,), None) if column is not None else ((), text)


def _only_column(cursor: TokenCursor) -> str | None:
    """The column, if the parentheses, which may be nested, have nothing else."""
    depth = 0
    while cursor.accept_symbol("("):
        depth += 1
    if cursor.peek().kind not in (TokenKind.WORD, TokenKind.QUOTED):
        return None
    name = cursor.column_name()
    return name if cursor.close_parentheses(depth) else None


def _skip_interval(cursor: TokenCursor) -> bool:
    if not cursor.accept("INTERVAL"):
        return False
    cursor.parenthesised()
    while cursor.at_any("FIRST", "LAST", "NULL", "MAXVALUE"):
        if cursor.take().word in ("FIRST", "LAST"):
            cursor.expect("PARTITION", "LESS", "THAN")
            cursor.parenthesised()
        else:
            cursor.expect("PARTITION")
    return True


def _skip_system_time(cursor: TokenCursor) -> None:
    if cursor.accept("INTERVAL"):
        cursor.skip_introducers()
        cursor.take()
        cursor.identifier()
    _read_count(cursor, "LIMIT")
    _read_count(cursor, "PARTITIONS")
    if cursor.at_symbol("("):
        cursor.parenthesised()


def _read_count(cursor: TokenCursor, word: str) -> int:
    return cursor.integer() if cursor.accept(word) else 0


# -- definitions ------------------------------------------------------------------------------------------------------


def read_partitions(cursor: TokenCursor) -> tuple[PartitionDefinition, ...]:
    """Read definitions in parentheses."""
    return cursor.in_parentheses(lambda: _read_partition(cursor))


def _read_partition(cursor: TokenCursor) -> PartitionDefinition:
    cursor.expect("PARTITION")
    name = cursor.identifier()
    less_than: tuple[str | None, ...] = ()
    values_in: tuple[str | None, ...] = ()
    if cursor.accept("VALUES", "LESS", "THAN"):
        less_than = (None,) if cursor.accept("MAXVALUE") else _read_bounds(cursor, "MAXVALUE")
    elif cursor.accept("VALUES", "IN"):
        values_in = tuple(value for row in cursor.in_parentheses(lambda: _read_row(cursor)) for value in row)
    elif cursor.accept("DEFAULT"):
        values_in = (DEFAULT_PARTITION,)
    _skip_partition_options(cursor)
    if cursor.at_symbol("("):
        cursor.parenthesised()  # subpartitions
    return PartitionDefinition(name, less_than, values_in)


def _read_bounds(cursor: TokenCursor, none_word: str) -> tuple[str | None, ...]:
    return cursor.in_parentheses(lambda: _read_bound(cursor, none_word))


def _read_row(cursor: TokenCursor) -> tuple[str | None, ...]:
    """A value of a list, or the values of a row `(1,'a')` of a list over several columns."""
    return _read_bounds(cursor, "NULL") if cursor.at_symbol("(") else (_read_bound(cursor, "NULL"),)


def _read_bound(cursor: TokenCursor, none_word: str) -> str | None:
    if cursor.accept(none_word):
        return None
    cursor.skip_introducers()
    if cursor.peek().kind is TokenKind.STRING:
        return string_literal(cursor.value_string())
    text = cursor.skip_expression().strip()
    if not text:
        raise cursor.fault("a partition's bound")
    return DEFAULT_PARTITION if text.upper() == DEFAULT_PARTITION else text


def string_literal(text: str) -> str:
    """A string as a bound's text has it."""
    return "'" + text.replace("'", "''") + "'"


_OPTIONS: Final = ("ENGINE", "COMMENT", "MAX_ROWS", "MIN_ROWS", "TABLESPACE", "NODEGROUP", "ATTRIBUTES")


def _skip_partition_options(cursor: TokenCursor) -> None:
    while True:
        cursor.accept("STORAGE")
        pair = cursor.accept("DATA", "DIRECTORY") or cursor.accept("INDEX", "DIRECTORY")
        if not (pair or cursor.accept("PLACEMENT", "POLICY") or cursor.accept_any(*_OPTIONS)):
            return
        cursor.accept_symbol("=")
        cursor.take()
