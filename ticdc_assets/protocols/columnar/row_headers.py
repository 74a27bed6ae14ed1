"""Builds the row headers of a batch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ticdc_assets.protocols.columnar.message_rows import RowHeaders
from ticdc_assets.protocols.formats.string_arrays import Ints


def heads_of(
    messages: int,
    names: tuple[tuple[str, str], ...],
    message: Ints,
    name: pa.Array,
    op: pa.Array,
    commit_ts: pa.Array,
    commit_ms: pa.Array | None = None,
    schema_version: pa.Array | None = None,
    position: Ints | None = None,
) -> RowHeaders:
    """The headers of these rows; messages without a row are marked as left.

    Args:
        messages: the number of messages in the batch.
        names: the different (schema, table) of the rows.
        message: int64, the index of each row's message.
        name: int32, the index of each row's table in `names`.
        op: I, U or D of each row.
        commit_ts, commit_ms, schema_version: int64; None stands for a column of nulls.
        position: int64, the ordinal of each row in its message; None stands for zeros.
    """
    nothing = pa.nulls(len(message), pa.int64())
    left = np.ones(messages, np.bool_)
    left[message] = False
    return RowHeaders(
        names=names,
        message=pa.array(message, pa.int64()),
        position=pa.array(np.zeros(len(message), np.int64) if position is None else position, pa.int64()),
        name=name,
        op=op.view(pa.string()),
        commit_ts=commit_ts,
        commit_ms=nothing if commit_ms is None else commit_ms,
        schema_version=nothing if schema_version is None else schema_version,
        left=left,
    )
