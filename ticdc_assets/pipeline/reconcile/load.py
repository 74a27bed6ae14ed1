"""The tables of TiDB at a TSO as a source of changes for an initial load, in place of a dump.

Rounds, interruptions and what the stream has up to the TSO are those of a dump. A table's columns are those of SHOW
CREATE TABLE, and stored generated columns come along.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ticdc_assets.errors import TicdcAssetsError
from ticdc_assets.faults import of_one_table
from ticdc_assets.names.folding import fold
from ticdc_assets.names.table_filter import TableFilter
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.changelog.tables import target_of
from ticdc_assets.pipeline.history.verify import upstream_of
from ticdc_assets.pipeline.load.progress import loaded_ts, unfinished_ts
from ticdc_assets.pipeline.load.source import DumpBatch, DumpChanges
from ticdc_assets.pipeline.load.task import DumpPending, DumpRequest
from ticdc_assets.pipeline.reconcile.ranges import CopyTask, copy, first_seq
from ticdc_assets.pipeline.tasks import ChangelogPart, FileReport, FileState, TaskFile, TaskReport
from ticdc_assets.schema.history.source_table import SourceName, fold_name
from ticdc_assets.sources.dump.listing import Chunk, Dump, DumpedTable
from ticdc_assets.sources.upstream.key_ranges import key_order
from ticdc_assets.sources.upstream.ranges import Range, dealt, ranges_of
from ticdc_assets.sources.upstream.rows import UpstreamRows
from ticdc_assets.sources.upstream.sql import table_reference

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.config import Upstream
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.schema.model import TableSchema
    from ticdc_assets.tables.iceberg.written_file import WrittenFile

_TASKS_PER_CORE: Final = 2
ALL_TABLES: Final = TableFilter(("*.*",))
_TABLES: Final = (
    "SELECT table_schema, table_name, data_length FROM information_schema.tables "
    "WHERE table_type = 'BASE TABLE' ORDER BY table_schema, table_name"
)
_SYSTEM: Final = frozenset({"information_schema", "metrics_schema", "mysql", "performance_schema", "sys"})


@dataclass(frozen=True, slots=True)
class UpstreamTask:
    """Ranges of one table for one worker; `file` names them in reports."""

    number: int
    source_table_id: str
    file: TaskFile
    copy: CopyTask


class UpstreamChanges(DumpChanges):
    """The rows of TiDB that the lake lacks, of the tables that `selected` selects.

    Raises:
        ConfigError: there is no `upstream`, or the stream has no commit_ts.
        NotYetError: TiDB cannot be read.
    """

    def __init__(
        self, lake: Lake, at: int | None, selected: TableFilter = ALL_TABLES, without: Sequence[SourceName] = ()
    ) -> None:
        self._upstream = upstream_of(lake)
        begun = unfinished_ts(lake.control.newest()) or loaded_ts(lake.control.ddl_events())
        with UpstreamRows(self._upstream) as rows:
            ts = at or begun or rows.now()
            dump = tables_of(lake, rows, ts, selected)
        super().__init__(lake, DumpRequest(dump, "", ts, without=frozenset(fold_name(*name) for name in without)))

    def batch(self, pending: DumpPending, tables: dict[str, Table]) -> UpstreamBatch:
        """The ranges of this round."""
        return UpstreamBatch(self._lake, self._request, pending, tables, self._upstream)

    def _check_columns(self, table: TableSchema, chunk: Chunk) -> None:
        """Nothing: TiDB has the values of all columns."""


def tables_of(lake: Lake, rows: UpstreamRows, ts: int, selected: TableFilter) -> Dump:
    """The selected tables that the changefeed follows, each with one chunk of its approximate size."""
    found = []
    for schema, table, size in rows.answers(_TABLES, [], ts):
        name = ((schema or b"").decode(), (table or b"").decode())
        if fold(name[0]) in _SYSTEM or not lake.follows(*name) or not selected.matches(*name):
            continue
        [[_, text]] = rows.answers(f"SHOW CREATE TABLE {table_reference(*name)}", [], ts)
        chunk = Chunk(".".join(name), int(size or 0), 0)
        found.append(DumpedTable(name, f"upstream: {'.'.join(name)}", (text or b"").decode(), (chunk,)))
    return Dump(tuple(found), {}, ts)


class UpstreamBatch(DumpBatch):
    """The ranges of the tables of this round. A table that cannot be read is held; no row is skipped."""

    def __init__(
        self, lake: Lake, request: DumpRequest, pending: DumpPending, tables: dict[str, Table], upstream: Upstream
    ) -> None:
        self._upstream = upstream
        super().__init__(lake, request, pending, tables)

    @property
    def decode(self) -> Callable[[Any], TaskReport]:
        """Reads the ranges of one task."""
        return read_ranges

    def _tasks(self, files: Sequence[TaskFile], tables: Mapping[str, Table]) -> list[UpstreamTask]:  # type: ignore[override]
        by_name = {fold_name(*self._pending.commit_ranges[i].source_table.name): i for i in self._open}
        tasks: list[UpstreamTask] = []
        with UpstreamRows(self._upstream) as rows:
            for file in files:
                i = by_name[file.name]
                for first, ranges in self._ranges(rows, i, (file.schema, file.table)):
                    number = len(tasks)
                    tasks.append(
                        UpstreamTask(number, i, file, self._copy_task(number, tables[i], file, i, first, ranges))
                    )
        return tasks

    def _ranges(self, rows: UpstreamRows, i: str, name: SourceName) -> list[tuple[int, tuple[Range, ...]]]:
        """The ranges by task; a table that cannot be read has one, whose worker reports why."""
        version = self._pending.commit_ranges[i].source_table.versions[0]
        try:
            found = list(ranges_of(rows, name, key_order(version.table.ordered_key), self._request.ts))
        except TicdcAssetsError:
            found = [(None, None)]
        return dealt(found, _TASKS_PER_CORE * self._lake.cores)

    def _copy_task(
        self, number: int, table: Table, file: TaskFile, i: str, first: int, ranges: tuple[Range, ...]
    ) -> CopyTask:
        commit_range = self._pending.commit_ranges[i]
        version, target = commit_range.source_table.versions[0], target_of(commit_range, table, commit_range.low)
        return CopyTask(
            upstream=self._upstream,
            name=(file.schema, file.table),
            version=version,
            tso=self._request.ts,
            ranges=ranges,
            uri=f"{target.data_uri}/{self._pending.run_id}-{number:05d}-from-tidb.parquet",
            schema=target.schemas[version.from_ts],
            first=first_seq(first),
            io_properties=dict(self._lake.io_properties),
        )


def read_ranges(task: UpstreamTask) -> TaskReport:
    """Read the ranges of a task. A fault goes into the report of its table."""
    file = task.file
    try:
        copied = copy(task.copy)
    except TicdcAssetsError as error:
        failed = FileReport(file.path, file.name, FileState.STOPPED, problem=Note.of(NoteCode.INPUT, error))
        return TaskReport(task.number, (), (failed,))
    except Exception as error:  # noqa: BLE001  raised again where it is not of one table
        problem = Note.of(NoteCode.INPUT, of_one_table(error), file.path)
        return TaskReport(task.number, (), (FileReport(file.path, file.name, FileState.STOPPED, problem=problem),))
    parts = () if copied.file is None else (_part(task, copied.file, copied.rows),)
    return TaskReport(task.number, parts, (FileReport(file.path, file.name, FileState.READ, copied.rows),))


def _part(task: UpstreamTask, file: WrittenFile, rows: int) -> ChangelogPart:
    """The part of a task. TiDB has each row once: without a time range, parts are not compared with each other."""
    return ChangelogPart(
        source_table_id=task.source_table_id,
        version_ts=task.copy.version.from_ts,
        uri=file.uri,
        size_bytes=file.size_bytes,
        footer=file.footer,
        rows_by_op={"R": rows},
        commit_ts=None,
        max_seq=task.copy.first + rows - 1,
        task=task.number,
        delivery=0,
    )
