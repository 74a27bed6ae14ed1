"""All mirrors of a record against the upstream TiDB, each at the TSO up to which it was complete then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ticdc_assets.errors import ConfigError, NotYetError, TicdcAssetsError
from ticdc_assets.pipeline.commit_range import TableState
from ticdc_assets.pipeline.history.tables import version_after
from ticdc_assets.pipeline.history.verification import CHUNK_ROWS, Comparison, TableVerification, refusal
from ticdc_assets.sources.upstream.rows import UpstreamRows
from ticdc_assets.tables.catalog import load_or_none

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.schema.history.source_table import SourceTable
    from ticdc_assets.tables.control import TableRecord, WatermarkRecord


@dataclass(frozen=True, slots=True)
class TableVerdict:
    """One table: its name and key columns at `tso`, and the comparison; None where `reason` says why there is none."""

    name: tuple[str, str]
    key: tuple[str, ...]
    tso: int
    comparison: Comparison | None
    reason: str = ""

    @property
    def is_equal(self) -> bool:
        return self.comparison is not None and not self.comparison.differences


def verify(
    lake: Lake, at: int | None, chosen: Sequence[str] = (), chunk_rows: int = CHUNK_ROWS
) -> Iterator[TableVerdict]:
    """The verdict of each mirror in the newest complete record up to `at`; of the `chosen` ones if there are any.

    Raises:
        ConfigError: there is no `upstream`, the stream has no commit_ts, or no mirror has a chosen name.
        NotYetError: there is no complete record up to `at`.
    """
    where = f"changefeed {lake.changefeed.name}"
    upstream = lake.changefeed.large_rows.upstream
    if upstream is None:
        advice = "Set `upstream` to the TiDB that the changefeed reads from: docs/large-rows.md has its keys."
        raise ConfigError(where, "`upstream` in the config", "none", advice)
    if lake.by_arrival:
        advice = "Such a mirror is at no TSO of TiDB."
        raise ConfigError(where, "a stream with commit_ts", "one without", advice)
    record = lake.control.newest(complete=True) if at is None else lake.control.at(at)
    if record is None:
        expected = "a complete record" if at is None else f"a recorded TSO up to {at}"
        raise NotYetError(where, expected, "none", "Take a later TSO, or run `ticdc-assets run`.")
    tables = _chosen(where, lake, record, chosen)
    with UpstreamRows(upstream) as rows:
        for source_table, table in tables:
            yield _verdict(lake, rows, source_table, table, chunk_rows)


def _chosen(
    where: str, lake: Lake, record: WatermarkRecord, chosen: Sequence[str]
) -> list[tuple[SourceTable, TableRecord]]:
    source_tables = lake.history().by_id()
    living = [
        table for table in record.tables if table.state != TableState.DROPPED and table.source_table in source_tables
    ]
    wanted = {name.lower() for name in chosen}
    named = {f"{table.schema}.{table.table}".lower() for table in living}
    for name in sorted(wanted - named):
        advice = f"The tables at {record.tso} are: {', '.join(sorted(named)) or 'none'}."
        raise ConfigError(where, "a table of the record", name, advice)
    found = [table for table in living if not wanted or f"{table.schema}.{table.table}".lower() in wanted]
    found.sort(key=lambda table: (table.schema, table.table))
    return [(source_tables[table.source_table], table) for table in found]


def _verdict(
    lake: Lake, rows: UpstreamRows, source_table: SourceTable, record: TableRecord, chunk_rows: int
) -> TableVerdict:
    tso = record.watermark
    name = source_table.name_at(tso) or (record.schema, record.table)
    table = version_after(source_table, tso).table
    key = tuple(column.name for column in table.ordered_key)
    reason = refusal(table)
    newest = lake.recorded(lake.control.newest()).get(record.source_table, record)
    mirror = load_or_none(lake.catalog, tuple(newest.mirror)) if newest.mirror else None
    if not reason and (mirror is None or record.mirror_snapshot_id is None):
        reason = f"it has no mirror{': ' if record.note else ''}{record.note}"
    if reason or mirror is None or record.mirror_snapshot_id is None:
        return TableVerdict(name, key, tso, None, reason)
    work = TableVerification(rows, name, table, tso, mirror, record.mirror_snapshot_id, chunk_rows)
    try:
        return TableVerdict(name, key, tso, work.compare())
    except TicdcAssetsError as error:
        return TableVerdict(name, key, tso, None, str(error))
