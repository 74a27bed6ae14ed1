"""Names that a statement leaves without a schema.

TiCDC sends what the user wrote, and calls an event by the name that the statement leaves: a RENAME by the new one. A
name without a schema was in the database of the user's session. That is the event's own where the name it is called by
is written without a schema too; else nothing tells which, and the name's schema is "" here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, Protocol, TypeVar

from ticdc_assets.protocols.events import DdlEvent
from ticdc_assets.schema import ddl
from ticdc_assets.schema.evolution import Shape
from ticdc_assets.schema.lineage import SourceName, Stop, fold_name
from ticdc_assets.schema.model import TableSchema
from ticdc_assets.schema.told import same_columns


class Bearer(Protocol):
    """A table that bears a name."""

    shape: Shape
    stop: Stop | None


_B = TypeVar("_B", bound=Bearer)
_TEXTS_MAX: Final = 16384
"""A process folds its statements several times, and reading them is most of a fold."""


def statements_of(event: DdlEvent) -> tuple[ddl.Statement, ...]:
    """An event's statements, read as `statements_in` or `statements_as_written` do."""
    return statements_as_written(event.query) if event.as_written else statements_in(event.query)


@lru_cache(maxsize=_TEXTS_MAX)
def statements_in(query: str) -> tuple[ddl.Statement, ...]:
    """The statements of a text as TiCDC sends it, names as they are written. Raises SchemaError."""
    return ddl.parse(query, "", restored=True)


@lru_cache(maxsize=_TEXTS_MAX)
def statements_as_written(query: str) -> tuple[ddl.Statement, ...]:
    """The statements of a text as a user wrote it: backslashes escape, ANSI_QUOTES is off. Raises SchemaError."""
    return ddl.parse(query, "", restored=False)


def beside(event: DdlEvent, called: SourceName, name: SourceName) -> SourceName:
    """A name with its schema, in a statement that writes the name that its event is called by as `called`."""
    return (name[0] or ("" if called[0] else event.schema), name[1])


def exchanged(event: DdlEvent, statement: ddl.AlterTable) -> list[SourceName]:
    """The tables between which a statement exchanges a partition; its event may be called by either."""
    others = [action.with_table for action in statement.actions if isinstance(action, ddl.ExchangePartition)]
    written = [(statement.schema, statement.name), *others]
    called = next((name for name in written if name[1].lower() == event.table.lower()), written[0])
    return [(event.schema, event.table), *(beside(event, called, name) for name in written)]


def one_of(names: Iterable[SourceName]) -> str:
    """Names of which a statement means one, for people."""
    return " or ".join(".".join(name) for name in names)


def bearers(
    live: Mapping[SourceName, _B], name: SourceName, told: TableSchema | None, ordered: bool = True
) -> list[_B]:
    """The tables that a name may mean: without a schema those of any database, but not with other columns than told."""
    schema, table = fold_name(*name)
    if schema:
        return [live[schema, table]] if (schema, table) in live else []
    named = (bearer for (_, borne), bearer in live.items() if borne == table)
    # What a stopped table has by now is not known.
    return [b for b in named if told is None or b.stop is not None or same_columns(b.shape.table, told, ordered)]
