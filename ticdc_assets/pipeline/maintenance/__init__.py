"""Maintenance of one changefeed's tables: removes old records, expires snapshots, compacts files, removes orphan files.

It also compares the closed folders of a bucket, which runs do not list any more (`pipeline.storage.late_files`).
The order keeps every record readable: a record is removed before its snapshots, a snapshot before its files.
Maintenance may be interrupted and run again, and runs of the changefeed may be active at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Final

from pyiceberg.table import Table

from ticdc_assets.config import KafkaSource, MessagesSource
from ticdc_assets.errors import SourceError, StaleRunError
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.set_back import recorded_snapshots, require_control_tables
from ticdc_assets.pipeline.storage.late_files import take_in_late_files
from ticdc_assets.pipeline.stream.offsets.cursor import StreamCursor
from ticdc_assets.pipeline.stream.offsets.ranges import Window
from ticdc_assets.plurals import counted
from ticdc_assets.tables import messages as messages_table
from ticdc_assets.tables.catalog import Identifier, load_or_none
from ticdc_assets.tables.control.records import RecordPosition
from ticdc_assets.tables.control.retention import thin
from ticdc_assets.tables.control.tables import Control
from ticdc_assets.tables.iceberg.jvm import JvmCatalog
from ticdc_assets.tables.landings import LandedSegment, Landing, landings_of, remove_landings
from ticdc_assets.tables.maintenance.compaction import compact, has_many_files
from ticdc_assets.tables.maintenance.orphan_files import Leftover, neighbours, sweep
from ticdc_assets.tables.maintenance.snapshot_expiry import Expiry, expire, expiry_of
from ticdc_assets.tables.progress import source_table_of
from ticdc_assets.work_progress import OnProgress, each_counted, no_progress

OLDER_THAN_HOURS: Final = 24
"""Minimum age of anything that is removed: younger files may be about to be published, younger snapshots may be in use.
A run that takes longer may lose its files and must be repeated."""

OLDER_THAN_HOURS_MIN: Final = 1
"""The smallest age that may be configured: a run writes files for some time before it commits them."""

DAYS_KEPT: Final = 30
"""Days for which the last record of each day is kept."""

CONTROL_TABLES: Final = (
    "watermarks",
    "tables",
    "views",
    "schemas",
    "registry",
    "quarantine",
    "messages",
    "closed_folders",
    "verified",
)
AGE_MAX: Final = 36_500
"""The largest age, in hours or days. A larger value is refused as a mistake."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What may be removed, as configured. Ages count back from `now`."""

    now: datetime
    older_than_hours: float = OLDER_THAN_HOURS
    days_kept: int = DAYS_KEPT
    compact: bool = False
    dry_run: bool = False

    @property
    def older_than(self) -> datetime:
        """Whatever is older than this may be removed."""
        return self.now - timedelta(hours=self.older_than_hours)


@dataclass(slots=True)
class MaintenanceReport:
    """What was removed, or would be in a dry run. `late_files` are files of the source that the next run reads.

    `left_alone` says by location why nothing was removed there, or why it was not compared.
    """

    changefeed: str
    dry_run: bool
    records: int = 0
    messages: int = 0
    expired: dict[str, Expiry] = field(default_factory=dict)
    compacted: dict[str, int] = field(default_factory=dict)
    leftovers: list[Leftover] = field(default_factory=list)
    left_alone: dict[str, str] = field(default_factory=dict)
    late_files: tuple[str, ...] = ()

    @property
    def snapshots(self) -> int:
        """The number of expired snapshots."""
        return sum(len(found.snapshot_ids) for found in self.expired.values())

    @property
    def branches(self) -> int:
        """The number of removed branches of killed runs."""
        return sum(len(found.branches) for found in self.expired.values())

    @property
    def size_bytes(self) -> int:
        """The size of the orphan files in bytes."""
        return sum(leftover.size_bytes for leftover in self.leftovers)


