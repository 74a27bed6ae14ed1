"""Decodes quarantined records of storage files again, each as a file of its own.

An update with old values is two records of a CSV file. Where one of them could not be decoded, the other was
quarantined too, as half of an update. So records that fail alone are tried with their neighbour.

A run with wrong options may have cut a file at other places than between its records. So a stretch of a file whose
records fail is tried as one piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ticdc_assets.changes.typed import line_of
from ticdc_assets.errors import TicdcAssetsError
from ticdc_assets.pipeline.replay.context import Judged, ReplayContext, ReplayInput, Targets, above
from ticdc_assets.pipeline.storage.batch import decoding_of
from ticdc_assets.pipeline.storage.decode import decode
from ticdc_assets.pipeline.tasks import DecodeTask, FileReport, FileState, TaskFile, TaskReport
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.source_table import fold_name
from ticdc_assets.tables.control.records import QuarantinedRecord


class StorageReplay:
    """Decodes records that it writes to a temporary folder, a file each."""

    def __init__(self, replay_context: ReplayContext, folder: Path) -> None:
        self._replay_context = replay_context
        self._folder = folder
        self._timelines = replay_context.plan.history.timelines()
        self._scratch = replay_context.targets(folder)
        self._files = 0

    def new_schemas(self, inputs: Sequence[ReplayInput]) -> list[DdlEvent]:
        """None: schema files give all columns."""
        return []

    def judged(self, inputs: Sequence[ReplayInput]) -> list[Judged[TaskFile]]:
        """The result for every record, alone or with its neighbours."""
        stretches = _stretches(sorted(inputs, key=lambda one: one.record.position))
        return [one for stretch in stretches for one in self._stretch(stretch)]

    def decode(self, pieces: Sequence[TaskFile], targets: Targets | None = None) -> TaskReport:
        """Decode the files, those of a table in their order."""
        in_order = sorted(pieces, key=lambda file: (file.name, file.ordinal, file.first_line))
        return decode(
            DecodeTask(
                run_id=self._replay_context.run_id,
                number=self._files,
                root_uri=str(self._folder),
                decoding=decoding_of(self._replay_context.lake, quarantine=True),
                files=tuple(in_order),
                timelines={file.name: self._timelines[file.name] for file in in_order},
                targets=dict(self._scratch if targets is None else targets),
                io_properties={} if targets is None else self._replay_context.lake.io_properties,
            )
        )

    # -- which records belong together --------------------------------------------------------------------------------

    def _stretch(self, in_order: Sequence[ReplayInput]) -> list[Judged[TaskFile]]:
        """The results for records that follow each other in a file."""
        found = self._one_by_one(in_order)
        if any(one.is_corrected for one in in_order) or not any(one.problem for one in found):
            return found
        together = self._judge(in_order, as_one=True)
        return found if together.problem else [together]

    def _one_by_one(self, in_order: Sequence[ReplayInput]) -> list[Judged[TaskFile]]:
        """The result for every record, alone or with its neighbour."""
        alone = [self._judge((one,)) for one in in_order]
        if not self._is_csv:
            return alone
        found: list[Judged[TaskFile]] = []
        at = 0
        while at < len(alone):
            pair = self._pair(in_order[at : at + 2], alone[at : at + 2])
            found.append(pair or alone[at])
            at += 2 if pair else 1
        return found

    def _pair(self, inputs: Sequence[ReplayInput], alone: Sequence[Judged[TaskFile]]) -> Judged[TaskFile] | None:
        if len(inputs) < 2 or not all(one.problem for one in alone):
            return None
        both = self._judge(inputs)
        return None if both.problem else both

    @property
    def _is_csv(self) -> bool:
        return self._replay_context.lake.changefeed.sink.protocol == "csv"

    # -- one record, or the two of an update --------------------------------------------------------------------------

    def _judge(self, inputs: Sequence[ReplayInput], as_one: bool = False) -> Judged[TaskFile]:
        """The change of one record, or of the two of an update; `as_one` all changes of a stretch."""
        records = tuple(one.record for one in inputs)
        record = records[-1]
        name = fold_name(record.schema, record.table)
        if name not in self._timelines or not self._scratch or record.version is None:
            return Judged(records, problem=self._replay_context.no_table_for(record, name))
        file = self._written(inputs, record.version)
        try:
            report = self.decode((file,))
        except TicdcAssetsError as error:
            return Judged(records, problem=_placed(str(error), file, record))
        rows, parts = report.files[0].rows, [part for part in report.parts if part.rows]
        expected = rows if as_one and self._may_be_cut(records, rows) else 1
        source_tables = frozenset(part.source_table_id for part in parts)
        problem = _problem(report.files[0], file, record, expected)
        problem = problem or ("" if parts else self._replay_context.no_table_for(record, name))
        problem = problem or self._replay_context.not_insertable(record, source_tables)
        if problem:
            return Judged(records, problem=problem)
        first = records[0].line if as_one else record.line - line_of(parts[0].max_seq)
        return Judged(records, source_tables, (replace(file, first_line=first),))

    def _may_be_cut(self, records: Sequence[QuarantinedRecord], rows: int) -> bool:
        """Whether a stretch may hold so many rows: by arrival, its rows must not get the positions of later ones."""
        return rows > 0 and (not self._replay_context.lake.by_arrival or rows <= len(records) or records[0].line == 0)

    def _written(self, inputs: Sequence[ReplayInput], version: int) -> TaskFile:
        """The records as a file with their ordinal, so that they keep their order among other files."""
        self._files += 1
        record, path = inputs[-1].record, f"record-{self._files}"
        data = b"".join(self._ended(one) for one in inputs)
        (self._folder / path).write_bytes(data)
        name = fold_name(record.schema, record.table)
        return TaskFile(path, len(data), name, record.schema, record.table, version, record.ordinal or 0)

    def _ended(self, one: ReplayInput) -> bytes:
        """The bytes with a line end: an editor may have written another one, or none."""
        if not one.is_corrected:
            return one.data
        end = self._replay_context.lake.csv_options.terminator.encode() if self._is_csv else b"\r\n"
        return one.data.removesuffix(end).rstrip(b"\r\n") + end


def _stretches(in_order: Sequence[ReplayInput]) -> list[list[ReplayInput]]:
    """The records in groups of those that follow each other in a file."""
    found: list[list[ReplayInput]] = []
    for one in in_order:
        before = found[-1][-1].record if found else None
        if before is not None and (before.path, before.line + 1) == one.record.position:
            found[-1].append(one)
        else:
            found.append([one])
    return found


def _problem(report: FileReport, file: TaskFile, record: QuarantinedRecord, expected: int) -> str:
    """Why the file does not decode to so many changes; "" where it does."""
    if report.state is not FileState.READ:
        return _placed(report.hold.note.text(""), file, record)
    if report.bad:
        return _placed(report.bad[0].reason, file, record)
    if report.above:
        return above(record)
    if report.rows != expected:
        return (
            f"{record.path}, record {record.line}: expected one change, found {report.rows}. "
            "Give the bytes of this record alone; an update with old values is two lines."
        )
    return ""


def _placed(sentence: str, file: TaskFile, record: QuarantinedRecord) -> str:
    """The sentence with the record's own position instead of that in the temporary file."""
    place = f"{record.path}, record {record.line}"
    for line in (0, 1):
        if sentence.startswith(f"{file.path}, record {line}"):
            return f"{place}{sentence.removeprefix(f'{file.path}, record {line}')}"
    return f"{place}{sentence.removeprefix(file.path)}"
