"""What the driver tells a worker and what the worker tells back; all of it pickles."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa
import pyarrow.parquet as pq

from ticdc_assets.protocols.csv import CsvOptions
from ticdc_assets.protocols.events import DdlEvent
from ticdc_assets.protocols.text_values import TextForms
from ticdc_assets.schema.lineage import Slot, SourceName


class FileFormat(StrEnum):
    """The storage sink's two file formats."""

    CSV = "csv"
    CANAL_JSON = "canal-json"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a lineage's changes go and which of them: commit_ts in `(low, high]`; the same of ordinals where messages
    count by arrival.

    `schemas` gives, by version TSO, the Arrow schema (with field ids) of a data file of that version; `metadata_uri` is
    the metadata file of the changelog.
    """

    lineage_id: str
    low: int
    high: int
    data_uri: str
    schemas: dict[int, pa.Schema]
    metadata_uri: str = ""

    def __reduce__(self) -> tuple[object, ...]:
        # pickle takes a schema apart into a Python object a field, which takes eight times as long.
        schemas = {version_ts: schema.serialize().to_pybytes() for version_ts, schema in self.schemas.items()}
        return _target, (self.lineage_id, self.low, self.high, self.data_uri, schemas, self.metadata_uri)


def _target(
    lineage_id: str, low: int, high: int, data_uri: str, schemas: dict[int, bytes], metadata_uri: str
) -> Target:
    read = {version_ts: pa.ipc.read_schema(pa.py_buffer(schema)) for version_ts, schema in schemas.items()}
    return Target(lineage_id, low, high, data_uri, read, metadata_uri)


@dataclass(frozen=True, slots=True)
class TaskFile:
    """A file to decode. `ordinal` counts the table's files from its first; `folder_version` is its folder's TSO.

    `told_columns` where the folder begins behind the statement that its table stops at: what its schema file lists.
    Its rows are left, but for those from before the statement that TiCDC may have put there after a restart.
    `is_seen` where an earlier run has read the file: then its tables have all of its rows up to their `low`.
    """

    path: str
    size_bytes: int
    name: SourceName
    schema: str
    table: str
    folder_version: int
    ordinal: int
    told_columns: tuple[str, ...] = ()
    is_seen: bool = False


@dataclass(frozen=True, slots=True)
class DecodeTask:
    """Files for one worker, in order of consumption, and all it needs to know about their tables.

    `by_arrival` where rows carry no commit_ts: then every row of a file belongs to its folder's version. `held` gives,
    by lineage, the TSO above which its rows are left for a later run (of files that are not seen, all of them); rows of
    lineages in neither are not asked for.
    """

    run_id: str
    number: int
    root_uri: str = field(repr=False)
    format: FileFormat
    csv: CsvOptions
    forms: TextForms
    by_arrival: bool
    files: tuple[TaskFile, ...]
    timelines: dict[SourceName, tuple[Slot, ...]]
    targets: dict[str, Target]
    io_properties: dict[str, str] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    quarantine: bool = True
    zero_dates_allowed: bool = True


@dataclass(frozen=True, slots=True)
class Part:
    """A Parquet file of changes of one lineage and version, not yet committed.

    `delivery` counts the times commit_ts went back before it in its task (see `changes.identity`). One that may be
    `late` has changes up to its lineage's `low`: repeats, or changes that the changelog lacks.
    """

    lineage_id: str
    version_ts: int
    uri: str
    size_bytes: int
    footer: pq.FileMetaData
    rows_by_op: dict[str, int]
    min_ts: int | None
    max_ts: int | None
    max_seq: int
    task: int
    delivery: int
    late: bool = False

    @property
    def rows(self) -> int:
        return sum(self.rows_by_op.values())


@dataclass(frozen=True, slots=True)
class BadLine:
    """A record that could not be decoded: kept raw, with its place and the reason."""

    path: str
    line: int
    raw: bytes
    reason: str
    schema: str
    table: str


class FileState(StrEnum):
    """What became of a file: read whole, to be read again later, or a reason to hold its table."""

    READ = "read"
    WAITING = "waiting"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class FileReport:
    """What a worker says of one file. `above` counts rows past the target's high: the file is read again later. `left`
    counts rows at or below the `low` of a held table: they may be late, so that the file does not count as seen.
    `shapes` are what its rows tell of their table's columns besides what is known of them by now.
    """

    path: str
    name: SourceName
    state: FileState
    rows: int = 0
    above: int = 0
    repeats: int = 0
    zero_dates: int = 0
    bad: tuple[BadLine, ...] = ()
    problem: str = ""
    left: int = 0
    shapes: tuple[DdlEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskReport:
    """All that came of one task."""

    number: int
    parts: tuple[Part, ...]
    files: tuple[FileReport, ...]
