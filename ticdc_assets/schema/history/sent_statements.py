"""The statements of an event: their text as it was sent, the names that they leave without a schema, and repeats."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, Protocol, TypeVar

from ticdc_assets.advice import Advice
from ticdc_assets.errors import SchemaError
from ticdc_assets.names.folding import fold
from ticdc_assets.schema.ddl import statements as ddl
from ticdc_assets.schema.ddl.parser import parse
from ticdc_assets.schema.ddl.token_cursor import statement_cursors
from ticdc_assets.schema.ddl.tokens import is_restored, tokens_of
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.evolution.schema_state import Shape
from ticdc_assets.schema.history.schema_compare import same_columns
from ticdc_assets.schema.history.source_table import SourceName, Stop, fold_name
from ticdc_assets.schema.model import TableSchema

_TYPED: Final = frozenset(("FULLTEXT", "HYBRID"))
_StatementKey = tuple[str, str, str, int | None]
_VERBS: Final = ("ALTER", "CREATE", "DROP", "TRUNCATE")


# -- texts ------------------------------------------------------------------------------------------------------------

# The statements of a text as TiCDC sends it: restored by TiDB's parser, or as the user typed it.
#
# TiCDC restores what its parser reads. It sends the user's own text where its parser fails, and for FULLTEXT and
# HYBRID indexes. In restored text a backslash is a character; in typed text it escapes, or is a character under
# NO_BACKSLASH_ESCAPES, which no stream carries.


def parse_sent(query: str) -> tuple[ddl.Statement, ...]:
    """The statements, with names as written.

    Raises SchemaError where no reading is understood, or where a backslash as a character and as an escape lead to
    other columns or defaults, and the text may be typed.
    """
    if "\\" not in query:
        return parse(query, "", restored=True)
    try:
        restored = parse(query, "", restored=True)
    except SchemaError as error:
        return _parse_typed(query, error)
    if _must_be_restored(query):
        return restored
    try:
        typed = parse(query, "", restored=False)
    except SchemaError:
        return restored
    if _effects(typed) != _effects(restored):
        expected = (
            "a text that TiDB restored, or backslashes that lead to the same columns and defaults in any sql_mode"
        )
        found = "backslashes in a text as the user typed it"
        raise SchemaError("the statement", expected, found, Advice.CREATE_WITHOUT_BACKSLASHES)
    return typed


def _parse_typed(query: str, error: SchemaError) -> tuple[ddl.Statement, ...]:
    try:
        return parse(query, "", restored=False)
    except SchemaError:
        raise error from None


def _must_be_restored(query: str) -> bool:
    return is_restored(query, None) and not any(token.word in _TYPED for token in tokens_of(query, restored=True))


def _effects(statements: tuple[ddl.Statement, ...]) -> list[ddl.Statement]:
    """The statements without the comments of tables; those of columns are never compared."""
    return [_without_comment(statement) for statement in statements]


def _without_comment(statement: ddl.Statement) -> ddl.Statement:
    if isinstance(statement, ddl.CreateTable):
        return replace(statement, comment="")
    if isinstance(statement, ddl.AlterTable):
        return replace(statement, actions=tuple(a for a in statement.actions if not isinstance(a, ddl.SetComment)))
    return statement


_TEXTS_MAX: Final = 16384
"""A process folds its statements several times, and parsing takes most of that time."""


def statements_of(event: DdlEvent) -> tuple[ddl.Statement, ...]:
    """An event's statements. Raises SchemaError where the text cannot be parsed."""
    return statements_as_written(event.query) if event.origin.as_written else statements_in(event.query)


@lru_cache(maxsize=_TEXTS_MAX)
def statements_in(query: str) -> tuple[ddl.Statement, ...]:
    """The statements of a text as TiCDC sends it, with names as written. Raises SchemaError."""
    return parse_sent(query)


@lru_cache(maxsize=_TEXTS_MAX)
def statements_as_written(query: str) -> tuple[ddl.Statement, ...]:
    """The statements of a text as a user wrote it: backslashes escape, ANSI_QUOTES is off. Raises SchemaError."""
    return parse(query, "", restored=False)


# -- names ------------------------------------------------------------------------------------------------------------

# TiCDC sends the statement as the user wrote it. The event has the table's name after the statement: of a RENAME, the
# new name. A name without a schema is in the database of the user's session. If the statement writes the event's own
# name without a schema, that database is the event's; else it is unknown, and the name's schema is "" here.


class NamedTable(Protocol):
    """A table of the fold."""

    shape: Shape
    stop: Stop | None


_T = TypeVar("_T", bound=NamedTable)


def with_schema(event: DdlEvent, own: SourceName, name: SourceName) -> SourceName:
    """A name of a statement with its schema; `own` is the event's name as the statement writes it."""
    return (name[0] or ("" if own[0] else event.schema), name[1])


