"""The result of the first pass over a stream: its offsets, watermarks, tables and statements."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from ticdc_assets.pipeline.stream.decode.official_canal import Clocks, PositionedRow
from ticdc_assets.pipeline.stream.decode.task import Mark
from ticdc_assets.pipeline.stream.offsets.ledger import CaptureFault, Ledger
from ticdc_assets.pipeline.stream.offsets.ranges import Ints, TopicPartition
from ticdc_assets.pipeline.stream.scan.avro import AvroScan
from ticdc_assets.pipeline.tasks import QuarantineEntry
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.source_table import SourceName, fold_name


@dataclass(slots=True)
class RunningMaxima:
    """The messages of a partition whose commit_ts is above that of all earlier ones: the offset, commit_ts and ordinal
    of each, in their order, batch by batch.

    Where an offset is smaller than the previous one, the sequence begins again.
    """

    _batches: list[Ints] = field(default_factory=list)

    def add(self, offsets: Ints, commit_ts: Ints, ordinals: Ints) -> None:
        """Add the messages of a batch."""
        if len(offsets):
            self._batches.append(np.column_stack((offsets, commit_ts, ordinals)))

    @property
    def newest(self) -> int:
        """The commit_ts of the last one, -1 where there is none."""
        return int(self._batches[-1][-1, 1]) if self._batches else -1

    def first_offset_above(self, commit_ts: int) -> int | None:
        """The smallest offset of a message above a commit_ts."""
        found = [batch[batch[:, 1] > commit_ts, 0] for batch in self._batches]
        return min((int(offsets.min()) for offsets in found if len(offsets)), default=None)

    def first_ordinal_above(self, commit_ts: int) -> int | None:
        """The ordinal of the first message above a commit_ts."""
        found = (batch[batch[:, 1] > commit_ts, 2] for batch in self._batches)
        return next((int(ordinals[0]) for ordinals in found if len(ordinals)), None)

    def first_offset_from(self, offset: int) -> int | None:
        """The smallest offset that is not below another."""
        found = [batch[batch[:, 0] >= offset, 0] for batch in self._batches]
        return min((int(offsets.min()) for offsets in found if len(offsets)), default=None)


@dataclass(slots=True)
class ScannedOffsets:
    """The offsets of a log of messages, by partition.

    `ledger` has all offsets, consumed or not; `begins` has the first one of each partition, `ends` the one after the
    last that is consumed or read. `known` are the partitions of earlier runs; `has_older` is whether there are messages
    before those that earlier runs consumed. `twice` has the ordinals of messages that the capture has twice; they are
    in nothing else. `faults` keep partitions from being read; `until` has the first offset that is not read.
    `left_out` are topics with a fault whose watermarks the stream does not wait for. `foreign` are topics of which no
    message could be decoded so far: they show no sign of TiCDC, and nothing waits for them.
    """

    ledger: Ledger = field(default_factory=Ledger)
    begins: dict[TopicPartition, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    known: frozenset[TopicPartition] = frozenset()
    has_older: bool = False
    twice: list[int] = field(default_factory=list)
    faults: tuple[CaptureFault, ...] = ()
    until: dict[TopicPartition, int] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    foreign: frozenset[str] = frozenset()

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """All partitions that were ever seen, in this capture or an earlier one."""
        return self.known | self.ledger.partitions

    def extend(self, partition: TopicPartition, end: int) -> None:
        """Add the messages of a partition before the offset `end`."""
        self.ends[partition] = max(end, self.ends.get(partition, 0))


@dataclass(slots=True)
class ScannedWatermarks:
    """The watermarks of the partitions.

    `newest` has the largest one. `passed` has all of them with their offsets: where one is smaller than that before it,
    a new delivery begins (`deliveries`, by offset).
    """

    newest: dict[TopicPartition, int] = field(default_factory=dict)
    passed: dict[TopicPartition, list[tuple[int, int]]] = field(default_factory=dict)
    deliveries: dict[TopicPartition, list[int]] = field(default_factory=dict)

    def add(self, partition: TopicPartition, offset: int, ts: int) -> None:
        """Add the watermark in the message at an offset."""
        self.passed.setdefault(partition, []).append((offset, ts))
        self.newest[partition] = max(ts, self.newest.get(partition, 0))

    def passed_before(self, partition: TopicPartition, offset: int) -> int:
        """The last watermark before a message of a partition, 0 where there is none."""
        return next((ts for at, ts in reversed(self.passed.get(partition, ())) if at < offset), 0)

    def find_deliveries(self) -> None:
        """Find where watermarks decrease, in the order of offsets, once all messages are read."""
        for partition, passed in self.passed.items():
            passed.sort(key=lambda at: at[0])
            self.deliveries[partition] = [at for (_, before), (at, ts) in pairwise(passed) if ts < before]
        self.deliveries = {partition: at for partition, at in self.deliveries.items() if at}


@dataclass(slots=True)
class ScannedTables:
    """The tables that messages name.

    `first_rows` has schema, table and the smallest commit_ts of every name (its first place where rows have none);
    `first_positioned` has the first row in every partition, where only places order them.
    `inferred` has the schema of a table's earliest row, in effect from just before that row. Where a table's rows are
    on several partitions, the first row to arrive may be from after a statement.
    `by_topic` has, by topic, the tables that its rows and statements are of. `behind` has the names of tables in
    messages that are not read because of a fault.
    `waiting` has the tables with rows that wait; their messages are in nothing else.
    """

    first_rows: dict[SourceName, tuple[str, str, int]] = field(default_factory=dict)
    first_positioned: dict[SourceName, dict[TopicPartition, PositionedRow]] = field(default_factory=dict)
    inferred: dict[SourceName, DdlEvent] = field(default_factory=dict)
    by_topic: dict[str, set[SourceName]] = field(default_factory=dict)
    behind: dict[SourceName, tuple[str, str]] = field(default_factory=dict)
    waiting: dict[SourceName, tuple[str, str]] = field(default_factory=dict)

    def add_row(self, topic: str, schema: str, table: str, ts: int) -> None:
        """Add a topic's row of a table at this time."""
        name = fold_name(schema, table)
        self.by_topic.setdefault(topic, set()).add(name)
        if name not in self.first_rows or ts < self.first_rows[name][2]:
            self.first_rows[name] = (schema, table, ts)

    def is_inferred(self, name: SourceName, ts: int) -> bool:
        """Whether the columns of the table were inferred from a row of this time or before."""
        return name in self.inferred and self.inferred[name].commit_ts <= max(0, ts - 1)


