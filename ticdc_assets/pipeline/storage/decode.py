"""The worker's part of reading files: opens each file, decodes it in bulk, and writes typed changes as Parquet.

Small files are decoded together. Where anything is wrong with one of them, each is decoded alone. A file that the bulk
decoder cannot decode exactly goes to the reference decoder, which also finds the bad records. An error of one file
never leaves here as an exception: it becomes the file's report, and the driver holds only its table. A file waits where
it may become whole later, and stops its table where its rows cannot be interpreted. Single records that cannot be
decoded are quarantined, unless the changefeed is configured to stop at them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO, load_file_io

from ticdc_assets.advice import Advice
from ticdc_assets.changes.typed import TypedChanges, split_key_moves
from ticdc_assets.errors import DecodeError, NotYetError, SourceError, TicdcAssetsError
from ticdc_assets.failpoints import Failpoint, hit
from ticdc_assets.faults import of_one_table
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.changelog.parts import PartWriter
from ticdc_assets.pipeline.rows.bad_rows import (
    ALL_BAD_MIN,
    BAD_RECORDS_MAX,
    BadRow,
    rules_of_file,
    sound_changes,
    strict_changes,
    too_many,
)
from ticdc_assets.pipeline.rows.place import Ints, by_period, have_schema, in_range, periods_at
from ticdc_assets.pipeline.storage.reader import FileGroup, FileReader, aligned, grouped
from ticdc_assets.pipeline.tasks import (
    DecodeTask,
    FileReport,
    FileState,
    QuarantineEntry,
    TaskFile,
    TaskReport,
)
from ticdc_assets.protocols.columnar.raw_rows import BulkUnsupported, RawRows
from ticdc_assets.schema.history.source_table import SchemaPeriod, Version


def decode(task: DecodeTask) -> TaskReport:
    """Decode the files of a task in order, table by table, so that few files are open at once."""
    io = load_file_io(dict(task.io_properties), location=next(iter(task.targets.values())).data_uri)
    files = FileReader(task)
    reports: list[FileReport] = []
    writers: dict[_Stream, PartWriter] = {}
    for _, group in groupby(task.files, key=attrgetter("name")):
        of_table, table = list(group), _TableDecoder(task, files, io, writers)
        held = False
        for files_together in grouped(of_table):
            for report in table.decoded(files_together) if not held else map(_passed_over, files_together):
                held |= report.state is not FileState.READ
                hit(Failpoint.FILE_READ)
                reports.append(report)
        if (fault := table.finish()) is not None:
            problem = Note.of(NoteCode.INPUT, fault)
            reports.append(FileReport(of_table[-1].path, of_table[-1].name, FileState.STOPPED, problem=problem))
        hit(Failpoint.PARTS_WRITTEN)
    return TaskReport(task.number, tuple(part for w in writers.values() for part in w.parts), tuple(reports))


def _passed_over(file: TaskFile) -> FileReport:
    problem = Note(NoteCode.INPUT, "an earlier file of its table comes first")
    return FileReport(file.path, file.name, FileState.WAITING, problem=problem)


@dataclass(slots=True)
class _Count:
    """Counts over the files of a group, of rows by file. `bad` records could not be decoded; `misfits` do not fit their
    columns; `commit_ts` is theirs."""

    rows: Ints
    above: Ints
    left: Ints
    repeats: int = 0
    zero_dates: int = 0
    ambiguous_times: int = 0
    bad: list[QuarantineEntry] = field(default_factory=list)
    misfits: dict[int, BadRow] = field(default_factory=dict)
    commit_ts: dict[int, int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Changes of one schema period. If `is_late`, they are at or below the `low` of their table."""

    period: SchemaPeriod
    changes: TypedChanges
    is_late: bool


_Stream = tuple[str, bool]
"""A source table, and whether the changes are at or below its `low`."""


