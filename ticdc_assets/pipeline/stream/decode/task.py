"""The task of a worker that decodes a part of a captured stream; all of it pickles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ticdc_assets.config import Upstream
from ticdc_assets.names.table_filter import ColumnSelectors, TableFilter
from ticdc_assets.pipeline.stream.decode.official_canal import StatementPositions
from ticdc_assets.pipeline.stream.offsets.ranges import TopicPartition, Window
from ticdc_assets.pipeline.tasks import Target
from ticdc_assets.schema.history.source_table import SourceName, Timeline
from ticdc_assets.schema.model import TableName, TableSchema
from ticdc_assets.sources.capture import MessagePosition
from ticdc_assets.sources.message_log import MessageLog

SchemaVersion = tuple[SourceName, int]
MessageName = tuple[str, str, str]
"""A topic, and the database and table name in its messages."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A position at which a capture can be read, and the ordinal of the message there."""

    ordinal: int
    place: MessagePosition


class VersionClock(StrEnum):
    """What determines the schema version of a row: its commit_ts, its commit time in milliseconds, or its position in
    the stream (a version is then in effect from the first message that has it)."""

    COMMIT_TS = "commit_ts"
    COMMIT_MS = "commit_ms"
    POSITION = "position"


@dataclass(frozen=True, slots=True)
class Arrival:
    """The messages that a table takes by arrival if each partition has its own file: of each partition the offsets from
    `since` on and below `until`, if these are given. `number` is the table's delivery: its changes come after those of
    all earlier deliveries.
    """

    number: int
    since: Mapping[TopicPartition, int]
    until: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Stretch:
    """The messages of a log that a task reads: those in `window`, from `begin` up to the ordinal `last`.

    witnesses: digests of scanned messages, by ordinal. A message with another digest was not scanned.
    twice: the ordinals of messages whose offset the log already has; they are not read.
    read: by partition, the offsets that an earlier run has read. Rows of these messages are in the changelogs up to
        their tables' watermarks. Rows of other messages may be late.
    ordinals: those of the messages, if they do not follow each other.
    """

    log: MessageLog
    begin: Mark
    last: int
    window: Window
    witnesses: dict[int, str] = field(default_factory=dict)
    twice: frozenset[int] = frozenset()
    read: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    ordinals: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Decoding:
    """How messages become values.

    claim_check: the URI of the folder of large messages.
    upstream: the TiDB from which rows with only a handle key are completed.
    quarantine: whether a message that cannot be decoded is quarantined; else it stops its table.
    """

    protocol: str
    options: Any
    zone: str
    claim_check: str | None = field(default=None, repr=False)
    upstream: Upstream | None = field(default=None, repr=False)
    quarantine: bool = True
    zero_dates_allowed: bool = True


@dataclass(frozen=True, slots=True)
class Schemas:
    """Determines the schema of a row.

    timelines: by table name, its schema periods.
    versions: by schema version in rows, the TSO after which it is in effect.
    checked: by schema version, the schema over whose columns row checksums are computed.
    given: the tables whose schema the user gave; their rows need no version.
    tables: the selected tables; no other table needs a schema.
    selectors: the columns that rows lack.
    names: the true names of tables that messages cannot spell, None where they are not known.
    statement_positions: the positions of statements that only their position orders.
    stopped: the source tables that stop somewhere.
    """

    timelines: dict[SourceName, Timeline]
    versions: dict[SchemaVersion, int]
    checked: dict[SchemaVersion, TableSchema]
    given: frozenset[SourceName]
    tables: TableFilter
    clock: VersionClock
    selectors: ColumnSelectors = field(default_factory=ColumnSelectors)
    names: dict[MessageName, TableName | None] = field(default_factory=dict)
    statement_positions: StatementPositions = field(default_factory=StatementPositions)
    stopped: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class RowOrder:
    """Determines which rows a table takes, and their order.

    deliveries: by partition, the offsets at which its watermark decreases. A new delivery begins there.
    arrivals: by source table, what it takes by arrival where ordinals do not determine that.
    fresh: the source tables of which it is not known that they have the rows of the messages that earlier runs have
        read: they were not selected then, or were published by a run without a record.
    placed: by ordinal, the commit_ts assigned to deletes that have none.
    repeated: the ordinals of repeats.
    """

    by_arrival: bool
    deliveries: dict[TopicPartition, tuple[int, ...]]
    arrivals: dict[str, Arrival] = field(default_factory=dict)
    fresh: frozenset[str] = frozenset()
    placed: dict[int, int] = field(default_factory=dict)
    repeated: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class MessageTask:
    """The messages of one worker, up to the commit_ts `high`."""

    run_id: str
    number: int
    high: int
    stretch: Stretch
    decoding: Decoding
    schemas: Schemas
    order: RowOrder
    targets: dict[str, Target]
    io_properties: dict[str, str] = field(default_factory=dict)
