"""The message log of landed Kafka topics: the table `messages`, commit by commit.

Inside a commit, messages are in the order of their timestamps, as in a capture. A partition keeps the order of its
offsets, even where a later message has an earlier timestamp. So that a worker can begin anywhere, the order is computed
from the timestamp column alone, and only the requested rows of each partition are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO, load_file_io

from ticdc_assets.errors import SourceError
from ticdc_assets.names import control_namespace
from ticdc_assets.protocols.limits import BATCH_BYTES
from ticdc_assets.sources import message_block
from ticdc_assets.sources.capture import START, MessagePosition
from ticdc_assets.sources.message_block import MessageBlock
from ticdc_assets.sources.message_log import PassedMessages
from ticdc_assets.tables import messages as messages_table
from ticdc_assets.tables.landings import landings_of

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.sources.message_block import TopicPartition
    from ticdc_assets.sources.message_log import UnreadOffsets
    from ticdc_assets.tables.landings import LandedSegment, Landing, SegmentFile

_COLUMNS: Final = ["offset", "timestamp", "key", "value"]


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
        io = load_file_io(dict(self.io_properties), location=self.location)
        for number in range(start.file, len(self.landings)):
            yield from _blocks(io, self.landings[number], number, start.record if number == start.file else 0)

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


def _blocks(io: FileIO, landing: Landing, number: int, first: int) -> Iterator[MessageBlock]:
    """The messages of a commit, by its number, in order, from the row `first`."""
    segments = landing.segments
    owners = _owners(io, segments)
    skipped = np.bincount(owners[:first], minlength=len(segments))
    readers = [_SegmentRows(io, segment, int(rows)) for segment, rows in zip(segments, skipped, strict=True)]
    numbers: dict[TopicPartition, int] = {}
    codes = np.array([numbers.setdefault((s.topic, s.partition), len(numbers)) for s in segments], np.int64)
    for at in range(first, len(owners), message_block.BLOCK_MESSAGES):
        own = owners[at : at + message_block.BLOCK_MESSAGES]
        rows = _rows(readers, own)
        for begin, end in _cuts(rows):
            part = rows.slice(begin, end - begin)
            yield MessageBlock(
                tuple(numbers),
                codes[own[begin:end]],
                np.asarray(part["offset"].to_numpy(), np.int64),
                _milliseconds(part),
                part["key"].combine_chunks().cast(pa.binary()),
                part["value"].combine_chunks().cast(pa.binary()),
                np.full(end - begin, number, np.int64),
                np.zeros(end - begin, np.int64),
                np.arange(at + begin, at + end),
            )


def _cuts(rows: pa.Table) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of the messages, each of a bounded size."""
    sizes = sum(np.asarray(pc.binary_length(rows[name]).fill_null(0).to_numpy(), np.int64) for name in ("key", "value"))
    parts = np.cumsum(sizes) // BATCH_BYTES
    bounds = [0, *(int(cut) + 1 for cut in np.flatnonzero(np.diff(parts))), len(rows)]
    return pairwise(bounds)


def _owners(io: FileIO, segments: Sequence[LandedSegment]) -> npt.NDArray[np.int64]:
    """The segment of each message of a commit, in message order."""
    rows = [segment.rows for segment in segments]
    owners = np.repeat(np.arange(len(segments)), rows)
    if len(segments) == 1:
        return owners
    times = [np.maximum.accumulate(_times(io, segment)) for segment in segments]
    return np.asarray(owners[np.argsort(np.concatenate(times), kind="stable")])


def _times(io: FileIO, segment: LandedSegment) -> npt.NDArray[np.int64]:
    groups = _row_groups(io, segment.files, 0, ["timestamp"])
    return np.concatenate([_milliseconds(group) for group in groups])


def _milliseconds(rows: pa.Table) -> npt.NDArray[np.int64]:
    times = rows.column("timestamp").cast(pa.int64()).fill_null(0)
    return np.asarray(times.to_numpy(), np.int64) // 1000


def _whole(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found.cast(pa.binary())


def _rows(readers: Sequence[_SegmentRows], owners: npt.NDArray[np.int64]) -> pa.Table:
    """The next messages, one for each entry of `owners`."""
    counts = np.bincount(owners, minlength=len(readers))
    present = np.flatnonzero(counts)
    rows = pa.concat_tables([readers[int(number)].take(int(counts[number])) for number in present])
    place = np.empty(len(owners), np.int64)
    place[np.argsort(owners, kind="stable")] = np.arange(len(owners))
    return rows.take(pa.array(place)) if len(present) > 1 else rows


class _SegmentRows:
    """The rows of a segment, read in order from the row `first`."""

    def __init__(self, io: FileIO, segment: LandedSegment, first: int) -> None:
        self._groups = _row_groups(io, segment.files, first, _COLUMNS)
        self._held = _EMPTY

    def take(self, count: int) -> pa.Table:
        """The next rows."""
        found = [self._held]
        while sum(map(len, found)) < count:
            found.append(next(self._groups))
        rows = pa.concat_tables(found)
        self._held = rows.slice(count)
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
                        yield parquet.read_row_group(number, columns=columns).slice(first)
                    first = max(0, first - rows)
        except OSError as error:
            name, found = PurePosixPath(file.uri).name, error.strerror or type(error).__name__
            advice = "Restore it: it has messages that Kafka may no longer have."
            raise SourceError(f"messages, file {name}", "a file that can be read", found, advice) from None


_EMPTY: Final = pa.table({
    "offset": pa.array([], pa.int64()),
    "timestamp": pa.array([], pa.timestamp("us", tz="UTC")),
    "key": pa.array([], pa.binary()),
    "value": pa.array([], pa.binary()),
})  # fmt: skip