@dataclass(slots=True)
class _TableDecoder:
    """Decodes the files of one source name, for all source tables and versions of its rows.

    `writers` are by source table, since a renamed table has files under several names; `used` are those of this name.
    """

    task: DecodeTask
    files: FileReader
    io: FileIO
    writers: dict[_Stream, PartWriter]
    used: dict[_Stream, PartWriter] = field(default_factory=dict)

    def finish(self) -> TicdcAssetsError | None:
        """Close all open files. An error of one table is returned, and holds it."""
        try:
            for writer in self.used.values():
                writer.close()
        except Exception as error:  # noqa: BLE001  raised again where it is not of one table
            return of_one_table(error)
        return None

    def decoded(self, files: tuple[TaskFile, ...]) -> Iterator[FileReport]:
        """Decode the files of a group; every fault goes into the report of its file, and later files then wait."""
        together = self._together(files) if len(files) > 1 else None
        if together is not None:
            yield from together
            return
        held = False
        for file in files:
            report = self._file(file) if not held else _passed_over(file)
            held = report.state is not FileState.READ
            yield report

    def _together(self, files: tuple[TaskFile, ...]) -> list[FileReport] | None:
        """The reports of files that are decoded together; None where nothing was written, because one of them has a
        fault: decoding each alone finds it."""
        count = _Count(*np.zeros((3, len(files)), np.int64))
        try:
            joined = self.files.joined(files)
            group = FileGroup(files, joined.line_ends)
            batches = self._in_order(files[0], iter(joined.batches))
            if not (self.task.decoding.by_arrival or group.is_in_order(batches)):
                return None
            pieces = [piece for raw in batches for piece in self._pieces(group, raw, count)]
        except Exception as error:  # noqa: BLE001  raised again where it is not of one table
            of_one_table(error)
            return None
        try:
            for piece in pieces:
                count.repeats += self._write(group, piece)
        except Exception as error:  # noqa: BLE001  as above
            return [_failed(files[0], error), *map(_passed_over, files[1:])]
        return [_report(file, count, number) for number, file in enumerate(files)]

    def _file(self, file: TaskFile) -> FileReport:
        """Decode one file; every fault goes into its report."""
        count, group = _Count(*np.zeros((3, 1), np.int64)), FileGroup.of_one(file)
        try:
            batches = self._raw_rows(file, count)[::-1]
            while batches:  # frees each batch once it is written
                for piece in self._pieces(group, batches.pop(), count):
                    count.repeats += self._write(group, piece)
            bad = self._bad_records(file, count)
        except Exception as error:  # noqa: BLE001  raised again where it is not of one table
            return _failed(file, error)
        report = _report(file, count, 0)
        return replace(report, rows=report.rows - len(count.misfits), bad=bad)

    # -- reading ------------------------------------------------------------------------------------------------------

    def _raw_rows(self, file: TaskFile, count: _Count) -> list[RawRows]:
        """All batches of a file: in bulk, else record by record. The bulk decoder may fail halfway, so nothing is
        written before the whole file is decoded."""
        if self.files.is_read_in_bulk(file.size_bytes):
            # A stray quote looks like a missing end; only the reference decoder distinguishes them.
            with suppress(BulkUnsupported, NotYetError):
                rows = self.files.raw_rows(file, False, count.bad)
                return self._in_order(file, rows)
        return self._in_order(file, self.files.raw_rows(file, True, count.bad))

    def _in_order(self, file: TaskFile, batches: Iterator[RawRows]) -> list[RawRows]:
        if self.task.decoding.by_arrival:
            return [replace(raw, commit_ts=pa.nulls(len(raw), pa.int64())) for raw in batches]
        every = list(batches)
        if any(raw.commit_ts.null_count for raw in every):
            raise BulkUnsupported(
                file.path, "rows with commit_ts", "rows without", "Read it with the reference decoder."
            )
        return every

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _pieces(self, group: FileGroup, raw: RawRows, count: _Count) -> Iterator[_Piece]:
        """The changes that this run publishes."""
        count.rows += group.counts(raw.line)
        timeline = self.task.timelines[group.first.name]
        periods = periods_at(timeline, self._times(group.first, raw))
        has_schema = have_schema(timeline, periods)
        if not has_schema.all():
            self._leave_or_raise(group, raw.filter(pa.array(~has_schema)), count)
        for period, indices in by_period(timeline, periods, has_schema):
            rows = raw if len(indices) == len(raw) else raw.take(pa.array(indices))
            for kept, is_late in self._to_write(group, period.source_table_id, rows, count):
                fitting = aligned(self.task.decoding, group.first, period.version, kept)
                changes = self._typed(group, period.version, fitting, count)
                if not is_late:  # those of repeats were counted before
                    count.zero_dates += changes.zero_dates
                    count.ambiguous_times += changes.ambiguous_times
                yield _Piece(period, changes, is_late)

    def _times(self, file: TaskFile, rows: RawRows) -> Ints:
        """The times that determine the schema periods of rows; by arrival, the time right after their folder's."""
        if self.task.decoding.by_arrival:
            return np.full(len(rows), file.folder_version + 1)
        return np.asarray(rows.commit_ts.to_numpy(zero_copy_only=False), np.int64)

    def _leave_or_raise(self, group: FileGroup, rows: RawRows, count: _Count) -> None:
        """Rows from a time without a schema: above the run's TSO a schema may still come, below it none will."""
        horizon = max(target.high for target in self.task.targets.values())
        if self.task.decoding.by_arrival or not pc.all(pc.greater(rows.commit_ts, horizon)).as_py():
            raise _no_schema(group.first)
        count.above += group.counts(rows.line)

    def _to_write(
        self, group: FileGroup, source_table_id: str, rows: RawRows, count: _Count
    ) -> Iterator[tuple[RawRows, bool]]:
        """The rows that this run publishes, with those that may be late separate. Rows that are left for later are
        counted, so that the file is read again; those of tables that are not selected are ignored."""
        target, held_at = self.task.targets.get(source_table_id), self.task.held.get(source_table_id)
        if self.task.decoding.by_arrival:
            if target is not None:
                yield rows, False
            elif held_at is not None:
                count.above += group.counts(rows.line)
            return
        low, high = (target.low, target.high) if target is not None else (held_at, held_at)
        if low is None or high is None:
            return
        was_read = np.full(len(rows), group.first.is_seen)
        now, above, again, late = in_range(low, high, self._times(group.first, rows), was_read)
        count.above += group.counts(rows.line.filter(pa.array(above)))
        count.repeats += int(again.sum())
        if target is None:
            count.left += group.counts(rows.line.filter(pa.array(late)))
            return
        for mask, is_late in ((late, True), (now, False)):
            if mask.any():
                yield rows if mask.all() else rows.filter(pa.array(mask)), is_late

    def _typed(self, group: FileGroup, version: Version, rows: RawRows, count: _Count) -> TypedChanges:
        file, decoding = group.first, self.task.decoding
        rules = rules_of_file(file.path, version.table, decoding.forms, decoding.zero_dates_allowed)
        if len(group.files) > 1:
            return split_key_moves(strict_changes(rows, rules), version.table.unique_columns)
        changes, misfits = sound_changes(rows, rules)
        if misfits and (file.listed_columns or not decoding.quarantine):
            raise misfits[0].fault
        at = dict(zip(rows.line.to_pylist(), rows.commit_ts.to_pylist(), strict=True)) if misfits else {}
        for row in misfits:
            count.misfits.setdefault(row.line, row)
            count.commit_ts.setdefault(row.line, at[row.line])
        if len(count.misfits) + len(count.bad) > BAD_RECORDS_MAX:
            raise too_many(file.path, len(count.misfits) + len(count.bad))
        return split_key_moves(changes, version.table.unique_columns)

    def _write(self, group: FileGroup, piece: _Piece) -> int:
        period, is_late = piece.period, piece.is_late
        stream = (period.source_table_id, is_late)
        writer = self.writers.get(stream)
        if writer is None:
            prefix = f"{self.task.run_id}-{self.task.number:05d}{'-late' if is_late else ''}"
            target = self.task.targets[period.source_table_id]
            writer = PartWriter(self.io, target, prefix, self.task.number, late=is_late)
            self.writers[stream] = writer
        self.used[stream] = writer
        ordinals, line = group.places(piece.changes.line)
        changes = replace(piece.changes, line=line)
        return writer.write(changes, period.version.table.key, period.version.from_ts, ordinals)

    # -- bad records --------------------------------------------------------------------------------------------------

    def _bad_records(self, file: TaskFile, count: _Count) -> tuple[QuarantineEntry, ...]:
        """The bad records of a file. Raises DecodeError where they are too many to be accidents."""
        found = len(count.bad) + len(count.misfits)
        none_good = found >= ALL_BAD_MIN and found == count.rows.sum() + len(count.bad)
        if found > BAD_RECORDS_MAX or none_good:
            raise too_many(file.path, found)
        if not count.misfits:
            return tuple(count.bad)
        # An update with old values is two records of a CSV file.
        is_csv = self.task.decoding.csv is not None
        lines = {n: (n - 1, n) if is_csv and row.has_before else (n,) for n, row in count.misfits.items()}
        raw = self.files.record_bytes(file, {n for numbers in lines.values() for n in numbers})
        misfits = (
            QuarantineEntry(
                file.path, line, b"".join(raw[n] for n in numbers), str(count.misfits[line].fault),
                file.schema, file.table, count.commit_ts[line],
            )
            for line, numbers in lines.items()
        )  # fmt: skip
        return (*count.bad, *misfits)


