"""Reads a storage sink's file as batches of text columns: in bulk where that is exact, else one record at a time.

The file must have its listed size before and after it is read: else it is being written, and its table waits. The
reference decoder returns bad records separately; both decoders refuse columns that no schema has.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from io import BufferedReader, BytesIO
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa

from ticdc_assets.errors import DecodeError, NotYetError, SourceError
from ticdc_assets.pipeline.changelog.bad_rows import BAD_RECORDS_MAX, too_many
from ticdc_assets.pipeline.tasks import DecodeTask, QuarantineEntry, TaskFile
from ticdc_assets.protocols.canal_json import decoder as canal_json
from ticdc_assets.protocols.columnar.raw_rows import BadRecord, BulkUnsupported, Incomplete, JoinedRows, RawRows
from ticdc_assets.protocols.csv import decoder as csv
from ticdc_assets.protocols.csv.decoder import CsvRecord
from ticdc_assets.protocols.events import Op, RowEvent
from ticdc_assets.protocols.limits import BATCH_BYTES
from ticdc_assets.schema.history.source_table import SchemaPeriod, fold_name
from ticdc_assets.sources.filesystem import Root, open_root

SMALL_JSON_BYTES: Final = 1 << 17
"""Canal-JSON files up to this size are read record by record, which is faster than the setup of the bulk decoder. The
bulk decoder of CSV needs no setup."""
MANY_JSON_BYTES: Final = 4 << 20
"""From this total per task on, small files are read in bulk too: the setup is done once per task."""

Records = Iterable[tuple[int, RowEvent] | BadRecord | Incomplete]

_ADVICE_RECORD: Final = "The record is kept; check what wrote into this folder."
_ADVICE_SCHEMA: Final = "Check whether schema files were removed from the bucket."


class FileReader:
    """Reads the files of one task. Opens the root with the first file."""

    def __init__(self, task: DecodeTask) -> None:
        self._task = task
        self._many = sum(file.size_bytes for file in task.files) > MANY_JSON_BYTES
        self._root: Root | None = None

    def is_read_in_bulk(self, file: TaskFile) -> bool:
        """Whether the bulk decoder is worth its setup."""
        return self._task.decoding.is_csv or self._many or file.size_bytes > SMALL_JSON_BYTES

    def raw_rows(self, file: TaskFile, careful: bool, bad: list[QuarantineEntry]) -> Iterator[RawRows]:
        """The changes of a file in order. `careful` reads record by record and adds bad records to `bad`.

        Raises:
            BulkUnsupported: only the careful decoder can read the file.
            NotYetError: the file is not complete yet.
        """
        with self._opened(file) as stream:
            columns = columns_of(self._task, file, stream)
            if careful:
                yield from _record_by_record(self._task, file, stream.read(), columns, bad)
            else:
                yield from _in_bulk(self._task, file, stream, columns)

    def joined(self, files: tuple[TaskFile, ...]) -> JoinedRows:
        """The changes of small files of one folder, read as one.

        Raises an error where a file is not complete or has anything but sound records: it must be read alone.
        """
        self._root = self._root or open_root(self._task.root_uri)
        blobs = self._root.read_small([file.path for file in files], max(file.size_bytes for file in files))
        for file, blob in zip(files, blobs, strict=True):
            if len(blob) != file.size_bytes:
                raise _other_size(file, len(blob))
        columns = columns_of(self._task, files[0], BytesIO(blobs[0]))  # of CSV all files must have as many fields
        if not (self._many or self._task.decoding.is_csv or sum(map(len, blobs)) > SMALL_JSON_BYTES):
            return _joined_records(self._task, files, blobs, columns)
        return _joined_in_bulk(self._task, files[0], blobs, columns)

    def record_bytes(self, file: TaskFile, lines: Collection[int]) -> dict[int, bytes]:
        """The raw records with these ordinals."""
        with self._opened(file) as stream:
            data = stream.read()
        if self._task.decoding.is_csv:
            return csv.record_bytes(data, self._task.decoding.csv, lines)
        return canal_json.record_bytes(data, lines)

    @contextmanager
    def _opened(self, file: TaskFile) -> Iterator[BufferedReader]:
        """The file, fetched where it is not local. Raises where it does not have its listed size, at the start or at
        the end."""
        with ExitStack() as stack, _found(file):
            self._root = self._root or open_root(self._task.root_uri)
            local = self._root.local_path(file.path)
            if local is None:
                local = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "file"
                self._root.fetch_to(file.path, local)
            stream = stack.enter_context(local.open("rb"))
            _check_size(file, stream)
            yield stream
            _check_size(file, stream)


@contextmanager
def _found(file: TaskFile) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise NotYetError(
            file.path, "the file that was listed", "none", "Restore it, or name it in skip_files."
        ) from None
    except OSError as error:
        found = error.strerror or type(error).__name__
        raise SourceError(file.path, "a file that can be read", found, "The next run reads it again.") from None


def _check_size(file: TaskFile, stream: BinaryIO) -> None:
    size_bytes = os.fstat(stream.fileno()).st_size
    if size_bytes != file.size_bytes:
        raise _other_size(file, size_bytes)


def _other_size(file: TaskFile, size_bytes: int) -> NotYetError:
    return NotYetError(
        file.path,
        f"{file.size_bytes} bytes, as it was listed",
        f"{size_bytes}",
        "It is being written; the table continues when it is complete.",
    )


def columns_of(task: DecodeTask, file: TaskFile, stream: BinaryIO) -> tuple[str, ...]:
    """The columns to read: CSV fields are positional in the folder's version, JSON members are by name in any
    version."""
    if task.decoding.is_csv:
        version = _folder_period(task, file).version
        columns = file.listed_columns or tuple(c.name for c in version.table.stored_columns)
        return _fields_of(task, file, stream, columns)
    names: dict[str, str] = {}
    for period in task.timelines[file.name]:
        for column in period.version.table.columns if isinstance(period, SchemaPeriod) else ():
            names.setdefault(column.name.lower(), column.name)
    for name in file.listed_columns:
        names.setdefault(name.lower(), name)
    return tuple(names.values())


def _fields_of(task: DecodeTask, file: TaskFile, stream: BinaryIO, columns: tuple[str, ...]) -> tuple[str, ...]:
    """The columns that a CSV file has fields for. Only newer servers leave columns out of files, and only the number of
    fields shows it."""
    left = tuple(name for name in columns if not task.decoding.selectors.leaves_out(file.schema, file.table, name))
    if len(left) == len(columns):
        return columns
    found = csv.first_fields(stream.read(BATCH_BYTES), task.decoding.csv)
    stream.seek(0)
    is_left = found is not None and csv.leading_fields(len(found), task.decoding.csv, len(left)) is not None
    return (
        left if is_left and csv.leading_fields(len(found or ()), task.decoding.csv, len(columns)) is None else columns
    )


def _folder_period(task: DecodeTask, file: TaskFile) -> SchemaPeriod:
    begun = [period for period in task.timelines[file.name] if period.after_ts <= file.folder_version]
    periods = [period for period in begun if isinstance(period, SchemaPeriod)]
    if not periods:
        raise DecodeError(file.path, f"a schema of {file.schema}.{file.table} for its folder", "none", _ADVICE_SCHEMA)
    return periods[-1]


def _in_bulk(task: DecodeTask, file: TaskFile, stream: BufferedReader, columns: tuple[str, ...]) -> Iterator[RawRows]:
    # Each import costs as much as reading hundreds of rows, and a changefeed needs only one of them.
    if task.decoding.is_csv:
        from ticdc_assets.protocols.csv import bulk as csv_bulk

        name = (file.schema, file.table)
        return csv_bulk.read_stream(stream, task.decoding.csv, columns, file.path, name=name)
    from ticdc_assets.protocols.canal_json import files_bulk as canal_json_bulk

    batch_bytes = min(BATCH_BYTES, file.size_bytes)
    return canal_json_bulk.read_stream(stream, columns, file.path, file.schema, file.table, batch_bytes)


def _joined_in_bulk(task: DecodeTask, file: TaskFile, blobs: Sequence[bytes], columns: tuple[str, ...]) -> JoinedRows:
    if task.decoding.is_csv:
        from ticdc_assets.protocols.csv import bulk as csv_bulk

        blobs = [_without_header(file, blob) for blob in blobs]
        ends, name = np.cumsum([len(blob) for blob in blobs]), (file.schema, file.table)
        return csv_bulk.read_joined(b"".join(blobs), ends, task.decoding.csv, columns, file.path, name)
    from ticdc_assets.protocols.canal_json import files_bulk as canal_json_bulk

    ends = np.cumsum([len(blob) for blob in blobs])
    return canal_json_bulk.read_joined(b"".join(blobs), ends, columns, file.path, file.schema, file.table)


def _without_header(file: TaskFile, data: bytes) -> bytes:
    size = csv.header_bytes(data)
    if size and data[size - 1 : size] != b"\n":
        raise _unfinished(file, 0)
    return data[size:]


# -- record by record -------------------------------------------------------------------------------------------------


def _record_by_record(
    task: DecodeTask, file: TaskFile, data: bytes, columns: tuple[str, ...], bad: list[QuarantineEntry]
) -> Iterator[RawRows]:
    rows: list[tuple[int, RowEvent]] = []
    for record in _csv_records(task, file, data, columns) if task.decoding.is_csv else _json(task, file, data):
        if isinstance(record, Incomplete):
            raise _unfinished(file, record.line)
        if isinstance(record, BadRecord):
            _keep_or_raise(task, file, record, bad)
        else:
            rows.append(record)
    if rows:
        yield from_events(rows, columns, file.path)


def _joined_records(
    task: DecodeTask, files: Sequence[TaskFile], blobs: Sequence[bytes], columns: tuple[str, ...]
) -> JoinedRows:
    rows: list[tuple[int, RowEvent]] = []
    ends: list[int] = []
    begin = 0
    for file, blob in zip(files, blobs, strict=True):
        for record in _json(task, file, blob):
            if not isinstance(record, tuple):
                raise BulkUnsupported(file.path, "sound records", "others", "Read it with the reference form.")
            line, event = record
            rows.append((begin + line, event))
        begin = rows[-1][0] + 1 if rows else begin
        ends.append(begin)
    return JoinedRows((from_events(rows, columns, files[0].path),), np.array(ends))


def _json(task: DecodeTask, file: TaskFile, data: bytes) -> Records:
    records = list(canal_json.read_file(data, file.path))
    faults: dict[int, DecodeError] = {}
    for line, event in (record for record in records if isinstance(record, tuple)):
        if fold_name(event.schema, event.table) != file.name:
            faults[line] = _other_table(file, line)
        elif event.commit_ts is None and not task.decoding.by_arrival:
            faults[line] = _no_commit_ts(file, line)
    raw = canal_json.record_bytes(data, faults)
    yield from (record for record in records if not isinstance(record, tuple) or record[0] not in faults)
    yield from (BadRecord(line, raw[line], fault) for line, fault in faults.items())


def _csv_records(task: DecodeTask, file: TaskFile, data: bytes, columns: tuple[str, ...]) -> Records:
    records = list(csv.read(data, task.decoding.csv, len(columns), file.path))
    faults = {r.line: _other_table(file, r.line) for r in records if _is_of_another(r, file)}
    lone = {r.line: r for r in _lone_halves(records) if r.line not in faults}
    last = lone.get(len(records) - 1)
    if last is not None and last.op == "D":
        yield Incomplete(last.line)  # TiCDC writes both halves at once: the other one is cut off
        return
    faults |= {line: _half(file, line) for line in lone}
    raw = csv.record_bytes(data, task.decoding.csv, faults)
    sound = [BadRecord(r.line, raw[r.line], faults[r.line]) if r.line in faults else r for r in records]
    yield from csv.changes(sound, columns)


def _is_of_another(record: CsvRecord | BadRecord | Incomplete, file: TaskFile) -> bool:
    return isinstance(record, CsvRecord) and fold_name(record.schema, record.table) != file.name


def _lone_halves(records: list[CsvRecord | BadRecord | Incomplete]) -> Iterator[CsvRecord]:
    """The records that are marked as half of an update and have no adjacent other half."""
    paired: set[int] = set()
    for old, new in pairwise(records):
        if isinstance(old, CsvRecord) and isinstance(new, CsvRecord) and csv.are_halves(old, new):
            paired |= {old.line, new.line}
    return (r for r in records if isinstance(r, CsvRecord) and r.is_update and r.line not in paired)


def _other_table(file: TaskFile, line: int) -> DecodeError:
    where, expected = f"{file.path}, record {line}", f"a record of {file.schema}.{file.table}"
    return DecodeError(where, expected, "one of another table", _ADVICE_RECORD)


def _no_commit_ts(file: TaskFile, line: int) -> DecodeError:
    advice = "Check whether enable-tidb-extension was switched off for a time; the record is kept."
    return DecodeError(
        f"{file.path}, record {line}", "_tidb.commitTs, as enable-tidb-extension=true says", "none", advice
    )


def _half(file: TaskFile, line: int) -> DecodeError:
    return DecodeError(f"{file.path}, record {line}", "both halves of an update", "one of them", _ADVICE_RECORD)


def _unfinished(file: TaskFile, line: int) -> NotYetError:
    return NotYetError(
        f"{file.path}, record {line}",
        "a whole record with its line end",
        "the file's end",
        "It is being written, or was cut: the table continues when it is complete. Restore it, or name it "
        "in skip_files if its rows may be lost.",
    )


def _keep_or_raise(task: DecodeTask, file: TaskFile, record: BadRecord, bad: list[QuarantineEntry]) -> None:
    if not task.decoding.quarantine or file.listed_columns:
        raise record.error
    if len(bad) >= BAD_RECORDS_MAX:
        raise too_many(file.path, len(bad) + 1)
    bad.append(QuarantineEntry(file.path, record.line, record.raw, str(record.error), file.schema, file.table))


def from_events(rows: list[tuple[int, RowEvent]], columns: tuple[str, ...], where: str) -> RawRows:
    """Row events of text values as columns; a partial old row is completed from the new one."""
    events = [event for _, event in rows]
    lowered = [name.lower() for name in columns]
    now = [_by_lowered(event.wire) for event in events]
    before = [_full_before(event) for event in events]
    for (line, event), wire, old in zip(rows, now, before, strict=True):
        unknown = sorted((wire.keys() | (old or {}).keys()).difference(lowered))
        if unknown:
            name = f"{event.schema}.{event.table}"
            found = f"a column {unknown[0]!r} that is in no schema file"
            raise DecodeError(f"{where}, record {line}", f"columns of {name}", found, _ADVICE_SCHEMA)
    return RawRows(
        op=pa.array([str(event.op) for event in events], pa.string()),
        commit_ts=pa.array([event.commit_ts for event in events], pa.int64()),
        commit_ms=pa.array([event.time.commit_ms for event in events], pa.int64()),
        line=pa.array([line for line, _ in rows], pa.int64()),
        columns=columns,
        wire=tuple(pa.array([wire.get(name) for wire in now], pa.string()) for name in lowered),
        before=tuple(pa.array([b.get(name) if b else None for b in before], pa.string()) for name in lowered),
        has_before=pa.array([b is not None for b in before], pa.bool_()),
        sent=tuple(pa.array([name in wire for wire in now], pa.bool_()) for name in lowered),
    )


def _by_lowered(wire: Mapping[str, str | None]) -> dict[str, str | None]:
    return {name.lower(): value for name, value in wire.items()}


def _full_before(event: RowEvent) -> dict[str, str | None] | None:
    if event.before is None or event.op is not Op.UPDATE:
        return None
    full = {**event.wire, **event.before} if event.before_is_partial else event.before
    return _by_lowered(full)
