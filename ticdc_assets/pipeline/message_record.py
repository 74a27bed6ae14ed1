"""What a run of a message changefeed leaves on record of tables that wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ticdc_assets.pipeline.capture_holds import unknown_id
from ticdc_assets.pipeline.interval import TableState
from ticdc_assets.pipeline.message_pending import PendingMessages
from ticdc_assets.schema.lineage import fold_name
from ticdc_assets.tables.control import TableRecord


def with_waiting(pending: PendingMessages, records: list[TableRecord]) -> list[TableRecord]:
    """The records, those of tables with rows above what the DDL log tells as waiting for it."""
    if pending.log is None or not pending.look.waiting:
        return records
    why = {fold_name(*name): f"{name[0]}.{name[1]}: {pending.log.wait}" for name in pending.waiting}
    spelt = {fold_name(*name): name for name in pending.waiting}
    told = []
    for record in records:
        name = fold_name(record.schema, record.table)
        waits = name in why and record.state == str(TableState.LIVE)
        told.append(replace(record, state=str(TableState.WAITING), note=why.pop(name)) if waits else record)
    recorded = {record.lineage for record in told}
    new = [_unknown_table(*spelt[name], note) for name, note in why.items()]
    return told + [record for record in new if record.lineage not in recorded]


def unknown_tables(pending: PendingMessages, problems: dict[Any, str]) -> list[TableRecord]:
    """Tables that so far are only names in rows: they wait for a schema."""
    borne = {fold_name(t.schema, t.table) for lineage in pending.history.lineages for t in lineage.tenures}
    return [_unknown_table(name[0], name[1], problem) for name, problem in problems.items() if name not in borne]


def unread_tables(pending: PendingMessages) -> list[TableRecord]:
    """Tables of which only messages tell that cannot be read."""
    found = pending.faults.unread.items()
    return [replace(_unknown_table(*name, hold.reason), state=str(hold.state)) for name, hold in found]


def _unknown_table(schema: str, table: str, problem: str) -> TableRecord:
    return TableRecord(
        unknown_id(schema, table), schema, table, "waiting", problem, [], 0, None, None, None, None, None
    )
