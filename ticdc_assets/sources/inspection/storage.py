"""Inspects a storage sink's bucket: its layout, its schema files, its index files, and a sample of its rows.

The scan is that of a run with an empty cursor, so it reports everything that would hold a table. Rows are counted file
by file, starting with the first file of every table, up to the bound. One file is in memory at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ticdc_assets.errors import NotYetError, SourceError, TicdcAssetsError
from ticdc_assets.protocols.canal_json import decoder as canal_json
from ticdc_assets.protocols.columnar.raw_rows import BadRecord, Incomplete
from ticdc_assets.protocols.csv import decoder as csv
from ticdc_assets.protocols.csv import records as csv_records
from ticdc_assets.protocols.csv.decoder import CsvRecord
from ticdc_assets.protocols.csv.detection import CsvVotes
from ticdc_assets.protocols.csv.options import CsvOptions
from ticdc_assets.protocols.events import Op, RowEvent
from ticdc_assets.protocols.storage.schema_file import SchemaFile
from ticdc_assets.schema.arrow_types import is_binary
from ticdc_assets.sources.filesystem import Entry, Root
from ticdc_assets.sources.inspection.report import Bounds, Inspection
from ticdc_assets.sources.inspection.settings import NOT_SHOWN, ZONE_NOT_SHOWN, note_weaknesses
from ticdc_assets.sources.storage.cursor import Cursor
from ticdc_assets.sources.storage.folders import Folder, find_folders, listing
from ticdc_assets.sources.storage.paths import (
    META,
    METADATA,
    Layout,
    SourceFile,
    data_name,
    index_dispatcher,
    numeral,
    path_below,
)
from ticdc_assets.sources.storage.scan import read_checkpoint, scan
from ticdc_assets.work_progress import Count, OnProgress

FILE_BYTES_MAX: Final = 128 << 20
"""The largest data file in memory: twice TiCDC's default file-size."""

SNIFFED_FILES: Final = 200
"""Files that vote on the CSV options."""

SNIFFED_BYTES: Final = 1 << 20

_EVERYTHING: Final = (1 << 63) - 1
_ADVICE_CUT: Final = "TiCDC is still writing it, or it was copied too early: copy it again."
FOLDERS_MAX: Final = 200
"""Version folders that are listed; all of a bucket have the same layout."""

_SEPARATORS: Final = ("day", "month", "year")


def is_storage(root: Root) -> bool:
    """Whether a storage sink wrote here: there is `metadata`, or a folder with schema files or rows."""
    if root.sizes([METADATA])[METADATA] is not None:
        return True
    return bool(find_folders(root, Layout(), {}).folders)


def inspect_storage(root: Root, bounds: Bounds, on_progress: OnProgress) -> Inspection:
    """Inspect a bucket."""
    found = Inspection(root.name, "storage")
    _checkpoint(root, found)
    on_progress("looking at folders")
    seen = see_layout(root)
    layout = seen.layout()
    found.protocol = "csv" if layout.extension == "csv" else "canal-json"
    bucket = scan(root, layout, Cursor.empty(), checkpoint_ts=_EVERYTHING)
    by_version = _schema_files(found, bucket.schema_files)
    for problem in bucket.problems:
        found.fault(problem.error)
    for note in bucket.notes:
        found.note(note)
    files = sorted(bucket.data, key=lambda file: (file.number, file.path))
    found.read.files = len(files)
    rows = _Rows(root, found, bounds, by_version)
    if layout.extension == "csv":
        rows.csv(files, on_progress)
    else:
        rows.canal_json(files, on_progress)
    _settings(found, seen, layout, rows)
    return found


def _checkpoint(root: Root, found: Inspection) -> None:
    try:
        found.events.watermark = read_checkpoint(root)
    except (NotYetError, SourceError) as error:
        found.fault(error)
        return
    if found.events.watermark is None:
        advice = "TiCDC writes it at the top of the bucket with its first checkpoint; without it nothing is read."
        found.problem(root.where(METADATA), "the checkpoint's file", "none", advice)
    else:
        found.events.watermarks = 1


def _schema_files(found: Inspection, files: tuple[SchemaFile, ...]) -> dict[tuple[str, str, int], SchemaFile]:
    for file in files:
        found.events.statements += bool(file.query)
        found.events.schemas += not file.query
        if file.table and not file.is_of_view:
            table = found.table(file.schema, file.table)
            table.statements += bool(file.query)
            table.schemas += not file.query
            table.at(file.version if file.query else None)
    return {(file.schema, file.table, file.version): file for file in files}


