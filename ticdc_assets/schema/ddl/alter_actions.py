"""ALTER TABLE: its actions, in the statement's order. An action that is not known is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ticdc_assets.names.folding import fold
from ticdc_assets.schema.ddl import statements as ddl
from ticdc_assets.schema.ddl.columns import Elements, read_column, read_element
from ticdc_assets.schema.ddl.create import TableOptions, column_indexes, read_table_options, skip_option_value
from ticdc_assets.schema.ddl.defaults import read_default
from ticdc_assets.schema.ddl.indexes import at_index
from ticdc_assets.schema.ddl.mysql_types import read_charset, read_charset_name
from ticdc_assets.schema.ddl.partitions import read_partitioning, read_partitions
from ticdc_assets.schema.ddl.statements import (
    Action,
    NoEffect,
)
from ticdc_assets.schema.ddl.token_cursor import TokenCursor
from ticdc_assets.schema.model import UNNAMED, Collation, Index

ActionReader = Callable[[TokenCursor, str], list[Action]]
"""Reads what follows an action's first word; the second argument is the schema of unqualified names."""


def skipped(cursor: TokenCursor, reason: str) -> list[Action]:
    """Skip one action that changes no column, key or row."""
    while cursor.skip_expression() and cursor.at_symbol(")"):
        cursor.take()
    return [NoEffect(reason)]


def _set(cursor: TokenCursor, schema: str) -> list[Action]:
    cursor.accept("HYPO")
    cursor.expect("TIFLASH", "REPLICA")
    cursor.integer()
    if cursor.accept("LOCATION", "LABELS"):
        cursor.comma_list(cursor.string)
    return [NoEffect("TiFlash replicas")]


def _option_value(cursor: TokenCursor, schema: str) -> list[Action]:
    skip_option_value(cursor)
    return [NoEffect("how the statement runs")]


def _nothing_more(cursor: TokenCursor, schema: str) -> list[Action]:
    return [NoEffect("how the statement runs, or caching")]


def _keys(cursor: TokenCursor, schema: str) -> list[Action]:
    if cursor.accept("MASKING", "POLICY"):
        return skipped(cursor, "a masking policy")
    cursor.expect("KEYS")
    return [NoEffect("upkeep of indexes")]


def _validation(cursor: TokenCursor, schema: str) -> list[Action]:
    cursor.expect("VALIDATION")
    return [NoEffect("validation")]


def _order(cursor: TokenCursor, schema: str) -> list[Action]:
    cursor.expect("BY")
    cursor.comma_list(lambda: (cursor.column_name(), cursor.accept_any("ASC", "DESC")))
    return [NoEffect("the order of rows")]


def compact(cursor: TokenCursor, schema: str) -> list[Action]:
    """The rest of the statement: compaction changes no row."""
    cursor.skip_all()
    return [NoEffect("compaction")]


ACTIONS_WITHOUT_EFFECT: Final[dict[str, ActionReader]] = {
    "SET": _set,
    "ALGORITHM": _option_value,
    "LOCK": _option_value,
    "FORCE": _nothing_more,
    "CACHE": _nothing_more,
    "NOCACHE": _nothing_more,
    "SECONDARY_LOAD": _nothing_more,
    "SECONDARY_UNLOAD": _nothing_more,
    "ENABLE": _keys,
    "DISABLE": _keys,
    "WITH": _validation,
    "WITHOUT": _validation,
    "ORDER": _order,
    "COMPACT": compact,
}
"""How to read the actions without effect, by the word that begins each."""


def read_alter_table(cursor: TokenCursor, default_schema: str) -> ddl.AlterTable:
    """Read what follows ALTER TABLE."""
    schema, name = cursor.table_name(default_schema)
    actions: list[ddl.Action] = []
    while not cursor.done:
        actions.extend(_read_actions(cursor, default_schema))
        # Table options and PARTITION BY follow without a comma; after anything else a comma is required.
        is_option = isinstance(actions[-1], ddl.ConvertCharset | ddl.SetComment | ddl.NoEffect)
        free = cursor.done or is_option or cursor.at("PARTITION")
        comma = cursor.accept_symbol(",")
        if not (comma or free) or (comma and cursor.done):
            raise cursor.fault("another action" if comma else "',' or the end of the statement")
    return ddl.AlterTable(schema, name, tuple(actions))


