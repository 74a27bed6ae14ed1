"""All mirrors of a record against the upstream TiDB, each at the TSO up to which it was complete then.

In a record that is not complete, the tables that are complete are compared, and the others are named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ticdc_assets.changes.differences import TsoRange
from ticdc_assets.errors import ConfigError, NotYetError, TicdcAssetsError
from ticdc_assets.faults import of_one_table
from ticdc_assets.names.folding import fold
from ticdc_assets.notes import Note
from ticdc_assets.pipeline.commit_range import TableState
from ticdc_assets.pipeline.history.extent import Compared, Extent, ExtentKind, TableExtent
from ticdc_assets.pipeline.history.refusals import removed_partitions
from ticdc_assets.pipeline.history.table_sums import ChangelogRows, MirrorRows, RowsOfLake
from ticdc_assets.pipeline.history.tables import empties, version_after
from ticdc_assets.pipeline.history.verification import Comparison, Reading, TableVerification, refusal
from ticdc_assets.pipeline.mirror.pending import pending_work
from ticdc_assets.pipeline.plan import Plan
from ticdc_assets.plurals import counted
from ticdc_assets.sources.upstream.ranges import RANGE_ROWS
from ticdc_assets.spark import workers_of
from ticdc_assets.tables.catalog import load_or_none
from ticdc_assets.tables.control.records import VerifiedTable
from ticdc_assets.tables.control.tables import everybody
from ticdc_assets.tables.iceberg.stored_rows import StoredTable
from ticdc_assets.tables.progress import progress_of
from ticdc_assets.tso import now
from ticdc_assets.work_progress import OnProgress, no_progress

if TYPE_CHECKING:
    from ticdc_assets.config import Upstream
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.schema.history.source_table import SourceTable
    from ticdc_assets.tables.control.records import TableRecord, WatermarkRecord

CONNECTIONS: Final = 4
"""How many ranges of TiDB are read at the same time."""

WHOLE: Final = Extent()


@dataclass(frozen=True, slots=True)
class TableVerdict:
    """One table: its name and key columns at `tso`, and the comparison; None where `reason` says why there is none.

    `is_comparable` is false for a table that cannot be compared at any TSO. `row` is what `verified` has of the
    comparison, unless it could not be written: `unkept` says why.
    """

    source_table: str
    name: tuple[str, str]
    key: tuple[str, ...]
    tso: int
    comparison: Comparison | None
    reason: str = ""
    is_comparable: bool = True
    row: VerifiedTable | None = None
    unkept: str = ""

    @property
    def is_equal(self) -> bool:
        return self.comparison is not None and not self.comparison.differences


def extent_text(verdict: TableVerdict) -> str:
    """What the rows of a comparison are, where it is not of the whole table; else empty."""
    row = verdict.row
    if row is None or row.extent == ExtentKind.WHOLE:
        return ""
    return " of changed keys" if row.extent == ExtentKind.CHANGED else f" of {counted(row.compared_ranges, 'range')}"


def upstream_of(lake: Lake) -> Upstream:
    """The TiDB of a changefeed whose tables can be read at a TSO. Raises ConfigError where there is none."""
    where, upstream = f"changefeed {lake.changefeed.name}", lake.changefeed.large_rows.upstream
    if upstream is None:
        advice = "Set `upstream` to the TiDB that the changefeed reads from: docs/large-rows.md has its keys."
        raise ConfigError(where, "`upstream` in the config", "none", advice)
    if lake.by_arrival:
        advice = "Such a mirror belongs to no TSO of TiDB."
        raise ConfigError(where, "a stream with commit_ts", "one without", advice)
    return upstream


def verify(
    lake: Lake,
    at: int | None,
    chosen: Sequence[str] = (),
    chunk_rows: int = RANGE_ROWS,
    on_progress: OnProgress = no_progress,
    extent: Extent = WHOLE,
) -> Iterator[TableVerdict]:
    """Compare each mirror of a record with the upstream TiDB. May start Spark (`workers_of`).

    Args:
        at: takes the newest complete record up to this TSO; None takes the newest record, complete or not.
        chosen: `schema.table` of the tables to compare; empty for all.
        chunk_rows: how many rows of TiDB one statement reads.
        extent: how much of each table is compared.

    Raises:
        ConfigError: there is no `upstream`, the stream has no commit_ts, or no mirror has a chosen name.
        NotYetError: there is no such record.
    """
    upstream, where = upstream_of(lake), f"changefeed {lake.changefeed.name}"
    record = lake.control.newest() if at is None else lake.control.require_at(at, where, everybody)
    if record is None:
        raise NotYetError(where, "a record", "none", "Run `ticdc-assets run`.")
    tables = _chosen(where, lake, record, chosen)
    incomplete = {} if record.complete else _incomplete(lake, record)
    reading = Reading(upstream, workers_of(lake.config, CONNECTIONS), CONNECTIONS, chunk_rows, on_progress)
    for source_table, table in tables:
        if at is None and not incomplete.get(source_table.id):
            present, why = _present(lake, table)
            table, incomplete[source_table.id] = (table, "") if record.complete and why else (present, why)
        yield _verdict(lake, reading, extent, source_table, table, incomplete.get(source_table.id, ""))


def _incomplete(lake: Lake, record: WatermarkRecord) -> dict[str, str]:
    """By source table, why its mirror is not complete up to the table's watermark."""
    errors: dict[str, Note] = {}
    behind = pending_work(lake, Plan.of(lake, record, lake.history()), errors=errors)
    errors |= {work.source_table.id: work.damage for work in behind if work.damage is not None}
    held = (TableState.STOPPED, TableState.WAITING)
    return {
        **{work.source_table.id: "its mirror is behind its changelog" for work in behind},
        **record.texts(errors),
        **{t.source_table: f"it is {t.state}: {t.note}" for t in record.tables if t.state in held},
    }


