"""The worker's part of a load: reads data files of a dump and writes their rows as Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from pyiceberg.io import FileIO, load_file_io

from ticdc_assets.errors import TicdcAssetsError
from ticdc_assets.failpoints import Failpoint, hit
from ticdc_assets.faults import of_one_table
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.changelog.parts import PartWriter
from ticdc_assets.pipeline.load.task import DumpTask
from ticdc_assets.pipeline.rows.bad_rows import rules_of_file, sound_changes
from ticdc_assets.pipeline.tasks import ChangelogPart, FileReport, FileState, TaskFile, TaskReport
from ticdc_assets.protocols.dump.rows import DumpFile
from ticdc_assets.sources.dump.listing import is_csv_file, opened_in
from ticdc_assets.sources.filesystem import Root, open_root


def decode(task: DumpTask) -> TaskReport:
    """Read the files of a task. A fault goes into the report of its file, and its table's other files are passed."""
    io = load_file_io(dict(task.io_properties), location=next(iter(task.targets.values())).data_uri)
    root = open_root(task.root_uri)
    parts: list[ChangelogPart] = []
    reports: list[FileReport] = []
    for _, files in groupby(task.files, key=lambda file: file.name):
        for part_or_report in _table(task, root, io, list(files)):
            (parts if isinstance(part_or_report, ChangelogPart) else reports).append(part_or_report)  # type: ignore[arg-type]
        hit(Failpoint.PARTS_WRITTEN)
    return TaskReport(task.number, tuple(parts), tuple(reports))


def _table(task: DumpTask, root: Root, io: FileIO, files: list[TaskFile]) -> Iterator[ChangelogPart | FileReport]:
    name = files[0].name
    writer = PartWriter(io, task.targets[name], f"{task.run_id}-{task.number:05d}", task.number)
    file = files[0]
    try:
        for file in files:
            yield _file(task, root, file, writer)
            hit(Failpoint.FILE_READ)
        writer.close()
    except TicdcAssetsError as error:
        yield FileReport(file.path, name, FileState.STOPPED, problem=Note.of(NoteCode.INPUT, error))
    except Exception as error:  # noqa: BLE001  raised again where it is not of one table
        problem = Note.of(NoteCode.INPUT, of_one_table(error), file.path)
        yield FileReport(file.path, name, FileState.STOPPED, problem=problem)
    # A dump has each row once: without a time range, the parts are not compared with each other.
    yield from (replace(part, commit_ts=None) for part in writer.parts)


def _file(task: DumpTask, root: Root, file: TaskFile, writer: PartWriter) -> FileReport:
    version = task.versions[file.name]
    is_csv = is_csv_file(file.path)
    dumped = DumpFile(file.path, version.table, task.form, task.ts, is_csv)
    rows = zero_dates = ambiguous_times = 0
    with opened_in(root, file.path, file.size_bytes) as stream:
        for raw in dumped.read(stream):
            forms = task.form.forms(is_csv, dumped.zone or task.zone)
            rules = rules_of_file(file.path, version.table, forms, task.zero_dates_allowed)
            changes, misfits = sound_changes(raw, rules)
            if misfits:
                raise misfits[0].fault
            writer.write(changes, (), version.from_ts, file.ordinal)
            rows += len(changes)
            zero_dates += changes.zero_dates
            ambiguous_times += changes.ambiguous_times
    return FileReport(
        file.path, file.name, FileState.READ, rows, zero_dates=zero_dates, ambiguous_times=ambiguous_times
    )
