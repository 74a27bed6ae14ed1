"""Decodes the records of a storage sink's file one at a time, with the reference decoder.

Bad records are returned separately; columns that no schema has are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from ticdc_assets.advice import Advice
from ticdc_assets.errors import DecodeError, NotYetError
from ticdc_assets.names.folding import fold
from ticdc_assets.pipeline.rows.bad_rows import BAD_RECORDS_MAX, too_many
from ticdc_assets.pipeline.tasks import DecodeTask, QuarantineEntry, TaskFile
from ticdc_assets.protocols.canal_json import decoder as canal_json
from ticdc_assets.protocols.columnar.raw_rows import BadRecord, BulkUnsupported, Incomplete, JoinedRows, RawRows
from ticdc_assets.protocols.csv import decoder as csv
from ticdc_assets.protocols.csv import records as csv_records
from ticdc_assets.protocols.csv.decoder import CsvRecord
from ticdc_assets.protocols.csv.options import CsvOptions
from ticdc_assets.protocols.events import Op, RowEvent
from ticdc_assets.schema.history.source_table import fold_name

DecodedRecords = Iterable[tuple[int, RowEvent] | BadRecord | Incomplete]

_ADVICE_RECORD: Final = "The record is kept; check what wrote into this folder."


def record_by_record(
    task: DecodeTask, file: TaskFile, data: bytes, columns: tuple[str, ...], bad: list[QuarantineEntry]
) -> Iterator[RawRows]:
    """The changes of a file. Bad records are added to `bad`."""
    options, rows = task.decoding.csv, list[tuple[int, RowEvent]]()
    for record in _csv(options, file, data, columns) if options is not None else _json(task, file, data):
        if isinstance(record, Incomplete):
            raise NotYetError(
                f"{file.path}, record {record.line}",
                "a whole record with its line end",
                "the file's end",
                Advice.RESTORE_CUT_FILE,
            )
        if isinstance(record, BadRecord):
            _keep_or_raise(task, file, record, bad)
        else:
            rows.append(record)
    if rows:
        yield from_events(rows, columns, file.path)


def joined_records(
    task: DecodeTask, files: Sequence[TaskFile], blobs: Sequence[bytes], columns: tuple[str, ...]
) -> JoinedRows:
    """The changes of several files of Canal-JSON, read as one. Raises BulkUnsupported where a record is not sound."""
    rows: list[tuple[int, RowEvent]] = []
    ends: list[int] = []
    begin = 0
    for file, blob in zip(files, blobs, strict=True):
        for record in _json(task, file, blob):
            if not isinstance(record, tuple):
                raise BulkUnsupported(file.path, "sound records", "others", "Read it with the reference decoder.")
            line, event = record
            rows.append((begin + line, event))
        begin = rows[-1][0] + 1 if rows else begin
        ends.append(begin)
    return JoinedRows((from_events(rows, columns, files[0].path),), np.array(ends))


def _json(task: DecodeTask, file: TaskFile, data: bytes) -> DecodedRecords:
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


def _csv(options: CsvOptions, file: TaskFile, data: bytes, columns: tuple[str, ...]) -> DecodedRecords:
    records = list(csv.read(data, options, len(columns), file.path))
    faults = {r.line: _other_table(file, r.line) for r in records if _is_of_another(r, file)}
    lone = {r.line: r for r in _lone_halves(records) if r.line not in faults}
    last = lone.get(len(records) - 1)
    if last is not None and last.op == "D":
        yield Incomplete(last.line)  # TiCDC writes both halves at once: the other one is cut off
        return
    faults |= {line: _half(file, line) for line in lone}
    raw = csv_records.record_bytes(data, options, faults)
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
        f"{file.path}, record {line}", "_tidb.commitTs, as enable-tidb-extension=true requires", "none", advice
    )


def _half(file: TaskFile, line: int) -> DecodeError:
    return DecodeError(f"{file.path}, record {line}", "both halves of an update", "one of them", _ADVICE_RECORD)


def _keep_or_raise(task: DecodeTask, file: TaskFile, record: BadRecord, bad: list[QuarantineEntry]) -> None:
    if not task.decoding.quarantine or file.listed_columns:
        raise record.error
    if len(bad) >= BAD_RECORDS_MAX:
        raise too_many(file.path, len(bad) + 1)
    bad.append(QuarantineEntry(file.path, record.line, record.raw, str(record.error), file.schema, file.table))


def from_events(rows: list[tuple[int, RowEvent]], columns: tuple[str, ...], where: str) -> RawRows:
    """Row events of text values as columns; a partial old row is completed from the new one."""
    events = [event for _, event in rows]
    lowered = [fold(name) for name in columns]
    now = [_by_lowered(event.wire) for event in events]
    full = [event.full_before if event.op is Op.UPDATE else None for event in events]
    before = [None if image is None else _by_lowered(image) for image in full]
    for (line, event), wire, old in zip(rows, now, before, strict=True):
        unknown = sorted((wire.keys() | (old or {}).keys()).difference(lowered))
        if unknown:
            name = f"{event.schema}.{event.table}"
            found = f"a column {unknown[0]!r} that is in no schema file"
            raise DecodeError(f"{where}, record {line}", f"columns of {name}", found, Advice.RESTORE_SCHEMAS)
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
    return {fold(name): value for name, value in wire.items()}
