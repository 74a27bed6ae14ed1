"""The bulk decoder of CSV files of the storage sink.

It yields the row changes of a file in batches of bounded size, in file order, equal to those of the reference decoder
(`csv.decoder`). A file that the reference reports as broken, or that this decoder cannot read exactly, raises
BulkUnsupported, an incomplete file NotYetError. The caller then drops the batches yielded before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BufferedIOBase
from typing import Final

import numpy as np
import pyarrow as pa

from ticdc_assets.errors import NotYetError
from ticdc_assets.names.folding import fold
from ticdc_assets.protocols.columnar.raw_rows import JoinedRows, RawRows, ops_of, unsupported
from ticdc_assets.protocols.csv.options import CsvOptions
from ticdc_assets.protocols.csv.records import HEADER_START, has_other_fields, header_bytes
from ticdc_assets.protocols.csv.scanner import CUT, FULL, NO_QUOTE, OTHER_FORM, lead, scan
from ticdc_assets.protocols.formats.limits import BATCH_BYTES, CSV_HEADER_BYTES_MAX, RECORD_BYTES_MAX
from ticdc_assets.protocols.formats.lines_and_frames import line_bounds
from ticdc_assets.protocols.formats.span_columns import BACKSLASHES, Escapes, columns_of
from ticdc_assets.protocols.formats.string_arrays import Bytes, Ints, Mask, Places

_NEWLINES: Final = (b"\r\n", b"\n")
_FIELDS_MAX: Final = 1 << 20
"""The maximum number of fields per scan, at 8 bytes of offsets each."""
_SOURCE: Final = slice(1, 3)
"""The fields of the table and its schema."""
_COMMIT_TS: Final = 3


def read_stream(
    stream: BufferedIOBase,
    columns: tuple[str, ...],
    where: str,
    name: tuple[str, str] | None,
    options: CsvOptions,
    batch_bytes: int = BATCH_BYTES,
) -> Iterator[RawRows]:
    """The row changes of an open file, which is read once; `columns` are the table's stored columns in order.

    If `name` (schema and table) is given, records of another table and single halves of an update raise
    BulkUnsupported, so that the reference decoder reports their position.
    """
    reader = _Reader(options, columns, where, name)
    first, begin = _first_bytes(stream, where, batch_bytes)
    buffer, held, is_last = bytearray(first), len(first), False
    while True:
        data = np.frombuffer(buffer, np.uint8, held)
        for rows, end in reader.batches(data, begin, is_last):
            yield rows
            begin = end
        rest = buffer[begin:held]
        if is_last and rest:
            raise _not_yet(where)
        if is_last:
            return
        if len(rest) > RECORD_BYTES_MAX:
            raise unsupported(where, "a record without an end")
        if 2 * len(rest) > len(buffer):
            buffer = bytearray(2 * len(buffer))
        buffer[: len(rest)] = rest
        more = stream.readinto(memoryview(buffer)[len(rest) :])
        begin, held, is_last = 0, len(rest) + more, not more


def read_joined(
    blobs: Sequence[bytes], columns: tuple[str, ...], where: str, name: tuple[str, str], options: CsvOptions
) -> JoinedRows:
    """The row changes of several whole files, read as one. `where` names them in errors."""
    headers = [header_bytes(blob) for blob in blobs]
    if any(blob[size - 1 : size] != b"\n" for blob, size in zip(blobs, headers, strict=True) if size):
        raise _not_yet(where)
    bodies = [blob[size:] for blob, size in zip(blobs, headers, strict=True)]
    data, ends = b"".join(bodies), np.cumsum([len(body) for body in bodies])
    reader = _Reader(options, columns, where, name, ends)
    found = list(reader.batches(np.frombuffer(data, np.uint8), 0, True))
    if not found or found[-1][1] != len(data):
        raise _not_yet(where)
    line_ends = np.concatenate(reader.line_ends)
    if len(line_ends) != len(ends):
        raise unsupported(where, "a file without records")
    return JoinedRows(tuple(rows for rows, _ in found), line_ends)


def _first_bytes(stream: BufferedIOBase, where: str, batch_bytes: int) -> tuple[bytes, int]:
    """The first bytes of a file, and the length of its header line."""
    first = stream.read(max(batch_bytes, len(HEADER_START)))
    if first.startswith(HEADER_START):
        while b"\n" not in first and len(first) < CSV_HEADER_BYTES_MAX and (more := stream.read(batch_bytes)):
            first += more
        if b"\n" not in first[:CSV_HEADER_BYTES_MAX]:
            raise _not_yet(where)
    return first, header_bytes(first)


@dataclass(slots=True)
class _Records:
    """The records of one block: the offsets of their fields and the values of their leading fields."""

    places: Places
    ops: Bytes
    commit_ts: Ints
    is_update: Mask

    def __len__(self) -> int:
        return len(self.places)

    def first(self, count: int) -> _Records:
        """The first `count` records."""
        return _Records(self.places[:count], self.ops[:count], self.commit_ts[:count], self.is_update[:count])

    def pairs(self, has_commit_ts: bool) -> Mask:
        """For every record but the last, whether it and the next one are the two halves of an update."""
        old, new = self.is_update & (self.ops == ord("D")), self.is_update & (self.ops == ord("I"))
        found: Mask = old[:-1] & new[1:]
        return found & (self.commit_ts[:-1] == self.commit_ts[1:]) if has_commit_ts else found


class _Reader:
    """Reads blocks of one file, or of files that end at the offsets `ends` of the only block."""

    def __init__(
        self,
        options: CsvOptions,
        columns: tuple[str, ...],
        where: str,
        name: tuple[str, str] | None,
        ends: Ints | None = None,
    ) -> None:
        self._options = options
        self._columns = columns
        self._where = where
        self._name = name
        quote = options.quote.encode()
        if len(quote) > 1 or options.terminator.encode() not in _NEWLINES:
            raise unsupported(where, "a quote or terminator that only the reference decoder reads")
        self._quote = quote[0] if quote else NO_QUOTE
        self._delimiter = np.frombuffer(options.delimiter.encode(), np.uint8)
        self._null = np.frombuffer(options.null.encode(), np.uint8)
        self._shared_delimiters = options.shared_delimiters
        self._escapes = BACKSLASHES if self._quote == NO_QUOTE else Escapes.doubled(self._quote)
        self._leading = options.leading_fields(options.output_handle_key)
        self._source: list[str] | None = None
        self._is_utf8 = True
        self._line = 0
        self._ends = ends
        self.line_ends: list[Ints] = []  # of each block, how many records come before the ends of files in it

    def batches(self, data: Bytes, begin: int, is_last: bool) -> Iterator[tuple[RawRows, int]]:
        """The row changes of the records from `begin` on, and the end offset of each batch.

        An update whose second half is not in the block yet is left, unless the block is the last one.
        """
        why = FULL
        while why != CUT:
            records, bounds, why = self._cut(data, begin)
            is_open = len(records) > 0 and bool(records.is_update[-1]) and records.ops[-1] == ord("D")
            if is_open and not (is_last and why == CUT):
                records = records.first(len(records) - 1)
            if not len(records):
                return
            self._check(data, begin, int(bounds[len(records)]), records)
            if self._shared_delimiters:
                self._check_delimiters(data, bounds[: len(records) + 1])
            if self._ends is not None:
                self.line_ends.append(self._line_ends_in(self._ends, bounds[: len(records) + 1], records))
            begin = int(bounds[len(records)])
            yield self._rows(data, records), begin

    def _cut(self, data: Bytes, begin: int) -> tuple[_Records, Ints, int]:
        """The records from `begin` on, as many as fit; the offset of each, and why the scan ended."""
        count, bounds, places, why = self._scan(data, begin)
        if why == OTHER_FORM and not count and not self._line and self._options.output_handle_key:
            # Newer servers accept the option but write no handle key.
            self._leading = self._options.leading_fields(False)
            count, bounds, places, why = self._scan(data, begin)
        if why == OTHER_FORM:
            raise unsupported(self._where, "records of another form, or of another number of fields")
        ops, commit_ts, is_update = np.empty(count, np.uint8), np.empty(count, np.int64), np.zeros(count, np.bool_)
        commit_field = _COMMIT_TS if self._options.include_commit_ts else 0
        update_field = self._options.leading_fields(False) - 1 if self._options.output_old_value else 0
        if not lead(data, places[:count], commit_field, update_field, ops, commit_ts, is_update):
            raise unsupported(self._where, "records that begin in another way, or of more than one table")
        return _Records(places[:count], ops, commit_ts, is_update), bounds, why

    def _scan(self, data: Bytes, begin: int) -> tuple[int, Ints, Places, int]:
        width = self._leading + len(self._columns)
        rows_max = max(2, min(_FIELDS_MAX // width, (len(data) - begin) // width + 1))  # each field has its end
        places = np.empty((rows_max, width, 2), np.int32)
        bounds = np.empty(rows_max + 1, np.int64)
        count, why = scan(data, begin, self._quote, self._delimiter, self._null, places, bounds)
        return count, bounds, places, why

    def _check(self, data: Bytes, begin: int, end: int, records: _Records) -> None:
        """Raise BulkUnsupported unless these are records of the one table, in UTF-8 and with both halves of updates."""
        self._is_utf8 = line_bounds(data[begin:end]) is not None
        if not self._is_utf8 and not self._options.output_handle_key:
            raise unsupported(self._where, "text that is not UTF-8")
        names = self._columns_of(data, records.places[[0], _SOURCE], np.ones(1, np.bool_))
        table, schema = (name[0].as_py() for name in names)
        if self._name is not None and [fold(schema), fold(table)] != [fold(part) for part in self._name]:
            raise unsupported(self._where, "records of another table")
        if self._source not in (None, [table, schema]):
            raise unsupported(self._where, "records of more than one table")
        self._source = [table, schema]
        pairs = records.pairs(self._options.include_commit_ts).sum()
        if self._name is not None and records.is_update.sum() != 2 * pairs:
            raise unsupported(self._where, "half of an update")

    def _check_delimiters(self, data: Bytes, bounds: Ints) -> None:
        """Raise BulkUnsupported if delimiters that overlap let a record be read in two ways."""
        block = data[bounds[0] : bounds[-1]].tobytes()
        for shared in self._shared_delimiters:
            found = [match.start() for match in re.finditer(re.escape(shared), block)]
            for row in np.unique(np.searchsorted(bounds, bounds[0] + np.array(found, np.int64), "right") - 1):
                if has_other_fields(data[bounds[row] : bounds[row + 1]].tobytes(), self._options.delimiter.encode()):
                    raise unsupported(self._where, "delimiters that overlap")

    def _line_ends_in(self, ends: Ints, bounds: Ints, records: _Records) -> Ints:
        """The ends of files among these records. Raises BulkUnsupported if a record or an update continues in the next
        file: quotes may be balanced only by those of another file."""
        within = ends[(ends > bounds[0]) & (ends <= bounds[-1])]
        at = np.searchsorted(bounds, within)
        if (bounds[at] != within).any():
            raise unsupported(self._where, "a file that ends inside a record")
        if records.pairs(self._options.include_commit_ts)[at[at < len(records)] - 1].any():
            raise unsupported(self._where, "half of an update")
        return np.asarray(self._line + at, np.int64)

    def _rows(self, data: Bytes, records: _Records) -> RawRows:
        """Each old half that adjoins its new half becomes the latter's `before`."""
        pairs = records.pairs(self._options.include_commit_ts)
        kept = np.flatnonzero(~np.append(pairs, False))
        has_before = np.append(False, pairs)[kept]
        now = records.places[kept, self._leading :]
        before = None
        if self._options.output_old_value:
            old = records.places[kept - 1, self._leading :]
            before = self._columns_of(data, old, has_before)
        line, unknown = self._line, pa.nulls(len(kept), pa.int64())
        self._line += len(records)
        return RawRows(
            op=ops_of(np.where(has_before, np.uint8(ord("U")), records.ops[kept])),
            commit_ts=pa.array(records.commit_ts[kept]) if self._options.include_commit_ts else unknown,
            commit_ms=unknown,
            line=pa.array(line + kept),
            columns=self._columns,
            wire=self._columns_of(data, now, np.ones(len(kept), np.bool_)),
            before=before,
            has_before=pa.array(has_before) if self._options.output_old_value else None,
        )

    def _columns_of(self, data: Bytes, places: Places, rows: Mask) -> tuple[pa.Array, ...]:
        found = columns_of(data, places, places, rows, self._escapes)
        if not self._is_utf8:  # this does not matter in the handle key
            _prove_utf8(found, self._where)
        return found


def _prove_utf8(columns: Iterable[pa.Array], where: str) -> None:
    for column in columns:
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:  # its text would quote the row
            raise unsupported(where, "text that is not UTF-8") from None


def _not_yet(where: str) -> NotYetError:
    return NotYetError(where, "a file that ends with a whole record", "the start of one", "Wait for the writer.")
