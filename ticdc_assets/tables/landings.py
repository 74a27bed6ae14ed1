"""The landings in the control table `messages`: each is a commit, with files for each of its partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, ManifestEntry
from pyiceberg.table import Table
from pyiceberg.types import IntegerType, LongType, TimestamptzType

from ticdc_assets.errors import LakeError
from ticdc_assets.tables.iceberg.commits import NOT_KNOWN, refreshed, transaction
from ticdc_assets.tables.messages import (
    COMMIT_TRIES_MAX,
    OFFSET_ID,
    PARTITION_ID,
    TIMESTAMP_ID,
    another_landing,
    landed_offsets,
)


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A data file with the offsets from `first` up to, but not including, `end` of one partition.

    `newest_us` is the largest timestamp in microseconds since 1970, None where no message has one.
    """

    uri: str
    size_bytes: int
    first: int
    end: int
    rows: int
    newest_us: int | None


_Listed = tuple[int, str, int, SegmentFile]
"""The sequence number of a commit, a topic, a partition, and a file with messages of it."""
_READ: Final[dict[UUID, dict[str, list[_Listed]]]] = {}
"""What the manifests list that this process has read, by table and path: a manifest never changes."""


@dataclass(frozen=True, slots=True)
class LandedSegment:
    """The messages of one partition in one commit: their files, ordered by offset."""

    topic: str
    partition: int
    files: tuple[SegmentFile, ...]

    @property
    def first(self) -> int:
        """The first offset."""
        return self.files[0].first

    @property
    def end(self) -> int:
        """The offset after the last one."""
        return self.files[-1].end

    @property
    def rows(self) -> int:
        """The number of messages."""
        return sum(file.rows for file in self.files)

    @property
    def newest_us(self) -> int | None:
        """The largest timestamp in microseconds since 1970; None where a file has none."""
        newest = [file.newest_us for file in self.files if file.newest_us is not None]
        return max(newest) if len(newest) == len(self.files) else None


@dataclass(frozen=True, slots=True)
class Landing:
    """One commit: its messages by partition. `sequence` orders commits."""

    sequence: int
    segments: tuple[LandedSegment, ...]

    @property
    def rows(self) -> int:
        """The number of messages."""
        return sum(segment.rows for segment in self.segments)


def landings_of(table: Table) -> tuple[Landing, ...]:
    """The commits whose messages the table has, in order. Reads new manifests and no data.

    Raises:
        LakeError: a file does not hold messages of one partition, so another writer has rewritten it.
    """
    by_commit: dict[tuple[int, str, int], list[SegmentFile]] = {}
    for sequence, topic, partition, file in _listed(table):
        by_commit.setdefault((sequence, topic, partition), []).append(file)
    made: dict[int, list[LandedSegment]] = {}
    for (sequence, topic, partition), files in sorted(by_commit.items(), key=lambda item: item[0]):
        segment = LandedSegment(topic, partition, tuple(sorted(files, key=lambda file: file.first)))
        made.setdefault(sequence, []).append(segment)
    return tuple(Landing(sequence, tuple(segments)) for sequence, segments in made.items())


def _listed(table: Table) -> Iterator[_Listed]:
    """The live data files of the table. Of manifests that this process has read before, nothing is read again."""
    snapshot = table.current_snapshot()
    manifests = snapshot.manifests(table.io) if snapshot is not None else []
    before, now = _READ.get(table.metadata.table_uuid, {}), {}
    for manifest in manifests:
        found = before.get(manifest.manifest_path)
        if found is None:
            entries = manifest.fetch_manifest_entry(table.io)
            found = [(entry.sequence_number or 0, *_segment_file(table, entry.data_file)) for entry in entries]
        now[manifest.manifest_path] = found
        yield from found
    _READ[table.metadata.table_uuid] = now


def _entries(table: Table) -> Iterator[ManifestEntry]:
    """The live data files of the table, as its manifests list them."""
    snapshot = table.current_snapshot()
    for manifest in snapshot.manifests(table.io) if snapshot is not None else ():
        yield from manifest.fetch_manifest_entry(table.io)


def _segment_file(table: Table, file: DataFile) -> tuple[str, int, SegmentFile]:
    """The topic, partition and offsets of a file."""
    lower, upper = file.lower_bounds or {}, file.upper_bounds or {}
    topic = file.partition[1] if len(file.partition) == 2 else None
    try:
        partition, other = (int(from_bytes(IntegerType(), bounds[PARTITION_ID])) for bounds in (lower, upper))
        first, last = (int(from_bytes(LongType(), bounds[OFFSET_ID])) for bounds in (lower, upper))
    except KeyError:
        partition, other, first, last = 0, 1, 0, 0
    if not isinstance(topic, str) or partition != other:
        found = "a file of another form, which another writer has put there"
        advice = "Set the table back to the snapshot before it, and keep other writers away from this table."
        raise LakeError(".".join(table.name()), "files of one topic and partition each", found, advice)
    newest = upper.get(TIMESTAMP_ID)
    newest_us = None if newest is None else int(from_bytes(TimestamptzType(), newest))
    size_bytes = file.file_size_in_bytes
    return topic, partition, SegmentFile(file.file_path, size_bytes, first, last + 1, file.record_count, newest_us)


def remove_landings(table: Table, changefeed: str, gone: Sequence[Landing]) -> None:
    """Remove all messages of the given commits, in one commit that keeps the offsets.

    Raises:
        StaleRunError: other writers commit each time.
    """
    wanted = {file.uri for landing in gone for segment in landing.segments for file in segment.files}
    for _ in range(COMMIT_TRIES_MAX):
        table = refreshed(table)
        landed = landed_offsets(table)
        files = [entry.data_file for entry in _entries(table) if entry.data_file.file_path in wanted]
        if not files:
            return
        try:
            with (
                transaction(table) as tx,
                tx.update_snapshot(snapshot_properties=landed.summary(changefeed)).overwrite() as update,
            ):
                for file in files:
                    update.delete_data_file(file)
        except NOT_KNOWN:
            continue
        return
    raise another_landing(table, landed, landed_offsets(refreshed(table)))
