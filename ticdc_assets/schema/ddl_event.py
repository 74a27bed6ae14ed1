"""The content of a message about a table's schema: a DDL statement, or the columns that the table has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ticdc_assets.schema.model import TableSchema


@dataclass(frozen=True, slots=True)
class DdlHints:
    """The fields of a message apart from the statement and its schemas; None where a field is absent.

    old_name: the names of database and table before a RENAME.
    version, before_version: the schema versions of `after` and `before`, if rows of the protocol name versions.
    table_id: TiDB's number of the table.
    after_is_ordered: whether the columns of `after` are in table order.
    """

    old_name: tuple[str, str] | None = None
    version: int | None = None
    before_version: int | None = None
    table_id: int | None = None
    after_is_ordered: bool = True


@dataclass(frozen=True, slots=True)
class DdlOrigin:
    """Where a statement was read, if TiCDC did not write the stream.

    as_written: whether the query is the user's own text.
    commit_ms, sent_ms: when the statement was executed and sent, in Unix milliseconds, if known.
    place: topic, partition and offset, which order statements and inferred schemas of such a stream among the messages
        of their partition; the `commit_ts` is derived from them.
    """

    as_written: bool = False
    commit_ms: int | None = None
    sent_ms: int | None = None
    place: tuple[str, int, int] | None = None


NO_DDL_HINTS: Final = DdlHints()
FROM_TICDC: Final = DdlOrigin()


@dataclass(frozen=True, slots=True)
class DdlEvent:
    """A DDL statement, or, if `query` is "", the current schema of a table (a bootstrap).

    schema, table: the names in the protocol, after a RENAME the new ones; `table` is "" for statements on a database.
    after: the table's schema after the statement, None if the stream sends only the text.
    before: the table's schema before the statement, None if it is not sent.
    where: the position of the message, for errors.
    fault: why the statement cannot be applied; its tables stop at `commit_ts`, which is before the execution.
    loaded: whether it is a CREATE TABLE of a dump at `commit_ts`, which has all that the stream sends up to there.
    copied: whether it is the CREATE TABLE that TiDB has at `commit_ts`, from which the table is copied: its rows come
        from TiDB up to there, and from the stream above.
    gap_from: the TSO from which on no changes are known, up to `commit_ts`; 0 for none. `table` is "" for the gap
        itself, or names a table that goes on after it with the columns that it had. Such an event has no query.
    unexplained: a column that a row right after `commit_ts` has. If no statement up to there gives it to the table, the
        table stops there. Such an event has neither a query nor a schema.
    lacking: the same, of a column that the row lacks: the table stops there if it has the column up to there.
    displaced: the same, of a row whose name no table has any more: the table that had it last stops there.
    """

    commit_ts: int
    schema: str
    table: str
    query: str
    after: TableSchema | None = None
    before: TableSchema | None = None
    hints: DdlHints = NO_DDL_HINTS
    where: str = ""
    origin: DdlOrigin = FROM_TICDC
    fault: str = ""
    loaded: bool = False
    unexplained: str = ""
    lacking: str = ""
    displaced: bool = False
    copied: bool = False
    gap_from: int = 0


def gaps_of(events: Iterable[DdlEvent]) -> list[tuple[int, int]]:
    """The gaps that the events state, each with the TSOs at which it begins and ends. They do not overlap."""
    return sorted({(event.gap_from, event.commit_ts) for event in events if event.gap_from and not event.table})
