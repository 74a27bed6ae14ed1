"""What a message says, whatever its protocol.

Row values stay as the wire wrote them (`wire` dicts) until the schema in force at their commit_ts is known;
`protocols.<name>.value(column, wire)` turns one into the value that docs/tables.md names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ticdc_assets.schema.model import TableSchema


class Op(StrEnum):
    """The three things that happen to a row."""

    INSERT = "I"
    UPDATE = "U"
    DELETE = "D"


@dataclass(frozen=True, slots=True)
class RowEvent:
    """A change of one row.

    `wire` holds the new values (for DELETE the old ones) by column name, `before` the old values of an UPDATE where
    sent; `before_is_partial` where only changed columns were sent. `commit_ts` is None where the stream has none;
    `commit_ms` is then the commit time in milliseconds where that is known. `handle_only` marks a row of which only
    the handle key was sent (large messages), `claim` the base name of the file that holds the whole message.
    `upsert` marks a stream where INSERT and UPDATE look alike. `key` names the handle key columns where the message
    does. `by_place` marks a row that its place in its partition orders, whatever time it tells: of a stream that no
    TiCDC wrote; `sent_ms` is then when it was sent.
    """

    schema: str
    table: str
    op: Op
    commit_ts: int | None
    wire: Mapping[str, Any]
    before: Mapping[str, Any] | None = None
    before_is_partial: bool = False
    commit_ms: int | None = None
    schema_version: int | None = None
    table_id: int | None = None
    partition_id: int | None = None
    row_id: int | None = None
    key: tuple[str, ...] | None = None
    handle_only: bool = False
    claim: str | None = None
    upsert: bool = False
    by_place: bool = False
    sent_ms: int | None = None
    checksum_error: str | None = None
    column_hints: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DdlEvent:
    """A statement, or with `query` "" a schema as it stands (a bootstrap, a table older than the stream).

    `schema` and `table` are as the protocol names them: after a RENAME the new names; "" for a database's statements.
    `after` is the schema the stream itself tells, `before` the one it had; None where only text is sent.
    `version` keys `after` for protocols whose rows name a schema version; `before_version` likewise.
    `after_is_ordered` false where `after` lists its columns in another order than the table's.
    `where` is the position it was read at.

    `as_written` marks a statement as the user wrote it, of a stream that no TiCDC wrote: names, quotes and backslashes
    are the user's. It was executed at `commit_ms` and sent at `sent_ms`, as far as that is told; its `place` (topic,
    partition, offset) orders it among the messages of its partition, and `commit_ts` is given to it accordingly.
    """

    commit_ts: int
    schema: str
    table: str
    query: str
    after: TableSchema | None = None
    before: TableSchema | None = None
    old_name: tuple[str, str] | None = None
    version: int | None = None
    before_version: int | None = None
    table_id: int | None = None
    start_ts: int | None = None
    after_is_ordered: bool = True
    where: str = ""
    as_written: bool = False
    commit_ms: int | None = None
    sent_ms: int | None = None
    place: tuple[str, int, int] | None = None


@dataclass(frozen=True, slots=True)
class WatermarkEvent:
    """Everything with commit_ts <= `ts` has been sent before, on this partition."""

    ts: int


Event = RowEvent | DdlEvent | WatermarkEvent
