"""Decodes quarantined records of storage files again, each as its own file, in the way files are decoded.

An update with old values is two records of a CSV file. Where one of them could not be decoded, the other was
quarantined too, as half of an update. So records that fail alone are tried with their neighbour.

A run with wrong options may have cut a file at other places than between its records. So a stretch of a file whose
records fail is tried as one piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ticdc_assets.changes import layout
from ticdc_assets.changes.typed import at_line, lines_on
from ticdc_assets.errors import TicdcAssetsError
from ticdc_assets.pipeline.replay.context import (
    Decoded,
    ReplayContext,
    ReplayInput,
    Rows,
    above,
    no_table_for,
    written_rows,
)
from ticdc_assets.pipeline.storage.batch import decoding_of
from ticdc_assets.pipeline.storage.decode import decode
from ticdc_assets.pipeline.tasks import DecodeTask, FileReport, FileState, Target, TaskFile
from ticdc_assets.schema.history.source_table import SchemaPeriod, SourceName, fold_name

if TYPE_CHECKING:
    from ticdc_assets.schema.ddl_event import DdlEvent
    from ticdc_assets.tables.control.records import QuarantinedRecord

_FILE: Final = "record"


class StorageReplay:
    """Decodes records into a temporary folder."""

    def __init__(self, replay_context: ReplayContext, folder: Path) -> None:
        self._replay_context = replay_context
        self._folder = folder
        self._timelines = replay_context.history.timelines()
        self._number = 0

    def new_schemas(self, inputs: Sequence[ReplayInput]) -> list[DdlEvent]:
        """None: schema files give all columns."""
        return []

    def decode(self, inputs: Sequence[ReplayInput]) -> list[Decoded]:
        """The result for every record, alone or with its neighbour."""
        stretches = _stretches(sorted(inputs, key=lambda one: one.record.position))
        return [decoded for stretch in stretches for decoded in self._stretch(stretch)]

    def _stretch(self, in_order: Sequence[ReplayInput]) -> list[Decoded]:
        """The results for records that follow each other in a file."""
        found = self._one_by_one(in_order)
        if any(one.is_corrected for one in in_order) or not any(one.problem for one in found):
            return found
        together = self._decode(tuple(in_order), as_one=True)
        return found if together.problem else [together]

    def _one_by_one(self, in_order: Sequence[ReplayInput]) -> list[Decoded]:
        """The result for every record, alone or with its neighbour."""
        alone = [self._decode((one,)) for one in in_order]
        if not self._is_csv:
            return alone
        found: list[Decoded] = []
        at = 0
        while at < len(alone):
            pair = self._pair(in_order[at : at + 2], alone[at : at + 2])
            found.append(pair or alone[at])
            at += 2 if pair else 1
        return found

    def _pair(self, inputs: Sequence[ReplayInput], alone: Sequence[Decoded]) -> Decoded | None:
        if len(inputs) < 2 or not all(one.problem for one in alone):
            return None
        both = self._decode(tuple(inputs))
        return None if both.problem else both

    @property
    def _is_csv(self) -> bool:
        return self._replay_context.lake.changefeed.sink.protocol == "csv"

    # -- one record, or the two of an update --------------------------------------------------------------------------

    def _decode(self, inputs: tuple[ReplayInput, ...], as_one: bool = False) -> Decoded:
        """The change of one record, or of the two of an update; `as_one` all changes of a stretch."""
        records = tuple(one.record for one in inputs)
        record = records[-1]
        name = fold_name(record.schema, record.table)
        targets = self._replay_context.targets(self._folder / f"{self._number}")
        if name not in self._timelines or not targets or record.version is None:
            return Decoded(records, problem=no_table_for(record))
        file = self._written(inputs, name, record.version)
        task = self._task(file, {i: t for i, t in targets.items() if i in self._source_tables(name)} or targets)
        try:
            report = decode(task)
        except TicdcAssetsError as error:
            return Decoded(records, problem=_placed(str(error), record))
        line = records[0].line if as_one else record.line
        rows = tuple(_at_line(r, line, follow=as_one) for r in written_rows(report.parts))
        expected = report.files[0].rows if as_one and self._may_be_cut(records, report.files[0].rows) else 1
        problem = _problem(report.files[0], record, rows, expected) or self._replay_context.not_insertable(record, rows)
        return Decoded(records, problem=problem) if problem else Decoded(records, rows)

    def _may_be_cut(self, records: tuple[QuarantinedRecord, ...], rows: int) -> bool:
        """Whether a stretch may hold so many rows: by arrival, its rows must not get the positions of later ones."""
        return rows > 0 and (not self._replay_context.lake.by_arrival or rows <= len(records) or records[0].line == 0)

    def _source_tables(self, name: SourceName) -> set[str]:
        return {period.source_table_id for period in self._timelines[name] if isinstance(period, SchemaPeriod)}

    def _written(self, inputs: tuple[ReplayInput, ...], name: SourceName, version: int) -> TaskFile:
        """The records as a file with their ordinal, so that they keep their order among other files."""
        self._number += 1
        record = inputs[-1].record
        data = b"".join(self._ended(one) for one in inputs)
        path = self._folder / f"{self._number}" / _FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return TaskFile(_FILE, len(data), name, record.schema, record.table, version, record.ordinal or 0)

    def _ended(self, one: ReplayInput) -> bytes:
        """The bytes with a line end: an editor may have written another one, or none."""
        if not one.is_corrected:
            return one.data
        end = self._replay_context.lake.csv_options.terminator.encode() if self._is_csv else b"\r\n"
        return one.data.removesuffix(end).rstrip(b"\r\n") + end

    def _task(self, file: TaskFile, targets: dict[str, Target]) -> DecodeTask:
        return DecodeTask(
            run_id=self._replay_context.run_id,
            number=self._number,
            root_uri=str(self._folder / f"{self._number}"),
            decoding=decoding_of(self._replay_context.lake, quarantine=True),
            files=(file,),
            timelines={file.name: self._timelines[file.name]},
            targets=targets,
        )


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


def _problem(report: FileReport, record: QuarantinedRecord, rows: tuple[Rows, ...], expected: int) -> str:
    """Why the record does not decode to so many changes of its table; "" where it does."""
    if report.state is not FileState.READ:
        return _placed(report.problem, record)
    if report.bad:
        return _placed(report.bad[0].reason, record)
    if report.above:
        return above(record)
    if report.rows != expected:
        return (
            f"{record.path}, record {record.line}: expected one change, found {report.rows}. "
            "Give the bytes of this record alone; an update with old values is two lines."
        )
    return "" if rows else no_table_for(record)


def _placed(sentence: str, record: QuarantinedRecord) -> str:
    """The sentence with the record's own position instead of that in the temporary file."""
    for line in (0, 1):
        if sentence.startswith(f"{_FILE}, record {line}"):
            return f"{record.path}, record {record.line}{sentence.removeprefix(f'{_FILE}, record {line}')}"
    return f"{record.path}, record {record.line}{sentence.removeprefix(_FILE)}"


def _at_line(rows: Rows, line: int, follow: bool) -> Rows:
    """The changes with the seq of this line of their file; with `follow`, of this and the following lines."""
    names = rows.table.column_names
    at = names.index(layout.SEQ)
    seq = rows.table.column(layout.SEQ).combine_chunks()
    moved = (lines_on if follow else at_line)(seq.to_numpy(zero_copy_only=False), line)
    table = rows.table.set_column(at, rows.table.schema.field(at), pa.array(moved, pa.int64()))
    return replace(rows, table=table)
