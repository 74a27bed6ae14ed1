"""The head of a message: its kind, its table and its TSO, as far as the protocol carries them.

Heads are for people and tools that read the table `messages`; the pipeline does not use them. A message whose head
cannot be read is landed without one, and the decoder reports the fault later. So is an Avro message with a schema that
is not recorded in the lake yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ticdc_assets.errors import TicdcAssetsError
from ticdc_assets.faults import of_one_table
from ticdc_assets.protocols.columnar.message_rows import Messages
from ticdc_assets.protocols.events import DdlEvent, Event, RowEvent, WatermarkEvent
from ticdc_assets.protocols.registry import REGISTRY
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


def message_heads(protocol: str, options: Any, messages: Sequence[Message]) -> list[MessageHead]:
    """The heads of a batch of messages."""
    heads = [_NONE] * len(messages)
    for index in _in_bulk(protocol, options, messages, heads):
        heads[index] = message_head(protocol, options, messages[index])
    return heads


def _in_bulk(protocol: str, options: Any, messages: Sequence[Message], heads: list[MessageHead]) -> Sequence[int]:
    """Fill in the heads that the bulk decoder reads. Returns the indices of the other messages."""
    bulk = REGISTRY[protocol].bulk
    if bulk is None:
        return range(len(messages))
    try:
        found = bulk.heads(Messages.from_pairs((m.key, m.value) for m in messages), options)
    except TicdcAssetsError:
        return range(len(messages))
    except Exception as error:  # noqa: BLE001  raised again where it is not of these messages
        of_one_table(error)
        return range(len(messages))
    names, commit_ts = found.name.to_pylist(), found.commit_ts.to_pylist()
    for row, index in enumerate(found.message.to_pylist()):
        schema, table = found.names[names[row]]
        heads[index] = _joined(heads[index], MessageHead(ROW, schema, table, commit_ts[row]))
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
