"""CREATE TABLE: columns, indexes, table options and partitioning."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from ticdc_assets.schema.ddl_columns import Elements, read_element
from ticdc_assets.schema.ddl_partitions import read_partitioning
from ticdc_assets.schema.ddl_statements import ColumnDefinition, CreateTable, TableName
from ticdc_assets.schema.ddl_tokens import Cursor, TokenKind
from ticdc_assets.schema.model import Column, Index, MySqlType
from ticdc_assets.schema.mysql_types import CHARACTER_KINDS, binary_form, read_charset, read_charset_name


def read_create_table(cursor: Cursor, default_schema: str) -> CreateTable:
    """Read what follows CREATE TABLE."""
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    schema, name = cursor.table_name(default_schema)
    like = _read_like(cursor, default_schema)
    if like is not None:
        cursor.skip_all() if cursor.accept("ON", "COMMIT") else cursor.finish()
        return CreateTable(schema, name, like=like, if_not_exists=if_not_exists)
    elements = Elements()
    cursor.in_parentheses(lambda: read_element(cursor, elements))
    options = read_table_options(cursor)
    partitioning = read_partitioning(cursor) if cursor.at("PARTITION", "BY") else None
    read_table_options(cursor)
    cursor.finish("a table option, or the end of the statement (AS SELECT is not read)")
    table = CreateTable(schema, name, partitioning=partitioning, if_not_exists=if_not_exists, charset=options.charset)
    return _assembled(table, elements, options)


def _read_like(cursor: Cursor, default_schema: str) -> TableName | None:
    if cursor.accept("LIKE"):
        return cursor.table_name(default_schema)
    if not (cursor.at_symbol("(") and cursor.peek(1).word == "LIKE"):
        return None
    cursor.take(), cursor.take()
    like = cursor.table_name(default_schema)
    cursor.expect_symbol(")")
    return like


def _assembled(table: CreateTable, elements: Elements, options: TableOptions) -> CreateTable:
    indexes = named_indexes((), [*elements.indexes, *column_indexes(elements.columns)])
    key = {part.lower() for index in indexes if index.primary for part in index.columns}
    columns = tuple(_column(definition, key, options.charset_of_columns) for definition in elements.columns)
    folded = frozenset(
        definition.column.name.lower()
        for definition in elements.columns
        if is_folding(definition.collation or options.collation)
    )
    return replace(table, columns=columns, indexes=indexes, folded=folded)


def _column(definition: ColumnDefinition, key: set[str], charset: str | None) -> Column:
    column = definition.column
    nullable = column.nullable and column.name.lower() not in key
    return replace(column, nullable=nullable, type=in_table_charset(definition, charset))


def in_table_charset(definition: ColumnDefinition, charset: str | None) -> MySqlType:
    """The column's type in a table of that default character set: text in `binary` is binary."""
    of = definition.column.type
    own = of.charset is not None or definition.collation is not None
    return binary_form(of) if charset == "binary" and not own and of.kind in CHARACTER_KINDS else of


def is_folding(collation: str | None) -> bool:
    """Whether a collation takes different text for equal, or orders it otherwise than by code points."""
    return collation is not None and collation != "binary" and not collation.endswith("_bin")


# -- index names ------------------------------------------------------------------------------------------------------


def column_indexes(columns: list[ColumnDefinition]) -> list[Index]:
    """The keys that columns define in their own definitions."""
    keys = [Index("PRIMARY", (c.column.name,), unique=True, primary=True) for c in columns if c.primary]
    return keys + [Index("", (c.column.name,), unique=True) for c in columns if c.unique]


def named_indexes(present: tuple[Index, ...], added: list[Index]) -> tuple[Index, ...]:
    """Both, the added ones with the names that TiDB gives to those without one."""
    taken = {index.name.lower() for index in (*present, *added) if index.name}
    tried: dict[str, int] = {}
    return (*present, *(i if i.name else replace(i, name=_free_name(i, taken, tried)) for i in added))


def _free_name(index: Index, taken: set[str], tried: dict[str, int]) -> str:
    """The first column's name, else that with the first free number from 2 on; never `primary`."""
    has_expression = any(part.startswith("(") for part in index.columns)
    base = "expression_index" if has_expression else index.columns[0].lower()
    number = tried.get(base, 2 if base == "primary" else 1)
    while (name := base if number == 1 else f"{base}_{number}") in taken:
        number += 1
    tried[base] = number
    taken.add(name)
    return name


