"""The message log of landed Kafka topics: the table `messages`, commit by commit.

Inside a commit, messages are in the order of their timestamps, as in a capture. A partition keeps the order of its
offsets, even where a later message has an earlier timestamp. So that a worker can begin anywhere, the order is computed
from the timestamp column alone, and only the requested rows of each partition are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO, load_file_io

from ticdc_assets.errors import SourceError
from ticdc_assets.names import control_namespace
from ticdc_assets.protocols.limits import BATCH_BYTES
from ticdc_assets.sources import message_block
from ticdc_assets.sources.capture import START, MessagePosition
from ticdc_assets.sources.message_block import Bodies, Ints, MessageBlock, MessageHeads
from ticdc_assets.sources.message_log import PassedMessages
from ticdc_assets.tables import messages as messages_table
from ticdc_assets.tables.landings import landings_of

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.sources.message_block import TopicPartition
    from ticdc_assets.sources.message_log import Suffice, UnreadOffsets
    from ticdc_assets.tables.landings import LandedSegment, Landing, SegmentFile

_COLUMNS: Final = ["offset", "timestamp"]
_BODIES: Final = ["key", "value"]
_HEADS: Final = ["kind", "schema", "table", "commit_ts"]
_LATER_HEADS: Final = ["min_commit_ts", "schema_version"]
"""The columns that files of older versions lack."""
_SIZE: Final = "size"
"""The mean size of the bodies in a row group, for each of its messages."""


@dataclass(frozen=True, slots=True)
class LandedLog:
    """The messages of a `messages` table at one snapshot.

    `first_ordinal` counts the messages that retention has removed at the beginning: the others keep their ordinals.
    `partitions` are all partitions of the topics, with messages or without. `topic_faults` are those of the last
    landing.
    """

    landings: tuple[Landing, ...]
    first_ordinal: int
    partitions: frozenset[TopicPartition]
    location: str
    io_properties: dict[str, str] = field(repr=False)
    topic_faults: Mapping[str, str] = field(default_factory=dict)

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
        for number in range(start.file, len(self.landings)):
            yield _Commit(io, number, self.landings[number].segments), start.record if number == start.file else 0

    def passed(self, unread: UnreadOffsets) -> PassedMessages:
        """The commits at the beginning that hold no message to read."""
        ordinal = self.first_ordinal
        ranges: list[tuple[TopicPartition, tuple[int, int]]] = []
        for number, landing in enumerate(self.landings):
            found = [((s.topic, s.partition), (s.first, s.end)) for s in landing.segments]
            if any(unread.overlaps(partition, *offsets) for partition, offsets in found):
                return PassedMessages(ordinal, MessagePosition(number), ranges, self.partitions)
            ordinal += landing.rows
            ranges += found
        return PassedMessages(ordinal, MessagePosition(len(self.landings)), ranges, self.partitions)


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


# -- reading -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Commit:
    """A commit, by its number, and the files of its partitions."""

    io: FileIO
    number: int
    segments: tuple[LandedSegment, ...]

    def readers(self, rows: Ints, columns: list[str]) -> list[_SegmentRows]:
        """A reader of each segment, from this row of it on. It opens no file before its first row is taken."""
        return [
            _SegmentRows(self.io, segment, int(row), columns) for segment, row in zip(self.segments, rows, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class _Place:
    """The messages of a block in their commit: the row of the first, the segment of each, and how many rows of each
    segment come before them."""

    at: int
    owners: Ints
    before: Ints

    def part(self, begin: int, end: int) -> _Place:
        """The place of some of these messages."""
        passed = np.bincount(self.owners[:begin], minlength=len(self.before))
        return _Place(self.at + begin, self.owners[begin:end], self.before + passed)


def _blocks(commit: _Commit, first: int) -> Iterator[MessageBlock]:
    """The messages of a commit in order, from the row `first`."""
    for place, rows in _read(commit, first, [*_COLUMNS, *_BODIES]):
        key, value = (pc.binary_length(rows[name]).fill_null(0).to_numpy() for name in _BODIES)
        for begin, end in _cuts(np.asarray(key, np.int64) + value):
            part = rows.slice(begin, end - begin)
            yield _block(commit, place.part(begin, end), part, Bodies.of(*_bodies_of(part)))


def _headed_blocks(commit: _Commit, first: int, suffice: Suffice, with_keys: bool) -> Iterator[MessageBlock]:
    """The same with heads, where they suffice. The bodies of such a block, but for its keys `with_keys`, are read when
    they are needed."""
    bodies = _BodiesInOrder(commit)
    for place, rows in _read(commit, first, [*_COLUMNS, *_HEADS, *_LATER_HEADS, *_BODIES[:with_keys], _SIZE]):
        for begin, end in _cuts(np.asarray(rows[_SIZE].to_numpy(), np.int64)):
            own, part = place.part(begin, end), rows.slice(begin, end - begin)
            keys = part["key"].combine_chunks().cast(pa.binary()) if with_keys else None
            heads = MessageHeads(*(_column(part, name) for name in (*_HEADS, *_LATER_HEADS)))
            if suffice(heads):
                yield _block(commit, own, part, Bodies(partial(_late_bodies, commit, own), keys), heads)
            else:
                yield _block(commit, own, part, bodies.of(own))


def _column(rows: pa.Table, name: str) -> pa.Array | None:
    """A column; None where the files lack it. All files of a commit are of one version."""
    return rows[name].combine_chunks() if name in rows.column_names else None


def _late_bodies(commit: _Commit, place: _Place) -> tuple[pa.Array, pa.Array]:
    return _bodies_of(_rows(commit.readers(place.before, _BODIES), place.owners))


class _BodiesInOrder:
    """Reads the bodies of some blocks of a commit. Those of consecutive blocks are read once: a row group may have
    messages of several blocks."""

    def __init__(self, commit: _Commit) -> None:
        self._commit = commit
        self._readers: list[_SegmentRows] = []
        self._at = -1

    def of(self, place: _Place) -> Bodies:
        """The bodies of a block after the blocks before."""
        if place.at != self._at:
            self._readers = self._commit.readers(place.before, _BODIES)
        self._at = place.at + len(place.owners)
        return Bodies.of(*_bodies_of(_rows(self._readers, place.owners)))


def _bodies_of(rows: pa.Table) -> tuple[pa.Array, pa.Array]:
    key, value = (rows[name].combine_chunks().cast(pa.binary()) for name in _BODIES)
    return key, value


def _read(commit: _Commit, first: int, columns: list[str]) -> Iterator[tuple[_Place, pa.Table]]:
    """Some thousand messages at once, with these columns."""
    owners = _owners(commit.io, commit.segments)
    before = np.bincount(owners[:first], minlength=len(commit.segments))
    readers = commit.readers(before, columns)
    for at in range(first, len(owners), message_block.BLOCK_MESSAGES):
        place = _Place(at, owners[at : at + message_block.BLOCK_MESSAGES], before)
        yield place, _rows(readers, place.owners)
        before = before + np.bincount(place.owners, minlength=len(before))


def _block(
    commit: _Commit, place: _Place, rows: pa.Table, bodies: Bodies, heads: MessageHeads | None = None
) -> MessageBlock:
    numbers: dict[TopicPartition, int] = {}
    codes = [numbers.setdefault((s.topic, s.partition), len(numbers)) for s in commit.segments]
    return MessageBlock(
        tuple(numbers),
        np.array(codes, np.int64)[place.owners],
        np.asarray(rows["offset"].to_numpy(), np.int64),
        _milliseconds(rows),
        bodies,
        np.full(len(rows), commit.number, np.int64),
        np.zeros(len(rows), np.int64),
        np.arange(place.at, place.at + len(rows)),
        heads,
    )


def _cuts(sizes: Ints) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of messages of these sizes, each of a bounded size."""
    parts = np.cumsum(sizes) // BATCH_BYTES
    bounds = [0, *(int(cut) + 1 for cut in np.flatnonzero(np.diff(parts))), len(sizes)]
    return pairwise(bounds)


