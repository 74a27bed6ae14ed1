"""Cuts the records of a binary capture into columns, block by block.

The functions that go over bytes are compiled (see `protocols.formats.jit`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ticdc_assets.errors import SourceError
from ticdc_assets.protocols.formats.jit import compiled, inlined
from ticdc_assets.protocols.formats.simd import VECTOR, copied
from ticdc_assets.protocols.formats.string_arrays import read_only
from ticdc_assets.sources.capture import MAX_FIELD_BYTES, MessagePosition, open_capture, record_end, record_is_cut

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_STARTS, _TIMES, _KEYS, _VALUES = range(4)
_SPARE_BYTES: Final = 1 << 16
"""Room for the record that crosses the end of a block: most are smaller."""


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Consecutive records of a file.

    bytes: int64, the first byte of each record in the file. records: int64, its ordinal, which is its offset.
    times_ms: int64. keys, values: `binary` arrays, null where absent.
    """

    bytes: Ints
    records: Ints
    times_ms: Ints
    keys: pa.Array
    values: pa.Array


def record_columns(
    path: Path, start: MessagePosition, records_max: int, size_bytes_max: int
) -> Iterator[RecordColumns]:
    """The records of a file in blocks of bounded number and size, of at least one record each.

    Raises the errors of `capture.records`, after the records before the fault.
    """
    table = np.empty((4, records_max), np.int64)
    with open_capture(path) as file:
        file.seek(start.byte)
        window = _Window(file, start.byte, size_bytes_max)
        record = start.record
        while True:
            count, size_bytes = _cut(window.bytes, table, size_bytes_max)
            if count < records_max and size_bytes < size_bytes_max:
                try:
                    wanted = record_end(window.view, size_bytes, f"{path}: record {record + count}")
                except SourceError:
                    if not count:
                        raise
                else:
                    if window.fill(wanted):
                        continue
            if not count:
                break
            yield _columns(window, table[:, :count], record)
            window.drop(size_bytes)
            record += count
        if window.held:
            raise record_is_cut(path, record, wanted, window.held)


class _Window:
    """The bytes of a file from a place on, in one buffer: with a new buffer for each block, the system would spend more
    time clearing pages than reading."""

    def __init__(self, file: BinaryIO, byte: int, size_bytes: int) -> None:
        self.byte = byte
        self._file = file
        self._buffer = bytearray(size_bytes + _SPARE_BYTES)
        self._begin = 0
        self._end = 0

    @property
    def held(self) -> int:
        return self._end - self._begin

    @property
    def view(self) -> memoryview:
        return memoryview(self._buffer)[self._begin : self._end]

    @property
    def bytes(self) -> Bytes:
        return read_only(np.frombuffer(self._buffer, np.uint8, self.held, self._begin))

    def fill(self, wanted: int) -> bool:
        """Read until the buffer is full, and holds at least `wanted` bytes; False where it has room for none or the
        file has no more."""
        held, rest = self.held, self.view
        if wanted > len(self._buffer):
            larger = bytearray(max(wanted, 2 * len(self._buffer)))
            larger[:held] = rest
            self._buffer = larger
        else:
            memoryview(self._buffer)[:held] = rest
        self._begin, self._end = 0, held
        count: int = self._file.readinto(memoryview(self._buffer)[held:])  # type: ignore[attr-defined]
        self._end += count
        return count > 0

    def drop(self, size_bytes: int) -> None:
        """Drop the first bytes. The rest moves to the front when more is read."""
        self.byte, self._begin = self.byte + size_bytes, self._begin + size_bytes


def _columns(window: _Window, table: Ints, record: int) -> RecordColumns:
    """The records that `_cut` has found in the window, of which `record` is the ordinal of the first."""
    key_starts = table[_STARTS] + 12
    value_starts = key_starts + np.maximum(table[_KEYS], 0) + 4
    return RecordColumns(
        window.byte + table[_STARTS],
        np.arange(record, record + table.shape[1]),
        table[_TIMES].copy(),
        _binary(window.bytes, key_starts, table[_KEYS]),
        _binary(window.bytes, value_starts, table[_VALUES]),
    )


def _binary(view: Bytes, starts: Ints, lengths: Ints) -> pa.Array:
    """The byte strings at these positions; null where the length is negative."""
    offsets = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(np.maximum(lengths, 0), out=offsets[1:])
    filled = np.empty(int(offsets[-1]) + VECTOR, np.uint8)
    _copy(view, starts, offsets, filled)
    present = lengths >= 0
    validity = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(filled[:-VECTOR])]
    return pa.Array.from_buffers(pa.binary(), len(starts), buffers)


@inlined
def _number(data: Bytes, at: int, size: int) -> int:
    found = 0
    for i in range(size):
        found = (found << 8) | int(np.int64(data[at + i]))
    return found


@inlined
def _signed(number: int) -> int:
    return number - (1 << 32) if number >= 1 << 31 else number


@compiled
def _cut(data: Bytes, table: Ints, size_bytes_max: int) -> tuple[int, int]:
    """Fill the start, time and lengths of each whole record into `table`. Returns their number and the end of the
    last one. Ends before a record that is cut or has an invalid length."""
    at, count, size_bytes = 0, 0, 0
    while count < table.shape[1] and size_bytes < size_bytes_max and at + 16 <= len(data):
        time, key = _number(data, at, 8), _signed(_number(data, at + 8, 4))
        if key < -1 or key > MAX_FIELD_BYTES:
            break
        value_at = at + 12 + max(key, 0)
        if value_at + 4 > len(data):
            break
        value = _signed(_number(data, value_at, 4))
        end = value_at + 4 + max(value, 0)
        if value < -1 or value > MAX_FIELD_BYTES or end > len(data):
            break
        table[0, count], table[1, count], table[2, count], table[3, count] = at, time, key, value
        size_bytes += end - at
        at, count = end, count + 1
    return count, at


@compiled
def _copy(data: Bytes, starts: Ints, offsets: npt.NDArray[np.int32], filled: Bytes) -> None:
    """Copy each byte string into `filled`. Up to VECTOR bytes after its end are overwritten."""
    for number in range(len(starts)):
        at, place, end = starts[number], int(offsets[number]), int(offsets[number + 1])
        while place < end and at + VECTOR <= len(data):
            copied(data, at, filled, place)
            at, place = at + VECTOR, place + VECTOR
        while place < end:
            filled[place] = data[at]
            at, place = at + 1, place + 1
