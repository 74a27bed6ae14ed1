"""The task of a worker that merges a segment of a changelog into a mirror; all of it pickles."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from ticdc_assets.tables.iceberg.written_file import WrittenFile


@dataclass(frozen=True, slots=True)
class MirrorColumn:
    """A column of the mirror: the field that it is written as, and its field id in the changelog."""

    field: pa.Field
    changelog_id: int


@dataclass(frozen=True, slots=True)
class VectorPosition:
    """The position of a deletion vector: a part of a Puffin file."""

    uri: str
    offset_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file in the present snapshot of the mirror."""

    uri: str
    rows: int
    vector: VectorPosition | None = None


@dataclass(frozen=True, slots=True)
class SegmentChanges:
    """The changes in `(low, high]` of some files of a changelog.

    `low` and `high` are values of `_ticdc_commit_ts`; `by_arrival` values of `_ticdc_seq`, of one table version only.
    """

    files: tuple[str, ...]
    low: int
    high: int
    by_arrival: bool
    version_ts: int


@dataclass(frozen=True, slots=True)
class MergeTask:
    """The changes of a segment, and this worker's share of them.

    All workers of a segment find the newest change of every key in all files, in so many `buckets` of keys, one after
    the other. Worker `share` of `shares` writes the rows that come from its files (every `shares`-th one), and finds
    the replaced rows in `live`, its part of the mirror's files.
    """

    source_table_id: str
    columns: tuple[MirrorColumn, ...]
    key: tuple[str, ...]
    changes: SegmentChanges
    live: tuple[LiveFile, ...]
    prefix_uri: str
    share: int = 0
    shares: int = 1
    buckets: int = 1
    io_properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """All deleted rows of a data file, as the blob of a deletion vector."""

    data_uri: str
    blob: bytes
    rows: int


@dataclass(frozen=True, slots=True)
class MergeReport:
    """What one worker wrote and deleted. If it could not merge, `unfit` has the reason and all else is empty."""

    source_table_id: str
    written: tuple[WrittenFile, ...] = ()
    gone: tuple[DeletedRows, ...] = ()
    unfit: str = ""