# -- table options ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options that matter to columns, and how many options there were."""

    charset: str | None = None
    collation: str | None = None
    count: int = 0

    @property
    def charset_of_columns(self) -> str | None:
        return "binary" if self.collation == "binary" else self.charset


_VALUE_OPTIONS: Final = frozenset(
    (
        "ENGINE",
        "AUTO_INCREMENT",
        "AVG_ROW_LENGTH",
        "CHECKSUM",
        "TABLE_CHECKSUM",
        "COMMENT",
        "COMPRESSION",
        "CONNECTION",
        "DELAY_KEY_WRITE",
        "ENCRYPTION",
        "ENGINE_ATTRIBUTE",
        "SECONDARY_ENGINE_ATTRIBUTE",
        "SECONDARY_ENGINE",
        "INSERT_METHOD",
        "KEY_BLOCK_SIZE",
        "MAX_ROWS",
        "MIN_ROWS",
        "PACK_KEYS",
        "PASSWORD",
        "ROW_FORMAT",
        "STATS_AUTO_RECALC",
        "STATS_PERSISTENT",
        "STATS_SAMPLE_PAGES",
        "STATS_BUCKETS",
        "STATS_TOPN",
        "STATS_COL_CHOICE",
        "STATS_COL_LIST",
        "STATS_SAMPLE_RATE",
        "STATS_OPTIONS",
        "TABLESPACE",
        "UNION",
        "SHARD_ROW_ID_BITS",
        "PRE_SPLIT_REGIONS",
        "AUTO_ID_CACHE",
        "AUTO_RANDOM_BASE",
        "TTL_ENABLE",
        "TTL_JOB_INTERVAL",
        "NODEGROUP",
        "AUTOEXTEND_SIZE",
        "AFFINITY",
        "ATTRIBUTES",
    )
)


def read_table_options(cursor: Cursor) -> TableOptions:
    """Read table options, with or without commas between them, as far as they go."""
    options = TableOptions()
    while (read := _read_option(cursor, options)) is not None:
        options = replace(read, count=options.count + 1)
        if cursor.at_symbol(",") and _at_option(cursor, 1):
            cursor.take()
    return options


def _at_option(cursor: Cursor, ahead: int) -> bool:
    word, following = cursor.peek(ahead).word, cursor.peek(ahead + 1).word
    known = word in _VALUE_OPTIONS or word in ("CHARSET", "COLLATE", "TTL", "STORAGE")
    pairs = (("CHARACTER", "SET"), ("CHAR", "SET"), ("DATA", "DIRECTORY"), ("INDEX", "DIRECTORY"))
    more = (("PLACEMENT", "POLICY"), ("FORCE", "AUTO_INCREMENT"), ("FORCE", "AUTO_RANDOM_BASE"), ("ON", "COMMIT"))
    defaulted = word == "DEFAULT" and following in (
        "CHARSET",
        "CHARACTER",
        "CHAR",
        "COLLATE",
        "PLACEMENT",
        "ENCRYPTION",
    )
    return known or defaulted or (word, following) in (*pairs, *more)


def _read_option(cursor: Cursor, options: TableOptions) -> TableOptions | None:
    if not _at_option(cursor, 0):
        return None
    cursor.accept("DEFAULT")
    if cursor.at_any("CHARACTER", "CHAR", "CHARSET"):
        return replace(options, charset=read_charset(cursor))
    if cursor.accept("COLLATE"):
        cursor.accept_symbol("=")
        return replace(options, collation=read_charset_name(cursor))
    if cursor.accept("TTL"):
        _skip_ttl(cursor)
    elif cursor.accept("ON", "COMMIT"):
        cursor.accept_any("DELETE", "PRESERVE")
        cursor.expect("ROWS")
    else:
        _skip_option_name(cursor)
        skip_option_value(cursor)
    return options


def _skip_option_name(cursor: Cursor) -> None:
    first = cursor.take().word
    if first in ("DATA", "INDEX", "PLACEMENT", "FORCE"):
        cursor.take()


def skip_option_value(cursor: Cursor) -> None:
    """Pass `[=] value`."""
    cursor.accept_symbol("=")
    if cursor.at_symbol("("):
        cursor.parenthesised()
        return
    cursor.accept_symbol("-")
    if cursor.done or cursor.peek().kind is TokenKind.SYMBOL:
        raise cursor.fault("a value")
    cursor.take()


def _skip_ttl(cursor: Cursor) -> None:
    cursor.accept_symbol("=")
    cursor.column_name()
    cursor.expect_symbol("+")
    cursor.expect("INTERVAL")
    cursor.take()
    cursor.identifier()
