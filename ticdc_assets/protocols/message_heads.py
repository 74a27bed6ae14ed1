"""Heads of rows from the pieces that a pattern has captured of their messages."""

from __future__ import annotations

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.protocols.joined_texts import Ints
from ticdc_assets.protocols.message_rows import Heads


def table_names(schema: pa.Array, table: pa.Array) -> tuple[tuple[tuple[str, str], ...], pa.Array]:
    """The different names, and for each row which it has; the two arrays hold JSON strings with their quotes."""
    both = pc.binary_join_element_wise(schema, table, b",").dictionary_encode()
    names = [orjson.loads(b"[" + text + b"]") for text in both.dictionary.to_pylist()]
    return tuple((found[0], found[1]) for found in names), both.indices


def integers(digits: pa.Array) -> pa.Array:
    """Digits as int64; null stays, and so does nothing at all."""
    texts = digits.view(pa.string())
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts).cast(pa.int64())


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
) -> Heads:
    """The heads of these rows of a batch of so many messages; those without a row are left."""
    nothing = pa.nulls(len(message), pa.int64())
    left = np.ones(messages, np.bool_)
    left[message] = False
    return Heads(
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
