"""The tasks that the driver sends to workers, and the reports that workers return; all of it pickles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ticdc_assets.changes import layout
from ticdc_assets.errors import DecodeError, TicdcAssetsError
from ticdc_assets.faults import of_one_table
from ticdc_assets.names.table_filter import ColumnSelectors
from ticdc_assets.notes import Note
from ticdc_assets.pipeline.commit_range import Hold, TableState
from ticdc_assets.protocols.csv.options import CsvOptions
from ticdc_assets.protocols.values.text import TextForms
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.source_table import SourceName, Timeline

if TYPE_CHECKING:
    from ticdc_assets.sources.capture import Message
    from ticdc_assets.spark import Workers

Payload = TypeVar("Payload")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a source table's changes go and which of them: commit_ts in `(low, high]`, or ordinals where messages are
    ordered by arrival.

    `schemas` gives, by version TSO, the Arrow schema (with field ids) of a data file of that version. `metadata_uri` is
    the metadata file of the changelog.
    """

    source_table_id: str
    low: int
    high: int
    data_uri: str
    schemas: dict[int, pa.Schema]
    metadata_uri: str = ""

    def __reduce__(self) -> tuple[object, ...]:
        # pickle stores a schema as one Python object per field, which takes eight times as long.
        schemas = {version_ts: schema.serialize().to_pybytes() for version_ts, schema in self.schemas.items()}
        return _target, (self.source_table_id, self.low, self.high, self.data_uri, schemas, self.metadata_uri)


def _target(
    source_table_id: str, low: int, high: int, data_uri: str, schemas: dict[int, bytes], metadata_uri: str
) -> Target:
    read = {version_ts: pa.ipc.read_schema(pa.py_buffer(schema)) for version_ts, schema in schemas.items()}
    return Target(source_table_id, low, high, data_uri, read, metadata_uri)


@dataclass(frozen=True, slots=True)
class TaskFile:
    """A file to decode. `ordinal` counts the table's files from its first; `folder_version` is its folder's TSO.

    `listed_columns` are the columns in the folder's schema file, where the folder begins after the statement that stops
    its table. The rows of such a file are left, except rows from before the statement: TiCDC may write those there
    after a restart. `is_seen` is true if an earlier run has read the file: its tables then have all of its rows up to
    their `low`. `first_line` is the number of its first record, if it is a piece of another file.
    """

    path: str
    size_bytes: int
    name: SourceName
    schema: str
    table: str
    folder_version: int
    ordinal: int
    listed_columns: tuple[str, ...] = ()
    is_seen: bool = False
    first_line: int = 0


@dataclass(frozen=True, slots=True)
class FileDecoding:
    """How the records of files are decoded: as CSV, or as Canal-JSON where `csv` is None.

    `by_arrival` is true if rows have no commit_ts: every row of a file then belongs to its folder's version.
    `selectors` give the columns that rows lack.
    """

    csv: CsvOptions | None
    forms: TextForms
    by_arrival: bool
    quarantine: bool = True
    zero_dates_allowed: bool = True
    selectors: ColumnSelectors = field(default_factory=ColumnSelectors)


@dataclass(frozen=True, slots=True)
class DecodeTask:
    """Files for one worker, in order of consumption, and all that it needs to know about their tables.

    `held` gives, by source table, the TSO above which its rows are left for a later run; of files that are not seen,
    all rows are left. Rows of source tables in neither `targets` nor `held` are ignored.
    """

    run_id: str
    number: int
    root_uri: str = field(repr=False)
    decoding: FileDecoding
    files: tuple[TaskFile, ...]
    timelines: dict[SourceName, Timeline]
    targets: dict[str, Target]
    io_properties: dict[str, str] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)


class CommitBounds(NamedTuple):
    """The smallest and the largest commit_ts of some changes."""

    min_ts: int
    max_ts: int

    @classmethod
    def of(cls, rows: pa.Table) -> CommitBounds | None:
        """The bounds of rows in the layout of a changelog; None where none has a commit_ts."""
        found = pc.min_max(rows.column(layout.COMMIT_TS)).as_py()
        return None if found["min"] is None else cls(found["min"], found["max"])


