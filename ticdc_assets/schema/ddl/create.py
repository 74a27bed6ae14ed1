"""CREATE TABLE: columns, indexes, table options and partitioning."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from ticdc_assets.names.folding import fold
from ticdc_assets.schema.ddl.columns import Elements, read_element
from ticdc_assets.schema.ddl.defaults import typed_default
from ticdc_assets.schema.ddl.mysql_types import binary_form, read_charset, read_charset_name, sized_text
from ticdc_assets.schema.ddl.partitions import read_partitioning
from ticdc_assets.schema.ddl.statements import ColumnDefinition, CreateTable, TableName
from ticdc_assets.schema.ddl.token_cursor import TokenCursor
from ticdc_assets.schema.ddl.tokens import TokenKind
from ticdc_assets.schema.model import UNNAMED, Collation, Column, Index


def read_create_table(cursor: TokenCursor, default_schema: str) -> CreateTable:
    """Read what follows CREATE TABLE."""
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    schema, name = cursor.table_name(default_schema)
    like = _read_like(cursor, default_schema)
    if like is not None:
        cursor.skip_all() if cursor.accept("ON", "COMMIT") else cursor.finish()
        return CreateTable(schema, name, like=like, if_not_exists=if_not_exists)
    elements = Elements()
    cursor.in_parentheses(lambda: read_element(cursor, elements))
    options, unknown = _read_all_options(cursor, NO_OPTIONS)
    partitioning = read_partitioning(cursor) if cursor.at("PARTITION", "BY") else None
    options, more = _read_all_options(cursor, options)
    cursor.accept("START", "TRANSACTION")  # the form of CREATE TABLE ... SELECT in MySQL's binlog; its rows follow
    cursor.finish("a table option, or the end of the statement (AS SELECT is not read)")
    indexes = named_indexes((), [*elements.indexes, *column_indexes(elements.columns)])
    defined = (tuple(elements.columns), indexes, partitioning)
    return CreateTable(
        schema,
        name,
        *defined,
        if_not_exists=if_not_exists,
        collation=options.collation,
        comment=options.comment or "",
        unknown_options=(*unknown, *more),
    )


def _read_like(cursor: TokenCursor, default_schema: str) -> TableName | None:
    if cursor.accept("LIKE"):
        return cursor.table_name(default_schema)
    if not (cursor.at_symbol("(") and cursor.peek(1).word == "LIKE"):
        return None
    cursor.take(), cursor.take()
    like = cursor.table_name(default_schema)
    cursor.expect_symbol(")")
    return like


def table_columns(statement: CreateTable, collation: Collation) -> tuple[Column, ...]:
    """The columns of a new table of that default collation; those of the primary key are not nullable."""
    key = {fold(part) for index in statement.indexes if index.primary for part in index.columns}
    columns = [in_table(definition, collation) for definition in statement.columns]
    return tuple(replace(c, nullable=c.nullable and fold(c.name) not in key) for c in columns)


def in_table(definition: ColumnDefinition, collation: Collation | None) -> Column:
    """The column in a table of that default collation (None: not known), which applies to text without a collation of
    its own. Text in `binary` becomes binary, and TEXT(n) the type that holds n characters."""
    column = definition.column
    text = Collation(column.type.charset, definition.collation).within(collation)
    charset = text.charset_of_text if text else None
    of = sized_text(binary_form(column.type) if charset == "binary" else column.type, charset)
    default = None if definition.default is None else typed_default(definition.default, of)
    return replace(column, type=of, default=default, text_order=text.order if text else None)


# -- index names ------------------------------------------------------------------------------------------------------


def column_indexes(columns: list[ColumnDefinition]) -> list[Index]:
    """The keys that columns define in their own definitions."""
    keys = [Index("PRIMARY", (c.column.name,), unique=True, primary=True) for c in columns if c.primary]
    return keys + [Index("", (c.column.name,), unique=True) for c in columns if c.unique]


def named_indexes(present: tuple[Index, ...], added: list[Index]) -> tuple[Index, ...]:
    """All indexes; added ones without a name get the name that TiDB gives them."""
    taken = {fold(index.name) for index in (*present, *added) if index.name}
    tried: dict[str, int] = {}
    return (*present, *(i if i.name else replace(i, name=_free_name(i, taken, tried)) for i in added))


def _free_name(index: Index, taken: set[str], tried: dict[str, int]) -> str:
    """The first column's name, else that with the first free number from 2 on; never `primary`."""
    has_expression = any(part.startswith("(") for part in index.columns)
    base = "expression_index" if has_expression else fold(index.columns[0])
    number = tried.get(base, 2 if base == "primary" else 1)
    while (name := base if number == 1 else f"{base}_{number}") in taken:
        number += 1
    tried[base] = number
    taken.add(name)
    return name


# -- table options ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options that matter to columns, the comment (None without one), and whether there were any options."""

    collation: Collation = UNNAMED
    comment: str | None = None
    are_written: bool = False


NO_OPTIONS: Final = TableOptions()
# What no option contains: these words bring rows, columns or partitions, or the collation of columns.
_NO_OPTIONS: Final = (
    *("AS", "SELECT", "TABLE", "VALUES", "WITH", "LIKE", "IGNORE", "REPLACE", "PERIOD", "VERSIONING", "START"),
    *("PARTITION", "PARTITIONS", "SUBPARTITION", "CHARSET", "CHARACTER", "COLLATE", "SET"),
)

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
        "IETF_QUOTES",
        "PAGE_CHECKSUM",
        "PAGE_COMPRESSED",
        "PAGE_COMPRESSION_LEVEL",
        "SEQUENCE",
        "TRANSACTIONAL",
    )
)


