"""The events that messages of all protocols are decoded to.

Row values keep the protocol's form (`wire` dicts) until the schema at their commit_ts is known. The protocol's
`value(column, wire, zone)` then converts each one to the type that docs/tables.md lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from ticdc_assets.schema.model import TableSchema


class Op(StrEnum):
    """The operation of a row change."""

    INSERT = "I"
    UPDATE = "U"
    DELETE = "D"


@dataclass(frozen=True, slots=True)
class RowHints:
    """What a message has of a row apart from the change; None where it is absent.

    key: the handle key columns.
    schema_version: the schema version or schema id.
    table_id, partition_id, row_id: TiDB's numbers.
    columns: the type information of each column, in the form of the protocol.
    """

    key: tuple[str, ...] | None = None
    schema_version: int | None = None
    table_id: int | None = None
    partition_id: int | None = None
    row_id: int | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RowTime:
    """The time of a row that has no commit_ts, in Unix milliseconds; None where it is not known.

    commit_ms: when the row was committed.
    sent_ms: when it was sent, if `by_position`.
    by_position: whether the row is ordered by its offset, not by its time, because TiCDC did not write the stream.
    """

    commit_ms: int | None = None
    sent_ms: int | None = None
    by_position: bool = False


NO_HINTS: Final = RowHints()
NO_TIME: Final = RowTime()


@dataclass(frozen=True, slots=True)
class RowEvent:
    """A change of one row.

    wire: the new values by column name; for DELETE the old ones.
    before: the old values of an UPDATE, None if they were not sent.
    before_is_partial: whether `before` has only the changed columns.
    commit_ts: None if the stream has none.
    handle_only: whether only the handle key was sent, because the message was too large or is a DELETE.
    claim: the base name of the claim-check file that holds the whole message.
    upsert: whether the stream does not distinguish INSERT and UPDATE.
    """

    schema: str
    table: str
    op: Op
    commit_ts: int | None
    wire: Mapping[str, Any]
    before: Mapping[str, Any] | None = None
    before_is_partial: bool = False
    handle_only: bool = False
    claim: str | None = None
    upsert: bool = False
    hints: RowHints = NO_HINTS
    time: RowTime = NO_TIME

    @property
    def is_cut(self) -> bool:
        """Whether only the handle key of the row was sent, and more columns are needed."""
        return self.handle_only and self.op is not Op.DELETE

    @property
    def full_before(self) -> Mapping[str, Any] | None:
        """The whole old row of an UPDATE: columns that were not sent have their new values. None without old values."""
        if self.before is None or not self.before_is_partial:
            return self.before
        return {**self.wire, **self.before}


@dataclass(frozen=True, slots=True)
class DdlHints:
    """What a message says of a table apart from the statement and its schemas; None where it is absent.

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


@dataclass(frozen=True, slots=True)
class WatermarkEvent:
    """All changes of this partition with commit_ts <= `ts` were sent before this event."""

    ts: int


Event = RowEvent | DdlEvent | WatermarkEvent