def _read_actions(cursor: TokenCursor, schema: str) -> list[ddl.Action]:
    options = read_table_options(cursor)
    if options.are_written:
        return _option_actions(options)
    word = cursor.peek().word
    reader = _ACTIONS.get(word)
    if reader is None and word and cursor.peek(1).text == "=":
        cursor.take()
        skip_option_value(cursor)
        return [ddl.NoEffect("table options", word)]
    if reader is None:
        raise cursor.fault("an action of ALTER TABLE that is known")
    cursor.take()
    return reader(cursor, schema)


def _option_actions(options: TableOptions) -> list[ddl.Action]:
    found: list[ddl.Action] = [] if options.collation == UNNAMED else [ddl.ConvertCharset(options.collation)]
    if options.comment is not None:
        found.append(ddl.SetComment(options.comment))
    return found or [ddl.NoEffect("table options")]


def _add(cursor: TokenCursor, schema: str) -> list[ddl.Action]:
    if cursor.accept("PARTITION"):
        return [add_partitions(cursor)]
    if cursor.accept("MASKING", "POLICY"):
        return skipped(cursor, "a masking policy")
    if cursor.accept("STATS_EXTENDED"):
        return skipped(cursor, "statistics")
    if at_index(cursor):
        if_not_exists = _index_if_not_exists(cursor)
        elements = Elements()
        read_element(cursor, elements)
        return _index_actions(elements.indexes, if_not_exists) or [ddl.NoEffect("a constraint")]
    cursor.accept("COLUMN")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    return _add_columns(cursor, if_not_exists)


def _index_if_not_exists(cursor: TokenCursor) -> bool:
    """Whether IF NOT EXISTS follows INDEX or UNIQUE INDEX; reading the index skips it."""
    words = [cursor.peek(i).word for i in range(1, 5)]
    return ["IF", "NOT", "EXISTS"] in (words[:3], words[1:])


def _add_columns(cursor: TokenCursor, if_not_exists: bool) -> list[ddl.Action]:
    if cursor.at_symbol("("):
        elements = Elements()
        cursor.in_parentheses(lambda: read_element(cursor, elements))
        columns = tuple((definition, None) for definition in elements.columns)
        indexes = [*elements.indexes, *column_indexes(elements.columns)]
        return [ddl.AddColumns(columns, if_not_exists), *_index_actions(indexes, if_not_exists)]
    definition = read_column(cursor)
    place = _read_place(cursor)
    return [ddl.AddColumns(((definition, place),), if_not_exists), *_own_indexes(definition, if_not_exists)]


def _own_indexes(definition: ddl.ColumnDefinition, if_not_exists: bool) -> list[ddl.Action]:
    return _index_actions(column_indexes([definition]), if_not_exists)


def _index_actions(indexes: list[Index], if_not_exists: bool) -> list[ddl.Action]:
    return [ddl.AddPrimaryKey(i.columns) if i.primary else ddl.AddIndex(i, if_not_exists) for i in indexes]


def _read_place(cursor: TokenCursor) -> ddl.ColumnPosition | None:
    if cursor.accept("FIRST"):
        return ddl.ColumnPosition()
    return ddl.ColumnPosition(cursor.column_name()) if cursor.accept("AFTER") else None


