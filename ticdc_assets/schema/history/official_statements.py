"""Statements as users wrote them, in streams that TiCDC did not write: MySQL's binlog through Alibaba's Canal.

Such a stream has one message for each statement, also for one that names several tables. The message has the name of
one of them or none. The binlog also has statements that changed nothing: CREATE TABLE IF NOT EXISTS of a table that
exists. After a fault, Canal sends messages again from an earlier position, statements included.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from ticdc_assets.errors import SchemaError
from ticdc_assets.schema.ddl import parser as ddl
from ticdc_assets.schema.ddl.token_cursor import statement_cursors
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.source_table import SourceName, fold_name

_StatementKey = tuple[str, str, str, int | None]
_VERBS: Final = ("ALTER", "CREATE", "DROP", "TRUNCATE")


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
