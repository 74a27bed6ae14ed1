"""The head of a message: its kind, its table and its TSO, as far as the protocol carries them.

Scans read heads in place of rows and watermarks, where a protocol allows it. So may people and tools. A message whose
head cannot be read is landed without one, and the decoder reports the fault later. So is an Avro message with a schema
that is not recorded in the lake yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ticdc_assets.errors import TicdcAssetsError
from ticdc_assets.faults import of_one_table
from ticdc_assets.protocols.columnar.message_rows import Messages, RowHeaders
from ticdc_assets.protocols.events import Event, RowEvent, WatermarkEvent
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.sources.capture import Message

ROW: Final = "row"
DDL: Final = "ddl"
BOOTSTRAP: Final = "bootstrap"
WATERMARK: Final = "watermark"


class MessageHead(NamedTuple):
    """The kind of a message (row, ddl, bootstrap or watermark), its table and its TSO; None for an unknown value.

    For several events in one message: the kind is that of the first event, the table is set only where all events have
    the same one, and the TSO is the largest.
    """

    kind: str | None = None
    schema: str | None = None
    table: str | None = None
    commit_ts: int | None = None


_NONE: Final = MessageHead()


def message_heads(
    protocol: str, options: Any, messages: Messages, message_at: Callable[[int], Message]
) -> tuple[pa.Array, pa.Array, pa.Array, pa.Array]:
    """The heads of a batch as columns: kind, schema, table, commit_ts. `message_at` gives the message at an index."""
    heads = _Heads(len(messages))
    for index in _in_bulk(protocol, options, messages, heads):
        heads.put(index, message_head(protocol, options, message_at(index)))
    return heads.columns()


class _Heads:
    """The heads of a batch: of each message the number of its kind, schema and table, and its TSO, -1 for none."""

    def __init__(self, count: int) -> None:
        self._numbers: dict[tuple[str | None, str | None, str | None], int] = {_NONE[:3]: 0}
        self._number = np.zeros(count, np.int64)
        self._ts = np.full(count, -1, np.int64)

    def put(self, index: int, head: MessageHead) -> None:
        self._number[index] = self._numbers.setdefault(head[:3], len(self._numbers))
        self._ts[index] = -1 if head.commit_ts is None else head.commit_ts

    def put_rows(self, rows: RowHeaders) -> None:
        """Add the heads of row changes; a message may have several."""
        of_name = np.array(
            [self._numbers.setdefault((ROW, *name), len(self._numbers)) for name in rows.names], np.int64
        )
        message, name = np.asarray(rows.message), np.asarray(rows.name)
        self._number[message[::-1]] = of_name[name[::-1]]  # the first row of each message
        np.maximum.at(self._ts, message, np.asarray(rows.commit_ts.fill_null(-1)))
        for index in np.unique(message[of_name[name] != self._number[message]]):  # rows of several tables
            names = [MessageHead(ROW, *rows.names[number]) for number in name[message == index]]
            ts = int(self._ts[index])
            self.put(int(index), reduce(_joined, names)._replace(commit_ts=None if ts < 0 else ts))

    def columns(self) -> tuple[pa.Array, pa.Array, pa.Array, pa.Array]:
        numbers = pa.array(self._number)
        kinds, schemas, tables = (
            pa.array(names, pa.string()).take(numbers) for names in zip(*self._numbers, strict=True)
        )
        return kinds, schemas, tables, pa.array(self._ts, mask=self._ts < 0)


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
            return MessageHead(WATERMARK, None, None, event.ts)
        case DdlEvent():
            kind = DDL if event.query else BOOTSTRAP
            return MessageHead(kind, event.schema or None, event.table or None, event.commit_ts or None)
        case RowEvent():
            return MessageHead(ROW, event.schema, event.table, event.commit_ts)


def _joined(head: MessageHead, other: MessageHead) -> MessageHead:
    if head is _NONE:
        return other
    newest = max((ts for ts in (head.commit_ts, other.commit_ts) if ts is not None), default=None)
    schema = head.schema if head.schema == other.schema else None
    table = head.table if (head.schema, head.table) == (other.schema, other.table) else None
    return MessageHead(head.kind, schema, table, newest)