class _Rows:
    """Counts the rows of files, up to the bound."""

    def __init__(
        self, root: Root, found: Inspection, bounds: Bounds, schemas: Mapping[tuple[str, str, int], SchemaFile]
    ) -> None:
        self._root = root
        self._found = found
        self._left = bounds.bytes_
        self._schemas = schemas
        self._votes = CsvVotes()
        self.options: CsvOptions | None = None
        self.extension = False

    def csv(self, files: list[SourceFile], on_progress: OnProgress) -> None:
        """Detect the CSV options, then count rows."""
        for file in files[:SNIFFED_FILES]:
            data = self._bytes(file, SNIFFED_BYTES)
            if data:
                self._votes.add(data, file.schema, file.table, len(self._columns(file)))
        self.options = self._votes.options()
        if self.options is None:
            if files:
                where, advice = self._root.where(files[0].path), "Check the changefeed's csv options and protocol."
                self._found.problem(where, "CSV records as TiCDC writes them", "others", advice)
            return
        for file, data in self._within(files, on_progress):
            self._csv_file(file, data, self.options)
        self.options = options = self._votes.options() or self.options
        if not self._votes.knows_binary_encoding:
            self._found.note("Bytes are written as base64 or as hex (binary-encoding-method): the values fit both.")
        if not options.quote:
            self._found.note("Texts have no quotes, so the files do not show which text is NULL (csv.null).")

    @property
    def shows_null(self) -> bool:
        """Whether the files show the text of NULL."""
        return self._votes.knows_null

    def _csv_file(self, file: SourceFile, data: bytes, options: CsvOptions) -> None:
        fields = csv_records.first_fields(data, options)
        columns = self._columns(file)
        width = len(fields or ()) - options.leading_fields(options.output_handle_key)
        aligned = width == len(columns)
        binary = [n for n, column in enumerate(columns) if is_binary(column.type)] if aligned else []
        old: CsvRecord | None = None
        for record in csv.read(data, options, width, self._root.where(file.path)):
            if isinstance(record, CsvRecord):
                self._votes.binary(record.fields[n] for n in binary)
                old = self._csv_record(file, record, old)
            else:
                self._fault(file, record)

    def _csv_record(self, file: SourceFile, record: CsvRecord, old: CsvRecord | None) -> CsvRecord | None:
        """Count a record; the delete part of an update counts with its insert."""
        table = self._found.table(file.schema, file.table)
        if old is not None and csv.are_halves(old, record):
            table.counts.deletes -= 1
            table.counts.add(Op.UPDATE)
        else:
            table.counts.add(Op(record.op))
        table.at(record.commit_ts)
        return record if record.op == "D" and record.is_update else None

    def canal_json(self, files: list[SourceFile], on_progress: OnProgress) -> None:
        """Count the rows of Canal-JSON files."""
        for file, data in self._within(files, on_progress):
            for read in canal_json.read_file(data, self._root.where(file.path)):
                if isinstance(read, BadRecord | Incomplete):
                    self._fault(file, read)
                else:
                    row: RowEvent = read[1]
                    self.extension |= row.commit_ts is not None
                    self._found.table(file.schema, file.table).row(row)

    def _fault(self, file: SourceFile, record: BadRecord | Incomplete) -> None:
        if isinstance(record, BadRecord):
            self._found.fault(record.error)
        else:
            where = f"{self._root.where(file.path)}, record {record.line}"
            self._found.problem(where, "a whole record", "the end of the file inside it", _ADVICE_CUT)

    def _within(self, files: list[SourceFile], on_progress: OnProgress) -> Iterator[tuple[SourceFile, bytes]]:
        for number, file in enumerate(files):
            if self._left is not None and self._left < file.size and self._found.read.files_read:
                self._found.read.whole = False
                self._found.note(f"Rows were counted in {number:,} of {len(files):,} files; --all counts all.")
                return
            data = self._bytes(file, FILE_BYTES_MAX, whole=True)
            if data is None:
                continue
            if self._left is not None:
                self._left -= len(data)
            self._found.read.files_read += 1
            on_progress(Count(number + 1, len(files), "file"))
            yield file, data

    def _bytes(self, file: SourceFile, limit: int, whole: bool = False) -> bytes | None:
        try:
            if whole or file.size <= limit:
                return self._root.read_bytes(file.path, FILE_BYTES_MAX)
            local = self._root.local_path(file.path)
            if local is None:
                return self._root.read_bytes(file.path, FILE_BYTES_MAX)
            with local.open("rb") as stream:
                return stream.read(limit)
        except TicdcAssetsError as error:
            self._found.fault(error)
            return None

    def _columns(self, file: SourceFile) -> tuple[Any, ...]:
        schema = self._schemas.get((file.schema, file.table, file.version))
        return schema.columns if schema else ()


def _settings(found: Inspection, seen: LayoutSeen, layout: Layout, rows: _Rows) -> None:
    extension = found.protocol == "canal-json" and rows.extension
    if extension:
        found.detected.options["enable-tidb-extension"] = True
    found.detected.options["date-separator"] = layout.date_separator if seen.is_known else NOT_SHOWN
    found.detected.options["file-index-digit"] = layout.index_digits
    if seen.partitions:
        found.detected.options["enable-partition-separator"] = True
    if layout.table_id_as_path:
        found.detected.options["use-table-id-as-path"] = True
    if layout.across_nodes:
        found.detected.options["enable-table-across-nodes"] = True
    sink: dict[str, Any] = {"date-separator": layout.date_separator}
    found.detected.config = {"sink": sink}
    if layout.index_digits != Layout().index_digits:
        sink["file-index-digit"] = layout.index_digits
    if layout.table_id_as_path:
        sink["cloud-storage-config"] = {"use-table-id-as-path": True}
    if layout.across_nodes:
        found.detected.config["scheduler"] = {"enable-table-across-nodes": True}
    if rows.options is not None:
        sink["csv"] = _csv_config(rows.options)
        shown = {f"csv.{name}": value for name, value in sink["csv"].items()}
        if not rows.shows_null:
            del shown["csv.null"]
        found.detected.options |= shown
    query = f"protocol={found.protocol}" + ("&enable-tidb-extension=true" if extension else "")
    base = found.place if "://" in found.place else f"file://{found.place}"
    found.detected.sink_uri = f"{base}?{query}"
    if layout.date_separator == "year":
        found.note("Folders of four digits are taken as years; partitions of such ids look the same.")
    note_weaknesses(found)
    found.note(ZONE_NOT_SHOWN)
    found.detected.settings = {"source": {"storage": found.place}}