def _drop(cursor: TokenCursor, schema: str) -> list[ddl.Action]:
    if cursor.accept("PRIMARY", "KEY"):
        return [ddl.DropPrimaryKey()]
    if cursor.accept("PARTITION"):
        if_exists = cursor.accept("IF", "EXISTS")
        return [ddl.DropPartitions(partition_names(cursor), if_exists)]
    if cursor.accept("FOREIGN", "KEY") or cursor.accept("CHECK") or cursor.accept("STATS_EXTENDED"):
        cursor.accept("IF", "EXISTS")
        cursor.identifier()
        return [ddl.NoEffect("a constraint or statistics")]
    if cursor.accept("MASKING", "POLICY"):
        return skipped(cursor, "a masking policy")
    # MySQL's DROP CONSTRAINT takes the name of any constraint, unique keys included.
    constraint = cursor.accept("CONSTRAINT")
    cursor.take() if cursor.peek(1).word == "INDEX" else None  # its kind, such as COLUMNAR
    if constraint or cursor.accept_any("INDEX", "KEY"):
        if_exists = cursor.accept("IF", "EXISTS")
        return [drop_index(cursor.identifier(), if_exists)]
    cursor.accept("COLUMN")
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.column_name()
    cursor.accept_any("RESTRICT", "CASCADE")
    return [ddl.DropColumn(name, if_exists)]


def drop_index(name: str, if_exists: bool) -> ddl.Action:
    """The action that drops an index of that name; the primary key is one too."""
    return ddl.DropPrimaryKey() if fold(name) == "primary" else ddl.DropIndex(name, if_exists)


def _modify(cursor: TokenCursor, schema: str) -> list[ddl.Action]:
    return _modified(cursor, is_named=False)


def _change(cursor: TokenCursor, schema: str) -> list[ddl.Action]:
    return _modified(cursor, is_named=True)


def _modified(cursor: TokenCursor, is_named: bool) -> list[ddl.Action]:
    """Read a new definition of a column, before which CHANGE has the column's present name."""
    cursor.accept("COLUMN")
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.column_name() if is_named else ""
    definition = read_column(cursor)
    place = _read_place(cursor)
    changed = ddl.ModifyColumn(name or definition.column.name, definition, place, if_exists)
    return [changed, *_own_indexes(definition, False)]


def _rename(cursor: TokenCursor, schema: str) -> list[ddl.Action]:
    if cursor.accept("COLUMN"):
        name = cursor.column_name()
        cursor.expect("TO")
        return [ddl.RenameColumn(name, cursor.column_name())]
    if cursor.accept_any("INDEX", "KEY"):
        name = cursor.identifier()
        cursor.expect("TO")
        return [ddl.RenameIndex(name, cursor.identifier())]
    if not cursor.accept_any("TO", "AS"):
        cursor.accept_symbol("=")
    return [ddl.RenameTable(*cursor.table_name(schema))]


def _alter(cursor: TokenCursor, schema: str) -> list[ddl.Action]:
    if cursor.accept_any("INDEX", "CHECK", "CONSTRAINT"):
        cursor.identifier()
        cursor.accept("NOT")
        if not cursor.accept_any("VISIBLE", "INVISIBLE", "ENFORCED"):
            raise cursor.fault("VISIBLE, INVISIBLE or ENFORCED")
        return [ddl.NoEffect("visibility of an index or constraint")]
    cursor.accept("COLUMN")
    name = cursor.column_name()
    if cursor.accept("DROP", "DEFAULT"):
        return [ddl.AlterDefault(name, None)]
    cursor.expect("SET")
    if cursor.accept_any("VISIBLE", "INVISIBLE"):
        return [ddl.NoEffect("visibility of a column")]
    cursor.expect("DEFAULT")
    return [ddl.AlterDefault(name, read_default(cursor))]


def _convert(cursor: TokenCursor, schema: str) -> list[ddl.Action]:
    cursor.expect("TO")
    if not cursor.at_any("CHARACTER", "CHAR", "CHARSET"):
        raise cursor.fault("CHARACTER SET")
    before = cursor.position
    charset: str | None = read_charset(cursor)
    if charset == "binary":
        cursor.position = before
        raise cursor.fault("a character set that keeps text (binary turns text columns into binary ones)")
    collation = None
    if cursor.accept("COLLATE"):
        cursor.accept_symbol("=")
        collation = read_charset_name(cursor)
    return [ddl.ConvertCharset(Collation(None if charset == "default" else charset, collation), converts=True)]


