"""Verifies the checksums of rows."""

from __future__ import annotations

from ticdc_assets.errors import DecodeError
from ticdc_assets.pipeline.stream.decode.task import MessageTask
from ticdc_assets.protocols.avro import decoder as confluent_avro
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.protocols.simple import decoder as simple
from ticdc_assets.protocols.values.checksum import ChecksummedRow
from ticdc_assets.schema.history.source_table import fold_name
from ticdc_assets.schema.model import TableSchema
from ticdc_assets.sources.capture import Message


def verified(task: MessageTask, event: RowEvent, message: Message) -> RowEvent:
    """The row after its checksum is verified. A checksum also shows which of two equal wall times a TIMESTAMP is.

    Raises:
        DecodeError: the row does not match its checksum.
    """
    table = checked_schema(task, event)
    if table is None:
        return event
    is_simple = task.decoding.protocol == "simple"
    decoder = simple if is_simple else confluent_avro
    fault: str | None = decoder.verify(event, table, task.decoding.zone)
    if fault is not None:
        raise mismatch(message, fault)
    resolved: RowEvent = decoder.with_resolved_times(event, table, task.decoding.zone)
    return resolved


def checked_schema(task: MessageTask, event: RowEvent) -> TableSchema | None:
    """The schema over which the row's checksum is computed; None where there is none to check."""
    if not isinstance(event, ChecksummedRow) or event.hints.schema_version is None:
        return None
    return task.schemas.checked.get((fold_name(event.schema, event.table), event.hints.schema_version))


def mismatch(message: Message, fault: str) -> DecodeError:
    """The error of a row that does not match its checksum."""
    return DecodeError(message.where, "a row with the checksum it came with", fault, "Load the row again.")
