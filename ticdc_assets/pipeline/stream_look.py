"""What the first pass over a stream finds, and how one row or schema adds to it."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

from ticdc_assets.errors import DecodeError, SchemaError
from ticdc_assets.pipeline.avro_look import AvroLook
from ticdc_assets.pipeline.capture_ledger import CaptureFault, Ledger
from ticdc_assets.pipeline.message_task import Dating, Mark
from ticdc_assets.pipeline.offset_ranges import Partition
from ticdc_assets.pipeline.placed_rows import Clocks, PlacedRow
from ticdc_assets.pipeline.task import BadLine
from ticdc_assets.protocols.events import DdlEvent, Op, RowEvent
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.schema.lineage import SourceName, fold_name
from ticdc_assets.sources.capture import Message
from ticdc_assets.tso import LOGICAL_BITS


@dataclass(frozen=True, slots=True)
class StreamForm:
    """What is known of a stream before it is read.

    `topics` are the topics that dispatch rules name, `newest` is the largest commit_ts of earlier runs. From the first
    row above `until` on, where it is given, messages wait: what happened to their tables is not known so far. Where
    `deletes_are_keys`, deletes hold their key alone, mostly without saying so. `placed` are the times that earlier
    runs gave to what only its place orders.
    """

    protocol: str
    options: Any
    dating: Dating = Dating.COMMIT_TS
    topics: tuple[str, ...] = ()
    has_commit_ts: bool = True
    until: int | None = None
    newest: int = 0
    deletes_are_keys: bool = False
    placed: Mapping[tuple[str, int, int], int] = field(default_factory=dict)

    def is_whole(self, row: RowEvent) -> bool:
        """Whether a row has all the columns of its table, as far as can be known."""
        return not row.handle_only and not (self.deletes_are_keys and row.op is Op.DELETE)


class Step(NamedTuple):
    """A message with a commit_ts above those of all before it in its partition, back to where an offset is smaller than
    the one before it."""

    offset: int
    ts: int
    ordinal: int


@dataclass(slots=True)
class StreamLook:
    """What the messages after a cursor say.

    `first_rows` holds schema, table and the smallest commit_ts of every name (its first place where rows have none),
    `inferred` the schema that its earliest row tells, to hold from just before that row; the first to arrive may be of
    after a statement, where a table's rows are on several partitions. `newest` is the largest commit_ts of anything.
    `waiting` has the tables with rows that wait; their messages are in nothing else.
    `passed` has the watermarks of each partition with their offsets: where one is smaller than that before it, a new
    delivery begins (`epochs`, by offset).
    `ledger` tells which offsets the capture has, consumed or not, `begins` the first of each partition. `twice` has the
    ordinals of messages that it has before; they are in nothing else. `faults` keep partitions from being read
    (`until`); `behind` has what else the capture tells of names of tables.
    `known` are the partitions of earlier runs; `has_older` tells of messages before what these consumed.
    `marks` are places to begin reading at, one for every few thousand messages, the first at the first new one.
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
    bad: list[BadLine] = field(default_factory=list)
    messages: int = 0
    new_messages: int = 0
    carried: dict[str, set[SourceName]] = field(default_factory=dict)
    above: dict[Partition, list[Step]] = field(default_factory=dict)
    dated: dict[Partition, int] = field(default_factory=dict)
    newest: int = 0
    waiting: dict[SourceName, tuple[str, str]] = field(default_factory=dict)
    avro: AvroLook | None = None
    clocks: Clocks = field(default_factory=Clocks)
    first_placed: dict[SourceName, dict[Partition, PlacedRow]] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)

    @property
    def told(self) -> dict[SourceName, tuple[str, str]]:
        """The tables that have rows or statements, also in what is not read."""
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
        """The partitions that the watermark of the stream waits for: all that were ever seen, in this capture or in an
        earlier one, and of each topic as many as TiCDC was told to write to.

        A topic whose tables are all gone (renamed away, dropped) gets no watermarks any more and holds nothing back,
        while another topic goes on; the default topic always gets them.
        """
        seen = self.known | self.ledger.partitions
        told = {(topic, number) for topic in {topic for topic, _ in seen} for number in range(partition_num or 0)}
        return {p for p in seen | told if self._is_active(p[0], live)} or {*seen, *told}

    def _is_active(self, topic: str, live: Set[SourceName]) -> bool:
        names = self.carried.get(topic)
        return not names or not names.isdisjoint(live)

    def first(self, topic: str, schema: str, table: str, ts: int) -> None:
        """A topic has a row of a table at this time."""
        name = fold_name(schema, table)
        self.carried.setdefault(topic, set()).add(name)
        if name not in self.first_rows or ts < self.first_rows[name][2]:
            self.first_rows[name] = (schema, table, ts)

    def is_told(self, name: SourceName, ts: int) -> bool:
        """Whether a row of this time or before it has told the columns of its table."""
        return name in self.inferred and self.inferred[name].commit_ts <= max(0, ts - 1)

    def passed_before(self, partition: Partition, offset: int) -> int:
        """The watermark that comes last before a message of a partition, 0 where there is none."""
        return next((ts for at, ts in reversed(self.passed.get(partition, ())) if at < offset), 0)

    def settle(self) -> None:
        """Once all messages are read: find where watermarks went back, in the order of offsets."""
        self.begins = self.ledger.begins()
        for partition, passed in self.passed.items():
            passed.sort(key=lambda at: at[0])
            self.epochs[partition] = [at for (_, before), (at, ts) in pairwise(passed) if ts < before]
        self.epochs = {partition: at for partition, at in self.epochs.items() if at}

    def first_above(self, partition: Partition, high: int) -> int:
        """The first offset of a partition with a commit_ts above `high`, else its end."""
        return min((s.offset for s in self.above.get(partition, ()) if s.ts > high), default=self.ends[partition])

    def last_before(self, ts: int) -> int:
        """The ordinal of the last message that no message above `ts` comes before."""
        above = (next((step.ordinal for step in steps if step.ts > ts), self.messages) for steps in self.above.values())
        return min(above, default=self.messages) - 1