def _report(file: TaskFile, count: _Count, number: int) -> FileReport:
    """The report of file `number` of a group; counts that are not by file are in that of the first."""
    rows, above, left = (int(counts[number]) for counts in (count.rows, count.above, count.left))
    if number:
        return FileReport(file.path, file.name, FileState.READ, rows, above, left=left)
    return FileReport(
        file.path, file.name, FileState.READ, rows, above, count.repeats, count.zero_dates,
        left=left, ambiguous_times=count.ambiguous_times,
    )  # fmt: skip


def _failed(file: TaskFile, error: Exception) -> FileReport:
    """The report of a file at which the error was raised. Raises it again where it is not of one table."""
    if isinstance(error, (NotYetError, SourceError)):
        return FileReport(file.path, file.name, FileState.WAITING, problem=Note.of(NoteCode.INPUT, error))
    if isinstance(error, TicdcAssetsError):
        return FileReport(file.path, file.name, FileState.STOPPED, problem=Note.of(NoteCode.INPUT, error))
    problem = Note.of(NoteCode.INPUT, of_one_table(error), file.path)
    return FileReport(file.path, file.name, FileState.STOPPED, problem=problem)


def _no_schema(file: TaskFile) -> DecodeError:
    return DecodeError(
        file.path,
        f"rows of a time when {file.schema}.{file.table} existed",
        "rows from before its first or after its last schema",
        Advice.RESTORE_SCHEMAS,
    )