def exchanged_names(event: DdlEvent, statement: ddl.AlterTable) -> list[SourceName]:
    """The event's name, then the two tables of an EXCHANGE PARTITION; the event may have the name of either."""
    others = [action.with_table for action in statement.actions if isinstance(action, ddl.ExchangePartition)]
    written = [(statement.schema, statement.name), *others]
    own = next((name for name in written if fold(name[1]) == fold(event.table)), written[0])
    return [(event.schema, event.table), *(with_schema(event, own, name) for name in written)]


def listed(names: Iterable[SourceName]) -> str:
    """The names for an error message, of which one is meant."""
    return " or ".join(".".join(name) for name in names)


def candidates(
    live: Mapping[SourceName, _T], name: SourceName, sent: TableSchema | None, ordered: bool = True
) -> list[_T]:
    """The tables to which a name may refer. A name without a schema may refer to a table of any database with the
    columns that the stream sends.

    Args:
        live: the tables that exist, by name in lower case.
        sent: the schema that the stream sends; None if it sends none.
        ordered: whether the columns of `sent` are in table order.
    """
    schema, table = fold_name(*name)
    if schema:
        return [live[schema, table]] if (schema, table) in live else []
    named = (one for (_, its_name), one in live.items() if its_name == table)
    # The columns of a stopped table are not known.
    return [t for t in named if sent is None or t.stop is not None or same_columns(t.shape.table, sent, ordered)]


# -- statements of other writers --------------------------------------------------------------------------------------

# Statements as users wrote them, in streams that TiCDC did not write: MySQL's binlog through Alibaba's Canal.
#
# Such a stream has one message for each statement, also for one that names several tables. The message has the name
# of one of them or none. The binlog also has statements that changed nothing: CREATE TABLE IF NOT EXISTS of a table
# that exists. After a fault, Canal sends messages again from an earlier position, statements included.


@dataclass(slots=True)
class WrittenStatements:
    """The statements so far, to recognise repeats."""

    _seen: set[_StatementKey] = field(default_factory=set)
    _repeats: set[tuple[str, int, int] | None] = field(default_factory=set)

    def parts(
        self, event: DdlEvent, statements: tuple[ddl.Statement, ...] | None, live: Container[SourceName]
    ) -> Iterator[tuple[DdlEvent, tuple[ddl.Statement, ...] | None]]:
        """The event's statements, each with the name of its own table, without those that change nothing."""
        if not event.origin.as_written or statements is None:
            yield event, statements
            return
        key = (event.schema, event.table, event.query, event.origin.commit_ms)
        if key in self._seen:
            self._repeats.add(event.origin.place)
        self._seen.add(key)
        for statement in statements:
            named = _named(event, statement)
            if not self._is_done(named, statement, live):
                yield named, (statement,)

    def is_repeat(self, event: DdlEvent) -> bool:
        """Whether the statement was sent before, so that it cannot be applied again."""
        return event.origin.as_written and event.origin.place in self._repeats

    def _is_done(self, event: DdlEvent, statement: ddl.Statement, live: Container[SourceName]) -> bool:
        if isinstance(statement, ddl.CreateTable):
            return statement.if_not_exists and fold_name(event.schema, event.table) in live
        old = _renamed(event, statement)
        return bool(old) and self.is_repeat(event) and not any(fold_name(*name) in live for name in old)


def _named(event: DdlEvent, statement: ddl.Statement) -> DdlEvent:
    """The event with the name that its table has after the statement."""
    match statement:
        case ddl.CreateTable(schema=schema, name=name) | ddl.TruncateTable(schema=schema, name=name):
            return replace(event, schema=schema or event.schema, table=name)
        case ddl.AlterTable(schema=schema, name=name, actions=actions):
            for action in actions:
                if isinstance(action, ddl.RenameTable):
                    schema, name = action.schema, action.name
            return replace(event, schema=schema or event.schema, table=name)
    return event


def _renamed(event: DdlEvent, statement: ddl.Statement) -> list[SourceName]:
    """The names that the statement takes from tables."""
    match statement:
        case ddl.RenameTables(pairs=pairs):
            return [(old[0] or event.schema, old[1]) for old, _ in pairs]
        case ddl.AlterTable(schema=schema, name=name, actions=actions):
            moves = any(isinstance(action, ddl.RenameTable) for action in actions)
            return [(schema or event.schema, name)] if moves else []
    return []


def subject_of(event: DdlEvent) -> DdlEvent:
    """The event with the first table of its statement where it has no table, so that a statement that cannot be read
    stops this table and not the whole database."""
    if not event.origin.as_written or event.table:
        return event
    try:
        cursor = next(statement_cursors(event.query, restored=False))
        if cursor.accept_any(*_VERBS) and (cursor.accept("TABLE") or cursor.accept("IGNORE", "TABLE")):
            cursor.accept("IF", "NOT", "EXISTS") or cursor.accept("IF", "EXISTS")
            schema, table = cursor.table_name(event.schema)
            return replace(event, schema=schema, table=table)
    except (SchemaError, StopIteration):
        pass
    return event
