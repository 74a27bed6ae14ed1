"""The changes of one source table from one file as columns of wire text, before a schema gives them types.

What the bulk decoders yield. With them, how a file's readers say that a record is broken (`BadRecord`), that a file
is not finished yet (`Incomplete`) and that the bulk form cannot be exact for a file (`BulkUnsupported`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ticdc_assets.errors import DecodeError, TicdcAssetsError
from ticdc_assets.protocols.joined_texts import Bytes


class BulkUnsupported(TicdcAssetsError):  # noqa: N818 - it says what a caller does next, not what went wrong
    """Raised when the bulk form cannot be exact for a file; read that file again with the reference form."""


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that could not be decoded: its ordinal in the file, its bytes as they are, and why."""

    line: int
    raw: bytes
    error: DecodeError


@dataclass(frozen=True, slots=True)
class Incomplete:
    """The file ends inside a record, whose ordinal this is: the writer has not finished. Nothing follows it."""

    line: int


@dataclass(frozen=True, slots=True)
class RawRows:
    """Changes of one source table in file order; every array has one entry for each change.

    `op` holds I, U or D. `commit_ts` is null where the stream has none, `commit_ms` where it is unknown. `line` is
    the ordinal of the record in its file, from 0 (of the last record of a CSV update pair). `wire` holds text by
    column: the new values, for D the old ones. `before` holds the whole old row where `has_before` is true and
    nulls elsewhere; both are None where no change of the file can have old values.
    """

    op: pa.Array
    commit_ts: pa.Array
    commit_ms: pa.Array
    line: pa.Array
    columns: tuple[str, ...]
    wire: tuple[pa.Array, ...]
    before: tuple[pa.Array, ...] | None = None
    has_before: pa.Array | None = None

    def __post_init__(self) -> None:
        assert len(self.columns) == len(self.wire)
        assert (self.before is None) == (self.has_before is None)
        assert self.before is None or len(self.before) == len(self.columns)

    def __len__(self) -> int:
        return len(self.op)

    def slice(self, offset: int, length: int | None = None) -> RawRows:
        """The changes from `offset` on, without a copy."""
        return self._each(lambda array: array.slice(offset, length))

    def filter(self, mask: pa.Array) -> RawRows:
        """The changes where `mask` is true."""
        return self._each(lambda array: array.filter(mask))

    def take(self, indices: pa.Array) -> RawRows:
        """The changes at `indices`, in that order."""
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
        )


def concat(parts: Iterable[RawRows]) -> RawRows:
    """Several runs of changes of one file as one; all must have the same columns and kinds of old values."""
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
    """The letters that these bytes are, as `RawRows.op` holds them."""
    offsets = np.arange(len(codes) + 1, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(codes), [None, pa.py_buffer(offsets), pa.py_buffer(codes)])
