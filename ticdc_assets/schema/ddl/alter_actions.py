"""ALTER TABLE: its actions, in the statement's order. An action that is not known is refused."""

from __future__ import annotations

from typing import Final

from ticdc_assets.names.folding import fold
from ticdc_assets.schema.collations import UNNAMED, Collation
from ticdc_assets.schema.ddl.columns import Elements, read_column, read_element
from ticdc_assets.schema.ddl.create import TableOptions, column_indexes, read_table_options, skip_option_value
from ticdc_assets.schema.ddl.defaults import read_default
from ticdc_assets.schema.ddl.indexes import at_index
from ticdc_assets.schema.ddl.mysql_types import read_charset, read_charset_name
from ticdc_assets.schema.ddl.partitions import read_partitioning, read_partitions
from ticdc_assets.schema.ddl.statements import (
    Action,
    AddColumns,
    AddIndex,
    AddPartitions,
    AddPrimaryKey,
    AlterDefault,
    AlterTable,
    CoalescePartitions,
    ColumnDefinition,
    ColumnPosition,
    ConvertCharset,
    DropColumn,
    DropIndex,
    DropPartitions,
    DropPrimaryKey,
    ExchangePartition,
    ModifyColumn,
    NoEffect,
    RenameColumn,
    RenameIndex,
    RenameTable,
    ReorganizePartitions,
    Repartition,
    SetComment,
    TruncatePartitions,
)
from ticdc_assets.schema.ddl.token_cursor import TokenCursor
from ticdc_assets.schema.ddl.without_effect import ACTIONS_WITHOUT_EFFECT, ActionReader, compact, skipped
from ticdc_assets.schema.model import Index


def read_alter_table(cursor: TokenCursor, default_schema: str) -> AlterTable:
    """Read what follows ALTER TABLE."""
    schema, name = cursor.table_name(default_schema)
    actions: list[Action] = []
    while not cursor.done:
        actions.extend(_read_actions(cursor, default_schema))
        # Table options and PARTITION BY follow without a comma; after anything else a comma is required.
        free = cursor.done or isinstance(actions[-1], ConvertCharset | SetComment | NoEffect) or cursor.at("PARTITION")
        comma = cursor.accept_symbol(",")
        if not (comma or free) or (comma and cursor.done):
            raise cursor.fault("another action" if comma else "',' or the end of the statement")
    return AlterTable(schema, name, tuple(actions))


def _read_actions(cursor: TokenCursor, schema: str) -> list[Action]:
    options = read_table_options(cursor)
    if options.are_written:
        return _option_actions(options)
    word = cursor.peek().word
    reader = _ACTIONS.get(word)
    if reader is None and word and cursor.peek(1).text == "=":
        cursor.take()
        skip_option_value(cursor)
        return [NoEffect("table options", word)]
    if reader is None:
        raise cursor.fault("an action of ALTER TABLE that is known")
    cursor.take()
    return reader(cursor, schema)


def _option_actions(options: TableOptions) -> list[Action]:
    found: list[Action] = [] if options.collation == UNNAMED else [ConvertCharset(options.collation)]
    if options.comment is not None:
        found.append(SetComment(options.comment))
    return found or [NoEffect("table options")]


def _add(cursor: TokenCursor, schema: str) -> list[Action]:
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
        return _index_actions(elements.indexes, if_not_exists) or [NoEffect("a constraint")]
    cursor.accept("COLUMN")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    return _add_columns(cursor, if_not_exists)


def _index_if_not_exists(cursor: TokenCursor) -> bool:
    """Whether IF NOT EXISTS follows INDEX or UNIQUE INDEX; reading the index skips it."""
    words = [cursor.peek(i).word for i in range(1, 5)]
    return ["IF", "NOT", "EXISTS"] in (words[:3], words[1:])


def _add_columns(cursor: TokenCursor, if_not_exists: bool) -> list[Action]:
    if cursor.at_symbol("("):
        elements = Elements()
        cursor.in_parentheses(lambda: read_element(cursor, elements))
        columns = tuple((definition, None) for definition in elements.columns)
        indexes = [*elements.indexes, *column_indexes(elements.columns)]
        return [AddColumns(columns, if_not_exists), *_index_actions(indexes, if_not_exists)]
    definition = read_column(cursor)
    place = _read_place(cursor)
    return [AddColumns(((definition, place),), if_not_exists), *_own_indexes(definition, if_not_exists)]


def _own_indexes(definition: ColumnDefinition, if_not_exists: bool) -> list[Action]:
    return _index_actions(column_indexes([definition]), if_not_exists)


def _index_actions(indexes: list[Index], if_not_exists: bool) -> list[Action]:
    return [AddPrimaryKey(i.columns) if i.primary else AddIndex(i, if_not_exists) for i in indexes]


def _read_place(cursor: TokenCursor) -> ColumnPosition | None:
    if cursor.accept("FIRST"):
        return ColumnPosition()
    return ColumnPosition(cursor.column_name()) if cursor.accept("AFTER") else None


def _drop(cursor: TokenCursor, schema: str) -> list[Action]:
    if cursor.accept("PRIMARY", "KEY"):
        return [DropPrimaryKey()]
    if cursor.accept("PARTITION"):
        if_exists = cursor.accept("IF", "EXISTS")
        return [DropPartitions(partition_names(cursor), if_exists)]
    if cursor.accept("FOREIGN", "KEY") or cursor.accept("CHECK") or cursor.accept("STATS_EXTENDED"):
        cursor.accept("IF", "EXISTS")
        cursor.identifier()
        return [NoEffect("a constraint or statistics")]
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
    return [DropColumn(name, if_exists)]