def partition_names(cursor: TokenCursor) -> tuple[str, ...]:
    """Names with commas between them."""
    return cursor.comma_list(cursor.identifier)


def add_partitions(cursor: TokenCursor) -> ddl.Action:
    """Read what follows ADD PARTITION."""
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    cursor.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    if cursor.accept("PARTITIONS"):
        return ddl.AddPartitions(count=cursor.integer(), if_not_exists=if_not_exists)
    return ddl.AddPartitions(read_partitions(cursor), if_not_exists=if_not_exists)


def _truncate(cursor: TokenCursor, schema: str) -> list[ddl.Action]:
    cursor.expect("PARTITION")
    return [ddl.TruncatePartitions(None if cursor.accept("ALL") else partition_names(cursor))]


def _coalesce(cursor: TokenCursor, schema: str) -> list[ddl.Action]:
    cursor.expect("PARTITION")
    cursor.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    return [ddl.CoalescePartitions(cursor.integer())]


def _exchange(cursor: TokenCursor, schema: str) -> list[ddl.Action]:
    cursor.expect("PARTITION")
    name = cursor.identifier()
    cursor.expect("WITH", "TABLE")
    other = cursor.table_name(schema)
    if cursor.accept_any("WITH", "WITHOUT"):
        cursor.expect("VALIDATION")
    return [ddl.ExchangePartition(name, other)]


def _reorganize(cursor: TokenCursor, schema: str) -> list[ddl.Action]:
    cursor.expect("PARTITION")
    cursor.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    if cursor.done:
        return [ddl.ReorganizePartitions((), ())]
    names = partition_names(cursor)
    cursor.expect("INTO")
    return [ddl.ReorganizePartitions(names, read_partitions(cursor))]


def _remove(cursor: TokenCursor, schema: str) -> list[ddl.Action]:
    if cursor.accept("TTL"):
        return [ddl.NoEffect("TTL")]
    cursor.expect("PARTITIONING")
    return [ddl.Repartition(None)]


def _partition(cursor: TokenCursor, schema: str) -> list[ddl.Action]:
    if cursor.at("BY"):
        cursor.position -= 1
        return [ddl.Repartition(read_partitioning(cursor))]
    cursor.identifier()
    if cursor.accept("ATTRIBUTES") or cursor.accept("PLACEMENT", "POLICY"):
        skip_option_value(cursor)
        return [ddl.NoEffect("a partition's placement")]
    if cursor.accept("COMPACT"):
        return compact(cursor, schema)
    raise cursor.fault("BY, ATTRIBUTES, PLACEMENT or COMPACT")


def _partition_upkeep(cursor: TokenCursor, schema: str) -> list[ddl.Action]:
    """ANALYZE, CHECK, OPTIMIZE, REBUILD, REPAIR PARTITION ..."""
    cursor.expect("PARTITION")
    cursor.skip_all()
    return [ddl.NoEffect("upkeep of partitions")]


_ACTIONS: Final[dict[str, ActionReader]] = {
    "ADD": _add,
    "DROP": _drop,
    "MODIFY": _modify,
    "CHANGE": _change,
    "RENAME": _rename,
    "ALTER": _alter,
    "CONVERT": _convert,
    "TRUNCATE": _truncate,
    "COALESCE": _coalesce,
    "EXCHANGE": _exchange,
    "REORGANIZE": _reorganize,
    "REMOVE": _remove,
    "PARTITION": _partition,
    "ANALYZE": _partition_upkeep,
    "CHECK": _partition_upkeep,
    "OPTIMIZE": _partition_upkeep,
    "REBUILD": _partition_upkeep,
    "REPAIR": _partition_upkeep,
    **ACTIONS_WITHOUT_EFFECT,
}
