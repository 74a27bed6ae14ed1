"""The head of a message: its kind, its table, its TSOs and its schema version, as far as the protocol carries them.

Scans read heads in place of rows and watermarks, where a protocol allows it. So may people and tools. A message whose
head cannot be read is landed without one, and the decoder reports the fault later. So is an Avro message with a schema
that is not recorded in the lake yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ticdc_assets.errors import TicdcAssetsError
from ticdc_assets.faults import of_one_table
from ticdc_assets.protocols.columnar.message_rows import Messages, RowHeaders
from ticdc_assets.protocols.events import Event, RowEvent, WatermarkEvent
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.sources.capture import Message
from ticdc_assets.sources.message_block import MessageHeads

ROW: Final = "row"
DDL: Final = "ddl"
BOOTSTRAP: Final = "bootstrap"
WATERMARK: Final = "watermark"


class MessageHead(NamedTuple):
    """The kind of a message (row, ddl, bootstrap or watermark), its table and its TSO; None for an unknown value.

    For several events in one message: the kind is that of the first event, the table is set only where all events have
    the same one, and the TSO is the largest. `min_commit_ts` is the smallest TSO of a message that is told completely:
    all its events are rows of one table, or it is a watermark. `schema_version` is the version of the schema that a
    single row names.
    """

    kind: str | None = None
    schema: str | None = None
    table: str | None = None
    commit_ts: int | None = None
    min_commit_ts: int | None = None
    schema_version: int | None = None


_NONE: Final = MessageHead()


def message_heads(
    protocol: str, options: Any, messages: Messages, message_at: Callable[[int], Message]
) -> MessageHeads:
    """The heads of a batch as columns. `message_at` gives the message at an index."""
    heads = _Heads(len(messages))
    for index in _in_bulk(protocol, options, messages, heads):
        heads.put(index, message_head(protocol, options, message_at(index)))
    return heads.columns()


_NO_NUMBER: Final = -1


class _Heads:
    """The heads of a batch: of each message the number of its kind, schema and table, its TSOs and its version."""

    def __init__(self, count: int) -> None:
        self._names: dict[tuple[str | None, str | None, str | None], int] = {_NONE[:3]: 0}
        self._name = np.zeros(count, np.int64)
        self._ts, self._min_ts, self._version = (np.full(count, _NO_NUMBER) for _ in range(3))

    def put(self, index: int, head: MessageHead) -> None:
        self._name[index] = self._names.setdefault(head[:3], len(self._names))
        for column, number in zip((self._ts, self._min_ts, self._version), head[3:], strict=True):
            column[index] = _NO_NUMBER if number is None else number

    def put_rows(self, rows: RowHeaders) -> None:
        """Add the heads of row changes; a message may have several."""
        of_name = np.array([self._names.setdefault((ROW, *name), len(self._names)) for name in rows.names], np.int64)
        message, name = np.asarray(rows.message), np.asarray(rows.name)
        ts, version = (np.asarray(column.fill_null(_NO_NUMBER)) for column in (rows.commit_ts, rows.schema_version))
        self._name[message[::-1]] = of_name[name[::-1]]  # the first row of each message
        self._min_ts[message] = ts
        np.maximum.at(self._ts, message, ts)
        np.minimum.at(self._min_ts, message, ts)
        self._version[message] = version
        self._version[np.bincount(message, minlength=len(self._name)) > 1] = _NO_NUMBER
        for index in np.unique(message[of_name[name] != self._name[message]]):  # rows of several tables
            self.put(int(index), reduce(_joined, (MessageHead(ROW, *rows.names[n]) for n in name[message == index])))
            self._ts[index] = ts[message == index].max()

    def columns(self) -> MessageHeads:
        names = pa.array(self._name)
        kinds, schemas, tables = (
            pa.array(column, pa.string()).take(names) for column in zip(*self._names, strict=True)
        )
        return MessageHeads(kinds, schemas, tables, *map(_numbers, (self._ts, self._min_ts, self._version)))


def _numbers(column: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(column, mask=column == _NO_NUMBER)


def _in_bulk(protocol: str, options: Any, messages: Messages, heads: _Heads) -> Sequence[int]:
    """Put the heads that the bulk decoder reads. Returns the indices of the other messages."""
    bulk = REGISTRY[protocol].bulk
    if bulk is None:
        return range(len(messages))
    try:
        found = bulk.heads(messages, options)
    except TicdcAssetsError:
        return range(len(messages))
    except Exception as error:  # noqa: BLE001  raised again where it is not of these messages
        of_one_table(error)
        return range(len(messages))
    if len(found):
        heads.put_rows(found)
    return [int(index) for index in np.flatnonzero(found.left)]


def message_head(protocol: str, options: Any, message: Message) -> MessageHead:
    """The head of one message."""
    head = _NONE
    try:
        for event in REGISTRY[protocol].decode(message.key, message.value, message.where, options):
            head = _joined(head, _of_event(event))
    except TicdcAssetsError:
        return _NONE
    except Exception as error:  # noqa: BLE001  raised again where it is not of this message
        of_one_table(error)
        return _NONE
    return head


def _of_event(event: Event) -> MessageHead:
    match event:
        case WatermarkEvent():
            return MessageHead(WATERMARK, None, None, event.ts, event.ts)
        case DdlEvent():
            kind = DDL if event.query else BOOTSTRAP
            return MessageHead(kind, event.schema or None, event.table or None, event.commit_ts or None)
        case RowEvent():
            ts = event.commit_ts
            return MessageHead(ROW, event.schema, event.table, ts, ts, event.hints.schema_version)


def _joined(head: MessageHead, other: MessageHead) -> MessageHead:
    if head is _NONE:
        return other
    newest = max((ts for ts in (head.commit_ts, other.commit_ts) if ts is not None), default=None)
    schema = head.schema if head.schema == other.schema else None
    table = head.table if (head.schema, head.table) == (other.schema, other.table) else None
    oldest = None
    if table is not None and head.min_commit_ts is not None and other.min_commit_ts is not None:
        oldest = min(head.min_commit_ts, other.min_commit_ts)
    return MessageHead(head.kind, schema, table, newest, oldest)
