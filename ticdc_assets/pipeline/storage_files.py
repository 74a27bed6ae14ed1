"""A storage sink's file as batches of text columns: bulk where that is exact, else one record at a time."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from ticdc_assets.errors import DecodeError, NotYetError
from ticdc_assets.pipeline.task import BadLine, DecodeTask, FileFormat, TaskFile
from ticdc_assets.protocols import canal_json, canal_json_bulk, csv, csv_bulk
from ticdc_assets.protocols.events import Op, RowEvent
from ticdc_assets.protocols.raw_rows import BadRecord, Incomplete, RawRows
from ticdc_assets.schema.history import Slot
from ticdc_assets.sources.filesystem import open_root

Records = Iterable[tuple[int, RowEvent] | BadRecord | Incomplete]


def raw_rows(task: DecodeTask, file: TaskFile, careful: bool, bad: list[BadLine]) -> Iterator[RawRows]:
    """The changes of a file in its order. `careful` reads record by record and puts those it cannot decode into `bad`.

    Raises BulkUnsupported where only the careful form will do, NotYetError where the file is not complete yet.
    """
    root = open_root(task.root_uri)
    local = root.local_path(file.path)
    if local is not None:
        yield from _read(task, file, local, careful, bad)
        return
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "file"
        root.fetch_to(file.path, target)
        yield from _read(task, file, target, careful, bad)


def _read(task: DecodeTask, file: TaskFile, local: Path, careful: bool, bad: list[BadLine]) -> Iterator[RawRows]:
    if local.stat().st_size != file.size_bytes:
        raise _changed(file, local.stat().st_size)
    columns = columns_of(task, file)
    if careful:
        yield from _record_by_record(task, file, local.read_bytes(), columns, bad)
    elif task.format is FileFormat.CSV:
        yield from csv_bulk.read_file(str(local), task.csv, columns, file.path)
    else:
        yield from canal_json_bulk.read_file(str(local), columns, file.path, file.schema, file.table)


def columns_of(task: DecodeTask, file: TaskFile) -> tuple[str, ...]:
    """The columns to look for: CSV fields go by place in the folder's version, JSON members by name in any version."""
    if task.format is FileFormat.CSV:
        version = _folder_slot(task, file).version
        assert version is not None
        return tuple(c.name for c in version.table.stored_columns)
    names: dict[str, str] = {}
    for slot in task.timelines[file.name]:
        for column in slot.version.table.columns if slot.version is not None else ():
            names.setdefault(column.name.lower(), column.name)
    return tuple(names.values())


def _folder_slot(task: DecodeTask, file: TaskFile) -> Slot:
    reached = [s for s in task.timelines[file.name] if s.after_ts <= file.folder_version and s.version is not None]
    if not reached:
        raise DecodeError(
            file.path,
            f"a schema of {file.schema}.{file.table} for its folder",
            "none",
            "Look whether schema files were removed from the bucket.",
        )
    return reached[-1]


def _changed(file: TaskFile, size_bytes: int) -> NotYetError:
    return NotYetError(
        file.path,
        f"{file.size_bytes} bytes, as it was listed",
        f"{size_bytes}",
        "It is being written; the table goes on when it is whole.",
    )


def _record_by_record(
    task: DecodeTask, file: TaskFile, data: bytes, columns: tuple[str, ...], bad: list[BadLine]
) -> Iterator[RawRows]:
    if task.format is FileFormat.CSV:
        records: Records = csv.changes(csv.read(data, task.csv, len(columns), file.path), columns)
    else:
        records = canal_json.read_file(data, file.path)
    rows: list[tuple[int, RowEvent]] = []
    for record in records:
        if isinstance(record, Incomplete):
            raise _unfinished(file, record.line)
        if isinstance(record, BadRecord):
            _keep_or_raise(task, file, record, bad)
        else:
            rows.append(record)
    if rows:
        yield from_events(rows, columns)


def _unfinished(file: TaskFile, line: int) -> NotYetError:
    return NotYetError(
        f"{file.path}, record {line}",
        "a whole record with its line end",
        "the file's end",
        "It is being written, or was cut; the table goes on when the file is whole.",
    )


def _keep_or_raise(task: DecodeTask, file: TaskFile, record: BadRecord, bad: list[BadLine]) -> None:
    if not task.quarantine:
        raise record.error
    bad.append(BadLine(file.path, record.line, record.raw, str(record.error), file.schema, file.table))


def from_events(rows: list[tuple[int, RowEvent]], columns: tuple[str, ...]) -> RawRows:
    """Row events of text values as columns; a partial old row is completed from the new one."""
    events = [event for _, event in rows]
    known = {name.lower() for name in columns}
    for event in events:
        unknown = [name for name in event.wire if name.lower() not in known]
        if unknown:
            raise DecodeError(
                f"{event.schema}.{event.table}",
                "columns of its schema",
                f"a column {unknown[0]!r} that no schema file tells of",
                "Look whether schema files were removed from the bucket.",
            )
    before = [_full_before(event) for event in events]
    return RawRows(
        op=pa.array([str(event.op) for event in events], pa.string()),
        commit_ts=pa.array([event.commit_ts for event in events], pa.int64()),
        commit_ms=pa.array([event.commit_ms for event in events], pa.int64()),
        line=pa.array([line for line, _ in rows], pa.int64()),
        columns=columns,
        wire=tuple(pa.array([event.wire.get(name) for event in events], pa.string()) for name in columns),
        before=tuple(pa.array([b.get(name) if b else None for b in before], pa.string()) for name in columns),
        has_before=pa.array([b is not None for b in before], pa.bool_()),
    )


def _full_before(event: RowEvent) -> dict[str, str | None] | None:
    if event.before is None or event.op is not Op.UPDATE:
        return None
    return {**event.wire, **event.before} if event.before_is_partial else dict(event.before)
