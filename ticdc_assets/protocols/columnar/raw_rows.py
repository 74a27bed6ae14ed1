"""The output of bulk decoders: the changes of one source table as columns of untyped wire values.

Readers of files also report a broken record (`BadRecord`), an unfinished file (`Incomplete`), and a file that only the
reference decoder can read (`BulkUnsupported`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from ticdc_assets.errors import DecodeError, TicdcAssetsError
from ticdc_assets.protocols.formats.string_arrays import Bytes, Ints

NUMBER_TYPE: Final = pa.struct([("number", pa.string())])
"""The type of numbers in `wire` if the protocol has both numbers and strings: their digits as sent."""
TIME_TYPE: Final = pa.struct([("location", pa.string()), ("value", pa.string())])
"""The type of TIMESTAMPs in `wire` that name their time zone."""


class BulkUnsupported(TicdcAssetsError):  # noqa: N818 - it says what a caller does next, not what went wrong
    """Raised if the bulk decoder cannot read a file exactly; the caller reads it again with the reference decoder."""


def unsupported(where: str, found: str) -> BulkUnsupported:
    """The error for a file with something that the bulk decoder does not read exactly."""
    wanted = "a file that the bulk decoder reads exactly"
    return BulkUnsupported(where, wanted, found, "Read it with the reference decoder.")


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that cannot be decoded: its ordinal in the file, its bytes, and the error."""

    line: int
    raw: bytes
    error: DecodeError


@dataclass(frozen=True, slots=True)
class Incomplete:
    """The file ends inside the record with this ordinal, because the writer has not finished. It is the last item."""

    line: int


@dataclass(frozen=True, slots=True)
class RawRows:
    """Changes of one source table in file order; every array has one entry per change.

    op: I, U or D.
    commit_ts, commit_ms: null if the stream does not have it; `commit_ms` is in Unix milliseconds.
    line: the ordinal of the record in its file, from 0; for a CSV update pair that of the second record.
    wire: the new values by column, for D the old ones; null if the column was not sent.
    before: the whole old rows by column, null where `has_before` is false; None if no change can have old values.
    has_before: whether the change has old values; None together with `before`.
    sent: by column, whether the change was sent with it; None if all changes have all columns.
    """

    op: pa.Array
    commit_ts: pa.Array
    commit_ms: pa.Array
    line: pa.Array
    columns: tuple[str, ...]
    wire: tuple[pa.Array, ...]
    before: tuple[pa.Array, ...] | None = None
    has_before: pa.Array | None = None
    sent: tuple[pa.Array, ...] | None = None

    def __post_init__(self) -> None:
        assert len(self.columns) == len(self.wire)
        assert (self.before is None) == (self.has_before is None)
        assert self.before is None or len(self.before) == len(self.columns)
        assert self.sent is None or len(self.sent) == len(self.columns)

    def __len__(self) -> int:
        return len(self.op)

    def slice(self, offset: int, length: int | None = None) -> RawRows:
        """The changes from `offset` on, without a copy."""
        return self._each(lambda array: array.slice(offset, length))

    def filter(self, mask: pa.Array) -> RawRows:
        """The changes where `mask` is true."""
        return self._each(lambda array: array.filter(mask))

    def take(self, indices: pa.Array) -> RawRows:
        """The changes at `indices`, in the given order."""
        return self._each(lambda array: array.take(indices))

    def _each(self, change: Callable[[pa.Array], pa.Array]) -> RawRows:
        return replace(
            self,
            op=change(self.op),
            commit_ts=change(self.commit_ts),
            commit_ms=change(self.commit_ms),
            line=change(self.line),
            wire=tuple(change(array) for array in self.wire),
            before=None if self.before is None else tuple(change(array) for array in self.before),
            has_before=None if self.has_before is None else change(self.has_before),
            sent=None if self.sent is None else tuple(change(array) for array in self.sent),
        )


@dataclass(frozen=True, slots=True)
class JoinedRows:
    """Changes of several files that were read as one. Their records are counted on from file to file: those of file n
    end before record `line_ends[n]`."""

    batches: tuple[RawRows, ...]
    line_ends: Ints


def concat(parts: Iterable[RawRows]) -> RawRows:
    """Concatenates changes of one file. All parts must have the same columns, and all or none have `before`."""
    every = list(parts)
    first = every[0]
    assert all(part.columns == first.columns and (part.before is None) == (first.before is None) for part in every)
    return RawRows(
        op=pa.concat_arrays([part.op for part in every]),
        commit_ts=pa.concat_arrays([part.commit_ts for part in every]),
        commit_ms=pa.concat_arrays([part.commit_ms for part in every]),
        line=pa.concat_arrays([part.line for part in every]),
        columns=first.columns,
        wire=_stacked([part.wire for part in every]),
        before=None if first.before is None else _stacked([part.before or () for part in every]),
        has_before=None if first.has_before is None else pa.concat_arrays([part.has_before for part in every]),
    )


def _stacked(parts: list[tuple[pa.Array, ...]]) -> tuple[pa.Array, ...]:
    return tuple(pa.concat_arrays(list(arrays)) for arrays in zip(*parts, strict=True))


def ops_of(codes: Bytes) -> pa.Array:
    """An array for `RawRows.op` from the ASCII codes of I, U and D."""
    offsets = np.arange(len(codes) + 1, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(codes), [None, pa.py_buffer(offsets), pa.py_buffer(codes)])
