"""The rules by which the values of messages become typed changes, their checksums, and the errors of rows that do not
fit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ticdc_assets.changes.typed import Reading
from ticdc_assets.errors import DecodeError, TicdcAssetsError
from ticdc_assets.pipeline.rows.bad_rows import FaultKind, RowFault, RowRules
from ticdc_assets.pipeline.stream.decode.row_schemas import spelt
from ticdc_assets.pipeline.stream.decode.task import MessageTask
from ticdc_assets.protocols.avro import decoder as confluent_avro
from ticdc_assets.protocols.columnar.message_rows import Bulk, TableRows
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.protocols.protocol import Value
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.protocols.simple import decoder as simple
from ticdc_assets.protocols.values.checksum import ChecksummedRow
from ticdc_assets.schema.history.source_table import fold_name
from ticdc_assets.schema.model import Column, TableSchema
from ticdc_assets.sources.capture import Message

MessageOf = Callable[[int], Message]
"""The message with an ordinal."""


def in_bulk(task: MessageTask, bulk: Bulk) -> Reading:
    """Reads the arrays of a bulk decoder."""
    zone = task.decoding.zone
    return Reading(
        lambda column, sent: bulk.column(column, sent, zone),
        REGISTRY[task.decoding.protocol].zone_of_times(zone),
        names_zones=task.decoding.protocol == "simple",  # each TIMESTAMP then names its own
        is_exact=False,
    )


def as_sent(task: MessageTask) -> Value:
    """Reads a value as the protocol sends it."""
    return REGISTRY[task.decoding.protocol].value_under(task.decoding.options)


def of_events(task: MessageTask, table: TableRows, value: Value, zone: str) -> Reading:
    """Reads the cells of events. TIMESTAMPs without a zone are in `zone`."""

    def read(column: Column, cell: Any) -> Any:
        try:
            return value(column, cell, task.decoding.zone)
        except DecodeError:
            raise
        except TicdcAssetsError as error:
            raise DecodeError(error.where, error.expected, error.found, error.advice) from None

    return Reading.of_cells(table.cells or (), read, zone)


def rules_of(task: MessageTask, table: TableSchema, reading: Reading, message_of: MessageOf) -> RowRules:
    """The rules for rows of a table."""
    return RowRules(
        where="",
        table=table,
        reading=reading,
        zero_dates_allowed=task.decoding.zero_dates_allowed,
        describe=partial(_fault, message_of),
        spelling=partial(spelt, task),
        allows_old_zero_dates=True,
    )


def _fault(message_of: MessageOf, fault: RowFault, ordinal: int) -> DecodeError:
    where = message_of(ordinal).where
    if fault.kind is FaultKind.VALUE:
        return DecodeError(where, fault.expected, fault.found, fault.advice)
    if fault.kind is FaultKind.ZERO_DATE:
        advice = "Set `zero_dates: null` to take such dates as NULL; the message is kept."
        return DecodeError(where, fault.expected, fault.found, advice)
    expected = f"a value in column {fault.column!r}, which is of the key"
    return DecodeError(where, expected, fault.found, "The message is kept; give the row another key at the source.")


# -- checksums ---------------------------------------------------------------------------------------------------------


def verified(task: MessageTask, event: RowEvent, message: Message) -> RowEvent:
    """The row after its checksum is verified. A checksum also shows which of two equal wall times a TIMESTAMP is.

    Raises:
        DecodeError: the row does not match its checksum.
    """
    table = checked_schema(task, event)
    if table is None:
        return event
    decoder = simple if task.decoding.protocol == "simple" else confluent_avro
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