def _owners(io: FileIO, segments: Sequence[LandedSegment]) -> Ints:
    """The segment of each message of a commit, in message order."""
    rows = [segment.rows for segment in segments]
    owners = np.repeat(np.arange(len(segments)), rows)
    if len(segments) == 1:
        return owners
    times = [np.maximum.accumulate(_times(io, segment)) for segment in segments]
    return np.asarray(owners[np.argsort(np.concatenate(times), kind="stable")])


def _times(io: FileIO, segment: LandedSegment) -> Ints:
    groups = _row_groups(io, segment.files, 0, ["timestamp"])
    return np.concatenate([_milliseconds(group) for group in groups])


def _milliseconds(rows: pa.Table) -> Ints:
    times = rows.column("timestamp").cast(pa.int64()).fill_null(0)
    return np.asarray(times.to_numpy(), np.int64) // 1000


def _rows(readers: Sequence[_SegmentRows], owners: Ints) -> pa.Table:
    """The next messages, one for each entry of `owners`."""
    counts = np.bincount(owners, minlength=len(readers))
    present = np.flatnonzero(counts)
    rows = pa.concat_tables([readers[int(number)].take(int(counts[number])) for number in present])
    place = np.empty(len(owners), np.int64)
    place[np.argsort(owners, kind="stable")] = np.arange(len(owners))
    return rows.take(pa.array(place)) if len(present) > 1 else rows


class _SegmentRows:
    """These columns of the rows of a segment, read in order from the row `first`."""

    def __init__(self, io: FileIO, segment: LandedSegment, first: int, columns: list[str]) -> None:
        self._groups = _row_groups(io, segment.files, first, columns)
        self._held: list[pa.Table] = []

    def take(self, count: int) -> pa.Table:
        """The next rows."""
        found = self._held
        while sum(map(len, found)) < count:
            found.append(next(self._groups))
        rows = pa.concat_tables(found)
        self._held = [rows.slice(count)]
        return rows.slice(0, count)


def _row_groups(io: FileIO, files: Sequence[SegmentFile], first: int, columns: list[str]) -> Iterator[pa.Table]:
    """These columns of the files, one row group at a time, without the first rows."""
    for file in files:
        if first >= file.rows:
            first -= file.rows
            continue
        try:
            with io.new_input(file.uri).open() as stream:
                parquet = pq.ParquetFile(stream)
                for number in range(parquet.num_row_groups):
                    rows = parquet.metadata.row_group(number).num_rows
                    if first < rows:
                        yield _row_group(parquet, number, columns).slice(first)
                    first = max(0, first - rows)
        except OSError as error:
            name, found = PurePosixPath(file.uri).name, error.strerror or type(error).__name__
            advice = "Restore it: it has messages that Kafka may no longer have."
            raise SourceError(f"messages, file {name}", "a file that can be read", found, advice) from None


def _row_group(file: pq.ParquetFile, number: int, columns: list[str]) -> pa.Table:
    """These columns of a row group, among which may be the size."""
    rows = file.read_row_group(number, columns=[name for name in columns if name != _SIZE])
    if _SIZE not in columns:
        return rows
    group = file.metadata.row_group(number)
    sizes = (
        group.column(i).total_uncompressed_size
        for i in range(group.num_columns)
        if group.column(i).path_in_schema in _BODIES
    )
    mean = sum(sizes) // max(1, len(rows))
    return rows.append_column(_SIZE, pa.array(np.full(len(rows), mean)))