def placed_statement(look: StreamLook, event: DdlEvent, message: Message) -> DdlEvent:
    """A statement that its place orders, with the time it is given."""
    place = (message.topic, message.partition, message.offset)
    return replace(event, commit_ts=look.clocks.of_statement(place, event.commit_ms), place=place)


def placed_row(look: StreamLook, row: RowEvent, message: Message) -> int:
    """The time that is given to a row that its place orders."""
    partition = (message.topic, message.partition)
    of_name = look.first_placed.setdefault(fold_name(row.schema, row.table), {})
    of_name.setdefault(partition, PlacedRow.of(row, partition, message.offset))
    return look.clocks.of_row((*partition, message.offset), row.commit_ms)


def first_row(
    look: StreamLook, stream: StreamForm, row: RowEvent, message: Message, ordinal: int, given: int | None = None
) -> None:
    """Note when a table's first row was (`given` where the row does not tell), and what it tells of its columns."""
    name = fold_name(row.schema, row.table)
    ts = ordinal + 1 if stream.dating is Dating.PLACE else row.commit_ts if given is None else given
    if ts is None:
        ts = (row.commit_ms or 0) << LOGICAL_BITS
    look.first(message.topic, row.schema, row.table, ts)
    infer = REGISTRY[stream.protocol].infer
    if infer is None or look.is_told(name, ts) or not row.column_hints or not stream.is_whole(row):
        return
    try:
        table = infer(row)
    except SchemaError:
        return  # a later row, or the user's schema_files, may tell more
    place = (message.topic, message.partition, message.offset) if row.by_place else None
    told = max(0, ts - 1)
    look.inferred[name] = DdlEvent(told, row.schema, row.table, "", after=table, where=message.where, place=place)


def avro_schema(look: StreamLook, stream: StreamForm, message: Message, ordinal: int) -> DdlEvent | None:
    """The schema that an Avro message is written with, where none before it was."""
    assert look.avro is not None
    schema = look.avro.schema(message)
    if schema is not None and stream.dating is Dating.PLACE:
        # The only schemas of such a stream: those its messages are written with, from the first message that has one.
        # Places count from 1, as those of rows do: at 0 a schema is one of before the stream, dated by its version.
        look.statements.append(replace(schema, commit_ts=ordinal + 1))
    return schema


def infer_from_schema(
    look: StreamLook, stream: StreamForm, told: DdlEvent | None, schema: str, table: str, commit_ts: int | None
) -> None:
    """Remember the schema that came with a row as what the row tells of its table."""
    name, ts = fold_name(schema, table), commit_ts or 0
    if told is not None and stream.dating is not Dating.PLACE and not look.is_told(name, ts):
        look.inferred[name] = replace(told, commit_ts=max(0, ts - 1), version=None)


def date_of(row: RowEvent, dating: Dating) -> int | None:
    """The last TSO that the row's commit may have."""
    if row.commit_ts is None and row.commit_ms is not None and dating is Dating.COMMIT_MS:
        return last_of(row.commit_ms)
    return row.commit_ts


def last_of(commit_ms: int) -> int:
    """The last TSO of a millisecond."""
    return (commit_ms + 1 << LOGICAL_BITS) - 1


def bad_line(message: Message, error: DecodeError) -> BadLine:
    """A message that cannot be decoded, as it goes to quarantine."""
    path = f"{message.topic}/{message.partition}"
    return BadLine(path, message.offset, message.value or message.key or b"", str(error), "", "")
