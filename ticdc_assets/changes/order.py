"""Computes `_ticdc_seq`, which orders changes.

In a stream with commit_ts, seq orders the changes of one commit_ts: first deletes, then inserts and updates (TiCDC
sends an update that changes the key as DELETE + INSERT with one commit_ts), then by file and line. In a stream without
commit_ts, changes are ordered by arrival, and seq increases over the whole life of the table.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

_HALF_BITS: Final = 1  # an update that changes the key becomes two changes of one record
_LINE_BITS: Final = 31  # a 512 MiB file, TiCDC's largest, has fewer records than this
_FILE_BITS: Final = 30
_FILE_SHIFT: Final = _HALF_BITS + _LINE_BITS
_NOT_DELETE: Final = 1 << (_FILE_SHIFT + _FILE_BITS)

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def arrival(file_ordinal: int | Ints, line: Ints, half: Ints) -> Ints:
    """Seq by arrival.

    Args:
        file_ordinal: the number of the file among the files of its table, in order of arrival; or that of each change.
        line: the line of each change in the file.
        half: 1 for the second change of a split update, else 0.

    Raises:
        OverflowError: `file_ordinal` does not fit.
    """
    if np.max(file_ordinal, initial=0) >= 1 << _FILE_BITS:
        raise OverflowError(f"a table of more than {1 << _FILE_BITS} files is beyond what seq can number")
    base = np.asarray(file_ordinal, np.int64) << _FILE_SHIFT
    return base | (line << _HALF_BITS) | half


def within_commit(file_ordinal: int | Ints, line: Ints, half: Ints, is_delete: Bools) -> Ints:
    """Seq inside one commit_ts: deletes first, then by arrival."""
    return arrival(file_ordinal, line, half) | np.where(is_delete, 0, _NOT_DELETE)


def next_position(file_ordinal: int) -> int:
    """The smallest arrival seq of a file; all seqs of earlier files are smaller."""
    return file_ordinal << _FILE_SHIFT


def at_line(seq: Ints, line: int) -> Ints:
    """The same seqs with their line replaced by `line`."""
    lines = np.int64(((1 << _LINE_BITS) - 1) << _HALF_BITS)
    return seq & ~lines | np.int64(line << _HALF_BITS)
