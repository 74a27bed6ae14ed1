"""The message log of landed Kafka topics: the table `messages`, commit by commit.

Inside a commit, messages are in the order of their timestamps, as in a capture. A partition keeps the order of its
offsets, even where a later message has an earlier timestamp. The order is computed from the timestamp column of the
whole commit. A worker gets that of its own part from the driver, and reads only the rows of this part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.io import FileIO, load_file_io

from ticdc_assets.names import control_namespace
from ticdc_assets.pipeline.landing.segment_rows import BODIES, SegmentRows, milliseconds, times_ms
from ticdc_assets.protocols.formats.limits import BATCH_BYTES
from ticdc_assets.sources import message_block
from ticdc_assets.sources.capture import START, MessagePosition
from ticdc_assets.sources.message_block import Bodies, Ints, MessageBlock, MessageHeads, TopicPartition
from ticdc_assets.sources.message_log import LogPart, PassedMessages, Suffice, UnreadOffsets
from ticdc_assets.tables import messages as messages_table
from ticdc_assets.tables.landings import LandedSegment, Landing, landings_of

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake


OPEN_FILES_MAX: Final = 128
"""How many files a reader keeps open at once; many systems allow a process 1,024 or 256."""
_COLUMNS: Final = ["offset", "timestamp"]
_HEADS: Final = ["kind", "schema", "table", "commit_ts"]
_LATER_HEADS: Final = ["min_commit_ts", "schema_version"]
"""The columns that files of older versions lack."""


@dataclass(frozen=True, slots=True)
class LandedLog:
    """The messages of a `messages` table at one snapshot.

    `first_ordinal` counts the messages that retention has removed at the beginning: the others keep their ordinals.
    `partitions` are all partitions of the topics, with messages or without. `topic_faults` are those of the last
    landing. Commits are numbered from `first_commit` on. `orders` has the order of the messages to read, by commit;
    that of other commits is computed.
    """

    landings: tuple[Landing, ...]
    first_ordinal: int
    partitions: frozenset[TopicPartition]
    location: str
    io_properties: dict[str, str] = field(repr=False)
    topic_faults: Mapping[str, str] = field(default_factory=dict)
    first_commit: int = 0
    orders: Mapping[int, MessageOrder] = field(default_factory=dict, repr=False)

    @property
    def is_appended_to(self) -> bool:
        return True

    @property
    def can_be_rewritten(self) -> bool:
        return False

    def blocks(self, start: MessagePosition = START) -> Iterator[MessageBlock]:
        """The messages from a position. Raises SourceError where a file cannot be read."""
        for commit, first in self._from(start):
            yield from _blocks(commit, first)

    def headed_blocks(
        self, start: MessagePosition = START, *, suffice: Suffice, with_keys: bool = False
    ) -> Iterator[MessageBlock]:
        """See `MessageLog`. Raises SourceError where a file cannot be read."""
        for commit, first in self._from(start):
            yield from _headed_blocks(commit, first, suffice, with_keys)

    def _from(self, start: MessagePosition) -> Iterator[tuple[_Commit, int]]:
        """The commits from a position, each with the first row to read."""
        io = load_file_io(dict(self.io_properties), location=self.location)
        for number, landing in enumerate(self.landings, self.first_commit):
            if number >= start.file:
                commit = _Commit(io, number, landing.segments, self.orders.get(number))
                yield commit, start.record if number == start.file else 0

    def passed(self, unread: UnreadOffsets) -> PassedMessages:
        """The commits at the beginning that hold no message to read."""
        ordinal = self.first_ordinal
        ranges: list[tuple[TopicPartition, tuple[int, int]]] = []
        for number, landing in enumerate(self.landings, self.first_commit):
            found = [((s.topic, s.partition), (s.first, s.end)) for s in landing.segments]
            if any(unread.overlaps(partition, *offsets) for partition, offsets in found):
                return PassedMessages(ordinal, MessagePosition(number), ranges, self.partitions)
            ordinal += landing.rows
            ranges += found
        end = self.first_commit + len(self.landings)
        return PassedMessages(ordinal, MessagePosition(end), ranges, self.partitions)

    def sections(self, parts: Sequence[LogPart]) -> list[LandedLog]:
        """See `MessageLog`. A section has only the commits that it reads."""
        orders = _OrdersInTurn(self, load_file_io(dict(self.io_properties), location=self.location))
        return [self._section(part, orders) for part in parts]

    def _section(self, part: LogPart, of_commits: _OrdersInTurn) -> LandedLog:
        kept: list[Landing] = []
        orders: dict[int, MessageOrder] = {}
        first, left = part.start.record, part.messages
        for landing in islice(self.landings, part.start.file - self.first_commit, None):
            if not left:
                break
            number, end = part.start.file + len(kept), min(landing.rows, first + left)
            if len(landing.segments) > 1:
                orders[number] = of_commits.part(number, first, end)
            kept.append(landing)
            first, left = 0, left - (end - first)
        return replace(self, landings=tuple(kept), first_commit=part.start.file, orders=orders)


def landed_log(lake: Lake) -> LandedLog:
    """The log of the landed messages that a changefeed reads: its own, or those of the changefeed that its source
    names. An empty one before the first landing."""
    changefeed = lake.changefeed
    # The namespace of the changefeed itself: a rebuild reads into control tables of its own.
    own = control_namespace(changefeed.target, changefeed.name)
    table = messages_table.load(lake.catalog, own if lake.origin is None else lake.origin.namespace)
    if table is None:
        return LandedLog((), 0, frozenset(), "", lake.io_properties)
    landings, offsets = landings_of(table), messages_table.landed_offsets(table)
    removed = offsets.messages - sum(landing.rows for landing in landings)
    written_to = {topic for (topic, _), landed in offsets.partitions.items() if landed.last_mark}
    count = changefeed.sink.dispatch.partition_num
    partitions = frozenset(
        (topic, number)
        for topic, number in offsets.partitions
        if topic in written_to and (count is None or number < count)
    )
    return LandedLog(landings, removed, partitions, table.location(), lake.io_properties, offsets.faults)


class _OrdersInTurn:
    """The order of the messages of parts of a log. Of consecutive parts, each commit is sorted once."""

    def __init__(self, log: LandedLog, io: FileIO) -> None:
        self._log = log
        self._io = io
        self._number = -1
        self._left = MessageOrder(0, np.zeros(0, np.uint8), np.zeros(0, np.int64))

    def part(self, number: int, begin: int, end: int) -> MessageOrder:
        """The order of the rows from `begin` up to, but not including, `end` of a commit."""
        if number != self._number or begin < self._left.at:
            self._left = order_of(self._io, self._log.landings[number - self._log.first_commit].segments)
            self._number = number
        at, left = self._left.at, self._left
        self._left = left.part(end - at, len(left))
        return left.part(begin - at, end - at)


# -- reading -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Commit:
    """A commit: its number, the files of its partitions, and the order of its messages to read where that is known."""

    io: FileIO
    number: int
    segments: tuple[LandedSegment, ...]
    known: MessageOrder | None = None

    def order(self, first: int) -> MessageOrder:
        """The order of the messages to read, from the row `first` on."""
        known = order_of(self.io, self.segments) if self.known is None else self.known
        return known.part(first - known.at, len(known))

    def readers(self, rows: Ints, columns: list[str]) -> list[SegmentRows]:
        """A reader of each segment, from this row of it on."""
        reopens = len(self.segments) > OPEN_FILES_MAX
        return [
            SegmentRows(self.io, segment, int(row), columns, reopens=reopens)
            for segment, row in zip(self.segments, rows, strict=True)
        ]


def _blocks(commit: _Commit, first: int) -> Iterator[MessageBlock]:
    """The messages of a commit in order, from the row `first`."""
    for order, rows in _read(commit, first, [*_COLUMNS, *BODIES]):
        yield _block(commit, order, rows, Bodies.of(*_bodies_of(rows)))


def _headed_blocks(commit: _Commit, first: int, suffice: Suffice, with_keys: bool) -> Iterator[MessageBlock]:
    """The same with heads, where they suffice. The bodies of such a block, but for its keys `with_keys`, are read when
    they are needed."""
    bodies = _BodiesInOrder(commit)
    for order, rows in _read(commit, first, [*_COLUMNS, *_HEADS, *_LATER_HEADS, *BODIES[:with_keys]]):
        keys = rows["key"].combine_chunks().cast(pa.binary()) if with_keys else None
        heads = MessageHeads(*(_column(rows, name) for name in (*_HEADS, *_LATER_HEADS)))
        if suffice(heads):
            yield _block(commit, order, rows, Bodies(partial(_late_bodies, commit, order), keys), heads)
        else:
            yield _block(commit, order, rows, bodies.of(order))


def _column(rows: pa.Table, name: str) -> pa.Array | None:
    """A column; None where the files lack it. All files of a commit are of one version."""
    return rows[name].combine_chunks() if name in rows.column_names else None


def _late_bodies(commit: _Commit, order: MessageOrder) -> tuple[pa.Array, pa.Array]:
    return _bodies_of(_rows(commit.readers(order.before, BODIES), order.owners))


class _BodiesInOrder:
    """Reads the bodies of some blocks of a commit. Those of consecutive blocks are read once: a row group may have
    messages of several blocks."""

    def __init__(self, commit: _Commit) -> None:
        self._commit = commit
        self._readers: list[SegmentRows] = []
        self._at = -1

    def of(self, order: MessageOrder) -> Bodies:
        """The bodies of a block after the blocks before."""
        if order.at != self._at:
            self._readers = self._commit.readers(order.before, BODIES)
        self._at = order.at + len(order.owners)
        return Bodies.of(*_bodies_of(_rows(self._readers, order.owners)))


def _bodies_of(rows: pa.Table) -> tuple[pa.Array, pa.Array]:
    key, value = (rows[name].combine_chunks().cast(pa.binary()) for name in BODIES)
    return key, value


def _read(commit: _Commit, first: int, columns: list[str]) -> Iterator[tuple[MessageOrder, pa.Table]]:
    """Messages with these columns: at once some thousand, or as many as have about `BATCH_BYTES` of bodies."""
    order = commit.order(first)
    readers = commit.readers(order.before, columns)
    while len(order):
        ends = np.cumsum(_sizes(readers, order.owners[: message_block.BLOCK_MESSAGES]))
        size = max(1, int(np.searchsorted(ends, BATCH_BYTES, "right")))
        found = order.part(0, size)
        yield found, _rows(readers, found.owners)
        order = order.part(size, len(order))


def _sizes(readers: Sequence[SegmentRows], owners: Owners) -> Ints:
    """The bytes of the bodies of the next messages, one for each entry of `owners`."""
    counts = np.bincount(owners)
    sizes = np.empty(len(owners), np.int64)
    sizes[np.argsort(owners, kind="stable")] = np.concatenate(
        [readers[int(number)].sizes(int(counts[number])) for number in np.flatnonzero(counts)]
    )
    return sizes


def _block(
    commit: _Commit, order: MessageOrder, rows: pa.Table, bodies: Bodies, heads: MessageHeads | None = None
) -> MessageBlock:
    numbers: dict[TopicPartition, int] = {}
    codes = [numbers.setdefault((s.topic, s.partition), len(numbers)) for s in commit.segments]
    return MessageBlock(
        tuple(numbers),
        np.array(codes, np.int64)[order.owners],
        np.asarray(rows["offset"].to_numpy(), np.int64),
        milliseconds(rows),
        bodies,
        np.full(len(rows), commit.number, np.int64),
        np.zeros(len(rows), np.int64),
        np.arange(order.at, order.at + len(rows)),
        heads,
    )


def _rows(readers: Sequence[SegmentRows], owners: Owners) -> pa.Table:
    """The next messages, one for each entry of `owners`."""
    counts = np.bincount(owners, minlength=len(readers))
    present = np.flatnonzero(counts)
    rows = pa.concat_tables([readers[int(number)].take(int(counts[number])) for number in present])
    place = np.empty(len(owners), np.int64)
    place[np.argsort(owners, kind="stable")] = np.arange(len(owners))
    return rows.take(pa.array(place)) if len(present) > 1 else rows


WINDOW_ROWS: Final = 1 << 18

Owners = npt.NDArray[np.unsignedinteger]
"""The segment of each message. The type is the smallest one that can number all segments."""


@dataclass(frozen=True, slots=True)
class MessageOrder:
    """The order of consecutive messages of a commit: the row of the first, the segment of each, and how many rows of
    each segment come before them."""

    at: int
    owners: Owners
    before: Ints

    def __len__(self) -> int:
        return len(self.owners)

    def part(self, begin: int, end: int) -> MessageOrder:
        """The order of some of these messages."""
        passed = np.bincount(self.owners[:begin], minlength=len(self.before))
        return MessageOrder(self.at + begin, self.owners[begin:end], self.before + passed)


def order_of(io: FileIO, segments: Sequence[LandedSegment]) -> MessageOrder:
    """The order of all messages of a commit. Raises SourceError where a file cannot be read."""
    if len(segments) == 1:
        owners = np.zeros(segments[0].rows, np.uint8)
    else:
        owners = owners_by_time([np.maximum.accumulate(times_ms(io, segment)) for segment in segments])
    return MessageOrder(0, owners, np.zeros(len(segments), np.int64))


def owners_by_time(times: Sequence[Ints], window_rows: int = WINDOW_ROWS) -> Owners:
    """The segment of each message in the order of time, where messages of one time are in the order of segments.

    Args:
        times: the times of each segment, ascending.
        window_rows: about how many messages are sorted at once: sorting takes several times their memory.
    """
    numbers = np.arange(len(times), dtype=np.min_scalar_type(len(times)))
    step = max(1, window_rows // len(times))
    edges = np.unique(np.sort(np.concatenate([of[::step] for of in times]))[:: len(times)])[1:]
    cuts = [[0, *np.searchsorted(of, edges).tolist(), len(of)] for of in times]
    found: list[Owners] = []
    for window in range(len(edges) + 1):
        parts = [of[cut[window] : cut[window + 1]] for of, cut in zip(times, cuts, strict=True)]
        order = np.argsort(np.concatenate(parts), kind="stable")
        found.append(np.repeat(numbers, [len(part) for part in parts])[order])
    return np.concatenate(found)