@dataclass(slots=True)
class ScannedCommits:
    """The commit_ts of messages. `newest` is the largest; `maxima` has, by partition, the messages that are above all
    earlier ones, and `last_offsets` the offset of the last message with a commit_ts."""

    newest: int = 0
    maxima: dict[TopicPartition, RunningMaxima] = field(default_factory=dict)
    last_offsets: dict[TopicPartition, int] = field(default_factory=dict)


@dataclass(slots=True)
class StreamScan:
    """The result of reading the messages after a cursor.

    `messages` is the ordinal after the last message that is consumed or read, `new_messages` counts those that are
    read. `marks` are places to begin reading at, one for every few thousand messages; the first is at the first new
    message. `witnesses` are digests of some messages, by ordinal. `bad` has the messages that cannot be decoded.
    `clocks` assigns times to events that only their position orders. `avro` is given for an Avro stream.
    """

    offsets: ScannedOffsets = field(default_factory=ScannedOffsets)
    watermarks: ScannedWatermarks = field(default_factory=ScannedWatermarks)
    tables: ScannedTables = field(default_factory=ScannedTables)
    commits: ScannedCommits = field(default_factory=ScannedCommits)
    statements: list[DdlEvent] = field(default_factory=list)
    bad: list[QuarantineEntry] = field(default_factory=list)
    messages: int = 0
    new_messages: int = 0
    marks: list[Mark] = field(default_factory=list)
    witnesses: dict[int, str] = field(default_factory=dict)
    clocks: Clocks = field(default_factory=Clocks)
    avro: AvroScan | None = None

    @property
    def mentioned(self) -> dict[SourceName, tuple[str, str]]:
        """The tables with rows or statements, also in messages that are not read."""
        rows = {name: (schema, table) for name, (schema, table, _) in self.tables.first_rows.items()}
        statements = {fold_name(e.schema, e.table): (e.schema, e.table) for e in self.statements if e.table}
        return self.tables.behind | rows | statements

    def watermark(self, live: Set[SourceName], partition_num: int | None = None) -> int | None:
        """The smallest of the partitions' watermarks; None until every partition has one."""
        counted, newest = self.counted(live, partition_num), self.watermarks.newest
        if not counted or any(partition not in newest for partition in counted):
            return None
        return min(newest[partition] for partition in counted)

    def counted(self, live: Set[SourceName], partition_num: int | None = None) -> set[TopicPartition]:
        """The partitions that the stream's watermark waits for: all that were ever seen, in this capture or an earlier
        one, and for each topic as many as TiCDC is configured to write to.

        A topic whose tables are all gone (renamed, dropped) gets no more watermarks and holds nothing back while
        another topic continues. The default topic always gets watermarks.
        """
        seen = self.offsets.partitions
        configured = {(topic, number) for topic in {topic for topic, _ in seen} for number in range(partition_num or 0)}
        return {p for p in seen | configured if self.is_active(p[0], live)} or {*seen, *configured}

    def is_active(self, topic: str, live: Set[SourceName]) -> bool:
        """Whether the stream's watermark waits for this topic."""
        if topic in self.offsets.left_out or topic in self.offsets.foreign:
            return False
        names = self.tables.by_topic.get(topic)
        return not names or not names.isdisjoint(live)

    def finish(self) -> None:
        """Complete what is only known once all messages are read."""
        self.offsets.begins = self.offsets.ledger.begins()
        self.watermarks.find_deliveries()

    def first_above(self, partition: TopicPartition, high: int) -> int:
        """The first offset of a partition with a commit_ts above `high`, else its end."""
        maxima = self.commits.maxima.get(partition)
        found = maxima.first_offset_above(high) if maxima is not None else None
        return self.offsets.ends[partition] if found is None else found

    def last_before(self, ts: int) -> int:
        """The ordinal of the last message before the first one above `ts`."""
        above = (rows.first_ordinal_above(ts) for rows in self.commits.maxima.values())
        return min((ordinal for ordinal in above if ordinal is not None), default=self.messages) - 1
