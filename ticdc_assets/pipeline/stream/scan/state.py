"""The result of the first pass over a stream, and how one row or schema is added to it."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from ticdc_assets.errors import DecodeError, SchemaError
from ticdc_assets.pipeline.stream.decode.task import Mark, VersionClock
from ticdc_assets.pipeline.stream.official_canal import Clocks, PlacedRow
from ticdc_assets.pipeline.stream.offsets.ledger import CaptureFault, Ledger
from ticdc_assets.pipeline.stream.offsets.ranges import Partition
from ticdc_assets.pipeline.stream.scan.avro import AvroLook
from ticdc_assets.pipeline.stream.scan.rising_rows import RisingRows
from ticdc_assets.pipeline.tasks import QuarantineEntry
from ticdc_assets.protocols.events import DdlEvent, Op, RowEvent
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.schema.history.source_table import SourceName, fold_name
from ticdc_assets.sources.capture import Message
from ticdc_assets.tso import LOGICAL_BITS


@dataclass(frozen=True, slots=True)
class StreamForm:
    """What is known of a stream before it is read.

    `topics` are the topics in dispatch rules, `newest` is the largest commit_ts of earlier runs. From the first row
    above `until`, where given, messages wait: the statements about their tables are not known yet. Where
    `deletes_are_keys`, deletes have only their key, mostly without a mark. `placed` are the times that earlier runs
    assigned to events that only their position orders.
    """

    protocol: str
    options: Any
    dating: VersionClock = VersionClock.COMMIT_TS
    topics: tuple[str, ...] = ()
    has_commit_ts: bool = True
    until: int | None = None
    newest: int = 0
    deletes_are_keys: bool = False
    placed: Mapping[tuple[str, int, int], int] = field(default_factory=dict)

    def is_whole(self, row: RowEvent) -> bool:
        """Whether a row has all columns of its table, as far as is known."""
        return not row.handle_only and not (self.deletes_are_keys and row.op is Op.DELETE)


@dataclass(slots=True)
class StreamScan:
    """The result of reading the messages after a cursor.

    `first_rows` has schema, table and the smallest commit_ts of every name (its first place where rows have none).
    `inferred` has the schema of its earliest row, in effect from just before that row. Where a table's rows are on
    several partitions, the first row to arrive may be from after a statement. `newest` is the largest commit_ts.
    `waiting` has the tables with rows that wait; their messages are in nothing else.
    `passed` has the watermarks of each partition with their offsets: where one is smaller than that before it, a new
    delivery begins (`epochs`, by offset).
    `ledger` has the offsets of the capture, consumed or not; `begins` has the first one of each partition. `twice` has
    the ordinals of messages that the capture has twice; they are in nothing else. `faults` keep partitions from being
    read (`until`); `behind` has the other names of tables that the capture mentions.
    `known` are the partitions of earlier runs; `has_older` is whether there are messages before what these consumed.
    `marks` are places to begin reading at, one for every few thousand messages; the first is at the first new message.
    `carried` has, by topic, the tables that its rows and statements are of.
    `first_placed` has the first row of each name in every partition, where only places order them.
    """

    watermarks: dict[Partition, int] = field(default_factory=dict)
    passed: dict[Partition, list[tuple[int, int]]] = field(default_factory=dict)
    epochs: dict[Partition, list[int]] = field(default_factory=dict)
    begins: dict[Partition, int] = field(default_factory=dict)
    known: frozenset[Partition] = frozenset()
    ledger: Ledger = field(default_factory=Ledger)
    twice: list[int] = field(default_factory=list)
    has_older: bool = False
    faults: tuple[CaptureFault, ...] = ()
    until: dict[Partition, int] = field(default_factory=dict)
    behind: dict[SourceName, tuple[str, str]] = field(default_factory=dict)
    ends: dict[Partition, int] = field(default_factory=dict)
    statements: list[DdlEvent] = field(default_factory=list)
    first_rows: dict[SourceName, tuple[str, str, int]] = field(default_factory=dict)
    inferred: dict[SourceName, DdlEvent] = field(default_factory=dict)
    bad: list[QuarantineEntry] = field(default_factory=list)
    messages: int = 0
    new_messages: int = 0
    carried: dict[str, set[SourceName]] = field(default_factory=dict)
    above: dict[Partition, RisingRows] = field(default_factory=dict)
    dated: dict[Partition, int] = field(default_factory=dict)
    newest: int = 0
    waiting: dict[SourceName, tuple[str, str]] = field(default_factory=dict)
    avro: AvroLook | None = None
    clocks: Clocks = field(default_factory=Clocks)
    first_placed: dict[SourceName, dict[Partition, PlacedRow]] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)

    @property
    def mentioned(self) -> dict[SourceName, tuple[str, str]]:
        """The tables with rows or statements, also in messages that are not read."""
        rows = {name: (schema, table) for name, (schema, table, _) in self.first_rows.items()}
        statements = {fold_name(e.schema, e.table): (e.schema, e.table) for e in self.statements if e.table}
        return self.behind | rows | statements

    def watermark(self, live: Set[SourceName], partition_num: int | None = None) -> int | None:
        """The smallest of the partitions' watermarks; None until every partition has one."""
        counted = self.counted(live, partition_num)
        if not counted or any(partition not in self.watermarks for partition in counted):
            return None
        return min(self.watermarks[partition] for partition in counted)

    def counted(self, live: Set[SourceName], partition_num: int | None = None) -> set[Partition]:
        """The partitions that the stream's watermark waits for: all that were ever seen, in this capture or an earlier
        one, and for each topic as many as TiCDC is configured to write to.

        A topic whose tables are all gone (renamed, dropped) gets no more watermarks and holds nothing back while
        another topic continues. The default topic always gets watermarks.
        """
        seen = self.known | self.ledger.partitions
        configured = {(topic, number) for topic in {topic for topic, _ in seen} for number in range(partition_num or 0)}
        return {p for p in seen | configured if self._is_active(p[0], live)} or {*seen, *configured}

    def _is_active(self, topic: str, live: Set[SourceName]) -> bool:
        names = self.carried.get(topic)
        return not names or not names.isdisjoint(live)

    def first(self, topic: str, schema: str, table: str, ts: int) -> None:
        """Add a topic's row of a table at this time."""
        name = fold_name(schema, table)
        self.carried.setdefault(topic, set()).add(name)
        if name not in self.first_rows or ts < self.first_rows[name][2]:
            self.first_rows[name] = (schema, table, ts)

    def is_inferred(self, name: SourceName, ts: int) -> bool:
        """Whether the columns of the table were inferred from a row of this time or before."""
        return name in self.inferred and self.inferred[name].commit_ts <= max(0, ts - 1)

    def passed_before(self, partition: Partition, offset: int) -> int:
        """The last watermark before a message of a partition, 0 where there is none."""
        return next((ts for at, ts in reversed(self.passed.get(partition, ())) if at < offset), 0)

    def finish(self) -> None:
        """Find where watermarks decrease, in the order of offsets, once all messages are read."""
        self.begins = self.ledger.begins()
        for partition, passed in self.passed.items():
            passed.sort(key=lambda at: at[0])
            self.epochs[partition] = [at for (_, before), (at, ts) in pairwise(passed) if ts < before]
        self.epochs = {partition: at for partition, at in self.epochs.items() if at}

    def first_above(self, partition: Partition, high: int) -> int:
        """The first offset of a partition with a commit_ts above `high`, else its end."""
        found = self.above[partition].first_offset_above(high) if partition in self.above else None
        return self.ends[partition] if found is None else found

    def last_before(self, ts: int) -> int:
        """The ordinal of the last message before the first one above `ts`."""
        above = (rows.first_ordinal_above(ts) for rows in self.above.values())
        return min((ordinal for ordinal in above if ordinal is not None), default=self.messages) - 1


