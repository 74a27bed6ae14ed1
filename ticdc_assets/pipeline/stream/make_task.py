"""Makes the tasks of workers from the result of a scan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ticdc_assets.pipeline.stream.decode.task import (
    Arrival,
    Decoding,
    Mark,
    MessageTask,
    RowOrder,
    Schemas,
    SchemaVersion,
    Stretch,
)
from ticdc_assets.pipeline.tasks import Target
from ticdc_assets.schema.history.source_table import fold_name
from ticdc_assets.schema.model import TableSchema
from ticdc_assets.sources.message_log import LogPart, MessageLog

if TYPE_CHECKING:
    from ticdc_assets.pipeline.stream.context import StreamContext
    from ticdc_assets.pipeline.stream.pending import StreamPending


def tasks_of(
    context: StreamContext,
    pending: StreamPending,
    parts: Sequence[tuple[Mark, int]],
    targets: dict[str, Target],
    arrivals: dict[str, Arrival] | None = None,
    log: MessageLog | None = None,
) -> list[MessageTask]:
    """A task for each part of the messages.

    Args:
        parts: where each begins, and the ordinal after its last message.
        targets: by source table, where its changes go.
        arrivals: by source table, the offsets that it takes, where ordinals do not determine that.
        log: where the messages are, if not in the log that was scanned.
    """
    decoding, schemas = _decoding(context), _schemas(context, pending)
    order = _order(context, pending, arrivals or {})
    sections = (log or context.log).sections([LogPart(begin.place, last - begin.ordinal) for begin, last in parts])
    return [
        MessageTask(
            run_id=pending.run_id,
            number=number,
            high=pending.high,
            stretch=_stretch(context, pending, section, begin, last),
            decoding=decoding,
            schemas=schemas,
            order=replace(
                order,
                placed={ordinal: ts for ordinal, ts in order.placed.items() if begin.ordinal <= ordinal < last},
                repeated=_within(order.repeated, begin, last),
            ),
            targets=targets,
            io_properties=context.lake.io_properties,
        )
        for number, ((begin, last), section) in enumerate(zip(parts, sections, strict=True))
    ]


def _stretch(context: StreamContext, pending: StreamPending, log: MessageLog, begin: Mark, last: int) -> Stretch:
    return Stretch(
        log=log,
        begin=begin,
        last=last,
        window=pending.cursor.window(pending.scan.offsets.until),
        witnesses={o: digest for o, digest in pending.scan.witnesses.items() if begin.ordinal <= o < last},
        twice=_within(pending.scan.offsets.twice, begin, last),
        read={} if context.lake.by_arrival else pending.cursor.in_part,
    )


def _decoding(context: StreamContext) -> Decoding:
    changefeed, large_rows = context.changefeed, context.changefeed.large_rows
    return Decoding(
        protocol=context.protocol,
        options=context.options,
        zone=changefeed.time_zone,
        claim_check=large_rows.claim_check.uri if large_rows.claim_check else None,
        upstream=large_rows.upstream,
        quarantine=changefeed.bad_input.quarantines,
        zero_dates_allowed=changefeed.bad_input.allows_zero_dates,
    )


def _schemas(context: StreamContext, pending: StreamPending) -> Schemas:
    return Schemas(
        timelines=pending.history.timelines(),
        versions=_versions(context, pending),
        checked=_checked(context, pending),
        given=frozenset(context.lake.known.tables),
        tables=context.changefeed.tables,
        clock=context.clock,
        selectors=context.changefeed.sink.content.column_selectors,
        names=pending.names,
        statement_positions=pending.statement_positions,
        stopped=frozenset(found.id for found in pending.history.source_tables if found.stop is not None),
    )


def _order(context: StreamContext, pending: StreamPending, arrivals: dict[str, Arrival]) -> RowOrder:
    avro = pending.scan.avro
    return RowOrder(
        by_arrival=context.lake.by_arrival,
        deliveries={partition: tuple(at) for partition, at in pending.scan.watermarks.deliveries.items()},
        arrivals=arrivals,
        fresh=pending.fresh | pending.beyond,
        placed=avro.placed if avro else {},
        repeated=avro.repeated() if avro else frozenset(),
    )


def _versions(context: StreamContext, pending: StreamPending) -> dict[SchemaVersion, int]:
    """Every schema version in the stream, kept or not, with the TSO after which it is in effect."""
    versions: dict[SchemaVersion, int] = {}
    for event in (*context.lake.control.ddl_events(), *pending.scan.statements, *pending.new_events):
        if event.hints.version is not None:
            versions.setdefault((fold_name(event.schema, event.table), event.hints.version), event.commit_ts)
        if event.hints.before_version is not None and event.before is not None:
            before = fold_name(event.before.schema, event.before.name)
            versions.setdefault((before, event.hints.before_version), event.commit_ts)
    return versions


def _checked(context: StreamContext, pending: StreamPending) -> dict[SchemaVersion, TableSchema]:
    """The schemas as the stream lists them, where rows have checksums."""
    if context.changefeed.sink.content.integrity_check_level == "none":
        return {}
    if pending.scan.avro is not None:
        return pending.scan.avro.checked
    events = (*context.lake.control.ddl_events(), *pending.scan.statements)
    return {
        (fold_name(e.schema, e.table), e.hints.version): e.after
        for e in events
        if e.hints.version is not None and e.after is not None
    }


def _within(ordinals: Iterable[int], begin: Mark, last: int) -> frozenset[int]:
    return frozenset(ordinal for ordinal in ordinals if begin.ordinal <= ordinal < last)