def maintain(
    lake: Lake, policy: Policy, jvm: Callable[[], JvmCatalog], on_progress: OnProgress = no_progress
) -> MaintenanceReport:
    """Maintain all tables of the changefeed. `jvm` is called only where a mirror has snapshots to expire or files to
    compact; a dry run never calls it."""
    require_control_tables(lake)
    if not policy.dry_run:
        lake.control.claim()
    report = MaintenanceReport(lake.changefeed.name, policy.dry_run)
    tables, report.left_alone = _without_set_back(lake, tables_of(lake))
    if policy.compact and not policy.dry_run:
        on_progress("compacting")
        _compact(report, each_counted(tables, "table", on_progress), jvm)
    if not report.left_alone:  # else a changelog may have to be read again from its messages
        report.messages = remove_decoded(lake, policy.now, dry_run=policy.dry_run)
    on_progress(f"expiring snapshots of {counted(len(tables), 'table')}")
    thinned = thin(lake.control, policy.older_than, policy.days_kept, policy.now, write=not policy.dry_run)
    report.records = thinned.removed
    counted_tables = each_counted(tables, "table", on_progress)
    _expire(lake, report, counted_tables, thinned.kept_ids, policy, jvm)
    on_progress("finding files that nothing references")
    _sweep(lake, report, tables, policy, on_progress)
    on_progress("comparing closed folders")
    _take_in_late_files(lake, report)
    return report


def _without_set_back(lake: Lake, tables: Iterable[Table]) -> tuple[list[Table], dict[str, str]]:
    """The tables that go on from the newest record, and why others are left alone: the files of their lost snapshots
    must stay, so that they can be restored."""
    record = lake.control.newest()
    named = recorded_snapshots(record) if record is not None else {}
    whole, set_back = [], {}
    for table in tables:
        recorded = named.get(table.name())
        if recorded is None or not recorded.is_lost(table):
            whole.append(table)
        else:
            set_back[table.location()] = f"{'.'.join(table.name())} was set back since the newest record"
    return whole, set_back


def tables_of(lake: Lake) -> list[Table]:
    """The tables of `each_table`."""
    return list(each_table(lake))


def each_table(lake: Lake) -> Iterator[Table]:
    """The changefeed's changelogs, mirrors, histories and control tables, including those of dropped source tables.
    Each is loaded when it is asked for."""
    wanted: dict[Identifier, str | None] = {(*lake.control.namespace, name): None for name in CONTROL_TABLES}
    history, record = lake.history(), lake.control.newest()
    for source_table_id, place in lake.table_locations(history).items():
        wanted.update(dict.fromkeys((place.mirror, place.changelog, place.history_table), source_table_id))
    for source_table_id, recorded in lake.recorded(record).items():
        for held in (recorded.mirror, recorded.changelog, recorded.history_table):
            if held:
                wanted[tuple(held)] = source_table_id
    for identifier, owner in wanted.items():
        table = load_or_none(lake.catalog, identifier)
        if table is not None and source_table_of(table) == owner:
            yield table


def _compact(report: MaintenanceReport, tables: Iterable[Table], jvm: Callable[[], JvmCatalog]) -> None:
    for table in tables:
        if source_table_of(table) is not None and has_many_files(table):
            count = compact(jvm(), table)
            if count:
                report.compacted[".".join(table.name())] = count


def _expire(
    lake: Lake,
    report: MaintenanceReport,
    tables: Iterable[Table],
    kept_ids: Collection[int],
    policy: Policy,
    jvm: Callable[[], JvmCatalog],
) -> None:
    for table in tables:
        if policy.dry_run:
            found = expiry_of(table.metadata, kept_ids, policy.older_than)
        else:
            found = expire(lake.catalog, jvm, table, kept_ids, policy.older_than)
        if found:
            report.expired[".".join(table.name())] = found


