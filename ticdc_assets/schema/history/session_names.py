"""Names that a statement leaves without a schema.

TiCDC sends the statement as the user wrote it. The event has the table's name after the statement: of a RENAME, the new
name. A name without a schema is in the database of the user's session. If the statement writes the event's own name
without a schema, that database is the event's; else it is unknown, and the name's schema is "" here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, Protocol, TypeVar

from ticdc_assets.names.folding import fold
from ticdc_assets.schema.ddl import parser as ddl
from ticdc_assets.schema.ddl.sent_text import parse_sent
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.evolution.evolve import Shape
from ticdc_assets.schema.history.schema_compare import same_columns
from ticdc_assets.schema.history.source_table import SourceName, Stop, fold_name
from ticdc_assets.schema.model import TableSchema


class NamedTable(Protocol):
    """A table of the fold."""

    shape: Shape
    stop: Stop | None


_T = TypeVar("_T", bound=NamedTable)
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
    return ddl.parse(query, "", restored=False)


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
