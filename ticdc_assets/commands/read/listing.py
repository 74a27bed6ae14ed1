"""`ticdc-assets tables`, and what `ticdc-assets snapshot` shows: the control tables. Needs no JVM."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ticdc_assets.commands.output.terminal import Terminal, moment, when
from ticdc_assets.errors import ConfigError
from ticdc_assets.pipeline.history.knowledge import Lack, LakeKnowledge
from ticdc_assets.pipeline.lake import Lake, read_only_config
from ticdc_assets.pipeline.quarantine import with_quarantine
from ticdc_assets.schema.ddl_event import gaps_of
from ticdc_assets.schema.history.source_table import fold_name
from ticdc_assets.tables.control.retention import named_pins
from ticdc_assets.tables.control.tables import named
from ticdc_assets.tso import is_tso

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed, Config
    from ticdc_assets.schema.ddl_event import DdlEvent
    from ticdc_assets.schema.history.source_table import SourceTable
    from ticdc_assets.tables.control.records import TableRecord

_NAMES: Final = ("changefeed", "table", "mirror", "rows", "complete up to (UTC)", "state")

# -- tables ------------------------------------------------------------------------------------------------------------


def tables(config: Config, chosen: Sequence[Changefeed], as_json: bool) -> int:
    """List every source table, also dropped ones. Returns the exit code."""
    terminal = Terminal()
    rows = [
        row for changefeed in chosen for row in table_rows(Lake(read_only_config(config), changefeed), with_ids=as_json)
    ]
    if as_json:
        terminal.json(rows)
    elif rows:
        terminal.columns(_NAMES, [_cells(row) for row in rows], right=["rows"])
    else:
        terminal.result("No table yet: there was no run. Start with `ticdc-assets run`.")
    return 0


def table_rows(lake: Lake, with_ids: bool = True) -> list[dict[str, Any]]:
    """One object per source table, sorted by name. `messages_read` is the watermark where it is a count of messages.

    Table ids come from the statements, which are read and folded for them alone: None where `with_ids` is not set.
    """
    record = lake.control.newest()
    if record is None:
        return []
    ids = _table_ids(lake) if with_ids else {}
    tables = with_quarantine(lake, record.tables)
    rows = [_row(lake.changefeed.name, table, ids.get(table.source_table)) for table in tables]
    return sorted(rows, key=lambda row: (row["schema"], row["table"], row["state"]))


def _row(changefeed: str, table: TableRecord, table_id: int | None) -> dict[str, Any]:
    is_count = table.watermark > 0 and not is_tso(table.watermark)
    return {
        "changefeed": changefeed,
        "schema": table.schema,
        "table": table.table,
        "table_id": table_id,
        "mirror": table.mirror,
        "changelog": table.changelog,
        "key": table.key,
        "watermark": None if is_count else table.watermark,
        "messages_read": table.watermark if is_count else None,
        "rows": table.rows,
        "state": table.state,
        "note": table.note,
        "notes": [note.as_object() for note in table.notes],
        "codes": [note.code for note in table.notes],
        "quarantined": table.quarantined or 0,
        "quarantined_since": table.quarantined_since,
        "discarded": table.discarded or 0,
        "mirror_snapshot_id": table.mirror_snapshot_id,
        "history_table": table.history_table,
    }


def _table_ids(lake: Lake) -> dict[str, int]:
    """The newest table id in the stream, by source table; without those whose stream has no table ids."""
    events = lake.control.ddl_events()
    return {
        i: found for i, source_table in lake.history().by_id().items() if (found := _table_id(source_table, events))
    }


def _table_id(source_table: SourceTable, events: Iterable[DdlEvent]) -> int | None:
    for event in sorted(events, key=lambda event: event.commit_ts, reverse=True):
        name = source_table.name_at(event.commit_ts)
        if event.hints.table_id and name and fold_name(*name) == fold_name(event.schema, event.table):
            return event.hints.table_id
    return None


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    state = f"{row['state']}: {row['note']}" if row["note"] else row["state"]
    rows = "" if row["rows"] is None else f"{row['rows']:,}"
    return (
        row["changefeed"],
        f"{row['schema']}.{row['table']}",
        ".".join(row["mirror"] or ()),
        rows,
        when(row["watermark"] or row["messages_read"] or 0),
        state,
    )


# -- snapshot ----------------------------------------------------------------------------------------------------------


def recorded_snapshot(lake: Lake, at: int, together: Sequence[str] = ()) -> dict[str, Any]:
    """The newest record up to `at` in which the tables of these patterns are complete, without tables that were dropped
    by then. `held` has the tables that are not complete in it.

    Table names are those of the record; mirror identifiers are the current ones.

    Raises:
        ConfigError: `at` is a TSO, and the records of messages without commit_ts have counts.
        NotYetError: there is no record up to `at`.
    """
    if not lake.measures_lag and is_tso(at):
        advice = "Give the number of messages, as `ticdc-assets tables` shows it."
        raise ConfigError(f"changefeed {lake.changefeed.name}", "a count of messages", "a TSO or a time", advice)
    record = lake.control.require_at(at, f"changefeed {lake.changefeed.name}", named(together))
    newest, known = lake.recorded(lake.control.newest()), LakeKnowledge.recorded(lake, record)
    source_tables = lake.history().by_id()

    def left_out(table: TableRecord) -> list[Lack]:
        found = source_tables.get(table.source_table)
        return list(known.table(found, record.tso).lacks) if found is not None else []

    tables = [
        {
            "schema": table.schema,
            "table": table.table,
            "mirror": newest[table.source_table].mirror if table.source_table in newest else table.mirror,
            "snapshot_id": table.mirror_snapshot_id,
            "quarantined": table.quarantined or 0,
            "quarantined_since": table.quarantined_since,
            "leaves_out": [lack.as_object() for lack in left_out(table)],
        }
        for table in record.tables
        if table.mirror_snapshot_id is not None and table.state != "dropped" and table.complete
    ]
    held = [
        {
            "schema": table.schema,
            "table": table.table,
            "codes": [note.code for note in table.notes if not note.is_warning],
            "note": table.note,
            "watermark": table.watermark,
        }
        for table in record.held
        if table.state != "dropped"
    ]
    by_name = operator.itemgetter("schema", "table")
    return {"tso": record.tso, "tables": sorted(tables, key=by_name), "held": sorted(held, key=by_name)}


def list_pins(terminal: Terminal, lake: Lake, as_json: bool) -> int:
    """Show all pins. Returns the exit code."""
    pins, gaps = named_pins(lake.control), gaps_of(lake.control.ddl_events())
    if as_json:
        before = {tso: [list(gap) for gap in gaps if gap[1] <= tso] for tso in pins.values()}
        terminal.json([{"pin": name, "tso": tso, "gaps": before[tso]} for name, tso in pins.items()])
        return 0
    for name, tso in pins.items():
        lost = "".join(f"; without the changes between {begin} and {end}" for begin, end in gaps if end <= tso)
        terminal.result(f"{name}: {moment(tso)}{lost}")
    if not pins:
        terminal.note("No pin.")
    return 0
