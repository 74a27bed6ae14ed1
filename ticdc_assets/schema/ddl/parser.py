"""DDL text as statements.

In: the text of a DDL event as TiDB restores it, or a schema dump as Dumpling and SHOW CREATE TABLE print it, one
statement or several. Out: `Statement`s. Whatever might touch columns, keys, partitions or rows is either understood in
full or refused with a SchemaError that names the place; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from ticdc_assets.errors import SchemaError
from ticdc_assets.schema.ddl import statements as ddl
from ticdc_assets.schema.ddl.alter_actions import drop_index, read_alter_table
from ticdc_assets.schema.ddl.create import read_create_table, read_table_options
from ticdc_assets.schema.ddl.indexes import read_index_body
from ticdc_assets.schema.ddl.token_cursor import TokenCursor, statement_cursors
from ticdc_assets.schema.model import UNNAMED, Collation, Index


def _words(text: str) -> list[str]:
    return text.split()


# Only what begins with a word of `_STATEMENTS` can change a table's columns, keys or rows without row events. A word
# that is in none of these lists is refused.

# Statements that change neither columns nor keys; the rows that they change, if any, come as row events.
_WITHOUT_EFFECT: Final = frozenset(
    _words("""
    ADMIN ANALYZE BACKUP BEGIN BINLOG CACHE CALIBRATE CALL CANCEL CHANGE CHECK CHECKSUM CLONE COMMIT DEALLOCATE
    DELETE DELIMITER DESC DESCRIBE DISTRIBUTE DO EXECUTE EXPLAIN FLUSH GET GRANT HANDLER HELP INSERT INSTALL KILL
    LOAD LOCK OPTIMIZE PAUSE PLAN PREPARE PURGE QUERY RECOMMEND REFRESH RELEASE REPAIR REPLACE RESET RESIGNAL
    RESTART RESUME REVOKE ROLLBACK SAVEPOINT SELECT SET SHOW SHUTDOWN SIGNAL SPLIT START STOP TABLE TRACE TRAFFIC
    UNINSTALL UNLOCK UPDATE VALUES WITH XA
    """)
)

# What CREATE, ALTER and DROP make and change besides tables, databases and indexes, or what stands before its name.
_OTHER_OBJECTS: Final = frozenset(
    _words("""
    AGGREGATE ALGORITHM BINDING DEFINER EVENT FUNCTION INSTANCE LOADABLE LOGFILE MASKING PLACEMENT PREPARE
    PROCEDURE RANGE RESOURCE ROLE SEQUENCE SERVER SESSION SPATIAL SQL STATISTICS STATS TABLESPACE TRIGGER UNDO
    USER VIEW WORKLOAD
    """)
)


def parse(query: str, default_schema: str, restored: bool | None = None) -> tuple[ddl.Statement, ...]:
    """The statements of a text; tables named without a schema are in `default_schema`, or in that of a USE before.

    `restored` is whether TiDB restored the text, so that backslashes are not escapes; None decides by its form.
    """
    statements: list[ddl.Statement] = []
    for cursor in statement_cursors(query, restored):
        if cursor.at("USE"):
            cursor.take()
            default_schema = cursor.identifier()
            cursor.finish()
            statements.append(ddl.NoEffect("USE"))
        else:
            statements.append(_read_statement(cursor, default_schema))
    return tuple(statements)


def created_tables(text: str, default_schema: str) -> Iterator[tuple[ddl.TableName, ddl.CreateTable | SchemaError]]:
    """The CREATE TABLE statements of a schema dump by the name of their table, or why one is not understood.

    Raises SchemaError where a statement is not understood that names no table.
    """
    for cursor in statement_cursors(text, restored=False):
        if cursor.accept("USE"):
            default_schema = cursor.identifier()
            continue
        name = _created_name(cursor, default_schema)
        try:
            statement = _read_statement(cursor, default_schema)
        except SchemaError as error:
            if name is None:
                raise
            yield name, error
        else:
            if isinstance(statement, ddl.CreateTable):
                yield (statement.schema, statement.name), statement


def _created_name(cursor: TokenCursor, schema: str) -> ddl.TableName | None:
    """The name in a CREATE TABLE; the cursor stays where it is."""
    start = cursor.position
    try:
        if not cursor.accept("CREATE", "TABLE"):
            return None
        cursor.accept("IF", "NOT", "EXISTS")
        return cursor.table_name(schema)
    except SchemaError:
        return None
    finally:
        cursor.position = start


def _read_statement(cursor: TokenCursor, schema: str) -> ddl.Statement:
    word = cursor.peek().word
    reader = _STATEMENTS.get(word)
    if reader is None:
        if word in _WITHOUT_EFFECT:
            return _no_effect(cursor)
        raise cursor.fault("a statement that is known")
    cursor.take()
    statement = reader(cursor, schema)
    cursor.finish()
    return statement


def _no_effect(cursor: TokenCursor) -> ddl.NoEffect:
    reason = cursor.peek().word
    cursor.skip_all()
    return ddl.NoEffect(reason)


def _other_object(cursor: TokenCursor, expected: str) -> ddl.NoEffect:
    if cursor.at_any(*_OTHER_OBJECTS) or cursor.at("GLOBAL", "BINDING"):
        return _no_effect(cursor)
    raise cursor.fault(expected)


# -- CREATE -----------------------------------------------------------------------------------------------------------


def _create(cursor: TokenCursor, schema: str) -> ddl.Statement:
    cursor.accept("OR", "REPLACE")
    if cursor.accept("TEMPORARY"):
        return _no_effect(cursor)  # exists in one session only
    cursor.accept("GLOBAL", "TEMPORARY")
    if cursor.accept("TABLE"):
        return read_create_table(cursor, schema)
    if cursor.accept_any("DATABASE", "SCHEMA"):
        return _create_database(cursor)
    kind = cursor.take().word if cursor.peek(1).word == "INDEX" else ""
    if cursor.accept("INDEX"):
        return _create_index(cursor, schema, unique=kind == "UNIQUE")
    return _other_object(cursor, "TABLE, DATABASE, INDEX or another object that is known")


def _create_database(cursor: TokenCursor) -> ddl.Statement:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.identifier()
    return ddl.CreateDatabase(name, if_not_exists, _read_database_options(cursor))


def _read_database_options(cursor: TokenCursor) -> Collation:
    """The collation. The other options of a database (SET TIFLASH REPLICA, READ ONLY) do not affect its tables."""
    collation = read_table_options(cursor).collation
    while not cursor.done:
        cursor.take()
        more = read_table_options(cursor).collation
        collation = collation if more == UNNAMED else more
    return collation


def _create_index(cursor: TokenCursor, schema: str, unique: bool) -> ddl.AlterTable:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.identifier()
    if cursor.accept_any("USING", "TYPE"):
        cursor.identifier()
    cursor.expect("ON")
    table = cursor.table_name(schema)
    _, columns, partial = read_index_body(cursor, named=False)
    if not unique:
        cursor.skip_all()  # options that are not known here: no row and no key depends on them
    return ddl.AlterTable(*table, (ddl.AddIndex(Index(name, columns, unique=unique and not partial), if_not_exists),))


# -- DROP, TRUNCATE, RENAME -------------------------------------------------------------------------------------------


def _drop(cursor: TokenCursor, schema: str) -> ddl.Statement:
    if cursor.accept("TEMPORARY"):
        return _no_effect(cursor)
    cursor.accept("GLOBAL", "TEMPORARY")
    if cursor.accept_any("TABLE", "TABLES"):
        if_exists = cursor.accept("IF", "EXISTS")
        names = cursor.comma_list(lambda: cursor.table_name(schema))
        cursor.accept_any("RESTRICT", "CASCADE")
        return ddl.DropTables(names, if_exists)
    if cursor.accept_any("DATABASE", "SCHEMA"):
        if_exists = cursor.accept("IF", "EXISTS")
        return ddl.DropDatabase(cursor.identifier(), if_exists)
    if cursor.accept("INDEX") or cursor.accept("HYPO", "INDEX"):
        return _drop_index(cursor, schema)
    return _other_object(cursor, "TABLE, DATABASE, INDEX or another object that is known")


def _drop_index(cursor: TokenCursor, schema: str) -> ddl.AlterTable:
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.identifier()
    cursor.expect("ON")
    table = cursor.table_name(schema)
    while cursor.accept_any("ALGORITHM", "LOCK"):
        cursor.accept_symbol("=")
        cursor.identifier()
    return ddl.AlterTable(*table, (drop_index(name, if_exists),))


def _truncate(cursor: TokenCursor, schema: str) -> ddl.Statement:
    cursor.accept("TABLE")
    return ddl.TruncateTable(*cursor.table_name(schema))


def _rename(cursor: TokenCursor, schema: str) -> ddl.Statement:
    if cursor.at("USER"):
        return _no_effect(cursor)
    if not cursor.accept_any("TABLE", "TABLES"):
        raise cursor.fault("TABLE")

    def pair() -> tuple[ddl.TableName, ddl.TableName]:
        old = cursor.table_name(schema)
        cursor.expect("TO")
        return old, cursor.table_name(schema)

    return ddl.RenameTables(cursor.comma_list(pair))


# -- ALTER, RECOVER, FLASHBACK ----------------------------------------------------------------------------------------


def _alter(cursor: TokenCursor, schema: str) -> ddl.Statement:
    cursor.accept("IGNORE")
    if cursor.accept("TABLE"):
        return read_alter_table(cursor, schema)
    if cursor.accept_any("DATABASE", "SCHEMA"):
        unnamed = cursor.at_any("DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "SET", "PLACEMENT", "ENCRYPTION")
        name = schema if unnamed else cursor.identifier()
        collation = _read_database_options(cursor)
        return ddl.NoEffect("ALTER DATABASE") if collation == UNNAMED else ddl.AlterDatabase(name, collation)
    return _other_object(cursor, "TABLE, DATABASE or another object that is known")


def _recover(cursor: TokenCursor, schema: str) -> ddl.Statement:
    cursor.expect("TABLE")
    if cursor.accept("BY", "JOB"):
        cursor.integer()
        return ddl.RecoverTable(schema, None)
    table = cursor.table_name(schema)
    if not cursor.done:
        cursor.integer()  # the nth newest drop of that name
    return ddl.RecoverTable(*table)


def _flashback(cursor: TokenCursor, schema: str) -> ddl.Statement:
    """Read FLASHBACK TABLE of a dropped table. A flashback to a time or of a database is refused: it changes rows
    without events."""
    cursor.expect("TABLE")
    table = cursor.table_name(schema)
    new_name = None
    if cursor.at("TO") and cursor.peek(1).word not in ("TIMESTAMP", "TSO"):
        cursor.take()
        new_name = cursor.identifier()
    return ddl.RecoverTable(*table, new_name)


_STATEMENTS: Final[dict[str, Callable[[TokenCursor, str], ddl.Statement]]] = {
    "CREATE": _create,
    "DROP": _drop,
    "TRUNCATE": _truncate,
    "RENAME": _rename,
    "ALTER": _alter,
    "RECOVER": _recover,
    "FLASHBACK": _flashback,
}