def _csv_config(options: CsvOptions) -> dict[str, Any]:
    config: dict[str, Any] = {
        "delimiter": options.delimiter,
        "quote": options.quote,
        "null": options.null,
        "include-commit-ts": options.include_commit_ts,
        "binary-encoding-method": options.binary_encoding_method,
    }
    extra = {
        "output-old-value": options.output_old_value,
        "output-handle-key": options.output_handle_key,
        "output-field-header": options.output_field_header,
    }
    return config | {name: True for name, holds in extra.items() if holds}


@dataclass(slots=True)
class LayoutSeen:
    """Counts of what the names show."""

    extensions: Counter[str] = field(default_factory=Counter)
    separators: Counter[str] = field(default_factory=Counter)
    digits: Counter[int] = field(default_factory=Counter)
    partitions: int = 0
    dispatchers: int = 0
    by_table_id: bool = False

    @property
    def is_known(self) -> bool:
        """Whether any data file was seen."""
        return bool(self.extensions)

    def layout(self) -> Layout:
        """The layout of most names; TiCDC's defaults if there is no data file yet."""
        extension = self.extensions.most_common(1)
        separator = self.separators.most_common(1)
        return Layout(
            date_separator=separator[0][0] if separator else "day",
            extension=extension[0][0] if extension else "csv",
            index_digits=self.digits.most_common(1)[0][0] if self.digits else 20,
            table_id_as_path=self.by_table_id,
            across_nodes=self.dispatchers > 0,
        )


def see_layout(root: Root) -> LayoutSeen:
    """List some version folders of every kind of table."""
    seen = LayoutSeen()
    folders = find_folders(root, Layout(), {}).folders
    seen.by_table_id = bool(folders) and all(numeral(f.path) for f in folders if "/" not in f.path) and _ids(folders)
    if seen.by_table_id:
        folders = find_folders(root, Layout(table_id_as_path=True), {}).folders
    for path in _spread(folders):
        _version_folder(root, path, seen)
    return seen


def _ids(folders: tuple[Folder, ...]) -> bool:
    """Whether folders are named by table id: at the top level, directly above their versions."""
    return any("/" not in f.path and (f.versions or f.schemas) for f in folders)


def _spread(folders: tuple[Folder, ...]) -> Iterator[str]:
    """Version folders, starting with the newest of every table."""
    queues = [sorted(folder.versions, reverse=True) for folder in folders]
    left = FOLDERS_MAX
    for turn in range(max((len(queue) for queue in queues), default=0)):
        for folder, queue in zip(folders, queues, strict=True):
            if turn < len(queue) and left > 0:
                left -= 1
                yield f"{folder.path}/{queue[turn]}"


def _version_folder(root: Root, path: str, seen: LayoutSeen) -> None:
    entries = listing(root, path)
    _files(seen, entries, "none")
    for entry in entries:
        if not entry.is_dir or entry.name == META:
            continue
        inner = listing(root, path_below(path, entry.name))
        separator = _date(entry.name)
        if separator and _has_files(inner):
            _files(seen, inner, separator)
        elif numeral(entry.name):
            seen.partitions += 1
            _files(seen, inner, "none")
            _dated(root, path_below(path, entry.name), inner, seen)


def _dated(root: Root, path: str, entries: list[Entry], seen: LayoutSeen) -> None:
    for entry in entries:
        separator = _date(entry.name) if entry.is_dir else None
        if separator:
            _files(seen, listing(root, path_below(path, entry.name)), separator)


def _date(name: str) -> str | None:
    """The date separator with this form of folder name; four digits may also be a partition id."""
    if name[:2] != "20":
        return None
    return next((s for s in _SEPARATORS if Layout(date_separator=s).is_date(name)), None)


def _has_files(entries: list[Entry]) -> bool:
    return any(e.name == META if e.is_dir else data_name(e.name) is not None for e in entries)


def _files(seen: LayoutSeen, entries: list[Entry], separator: str) -> None:
    names = [name for e in entries if not e.is_dir and (name := data_name(e.name))]
    for name in names:
        seen.extensions[name.extension] += 1
        seen.digits[name.digits] += 1
        seen.dispatchers += name.dispatcher is not None
    if names or any(index_dispatcher(e.name)[0] for e in entries):
        seen.separators[separator] += 1