def placed_statement(look: StreamScan, event: DdlEvent, message: Message) -> DdlEvent:
    """A statement that its position orders, with its assigned time."""
    place = (message.topic, message.partition, message.offset)
    return replace(event, commit_ts=look.clocks.of_statement(place, event.commit_ms), place=place)


def placed_row(look: StreamScan, row: RowEvent, message: Message) -> int:
    """The time assigned to a row that its position orders."""
    partition = (message.topic, message.partition)
    of_name = look.first_placed.setdefault(fold_name(row.schema, row.table), {})
    of_name.setdefault(partition, PlacedRow.of(row, partition, message.offset))
    return look.clocks.of_row((*partition, message.offset), row.commit_ms)


def first_row(
    look: StreamScan, stream: StreamForm, row: RowEvent, message: Message, ordinal: int, given: int | None = None
) -> None:
    """Record the time of a table's first row (`given` where the row has none), and the columns inferred from it."""
    name = fold_name(row.schema, row.table)
    ts = ordinal + 1 if stream.dating is VersionClock.PLACE else row.commit_ts if given is None else given
    if ts is None:
        ts = (row.commit_ms or 0) << LOGICAL_BITS
    look.first(message.topic, row.schema, row.table, ts)
    infer = REGISTRY[stream.protocol].infer
    if infer is None or look.is_inferred(name, ts) or not row.column_hints or not stream.is_whole(row):
        return
    try:
        table = infer(row)
    except SchemaError:
        return  # a later row, or the user's schema_files, may have more columns
    place = (message.topic, message.partition, message.offset) if row.by_place else None
    before_ts = max(0, ts - 1)
    look.inferred[name] = DdlEvent(before_ts, row.schema, row.table, "", after=table, where=message.where, place=place)


def avro_schema(look: StreamScan, stream: StreamForm, message: Message, ordinal: int) -> DdlEvent | None:
    """The writer schema of an Avro message, where no earlier message had it."""
    assert look.avro is not None
    schema = look.avro.schema(message)
    if schema is not None and stream.dating is VersionClock.PLACE:
        # Such a stream has no other schemas: each is in effect from the first message that is written with it.
        # Positions count from 1, as those of rows: 0 is for schemas from before the stream, which have a version.
        look.statements.append(replace(schema, commit_ts=ordinal + 1))
    return schema


def infer_from_schema(
    look: StreamScan, stream: StreamForm, event: DdlEvent | None, schema: str, table: str, commit_ts: int | None
) -> None:
    """Record the schema of a row as inferred from this row."""
    name, ts = fold_name(schema, table), commit_ts or 0
    if event is not None and stream.dating is not VersionClock.PLACE and not look.is_inferred(name, ts):
        look.inferred[name] = replace(event, commit_ts=max(0, ts - 1), version=None)


def date_of(row: RowEvent, dating: VersionClock) -> int | None:
    """The largest possible commit_ts of the row."""
    if row.commit_ts is None and row.commit_ms is not None and dating is VersionClock.COMMIT_MS:
        return last_of(row.commit_ms)
    return row.commit_ts


def last_of(commit_ms: int) -> int:
    """The last TSO of a millisecond."""
    return (commit_ms + 1 << LOGICAL_BITS) - 1


def bad_line(message: Message, error: DecodeError) -> QuarantineEntry:
    """The quarantine entry of a message that cannot be decoded."""
    path = f"{message.topic}/{message.partition}"
    return QuarantineEntry(path, message.offset, message.value or message.key or b"", str(error), "", "")
