"""Cuts the records of a binary capture into columns, block by block.

The functions that go over bytes are compiled, and so are in one file (see `protocols.formats.jit`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ticdc_assets.protocols.formats.jit import compiled, inlined
from ticdc_assets.sources.capture import MAX_FIELD_BYTES, MessagePosition, open_capture, record_end, record_is_cut

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_READ_BYTES: Final = 4 << 20
_STARTS, _TIMES, _KEYS, _VALUES = range(4)


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
    with open_capture(path) as file:
        file.seek(start.byte)
        data, base, record = b"", start.byte, start.record
        while True:
            found, end = _cut_block(data, base, record, records_max, size_bytes_max)
            if found is not None:
                yield found
                record += len(found.records)
                base, data = base + end, data[end:]
                continue
            wanted = record_end(data, 0, f"{path}: record {record}")
            more = file.read(max(_READ_BYTES, wanted - len(data)))
            if not more:
                break
            data += more
        if data:
            raise record_is_cut(path, record, wanted, len(data))


def _cut_block(
    data: bytes, base: int, record: int, records_max: int, size_bytes_max: int
) -> tuple[RecordColumns | None, int]:
    """The whole records at the start of the data, and where the next one begins."""
    view = np.frombuffer(data, np.uint8)
    table = np.empty((4, records_max), np.int64)
    count, end = _cut(view, table, size_bytes_max)
    if not count:
        return None, 0
    table = table[:, :count]
    key_starts = table[_STARTS] + 12
    value_starts = key_starts + np.maximum(table[_KEYS], 0) + 4
    columns = RecordColumns(
        base + table[_STARTS],
        np.arange(record, record + count),
        table[_TIMES].copy(),
        _binary(view, key_starts, table[_KEYS]),
        _binary(view, value_starts, table[_VALUES]),
    )
    return columns, end


def _binary(view: Bytes, starts: Ints, lengths: Ints) -> pa.Array:
    """The byte strings at these positions; null where the length is negative."""
    offsets = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(np.maximum(lengths, 0), out=offsets[1:])
    filled = np.empty(int(offsets[-1]), np.uint8)
    _copy(view, starts, offsets, filled)
    present = lengths >= 0
    validity = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(filled)]
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
    for number in range(len(starts)):
        begin, start = offsets[number], starts[number]
        for i in range(offsets[number + 1] - begin):
            filled[begin + i] = data[start + i]