def _take_in_late_files(lake: Lake, report: MaintenanceReport) -> None:
    try:
        late = take_in_late_files(lake, write=not report.dry_run)
    except (SourceError, StaleRunError) as error:
        report.left_alone[error.where] = f"its folders were not compared: {error}"
        return
    report.late_files = late.paths
    report.left_alone.update(late.unread)


def _sweep(lake: Lake, report: MaintenanceReport, tables: list[Table], policy: Policy, on_progress: OnProgress) -> None:
    others = neighbours(lake.catalog)
    loaded = (load_or_none(lake.catalog, table.name()) for table in tables)
    existing = [table for table in loaded if table is not None]
    without = {}
    if policy.dry_run:
        gone = {name: found.snapshot_ids for name, found in report.expired.items()}
        without = {str(t.metadata.table_uuid): gone.get(".".join(t.name()), ()) for t in existing}
    done: set[str] = set()
    for table in each_counted(existing, "table", on_progress):
        cleanup = sweep(lake.catalog, table, others, policy.older_than, without, remove=not policy.dry_run)
        fresh = [leftover for leftover in cleanup.leftovers if leftover.uri not in done]
        done.update(leftover.uri for leftover in fresh)
        report.leftovers.extend(fresh)
        if cleanup.left_alone:
            report.left_alone[cleanup.location] = cleanup.left_alone


# -- landed messages ---------------------------------------------------------------------------------------------------
#
# Those are removed that are decoded and older than `source.kafka.days_kept`: whole commits, the oldest first, so that
# all other messages keep their ordinals. A commit with messages that some table has not consumed, or with unresolved
# messages in quarantine, stays, and so do all later commits. Tables and quarantine are those of the changefeed itself
# and of those that decode its messages again (`source: {messages: NAME}`).


def remove_decoded(lake: Lake, now: datetime, *, dry_run: bool) -> int:
    """Remove what may be removed in one commit; in a dry run only count it. Returns the number of messages.

    Raises:
        StaleRunError: every try met a commit of another writer.
    """
    source = lake.changefeed.source
    if not isinstance(source, KafkaSource) or source.days_kept is None:
        return 0
    table = messages_table.load(lake.catalog, lake.control.namespace)
    readers = _readers(lake)
    records = [record for reader in readers if (record := reader.newest()) is not None]
    if table is None or len(records) < len(readers):  # a changefeed without a record has decoded nothing
        return 0
    unread = [StreamCursor.from_json(record.cursor).window() for record in records]
    quarantined = [kept.position for reader in readers for kept in reader.quarantined()]
    limit_us = int((now - timedelta(days=source.days_kept)).timestamp() * 1_000_000)
    gone = list(
        takewhile(
            lambda landing: _may_go(landing, unread, quarantined, limit_us),
            landings_of(table),
        )
    )
    if gone and not dry_run:
        remove_landings(table, lake.changefeed.name, gone)
    return sum(landing.rows for landing in gone)


def _readers(lake: Lake) -> list[Control]:
    """The control tables of all changefeeds that decode the messages of this one, its own first."""
    replayed = MessagesSource(lake.changefeed.name)
    others = [changefeed for changefeed in lake.config.changefeeds if changefeed.source == replayed]
    return [lake.control, *(Lake(lake.config, changefeed).control for changefeed in others)]


def _may_go(landing: Landing, unread: Sequence[Window], quarantined: Collection[RecordPosition], limit_us: int) -> bool:
    return all(
        segment.newest_us is not None
        and segment.newest_us < limit_us
        and not any(u.overlaps((segment.topic, segment.partition), segment.first, segment.end) for u in unread)
        and not any(_has(segment, position) for position in quarantined)
        for segment in landing.segments
    )


def _has(segment: LandedSegment, position: RecordPosition) -> bool:
    partition, offset = position
    return partition == f"{segment.topic}/{segment.partition}" and segment.first <= offset < segment.end