@dataclass(frozen=True, slots=True)
class ChangelogPart:
    """A Parquet file of changes of one source table and version, not yet committed.

    `commit_ts` is None where rows have none. `delivery` counts the decreases of commit_ts before it in its task (see
    `changes.identity`). A `late` part has changes up to its source table's `low`: repeats, or changes that the
    changelog lacks.
    """

    source_table_id: str
    version_ts: int
    uri: str
    size_bytes: int
    footer: pq.FileMetaData
    rows_by_op: dict[str, int]
    commit_ts: CommitBounds | None
    max_seq: int
    task: int
    delivery: int
    late: bool = False

    @property
    def rows(self) -> int:
        """The number of changes."""
        return sum(self.rows_by_op.values())

    @property
    def first_ts(self) -> int:
        """The smallest commit_ts, 0 where rows have none."""
        return self.commit_ts.min_ts if self.commit_ts is not None else 0

    @property
    def last_ts(self) -> int:
        """The largest commit_ts, 0 where rows have none."""
        return self.commit_ts.max_ts if self.commit_ts is not None else 0


@dataclass(frozen=True, slots=True)
class QuarantineEntry:
    """A record that could not be decoded: its raw bytes, its position, the reason, and its commit_ts where that could
    be read."""

    path: str
    line: int
    raw: bytes
    reason: str
    schema: str
    table: str
    commit_ts: int | None = None

    @classmethod
    def of_message(cls, message: Message, error: DecodeError) -> QuarantineEntry:
        """A message that could not be decoded, of no table yet."""
        path = f"{message.topic}/{message.partition}"
        return cls(path, message.offset, message.value or message.key or b"", str(error), "", "")


class FileState(StrEnum):
    """The outcome of a file: read whole, to be read again later, or a reason to hold its table."""

    READ = "read"
    WAITING = "waiting"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class FileReport:
    """A worker's report on a file. `rows` counts its sound rows. `above` counts rows above the target's `high`: the
    file is read again later. `left` counts rows at or below the `low` of a held table: they may be late, so the file
    does not count as seen. `shapes` are the schemas of rows whose columns differ from the known ones.
    """

    path: str
    name: SourceName
    state: FileState
    rows: int = 0
    above: int = 0
    repeats: int = 0
    zero_dates: int = 0
    bad: tuple[QuarantineEntry, ...] = ()
    problem: Note | None = None
    left: int = 0
    shapes: tuple[DdlEvent, ...] = ()
    ambiguous_times: int = 0

    @property
    def hold(self) -> Hold:
        """The hold of a table whose file was not read."""
        assert self.problem is not None
        return Hold(TableState(self.state), self.problem)


@dataclass(frozen=True, slots=True)
class TaskReport:
    """All results of one task."""

    number: int
    parts: tuple[ChangelogPart, ...]
    files: tuple[FileReport, ...]


TASK_BYTES_MIN: Final = 4 << 20  # below this, starting a task costs more than it saves
TASKS_PER_CORE: Final = 2  # so that one slow task does not leave the other cores idle for long


def pack(files: Sequence[TaskFile], cores: int, whole: Mapping[SourceName, bool]) -> list[tuple[TaskFile, ...]]:
    """Group `files`, which are in order of consumption by name. The files of a name in `whole` stay in one task,
    because the order of their deliveries matters (tables without a key)."""
    total = sum(file.size_bytes for file in files)
    count = max(1, min(cores * TASKS_PER_CORE, total // TASK_BYTES_MIN))
    if count > cores:
        count -= count % cores  # a last round with few tasks would leave cores idle
    tasks: dict[int, list[TaskFile]] = {}
    packed_bytes = 0
    for name, group in groupby(files, key=lambda file: file.name):
        for run in [list(group)] if whole.get(name) else [[file] for file in group]:
            number = min(count - 1, packed_bytes * count // max(1, total))
            tasks.setdefault(number, []).extend(run)
            packed_bytes += sum(file.size_bytes for file in run)
    return [tuple(task) for task in tasks.values()]


# -- the tasks of many tables in one job -------------------------------------------------------------------------------


def answers_of(
    workers: Workers, work: Callable[[Payload], Answer], payloads: Sequence[Payload]
) -> list[Answer | TicdcAssetsError]:
    """The answer to each payload, or the error that holds its table. An error that concerns all tables is raised.

    If the job fails, each payload runs alone, so that the error has a table.
    """
    if not payloads:
        return []
    try:
        return list(workers.map(work, payloads))
    except Exception as error:  # noqa: BLE001  raised again where it is not of one table
        fault = of_one_table(error)
    return [fault] if len(payloads) == 1 else [_answer(workers, work, payload) for payload in payloads]


def _answer(workers: Workers, work: Callable[[Payload], Answer], payload: Payload) -> Answer | TicdcAssetsError:
    try:
        return workers.map(work, [payload])[0]
    except Exception as error:  # noqa: BLE001  raised again where it is not of one table
        return of_one_table(error)
