"""Statements as users wrote them, of streams that no TiCDC wrote: MySQL's binlog through Alibaba's Canal.

Such a stream has one message for a statement, whatever number of tables it names, and calls it by one of them or by
none. The binlog has what changed nothing too: CREATE TABLE IF NOT EXISTS where the table was there. And its messages
are sent again from some place on, after a fault, statements included.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from ticdc_assets.errors import SchemaError
from ticdc_assets.protocols.events import DdlEvent
from ticdc_assets.schema import ddl
from ticdc_assets.schema.ddl_tokens import statements_of
from ticdc_assets.schema.lineage import SourceName, fold_name

_Told = tuple[str, str, str, int | None]
_VERBS: Final = ("ALTER", "CREATE", "DROP", "TRUNCATE")


@dataclass(slots=True)
class Written:
    """What was told of such statements so far."""

    _met: set[_Told] = field(default_factory=set)
    _repeats: set[tuple[str, int, int] | None] = field(default_factory=set)

    def parts(
        self, event: DdlEvent, statements: tuple[ddl.Statement, ...] | None, live: Container[SourceName]
    ) -> Iterator[tuple[DdlEvent, tuple[ddl.Statement, ...] | None]]:
        """An event's statements, each under the name of its own table, but for those that change nothing."""
        if not event.as_written or statements is None:
            yield event, statements
            return
        told = (event.schema, event.table, event.query, event.commit_ms)
        if told in self._met:
            self._repeats.add(event.place)
        self._met.add(told)
        for statement in statements:
            called = _called(event, statement)
            if not self._is_done(called, statement, live):
                yield called, (statement,)

    def is_repeat(self, event: DdlEvent) -> bool:
        """Whether a statement was sent before: what it did then it cannot do again."""
        return event.as_written and event.place in self._repeats

    def _is_done(self, event: DdlEvent, statement: ddl.Statement, live: Container[SourceName]) -> bool:
        if isinstance(statement, ddl.CreateTable):
            return statement.if_not_exists and fold_name(event.schema, event.table) in live
        old = _renamed(event, statement)
        return bool(old) and self.is_repeat(event) and not any(fold_name(*name) in live for name in old)


def _called(event: DdlEvent, statement: ddl.Statement) -> DdlEvent:
    """The event under the name that the statement leaves its table with."""
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
    """The names that a statement takes away from tables."""
    match statement:
        case ddl.RenameTables(pairs=pairs):
            return [(old[0] or event.schema, old[1]) for old, _ in pairs]
        case ddl.AlterTable(schema=schema, name=name, actions=actions):
            moves = any(isinstance(action, ddl.RenameTable) for action in actions)
            return [(schema or event.schema, name)] if moves else []
    return []


def subject_of(event: DdlEvent) -> DdlEvent:
    """The event under the name of the table that its statement begins with, where it is called by none: one that
    cannot be read stops that table and not its whole database."""
    if not event.as_written or event.table:
        return event
    try:
        cursor = next(statements_of(event.query, restored=False))
        if cursor.accept_any(*_VERBS) and (cursor.accept("TABLE") or cursor.accept("IGNORE", "TABLE")):
            cursor.accept("IF", "NOT", "EXISTS") or cursor.accept("IF", "EXISTS")
            schema, table = cursor.table_name(event.schema)
            return replace(event, schema=schema, table=table)
    except (SchemaError, StopIteration):
        pass
    return event
