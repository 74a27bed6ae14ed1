"""What a worker does: opens each file itself, decodes it in bulk, and writes typed changes as Parquet.

A file that bulk decoding cannot take exactly goes to the reference decoder, which also finds the bad records. No
error of one file leaves here as an exception: it becomes that file's report, and the driver holds that table only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO, load_file_io

from ticdc_assets.changes.typed import TypedChanges, typed
from ticdc_assets.errors import DecodeError, NotYetError, TicdcAssetsError
from ticdc_assets.pipeline import storage_files
from ticdc_assets.pipeline.parts import PartWriter
from ticdc_assets.pipeline.task import BadLine, DecodeTask, FileFormat, FileReport, FileState, TaskFile, TaskReport
from ticdc_assets.protocols.raw_rows import BulkUnsupported, RawRows
from ticdc_assets.schema.history import Slot


def decode(task: DecodeTask) -> TaskReport:
    """Decode the files of a task in their order. Tables follow each other, so few files are open at once."""
    io = load_file_io(dict(task.io_properties), location=next(iter(task.targets.values())).data_uri)
    connection = duckdb.connect(config={"threads": 1})
    reports: list[FileReport] = []
    writers: dict[str, PartWriter] = {}
    try:
        for files in _by_name(task.files):
            table = _TableDecoder(task, connection, io, writers)
            held = False
            for file in files:
                report = table.file(file) if not held else _passed_over(file)
                held = report.state is not FileState.READ
                reports.append(report)
            table.finish()
    finally:
        connection.close()
    return TaskReport(task.number, tuple(part for w in writers.values() for part in w.parts), tuple(reports))


def _by_name(files: tuple[TaskFile, ...]) -> Iterator[list[TaskFile]]:
    group: list[TaskFile] = []
    for file in files:
        if group and group[-1].name != file.name:
            yield group
            group = []
        group.append(file)
    if group:
        yield group


def _passed_over(file: TaskFile) -> FileReport:
    return FileReport(file.path, file.name, FileState.WAITING, problem="an earlier file of its table comes first")


@dataclass(slots=True)
class _Count:
    """What a file adds up to while it is decoded."""

    rows: int = 0
    above: int = 0
    repeats: int = 0
    zero_dates: int = 0
    bad: list[BadLine] = field(default_factory=list)


class _TableDecoder:
    """Decodes the files of one source name, whatever lineages and versions its rows belong to."""

    def __init__(
        self, task: DecodeTask, connection: duckdb.DuckDBPyConnection, io: FileIO, writers: dict[str, PartWriter]
    ) -> None:
        self._task = task
        self._connection = connection
        self._io = io
        self._writers = writers  # by lineage: a table that was renamed has files under several names

    def finish(self) -> None:
        """Close what is open; tables follow each other, so that few files are open at once."""
        for writer in self._writers.values():
            writer.close()

    def file(self, file: TaskFile) -> FileReport:
        """Decode one file; every fault becomes its report."""
        count = _Count()
        try:
            for raw in self._raw_rows(file, count):
                self._rows(file, raw, count)
        except NotYetError as error:
            return FileReport(file.path, file.name, FileState.WAITING, problem=str(error))
        except TicdcAssetsError as error:
            return FileReport(file.path, file.name, FileState.STOPPED, problem=str(error))
        return FileReport(
            file.path, file.name, FileState.READ, count.rows, count.above, count.repeats, count.zero_dates,
            tuple(count.bad),
        )  # fmt: skip

    def _raw_rows(self, file: TaskFile, count: _Count) -> list[RawRows]:
        """All batches of a file: in bulk, else record by record. Bulk may give up halfway, so nothing is written
        before the whole file is known to be readable."""
        try:
            return list(storage_files.raw_rows(self._task, file, False, count.bad))
        except BulkUnsupported:
            return list(storage_files.raw_rows(self._task, file, True, count.bad))

    def _rows(self, file: TaskFile, raw: RawRows, count: _Count) -> None:
        count.rows += len(raw)
        for slot, rows in self._by_slot(file, raw):
            assert slot.version is not None
            assert slot.lineage_id is not None
            target = self._task.targets.get(slot.lineage_id)
            if target is None:
                continue  # the table is held: nothing of it is published in this run
            kept = self._in_interval(rows, target.low, target.high, count)
            if not len(kept):
                continue
            columns = slot.version.table.stored_columns
            if self._task.format is FileFormat.CSV:
                kept = replace(kept, columns=tuple(c.name for c in columns))  # CSV fields go by place
            changes = typed(kept, columns, slot.version.table.unique_columns, self._task.forms)
            count.zero_dates += changes.zero_dates
            count.repeats += self._write(file, slot, changes)

    def _write(self, file: TaskFile, slot: Slot, changes: TypedChanges) -> int:
        assert slot.version is not None
        assert slot.lineage_id is not None
        writer = self._writers.get(slot.lineage_id)
        if writer is None:
            prefix = f"{self._task.run_id}-{self._task.number:05d}"
            target = self._task.targets[slot.lineage_id]
            writer = PartWriter(self._io, target, prefix, self._task.number, self._connection)
            self._writers[slot.lineage_id] = writer
        return writer.write(changes, slot.version.table.key, slot.version.from_ts, file.ordinal)

    def _in_interval(self, raw: RawRows, low: int, high: int, count: _Count) -> RawRows:
        if self._task.by_arrival:
            return raw
        above = pc.greater(raw.commit_ts, high)
        below = pc.less_equal(raw.commit_ts, low)
        count.above += pc.sum(above).as_py() or 0
        count.repeats += pc.sum(below).as_py() or 0
        outside = pc.or_(above, below)
        return raw.filter(pc.invert(outside)) if pc.any(outside).as_py() else raw

    def _by_slot(self, file: TaskFile, raw: RawRows) -> Iterator[tuple[Slot, RawRows]]:
        slots = self._task.timelines[file.name]
        starts = np.array([slot.after_ts for slot in slots], np.int64)
        if self._task.by_arrival:
            numbers = np.full(len(raw), np.searchsorted(starts, file.folder_version, side="right") - 1)
        else:
            numbers = np.searchsorted(starts, raw.commit_ts.to_numpy(zero_copy_only=False), side="left") - 1
        for number in np.unique(numbers):
            slot = slots[number] if number >= 0 else None
            if slot is None or slot.lineage_id is None:
                raise _no_schema(file)
            mask = numbers == number
            yield slot, raw if mask.all() else raw.filter(pa.array(mask))


def _no_schema(file: TaskFile) -> DecodeError:
    return DecodeError(
        file.path,
        f"rows of a time when {file.schema}.{file.table} existed",
        "rows from before its first or after its last schema",
        "Give the table's CREATE TABLE in `schema_files`, or look whether schema files were removed from the bucket.",
    )
