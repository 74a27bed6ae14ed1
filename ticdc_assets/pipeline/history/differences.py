"""The rows that were added, changed and removed between two TSOs, read from the changelogs.

Only the changes of the range are read, and in addition those up to its begin where they are needed: where the stream
did not send the old values of an update, and where a TRUNCATE or DROP TABLE removed rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from ticdc_assets.changes.differences import (
    ADDED,
    CHANGED,
    REMOVED,
    TsoRange,
    counts,
)
from ticdc_assets.errors import ConfigError, NotYetError, SetBackError
from ticdc_assets.names import column_name
from ticdc_assets.names.folding import fold
from ticdc_assets.pipeline.history.changes import ChangelogRange
from ticdc_assets.pipeline.history.knowledge import Knowledge, LakeKnowledge
from ticdc_assets.pipeline.history.refusals import undetermined, versions_between
from ticdc_assets.pipeline.history.tables import empties, statements_between, version_after
from ticdc_assets.pipeline.set_back import require_whole
from ticdc_assets.tables.catalog import load_or_none

if TYPE_CHECKING:
    from datetime import datetime

    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.schema.ddl_event import DdlEvent
    from ticdc_assets.schema.history.source_table import SourceTable
    from ticdc_assets.tables.control.records import TableRecord

OnRows = Callable[["TableDifference", pa.Table], None]
"""Called with rows as `Changes.differences` returns them."""


@dataclass(frozen=True, slots=True)
class TableDifference:
    """The number of rows that differ in one table; None where it cannot be compared, and `reason` says why. `knowledge`
    says what the numbers leave out.

    `name` is the table's name at the later TSO, or its last one before its drop; `key` has the names of its key columns
    in the lake then.
    """

    source_table: SourceTable
    name: tuple[str, str]
    key: tuple[str, ...]
    statements: tuple[DdlEvent, ...]
    knowledge: Knowledge
    added: int | None = None
    changed: int | None = None
    removed: int | None = None
    reason: str = ""

    @property
    def is_compared(self) -> bool:
        return self.added is not None


def table_differences(
    lake: Lake, after: int, until: int, chosen: Sequence[str], on_rows: OnRows | None = None
) -> Iterator[TableDifference]:
    """Compare each table that exists at one of two TSOs with itself at the other.

    Args:
        after, until: the earlier and the later TSO.
        chosen: `schema.table` of the tables to compare, by their names at `until`; empty for all.
        on_rows: called with the rows that differ, part by part; None if only counts are wanted.

    Raises:
        ConfigError: the stream has no commit_ts, `after` is above `until` or before the lake begins, or no table has a
            chosen name.
        NotYetError: there was no run.
    """
    where = f"changefeed {lake.changefeed.name}"
    if lake.by_arrival:
        advice = "Without commit_ts there are no TSOs to compare; compare two snapshots of the mirror."
        raise ConfigError(where, "a stream with commit_ts", "one without", advice)
    if after > until:
        raise ConfigError(where, "the earlier TSO first", f"{after} before {until}", "Exchange the two.")
    record = lake.control.newest()
    if record is None:
        raise NotYetError(where, "a run", "none", "Run `ticdc-assets run`.")
    history, events = lake.history(), lake.control.ddl_events()
    known = LakeKnowledge.of(lake, record, history, events)
    known.require(after)
    known.require(until)
    recorded, source_tables = lake.recorded(record), history.by_id()
    found = [
        TableDifference(
            source_table,
            source_table.name_until(until),
            tuple(map(column_name, version_after(source_table, until).table.key)),
            tuple(statements_between(source_table, events, after, until)),
            known.table(source_table, until, after),
        )
        for i, source_table in source_tables.items()
        if i in recorded and lake.asks_for(source_table) and _exists(source_table, after, until)
    ]
    for table in sorted(_chosen(where, found, chosen), key=lambda table: table.name):
        yield _compared(lake, table, recorded[table.source_table.id], record.recorded_at, after, until, on_rows)


def _exists(source_table: SourceTable, after: int, until: int) -> bool:
    return source_table.name_at(after) is not None or source_table.name_at(until) is not None


def _chosen(where: str, found: list[TableDifference], chosen: Sequence[str]) -> list[TableDifference]:
    wanted = {fold(name) for name in chosen}
    named = {fold(".".join(table.name)) for table in found}
    for name in sorted(wanted - named):
        listed = ", ".join(sorted(named)) or "none"
        advice = f"The tables at these TSOs are: {listed}."
        raise ConfigError(where, "a table that exists at one of the two TSOs", name, advice)
    return [table for table in found if not wanted or fold(".".join(table.name)) in wanted]


def _compared(
    lake: Lake,
    table: TableDifference,
    record: TableRecord,
    recorded_at: datetime,
    after: int,
    until: int,
    on_rows: OnRows | None,
) -> TableDifference:
    source_table = table.source_table
    absence = source_table.absence_at(until)
    needed = until if absence is None else absence.dropped_ts
    if record.watermark < needed:
        note = f": {record.note}" if record.note else ""
        return replace(table, reason=f"its changelog is complete up to {record.watermark} only{note}")
    is_back = source_table.absence_at(after) is not None
    begin = 0 if is_back else after  # all its rows are added then, and they are from before the drop
    refusal = table.knowledge.refusal(after) or undetermined(source_table, begin, until)
    if refusal:
        return replace(table, reason=refusal)
    changelog = load_or_none(lake.catalog, tuple(record.changelog)) if record.changelog else None
    if changelog is None:
        return replace(table, added=0, changed=0, removed=0)
    try:
        require_whole(lake, record, recorded_at, changelog)
    except SetBackError as error:
        return replace(table, reason=str(error))
    is_upsert = str(lake.changefeed.sink.protocol) == "open-protocol" and not lake.changefeed.sink.open.output_old_value
    emptied = tuple(v.from_ts for v in versions_between(source_table, begin, until) if empties(v))
    if absence is not None:
        emptied = (*emptied, absence.dropped_ts)
    compared = TsoRange(begin, until, emptied, absence is not None, is_upsert, is_back)
    total = dict.fromkeys((ADDED, CHANGED, REMOVED), 0)
    reading = ChangelogRange(changelog, source_table, compared, lake.changefeed.time_zone)
    for part in reading.parts():
        for kind, count in counts(part).items():
            total[kind] += count
        if on_rows is not None and len(part):
            on_rows(table, part)
    return replace(table, added=total[ADDED], changed=total[CHANGED], removed=total[REMOVED])
