"""Decodes quarantined records of storage files again, each as its own file, in the way files are decoded.

An update with old values is two records of a CSV file. Where one of them could not be decoded, the other was
quarantined too, as half of an update. So records that fail alone are tried with their neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ticdc_assets.changes import layout
from ticdc_assets.changes.typed import at_line
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
    from ticdc_assets.tables.control.records import QuarantinedRecord

_FILE: Final = "record"


class StorageReplay:
    """Decodes records into a temporary folder."""

    def __init__(self, replay_context: ReplayContext, folder: Path) -> None:
        self._replay_context = replay_context
        self._folder = folder
        self._timelines = replay_context.history.timelines()
        self._number = 0

    def decode(self, inputs: Sequence[ReplayInput]) -> list[Decoded]:
        """The result for every record, alone or with its neighbour."""
        in_order = sorted(inputs, key=lambda one: one.record.position)
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
        first, second = (one.record for one in inputs)
        if (first.path, first.line + 1) != second.position:
            return None
        both = self._decode(tuple(inputs))
        return None if both.problem else both

    @property
    def _is_csv(self) -> bool:
        return self._replay_context.lake.changefeed.sink.protocol == "csv"

    # -- one record, or the two of an update --------------------------------------------------------------------------

    def _decode(self, inputs: tuple[ReplayInput, ...]) -> Decoded:
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
        rows = tuple(_at_line(r, record.line) for r in written_rows(report.parts))
        problem = _problem(report.files[0], record, rows) or self._replay_context.not_insertable(record, rows)
        return Decoded(records, problem=problem) if problem else Decoded(records, rows)

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


def _problem(report: FileReport, record: QuarantinedRecord, rows: tuple[Rows, ...]) -> str:
    """Why the record does not decode to one change of its table; "" where it does."""
    if report.state is not FileState.READ:
        return _placed(report.problem, record)
    if report.bad:
        return _placed(report.bad[0].reason, record)
    if report.above:
        return above(record)
    if report.rows != 1:
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


def _at_line(rows: Rows, line: int) -> Rows:
    """The changes with the seq of this line of their file."""
    names = rows.table.column_names
    at = names.index(layout.SEQ)
    seq = rows.table.column(layout.SEQ).combine_chunks()
    moved = at_line(seq.to_numpy(zero_copy_only=False), line)
    table = rows.table.set_column(at, rows.table.schema.field(at), pa.array(moved, pa.int64()))
    return replace(rows, table=table)
