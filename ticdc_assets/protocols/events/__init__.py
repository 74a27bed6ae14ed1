"""The events that messages of all protocols are decoded to.

Row values keep the protocol's form (`wire` dicts) until the schema at their commit_ts is known. The protocol's
`value(column, wire, zone)` then converts each one to the type that docs/tables.md lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from ticdc_assets.schema.ddl_event import DdlEvent


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
class WatermarkEvent:
    """All changes of this partition with commit_ts <= `ts` were sent before this event."""

    ts: int


Event = RowEvent | DdlEvent | WatermarkEvent