def _read_all_options(cursor: TokenCursor, options: TableOptions) -> tuple[TableOptions, list[str]]:
    """Read the options behind the columns, and the names of those that are not known. Raises SchemaError at words that
    may bring rows, columns or partitions."""
    unknown: list[str] = []
    options = read_table_options(cursor, options)
    while cursor.peek().word and not (cursor.at("PARTITION", "BY") or cursor.at("START", "TRANSACTION")):
        unknown.append(cursor.peek().word)
        _skip_unknown_option(cursor)
        options = read_table_options(cursor, options)
    return options, unknown


def _skip_unknown_option(cursor: TokenCursor) -> None:
    while not (cursor.done or cursor.at("PARTITION", "BY")):
        if cursor.at_any(*_NO_OPTIONS):
            raise cursor.fault("a table option, or the end of the statement (AS SELECT is not read)")
        cursor.take()
        if cursor.accept_symbol(",") or _at_option(cursor, 0):
            return


def read_table_options(cursor: TokenCursor, options: TableOptions = NO_OPTIONS) -> TableOptions:
    """Read table options, with or without commas between them, as far as they go."""
    while (read := _read_option(cursor, options)) is not None:
        options = replace(read, are_written=True)
        if cursor.at_symbol(",") and _at_option(cursor, 1):
            cursor.take()
    return options


def _at_option(cursor: TokenCursor, ahead: int) -> bool:
    word, following = cursor.peek(ahead).word, cursor.peek(ahead + 1).word
    known = word in _VALUE_OPTIONS or word in ("CHARSET", "COLLATE", "TTL", "STORAGE")
    pairs = (("CHARACTER", "SET"), ("CHAR", "SET"), ("DATA", "DIRECTORY"), ("INDEX", "DIRECTORY"))
    more = (("PLACEMENT", "POLICY"), ("FORCE", "AUTO_INCREMENT"), ("FORCE", "AUTO_RANDOM_BASE"), ("ON", "COMMIT"))
    split = tuple(("SPLIT", of) for of in ("PRIMARY", "INDEX", "BETWEEN", "BY"))
    defaulted = word == "DEFAULT" and following in (
        "CHARSET",
        "CHARACTER",
        "CHAR",
        "COLLATE",
        "PLACEMENT",
        "ENCRYPTION",
    )
    return known or defaulted or (word, following) in (*pairs, *more, *split)


def _read_option(cursor: TokenCursor, options: TableOptions) -> TableOptions | None:
    if not _at_option(cursor, 0):
        return None
    cursor.accept("DEFAULT")
    if cursor.at_any("CHARACTER", "CHAR", "CHARSET"):
        return _with_collation(options, charset=read_charset(cursor))
    if cursor.accept("COLLATE"):
        cursor.accept_symbol("=")
        return _with_collation(options, name=read_charset_name(cursor))
    if cursor.accept("COMMENT"):
        cursor.accept_symbol("=")
        return replace(options, comment=cursor.string())
    if cursor.accept("TTL"):
        _skip_ttl(cursor)
    elif cursor.accept("SPLIT"):
        _skip_split(cursor)
    elif cursor.accept("ON", "COMMIT"):
        cursor.accept_any("DELETE", "PRESERVE")
        cursor.expect("ROWS")
    else:
        _skip_option_name(cursor)
        skip_option_value(cursor)
    return options


def _with_collation(options: TableOptions, **named: str) -> TableOptions:
    return replace(options, collation=replace(options.collation, **named))


def _skip_option_name(cursor: TokenCursor) -> None:
    first = cursor.take().word
    if first in ("DATA", "INDEX", "PLACEMENT", "FORCE"):
        cursor.take()


def skip_option_value(cursor: TokenCursor) -> None:
    """Skip `[=] value`."""
    cursor.accept_symbol("=")
    if cursor.at_symbol("("):
        cursor.parenthesised()
        return
    cursor.accept_symbol("-")
    if cursor.done or cursor.peek().kind is TokenKind.SYMBOL:
        raise cursor.fault("a value")
    cursor.take()


def _skip_ttl(cursor: TokenCursor) -> None:
    cursor.accept_symbol("=")
    cursor.column_name()
    cursor.expect_symbol("+")
    cursor.expect("INTERVAL")
    cursor.skip_introducers()
    cursor.take()
    while cursor.peek().kind is TokenKind.STRING:
        cursor.take()  # strings beside each other are one
    cursor.identifier()


def _skip_split(cursor: TokenCursor) -> None:
    """Skip where the table, its primary key or an index is split into regions."""
    if cursor.accept("INDEX"):
        cursor.identifier()
    else:
        cursor.accept("PRIMARY", "KEY")
    if cursor.accept("BY"):
        cursor.parenthesised()
        while cursor.at_symbol(",") and cursor.peek(1).text == "(":
            cursor.take(), cursor.parenthesised()
        return
    cursor.expect("BETWEEN")
    cursor.parenthesised()
    cursor.expect("AND")
    cursor.parenthesised()
    cursor.expect("REGIONS")
    cursor.integer()