def _present(lake: Lake, table: TableRecord) -> tuple[TableRecord, str]:
    """The record with the mirror's present snapshot, or why not. A record of changelogs alone has none, and another
    writer may have changed rows since the record."""
    mirror = load_or_none(lake.catalog, tuple(table.mirror)) if table.mirror else None
    snapshot = mirror.current_snapshot() if mirror is not None else None
    if mirror is None or snapshot is None:
        return table, ""
    if progress_of(mirror).watermark > table.watermark:
        return table, "a run is adding changes to it"
    return replace(table, mirror_snapshot_id=snapshot.snapshot_id), ""


def _chosen(
    where: str, lake: Lake, record: WatermarkRecord, chosen: Sequence[str]
) -> list[tuple[SourceTable, TableRecord]]:
    source_tables = lake.history().by_id()
    existing = [
        table for table in record.tables if table.state != TableState.DROPPED and table.source_table in source_tables
    ]
    wanted = {fold(name) for name in chosen}
    named = {fold(f"{table.schema}.{table.table}") for table in existing}
    for name in sorted(wanted - named):
        advice = f"The tables at {record.tso} are: {', '.join(sorted(named)) or 'none'}."
        raise ConfigError(where, "a table of the record", name, advice)
    found = [table for table in existing if not wanted or fold(f"{table.schema}.{table.table}") in wanted]
    found.sort(key=lambda table: (table.schema, table.table))
    return [(source_tables[table.source_table], table) for table in found]


def _verdict(
    lake: Lake, reading: Reading, extent: Extent, source_table: SourceTable, record: TableRecord, incomplete: str
) -> TableVerdict:
    tso = record.watermark
    name = source_table.name_at(tso) or (record.schema, record.table)
    table = version_after(source_table, tso).table
    key = tuple(column.name for column in table.ordered_key)
    refused = refusal(table) or ("" if key else _refused_changes(lake, source_table, tso))
    verdict = TableVerdict(source_table.id, name, key, tso, None, refused or incomplete, is_comparable=not refused)
    if verdict.reason:
        return verdict
    newest = lake.recorded(lake.control.newest()).get(record.source_table, record)
    identifier = newest.mirror if key else newest.changelog
    stored = load_or_none(lake.catalog, tuple(identifier)) if identifier else None
    snapshot_id = record.mirror_snapshot_id if key else record.changelog_snapshot_id
    if stored is None or snapshot_id is None:
        kind = "mirror" if key else "changelog"
        return replace(verdict, reason=f"it has no {kind}{': ' if record.note else ''}{record.note}")
    rows = StoredTable(stored.metadata_location, lake.io_properties, snapshot_id)
    source: RowsOfLake
    if key:
        source = MirrorRows(rows, table.stored_columns)
    else:
        changes = TsoRange(_emptied(source_table, tso), tso)
        source = ChangelogRows(rows, source_table, changes, lake.changefeed.time_zone)
    snapshot = stored.snapshot_by_id(snapshot_id)
    summary = snapshot.summary.additional_properties if snapshot is not None and snapshot.summary is not None else {}
    files = int(summary.get("total-data-files", 1))
    reading.on_progress(f"reading {'.'.join(name)} in TiDB")
    work = TableVerification(reading, name, table, tso, source, max(1, min(files, 2 * lake.cores)))
    previous = lake.control.verified(source_table.id) if extent != WHOLE else []
    changelog = load_or_none(lake.catalog, tuple(newest.changelog)) if key and newest.changelog else None
    try:
        found = TableExtent(work, source_table, tso, previous).compare(extent, changelog, lake.changefeed.time_zone)
    except TicdcAssetsError as error:
        return replace(verdict, reason=str(error))
    return _kept(lake, replace(verdict, comparison=found.comparison), found)


def _kept(lake: Lake, verdict: TableVerdict, found: Compared) -> TableVerdict:
    """The verdict with the row that `verified` has of it."""
    comparison = found.comparison
    kinds = Counter(row.kind for row in comparison.differences)
    row = VerifiedTable(
        verdict.source_table,
        *verdict.name,
        tso=verdict.tso,
        verified_at=now(),
        extent=str(found.kind),
        compared_ranges=found.compared_ranges,
        rows=comparison.upstream_rows,
        checksum=comparison.checksum,
        is_equal=verdict.is_equal,
        missing=kinds["missing"],
        extra=kinds["extra"],
        different=kinds["different"],
        ranges=found.ranges,
    )
    try:
        lake.control.keep_verified(row)
    except Exception as error:  # noqa: BLE001  raised again where it is not of one table
        return replace(verdict, row=row, unkept=str(of_one_table(error)))
    return replace(verdict, row=row)


def _emptied(source_table: SourceTable, tso: int) -> int:
    """The TSO of the newest statement up to `tso` that removed all rows; -1 without one."""
    return max((v.from_ts for v in source_table.versions if v.from_ts <= tso and empties(v)), default=-1)


def _refused_changes(lake: Lake, source_table: SourceTable, tso: int) -> str:
    """Why the rows of a table without a key cannot be computed from its changes; empty if they can."""
    sink = lake.changefeed.sink
    if str(sink.protocol) == "open-protocol" and not sink.has_old_values:
        return "it has no key, and updates have no old values"
    return removed_partitions(source_table, _emptied(source_table, tso), tso)
