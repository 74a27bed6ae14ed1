"""Loads bulk decoders with compiled code on demand: loading takes as long as decoding thousands of single messages."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ticdc_assets.protocols.columnar.message_rows import Bulk, BulkRows, ColumnOf, Messages, RowHeaders, heads_of

_MESSAGES_MIN: Final = 1024
_BYTES_MIN: Final = 2 << 20
"""A batch below both limits does not load the code. Loading takes 0.3 s, as long as the reference for 2500 rows."""


def compiled_bulk(module: str, column: ColumnOf) -> Bulk:
    """The bulk decoder `BULK` of a module, which is imported for the first large batch."""

    def heads(messages: Messages, options: Any) -> RowHeaders:
        if _is_left(messages, module):
            return _no_heads(messages)
        found: RowHeaders = import_module(module).BULK.heads(messages, options)
        return found

    def rows(messages: Messages, options: Any) -> BulkRows:
        if _is_left(messages, module):
            return BulkRows((), np.ones(len(messages), np.bool_))
        found: BulkRows = import_module(module).BULK.rows(messages, options)
        return found

    return Bulk(heads, rows, column)


def _is_left(messages: Messages, module: str) -> bool:
    is_small = len(messages) < _MESSAGES_MIN and messages.values.nbytes < _BYTES_MIN
    return is_small and module not in sys.modules


def _no_heads(messages: Messages) -> RowHeaders:
    nothing = pa.array([], pa.int64())
    no_op = pa.array([], pa.string())
    return heads_of(len(messages), (), np.zeros(0, np.int64), pa.array([], pa.int32()), no_op, nothing)