def drop_index(name: str, if_exists: bool) -> Action:
    """The action that drops an index of that name; the primary key is one too."""
    return DropPrimaryKey() if fold(name) == "primary" else DropIndex(name, if_exists)


def _modify(cursor: TokenCursor, schema: str) -> list[Action]:
    cursor.accept("COLUMN")
    if_exists = cursor.accept("IF", "EXISTS")
    definition = read_column(cursor)
    place = _read_place(cursor)
    return [ModifyColumn(definition.column.name, definition, place, if_exists), *_own_indexes(definition, False)]


def _change(cursor: TokenCursor, schema: str) -> list[Action]:
    cursor.accept("COLUMN")
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.column_name()
    definition = read_column(cursor)
    place = _read_place(cursor)
    return [ModifyColumn(name, definition, place, if_exists), *_own_indexes(definition, False)]


def _rename(cursor: TokenCursor, schema: str) -> list[Action]:
    if cursor.accept("COLUMN"):
        name = cursor.column_name()
        cursor.expect("TO")
        return [RenameColumn(name, cursor.column_name())]
    if cursor.accept_any("INDEX", "KEY"):
        name = cursor.identifier()
        cursor.expect("TO")
        return [RenameIndex(name, cursor.identifier())]
    if not cursor.accept_any("TO", "AS"):
        cursor.accept_symbol("=")
    return [RenameTable(*cursor.table_name(schema))]


def _alter(cursor: TokenCursor, schema: str) -> list[Action]:
    if cursor.accept_any("INDEX", "CHECK", "CONSTRAINT"):
        cursor.identifier()
        cursor.accept("NOT")
        if not cursor.accept_any("VISIBLE", "INVISIBLE", "ENFORCED"):
            raise cursor.fault("VISIBLE, INVISIBLE or ENFORCED")
        return [NoEffect("visibility of an index or constraint")]
    cursor.accept("COLUMN")
    name = cursor.column_name()
    if cursor.accept("DROP", "DEFAULT"):
        return [AlterDefault(name, None)]
    cursor.expect("SET")
    if cursor.accept_any("VISIBLE", "INVISIBLE"):
        return [NoEffect("visibility of a column")]
    cursor.expect("DEFAULT")
    return [AlterDefault(name, read_default(cursor))]


def _convert(cursor: TokenCursor, schema: str) -> list[Action]:
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
    return [ConvertCharset(Collation(None if charset == "default" else charset, collation), converts=True)]


def partition_names(cursor: TokenCursor) -> tuple[str, ...]:
    """Names with commas between them."""
    return cursor.comma_list(cursor.identifier)


def add_partitions(cursor: TokenCursor) -> Action:
    """Read what follows ADD PARTITION."""
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    cursor.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    if cursor.accept("PARTITIONS"):
        return AddPartitions(count=cursor.integer(), if_not_exists=if_not_exists)
    return AddPartitions(read_partitions(cursor), if_not_exists=if_not_exists)


def _truncate(cursor: TokenCursor, schema: str) -> list[Action]:
    cursor.expect("PARTITION")
    return [TruncatePartitions(None if cursor.accept("ALL") else partition_names(cursor))]


def _coalesce(cursor: TokenCursor, schema: str) -> list[Action]:
    cursor.expect("PARTITION")
    cursor.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    return [CoalescePartitions(cursor.integer())]


def _exchange(cursor: TokenCursor, schema: str) -> list[Action]:
    cursor.expect("PARTITION")
    name = cursor.identifier()
    cursor.expect("WITH", "TABLE")
    other = cursor.table_name(schema)
    if cursor.accept_any("WITH", "WITHOUT"):
        cursor.expect("VALIDATION")
    return [ExchangePartition(name, other)]


def _reorganize(cursor: TokenCursor, schema: str) -> list[Action]:
    cursor.expect("PARTITION")
    cursor.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    if cursor.done:
        return [ReorganizePartitions((), ())]
    names = partition_names(cursor)
    cursor.expect("INTO")
    return [ReorganizePartitions(names, read_partitions(cursor))]


def _remove(cursor: TokenCursor, schema: str) -> list[Action]:
    if cursor.accept("TTL"):
        return [NoEffect("TTL")]
    cursor.expect("PARTITIONING")
    return [Repartition(None)]


def _partition(cursor: TokenCursor, schema: str) -> list[Action]:
    if cursor.at("BY"):
        cursor.position -= 1
        return [Repartition(read_partitioning(cursor))]
    cursor.identifier()
    if cursor.accept("ATTRIBUTES") or cursor.accept("PLACEMENT", "POLICY"):
        skip_option_value(cursor)
        return [NoEffect("a partition's placement")]
    if cursor.accept("COMPACT"):
        return compact(cursor, schema)
    raise cursor.fault("BY, ATTRIBUTES, PLACEMENT or COMPACT")


def _partition_upkeep(cursor: TokenCursor, schema: str) -> list[Action]:
    """ANALYZE, CHECK, OPTIMIZE, REBUILD, REPAIR PARTITION ..."""
    cursor.expect("PARTITION")
    cursor.skip_all()
    return [NoEffect("upkeep of partitions")]


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
