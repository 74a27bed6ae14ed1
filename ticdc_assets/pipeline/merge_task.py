"""What the driver tells a worker about a stretch of a changelog that a mirror is to take; all of it pickles."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Taken:
    """A column of the mirror, as the field it is written as, and its field id in the changelog."""

    field: pa.Field
    changelog_id: int


@dataclass(frozen=True, slots=True)
class VectorPlace:
    """Where a deletion vector lies: a part of a Puffin file."""

    uri: str
    offset_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file of the mirror as it is now."""

    uri: str
    rows: int
    vector: VectorPlace | None = None


@dataclass(frozen=True, slots=True)
class MergeTask:
    """The changes in `(low, high]` of the files `changelog`, of which this worker has its share to do.

    All workers of one stretch find the newest change of every key in all files. Worker `share` of `shares` then writes
    the rows that come from its files (every `shares`-th one), and looks for replaced rows in `live`, its part of the
    mirror. `low` and `high` are of `_ticdc_commit_ts`; `by_arrival` of `_ticdc_seq`, of one table version only.
    """

    lineage_id: str
    columns: tuple[Taken, ...]
    key: tuple[str, ...]
    changelog: tuple[str, ...]
    low: int
    high: int
    by_arrival: bool
    version_ts: int
    live: tuple[LiveFile, ...]
    prefix_uri: str
    share: int = 0
    shares: int = 1
    io_properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """A data file of new rows, not yet committed."""

    uri: str
    size_bytes: int
    rows: int


@dataclass(frozen=True, slots=True)
class GoneRows:
    """All rows of a data file that are gone by now, as a deletion vector's blob."""

    data_uri: str
    blob: bytes
    rows: int


@dataclass(frozen=True, slots=True)
class MergeReport:
    """What one worker wrote and found; `unfit` says why it could not, and then there is nothing else."""

    lineage_id: str
    written: tuple[WrittenRows, ...] = ()
    gone: tuple[GoneRows, ...] = ()
    unfit: str = ""
